//! Long runs: progress and Ctrl-C.

use crate::convert::run;
use antiphon_core::error::Error;
use antiphon_core::watch::Watch;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How often a run looks for signals and reports progress.
const HEARTBEAT: Duration = Duration::from_millis(100);

static CHECK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Runs core code that reports the share done; what `progress` or a signal handler raises ends it.
pub fn run_with_progress<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(f64) -> bool) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let mut last = Instant::now();
    let mut stopped = None;
    let mut heartbeat = |share: f64| {
        // Who was told to end may ask again on its way out.
        if stopped.is_some() || last.elapsed() < HEARTBEAT {
            return stopped.is_none();
        }
        last = Instant::now();
        stopped = Python::attach(|py| {
            py.check_signals()?; // heard in the main thread only: others are told when to end
            CHECK.import(py, "antiphon.parallel", "check")?.call0()?;
            progress.as_ref().map_or(Ok(()), |callback| callback.call1(py, (share,)).map(drop))
        })
        .err();
        stopped.is_none()
    };
    let outcome = run(py, || work(&mut heartbeat));
    stopped.map_or(outcome, Err)
}

/// [`run_with_progress`] for core code that takes a [`Watch`].
pub fn run_watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(Watch) -> Result<T, Error> + Send,
) -> PyResult<T> {
    run_with_progress(py, progress, |heartbeat| {
        let heartbeat = RefCell::new(heartbeat);
        work(Watch::new(&|share| (heartbeat.borrow_mut())(share)))
    })
}
