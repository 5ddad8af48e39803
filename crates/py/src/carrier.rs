//! One process's part of a running fabric, for `antiphon.torch` and the testbed.

use crate::prelude::*;
use antiphon_run::carrier::{self, Copied, LentMemory, LentPiece, RankPlan, RunKey};
use antiphon_run::{ElementType, MemoryPart, Reduction, memory_bytes};
use numpy::{BorrowError, PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray1, PyUntypedArrayMethods};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a process that waits hears signals.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// A schedule that is proven on a fabric, ready to be run at one rank of it.
///
/// Raises AntiphonError: `not-proven`; `bad-size` if there is no such rank; `too-large`.
#[pyclass(module = "antiphon._core", frozen)]
pub struct Plan {
    plan: Arc<RankPlan>,
    fabric: Py<Fabric>,
}

#[literal_defaults]
#[pymethods]
impl Plan {
    #[new]
    fn new(py: Python<'_>, fabric: Py<Fabric>, schedule: &Schedule, rank: u32) -> PyResult<Self> {
        let on = &fabric.get().0;
        let plan = run_watched(py, None, |watch| {
            let proven = schedule.proven(on, |schedule| antiphon_proof::prove_watched(on, schedule, watch))?;
            RankPlan::new(on, proven, rank)
        })?;
        Ok(Plan { plan: Arc::new(plan), fabric })
    }

    /// Bytes of the rank's memory that its messages read or write: (first byte, end), in order and apart.
    fn touched(&self) -> Vec<(usize, usize)> {
        self.plan.touched().iter().map(|range| (range.start, range.end)).collect()
    }

    /// The fabric that it is for.
    #[getter]
    fn fabric(&self, py: Python<'_>) -> Py<Fabric> {
        self.fabric.clone_ref(py)
    }

    getters! {
        /// 32 bits that are equal where plans are.
        hash: u32 = self.plan.hash();
        /// Name of the collective.
        collective: &'static str = self.plan.schedule().collective.kind.name();
        /// Its size.
        bytes: u64 = self.plan.schedule().bytes;
        /// Ranks that take part.
        ranks: u32 = self.plan.schedule().ranks;
        /// Root of a broadcast or reduce, else 0.
        root: u32 = self.plan.schedule().collective.root;
        /// What made the schedule, with options.
        algorithm: String = self.plan.schedule().algorithm.clone();
        /// Bytes of the rank's memory, as `antiphon.execute` has it.
        memory_bytes: u64 = memory_bytes(self.plan.schedule());
    }
}

/// A collective or message that is under way.
#[pyclass(module = "antiphon._core", frozen)]
pub struct Operation {
    key: Option<RunKey>,
    memory: Vec<(usize, Py<PyArray1<u8>>)>,
    /// Of each piece.
    copied: Mutex<Vec<Copied>>,
    /// Parts that are final, and not yet told.
    final_parts: Mutex<Vec<u32>>,
    outcome: Mutex<Option<Result<u32, Error>>>,
}

impl Operation {
    fn new(key: Option<RunKey>, memory: Vec<(usize, Py<PyArray1<u8>>)>, outcome: Option<Result<u32, Error>>) -> Self {
        let copied = Mutex::new(vec![vec![]; memory.len()]);
        Operation { key, memory, copied, final_parts: Mutex::default(), outcome: Mutex::new(outcome) }
    }

    fn news(&self) -> MutexGuard<'_, Vec<u32>> {
        self.final_parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Result<u32, Error>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[literal_defaults]
#[pymethods]
impl Operation {
    /// Parts of a collective's memory that have become final since this was asked last. All are when it has ended.
    fn final_parts(&self) -> Vec<u32> {
        std::mem::take(&mut *self.news())
    }

