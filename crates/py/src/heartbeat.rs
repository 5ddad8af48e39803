//! Core code is run without the interpreter lock, says how far it is, and hears Ctrl-C.

use crate::convert::{exception, raise};
use antiphon_base::error::Error;
use antiphon_base::watch::{Watch, checkpoint, while_it};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What is called with the share done, 0 to 1.
pub type Progress = Py<PyAny>;

/// How often a run looks for signals and reports progress.
const PERIOD: Duration = Duration::from_millis(100);

thread_local! {
    /// What a function of Python has raised that the core called on this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Ends the core code that has called a function of Python: whoever called that code gets what the function has raised.
pub fn end_with(raised: PyErr) -> ! {
    let shown = raised.to_string();
    RAISED.set(Some(raised));
    checkpoint();
    panic!("{shown}");
}

struct Heartbeat {
    last: Instant,
    share: f64,
    progress: Option<Progress>,
    /// What `progress` or a signal handler has raised.
    stopped: Option<PyErr>,
}

impl Heartbeat {
    /// The share is done; returns whether to go on.
    fn beat(&mut self, share: f64) -> bool {
        self.share = share;
        self.stopped = self.stopped.take().or_else(|| RAISED.take());
        // Who was told to end may ask again on its way out.
        if self.stopped.is_none() && self.last.elapsed() >= PERIOD {
            self.last = Instant::now();
            self.stopped = Python::attach(|py| self.look(py)).err();
        }
        self.stopped.is_none()
    }

    fn look(&self, py: Python<'_>) -> PyResult<()> {
        static CHECK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        // Signals are heard in the main thread only: others are told when to end.
        py.check_signals()?;
        CHECK.import(py, "antiphon.parallel", "check")?.call0()?;
        self.progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (self.share,)).map(drop))
    }
}

/// Runs core code, whose checkpoints hear signals. A panic, which would be a bug of the core, becomes an `AntiphonError`
/// with code `internal`.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    run_with_progress(py, None, |_| work())
}

/// [`run`] for core code that reports the share done; what `progress` or a signal handler raises ends it.
pub fn run_with_progress<T: Send>(
    py: Python<'_>,
    progress: Option<Progress>,
    work: impl FnOnce(&mut dyn FnMut(f64) -> bool) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let heart = Heartbeat { last: Instant::now(), share: 0.0, progress, stopped: None };
    let (outcome, stopped) = py.detach(|| {
        let heart = Rc::new(RefCell::new(heart));
        let at_checkpoints = Rc::clone(&heart);
        let goes_on = move || {
            let mut heart = at_checkpoints.borrow_mut();
            let share = heart.share;
            heart.beat(share)
        };
        let mut beat = |share: f64| heart.borrow_mut().beat(share);
        let outcome = catch_unwind(AssertUnwindSafe(|| while_it(goes_on, || work(&mut beat))));
        (outcome, heart.borrow_mut().stopped.take())
    });
    match (stopped, outcome) {
        (Some(stopped), _) => Err(stopped),
        (None, Ok(outcome)) => outcome.expect("nothing stopped it").map_err(raise),
        (None, Err(panic)) => {
            let what = panic.downcast_ref::<String>().map(String::as_str);
            let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic");
            Err(exception(format!("internal error, please report it: {what}"), "internal"))
        }
    }
}

/// [`run_with_progress`] for core code that takes a [`Watch`].
pub fn run_watched<T: Send>(
    py: Python<'_>,
    progress: Option<Progress>,
    work: impl FnOnce(Watch) -> Result<T, Error> + Send,
) -> PyResult<T> {
    run_with_progress(py, progress, |heartbeat| {
        let heartbeat = RefCell::new(heartbeat);
        work(Watch::new(&|share| (heartbeat.borrow_mut())(share)))
    })
}