    getters! {
        /// Whether it has ended.
        done: bool = self.outcome().is_some();
        /// Node that a message came from; else 0.
        source: u32 = self.outcome().as_ref().and_then(|outcome| outcome.as_ref().ok().copied()).unwrap_or(0);
        /// Why it has failed, if it has.
        failure: Option<String> = self.outcome().as_ref().and_then(|o| o.as_ref().err().map(|e| e.message.clone()));
    }
}

/// Links, node, words.
type FailureRow = (Vec<u32>, Option<u32>, String);

/// Arrays that are lent for one call.
enum Borrowed<'py> {
    Read(PyReadonlyArray1<'py, u8>),
    Write(PyReadwriteArray1<'py, u8>),
}

/// One process's part of a running fabric: the rank at a node, which also passes on what others send. Packets carry
/// `packet_bytes` of data; a thread that waits looks for news for `spin_us` before it sleeps.
///
/// Raises AntiphonError: `bad-spec` if a link of the node has no wire; `stalled`.
#[pyclass(module = "antiphon._core", frozen)]
pub struct Carrier(Mutex<Option<Arc<carrier::RankCarrier>>>);

impl Carrier {
    fn get(&self) -> PyResult<Arc<carrier::RankCarrier>> {
        let carrier = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        carrier.clone().ok_or_else(|| raise(Error::new(Code::Stalled, "the carrier is closed")))
    }
}

#[literal_defaults]
#[pymethods]
impl Carrier {
    #[new]
    #[pyo3(signature = (wires, fabric, node, *, packet_bytes: "int" = 32768, spin_us = 50.0))]
    fn new(wires: &crate::wires::Wires, fabric: &Fabric, node: u32, packet_bytes: i64, spin_us: f64) -> PyResult<Self> {
        let spin = Duration::try_from_secs_f64(spin_us / 1e6).unwrap_or_default();
        let settings = carrier::Settings { packet_bytes: packet_bytes.max(0) as usize, spin };
        let wires = wires.take()?;
        let carrier = carrier::RankCarrier::new((*fabric.0).clone(), node, wires, settings).map_err(raise)?;
        Ok(Carrier(Mutex::new(Some(Arc::new(carrier)))))
    }

    /// Begins a collective of a group of ranks. `memory` are the pieces of the rank's memory that the plan touches: (first byte,
    /// array); an array that is only read may be read-only. Where two have the same first byte, the second begins as the first, which is
    /// read-only. `sequence` counts the group's collectives. `parts` of the rank's memory, ranges (first byte, end) each, are told when they are
    /// final: `drive` returns, and `Operation.final_parts` has them.
    ///
    /// Raises AntiphonError: `unknown-name`, `not-applicable` for the type or reduction; `bad-spec` if memory is missing;
    /// `bad-size` if it has no whole number of elements; `stalled` if a link or rank has failed.
    #[pyo3(signature = (plan, group, sequence, memory: "list[tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]]", element, operation, parts: "Sequence[Sequence[tuple[int, int]]] | None" = None))]
    fn collective(
        &self,
        plan: &Plan,
        group: u32,
        sequence: u32,
        memory: Vec<(usize, Bound<'_, PyArray1<u8>>)>,
        element: Text<'_>,
        operation: Text<'_>,
        parts: Option<Vec<MemoryPart>>,
    ) -> PyResult<Operation> {
        let element = ElementType::parse(element.0).map_err(raise)?;
        let reduction = Reduction::parse(operation.0, element).map_err(raise)?;
        antiphon_run::check_elements(plan.plan.schedule(), element.bytes()).map_err(raise)?;
        let mut pieces: Vec<(usize, usize)> =
            memory.iter().map(|(start, array)| (*start, start + array.len())).collect();
        pieces.sort_unstable();
        for range in plan.plan.touched() {
            let mut at = range.start;
            for &(start, end) in &pieces {
                at = if start <= at && at < end { end } else { at };
            }
            if at < range.end {
                let what = format!(
                    "the plan needs bytes {} to {} of the rank's memory; {at} is not given",
                    range.start, range.end
                );
                return Err(raise(Error::new(Code::BadSpec, what)));
            }
        }
        let key = self
            .get()?
            .begin(plan.plan.clone(), (group, sequence), element, reduction, &parts.unwrap_or_default())
            .map_err(raise)?;
        let memory = memory.into_iter().map(|(start, array)| (start, array.unbind())).collect();
        Ok(Operation::new(Some(key), memory, None))
    }

    /// Begins to send an array to the rank at node `to`, whose `receive` has the same group and tag.
    fn send(&self, group: u32, to: u32, tag: u32, data: &Bound<'_, PyArray1<u8>>) -> PyResult<Operation> {
        let carrier = self.get()?;
        let key = carrier.send(group, to, tag, data.readonly().as_slice()?).map_err(raise)?;
        Ok(Operation::new(key, vec![(0, data.clone().unbind())], key.is_none().then_some(Ok(to))))
    }

    /// Asks for an array from the rank at node `source`, or from any.
    fn receive(
        &self,
        group: u32,
        source: Option<u32>,
        tag: u32,
        data: &Bound<'_, PyArray1<u8>>,
    ) -> PyResult<Operation> {
        let key = self.get()?.receive(group, source, tag, data.len()).map_err(raise)?;
        Ok(Operation::new(Some(key), vec![(0, data.clone().unbind())], None))
    }

    /// Runs until one of the operations has ended or has parts that are final, or `wake` is called. Only those that are given make progress.
    ///
    /// Raises AntiphonError: `time-limit` after `timeout_s`, with what the first one waits for.
    #[pyo3(signature = (operations: "list[Operation]", timeout_s))]
    fn drive(&self, py: Python<'_>, operations: Vec<PyRef<'_, Operation>>, timeout_s: Option<f64>) -> PyResult<()> {
        let under_way: Vec<(&Operation, RunKey)> = operations
            .iter()
            .filter_map(|each| Some((&**each, each.key.filter(|_| each.outcome().is_none())?)))
            .collect();
        if under_way.is_empty() {
            return Ok(());
        }
        let carrier = self.get()?;
        let mut borrowed: Vec<(RunKey, Vec<(usize, Borrowed<'_>)>)> = Vec::with_capacity(under_way.len());
        for &(operation, key) in &under_way {
            let mut pieces = Vec::with_capacity(operation.memory.len());
            for (start, array) in &operation.memory {
                let array = array.bind(py);
                let of_python = |_| raise(Error::new(Code::BadSpec, "an array is in use by another operation"));
                let piece = match (key, array.try_readwrite()) {
                    (RunKey::Send(_), _) | (_, Err(BorrowError::NotWriteable)) => {
                        Borrowed::Read(array.try_readonly().map_err(of_python)?)
                    }
                    (_, found) => Borrowed::Write(found.map_err(of_python)?),
                };
                pieces.push((*start, piece));
            }
            borrowed.push((key, pieces));
        }
        let in_use = |_| raise(Error::new(Code::BadSpec, "an operation is in use by another thread"));
        let copied = under_way.iter().map(|(operation, _)| operation.copied.try_lock().map_err(in_use));
        let mut copied = copied.collect::<PyResult<Vec<_>>>()?;
        let mut lent = Vec::with_capacity(borrowed.len());
        for ((key, pieces), copied) in borrowed.iter_mut().zip(&mut copied) {
            let mut slices = Vec::with_capacity(pieces.len());
            for ((start, array), copied) in pieces.iter_mut().zip(&mut **copied) {
                let original = slices.pop_if(|(before, _)| before == start);
                let piece = match (array, original) {
                    (Borrowed::Read(array), _) => LentPiece::Read(array.as_slice()?),
                    (Borrowed::Write(array), Some((_, LentPiece::Read(original)))) => {
                        LentPiece::Over(original, array.as_slice_mut()?, copied)
                    }
                    (Borrowed::Write(array), _) => LentPiece::Write(array.as_slice_mut()?),
                };
                slices.push((*start, piece));
            }
            lent.push((*key, LentMemory::new(slices)));
        }
        let until = timeout_s.and_then(|limit| Instant::now().checked_add(Duration::try_from_secs_f64(limit).ok()?));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let patience = left.map_or(HEARTBEAT, |left| left.min(HEARTBEAT));
            let driven = py.detach(|| carrier.drive(&mut lent, Some(patience)));
            for (at, outcome) in driven.ended {
                *under_way[at].0.outcome() = Some(outcome);
            }
            for (at, parts) in &driven.final_parts {
                under_way[*at].0.news().extend(parts);
            }
            if driven.is_woken
                || !driven.final_parts.is_empty()
                || under_way.iter().any(|(operation, _)| operation.outcome().is_some())
            {
                return Ok(());
            }
            py.check_signals()?;
            if left.is_some_and(|left| left.is_zero()) {
                let what =
                    format!("waited {:.1} s for {}", timeout_s.unwrap_or(0.0), carrier.waits_for(under_way[0].1));
                return Err(exception(what, "time-limit"));
            }
        }
    }

    /// Makes a `drive` that runs, or else the next one, return.
    fn wake(&self) -> PyResult<()> {
        self.get().map(|carrier| carrier.wake())
    }

    /// What an operation waits for, in words.
    fn waits_for(&self, operation: &Operation) -> PyResult<String> {
        let carrier = self.get()?;
        Ok(operation.key.map_or(String::new(), |key| carrier.waits_for(key)))
    }

    /// Seconds since anything came, but signs of life.
    fn quiet_s(&self) -> PyResult<f64> {
        self.get().map(|carrier| carrier.quiet().as_secs_f64())
    }

    /// Gives up an operation, whose arrays are no longer read or written.
    fn give_up(&self, operation: &Operation) -> PyResult<()> {
        if let Some(key) = operation.key {
            self.get()?.give_up(key);
            let what = Error::new(Code::Interrupted, "it was given up");
            operation.outcome().get_or_insert(Err(what));
        }
        Ok(())
    }

    /// Goes on with another fabric on the same nodes, without the links `gone` of the first one, the same at all nodes. `epoch` counts
    /// fabrics. No node may begin anything before all have done this, nor while `failures` has more that failed.
    ///
    /// Raises AntiphonError: `bad-spec` if a link of this node has no wire.
    fn renew(&self, fabric: &Fabric, epoch: u32, gone: Vec<u32>) -> PyResult<()> {
        self.get()?.renew((*fabric.0).clone(), epoch as u8, &gone).map_err(raise)
    }

    /// What has failed and is not yet left out: (links of the first fabric, there and back, or none; node or None; in words).
    fn failures(&self) -> PyResult<Vec<FailureRow>> {
        let failures = self.get()?.failures();
        Ok(failures.into_iter().map(|failure| (failure.links, failure.node, failure.what)).collect())
    }

    /// Says to all neighbours that this node leaves, and closes its wires.
    fn close(&self, py: Python<'_>) {
        let carrier = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(carrier));
    }
}
