//! Schedules run on arrays: `antiphon.execute`, and one rank at a time for whoever carries the messages.

use crate::prelude::*;
use antiphon_model::schedule::{self, Action, Program};
use antiphon_proof::verify_alone;
use antiphon_run::{self as core, ElementType, RankMessage, RankProgress, Threads};
use bytemuck::Pod;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadwriteArray1};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::num::Wrapping;
use std::ops::{Add, Range};
use std::sync::Arc;

/// Messages of a stream that may be under way at once.
const WINDOW: usize = 8;
/// Tokens have the number of the stream above this bit, that of the message in it below.
const STREAM_BIT: u32 = 40;

/// A proven schedule that is ready to be run in this process by threads, any number of times.
#[pyclass(module = "antiphon._core", frozen)]
pub struct Execution(core::Execution);

#[pymethods]
impl Execution {
    /// Raises AntiphonError: `not-proven` for a schedule that is wrong or leaves gaps; `too-large`.
    #[new]
    fn new(py: Python<'_>, schedule: &Schedule) -> PyResult<Self> {
        run(py, || provable(schedule).and_then(|()| core::Execution::new(&schedule.0))).map(Execution)
    }

    /// Runs it in place on one array a rank, by so many threads. Arrays of uint16 hold numbers of type bfloat16. `on_final` is called with
    /// a rank and the number of a part of its array that has become final, and what it raises ends the run; `parts` are ranges (first byte,
    /// end) each.
    ///
    /// Raises AntiphonError: `bad-size`, `bad-spec` for wrong arrays.
    #[pyo3(signature = (arrays: "Sequence[_Array]", threads, parts: "Sequence[Sequence[tuple[int, int]]] | None" = None, on_final: "Callable[[int, int], object] | None" = None))]
    fn run(
        &self,
        py: Python<'_>,
        arrays: &Bound<'_, PyAny>,
        threads: usize,
        parts: Option<Vec<core::MemoryPart>>,
        on_final: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let parts = parts.unwrap_or_default();
        macro_rules! of_type {
            ($($array:ty: $number:ty),*) => {
                $(if let Ok(arrays) = arrays.extract() { return self.run_as::<$array, $number>(py, arrays, threads, &parts, on_final); })*
            };
        }
        of_type!(f32: f32, f64: f64, half::f16: half::f16, u16: half::bf16, i32: Wrapping<i32>, i64: Wrapping<i64>);
        let what = "arrays must be different writable one-dimensional numpy arrays, all of float32, float64, float16, \
                    uint16 (for bfloat16), int32 or int64";
        Err(raise(Error::new(Code::BadSpec, what)))
    }
}

impl Execution {
    /// On arrays of `A` that hold numbers `T`.
    fn run_as<A: numpy::Element + Pod, T: Pod + Default + Send + Sync + Add<Output = T>>(
        &self,
        py: Python<'_>,
        mut arrays: Vec<PyReadwriteArray1<'_, A>>,
        threads: usize,
        parts: &[core::MemoryPart],
        on_final: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let slices: Result<Vec<&mut [A]>, _> = arrays.iter_mut().map(|array| array.as_slice_mut()).collect();
        let Ok(slices) = slices else {
            let what = "arrays must be contiguous; numpy.ascontiguousarray copies them";
            return Err(raise(Error::new(Code::BadSpec, what)));
        };
        let mut numbers: Vec<&mut [T]> = slices.into_iter().map(bytemuck::cast_slice_mut).collect();
        let mut raised = None;
        let mut tell = |rank: u32, part: u32| {
            raised = on_final.as_ref().and_then(|call| Python::attach(|py| call.call1(py, (rank, part)).err()));
            raised.is_none()
        };
        let outcome = run_watched(py, None, |watch| {
            self.0.run_watched(&mut numbers, Threads::Of(threads), watch, parts, &mut tell)
        });
        raised.map_or(outcome, Err)
    }
}

/// Checks that a schedule does all that its collective says.
fn provable(schedule: &Schedule) -> Result<(), Error> {
    let proof = schedule.last_proof().map_or_else(|| verify_alone(&schedule.0), Ok)?;
    match proof.complete {
        true => Ok(()),
        false => Err(Error::new(Code::NotProven, format!("{}; it is not run", proof.gaps))),
    }
}

/// One rank of a running schedule, for a program that carries its messages. Memory is the rank's buffer as bytes;
/// messages are known by tokens.
#[pyclass(module = "antiphon._core")]
pub struct Executor {
    schedule: Arc<schedule::Schedule>,
    number: u32,
    element: ElementType,
    /// Before anything has happened.
    fresh: RankProgress,
    rank: RankProgress,
    streams: Vec<Stream>,
    /// Digest of what the rank must end with, once it has.
    right: Option<u64>,
}

/// What is under way to or from a peer.
struct Stream {
    peer: u32,
    sends: bool,
    /// The oldest first.
    under_way: VecDeque<UnderWay>,
    /// Messages before those.
    gone: u64,
}

struct UnderWay {
    message: RankMessage,
    /// It has left or has come.
    is_over: bool,
    /// What came, if it is not yet in its place.
    payload: Option<Py<PyArray1<u8>>>,
}

/// Token, peer, first byte and end if it is one piece of the memory, else its bytes.
type Started<'py> = (u64, u32, usize, usize, Option<Bound<'py, PyArray1<u8>>>);

#[literal_defaults]
#[pymethods]
impl Executor {
    /// A rank of a schedule that is proven here, with numbers of type `element`. Raises AntiphonError: `not-proven`;
    /// `unknown-name` for the type; `bad-size` if the buffer is no whole number of elements or there is no such rank.
    #[new]
    fn new(py: Python<'_>, schedule: &Schedule, rank: u32, element: Text<'_>) -> PyResult<Self> {
        let element = ElementType::parse(element.0).map_err(raise)?;
        let (schedule, fresh) = run(py, move || {
            provable(schedule)?;
            let schedule = schedule.0.clone();
            core::check_elements(&schedule, element.bytes())?;
            schedule.without_switches("processes")?;
            if rank >= schedule.ranks {
                return Err(Error::new(Code::BadSize, format!("rank {rank} of {}", schedule.ranks)));
            }
            let rank = RankProgress::new(&schedule, &Program::new(&schedule), rank);
            Ok((schedule, rank))
        })?;
        let mut executor =
            Executor { schedule, number: rank, element, rank: fresh.clone(), fresh, streams: vec![], right: None };
        executor.restart();
        Ok(executor)
    }

    /// Forgets all that has happened.
    fn restart(&mut self) {
        self.rank = self.fresh.clone();
        let streams = self.fresh.streams();
        self.streams =
            streams.map(|(peer, sends)| Stream { peer, sends, under_way: VecDeque::new(), gone: 0 }).collect();
    }

    /// From the next `restart` on, `final_parts` says which parts of the memory are final: ranges (first byte, end) each.
    #[pyo3(signature = (parts: "Sequence[Sequence[tuple[int, int]]]"))]
    fn watch(&mut self, parts: Vec<core::MemoryPart>) -> PyResult<()> {
        let finality = core::Finality::new(&self.schedule, self.number, self.element.bytes(), &parts);
        self.fresh.watch(finality.map_err(raise)?);
        Ok(())
    }

    /// Watched parts that have become final since this was asked last.
    fn final_parts(&mut self) -> Vec<u32> {
        self.rank.final_parts()
    }

    /// Starts the sends that may start. Returns (token, peer, first byte, end, None) for each, or (token, peer, 0, 0, bytes)
    /// where it carries several pieces of the memory.
    fn sends<'py>(&mut self, memory: &Bound<'py, PyArray1<u8>>) -> PyResult<Vec<Started<'py>>> {
        let mut started = vec![];
        for (number, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.sends) {
            while stream.under_way.len() < WINDOW {
                let Some(message) = self.rank.next_send(number) else { break };
                let token = stream.start(number, message);
                let pieces = core::pieces(&self.schedule, &message, self.element.bytes());
                let (start, end, packed) = match &pieces[..] {
                    [piece] => (piece.start, piece.end, None),
                    pieces => {
                        let memory = memory.readonly();
                        let mut packed = vec![];
                        core::gather(pieces, memory.as_slice()?, &mut packed);
                        (0, 0, Some(packed))
                    }
                };
                started.push((token, stream.peer, start, end, packed.map(|bytes| bytes.into_pyarray(memory.py()))));
            }
        }
        Ok(started)
    }

    /// The messages to expect next, in order from every peer. Returns (token, peer, first byte, end, in place) for each: those in
    /// place must be received into that piece of the memory, others, of as many bytes, apart.
    fn receives(&mut self) -> Vec<(u64, u32, usize, usize, bool)> {
        let mut expected = vec![];
        for (number, stream) in self.streams.iter_mut().enumerate().filter(|(_, stream)| !stream.sends) {
            while stream.under_way.len() < WINDOW {
                let Some(message) = self.rank.next_receive(number) else { break };
                let token = stream.start(number, message);
                let pieces = core::pieces(&self.schedule, &message, self.element.bytes());
                let is_free = message.action == Action::Copy && self.rank.is_ready(&message);
                expected.push(match &pieces[..] {
                    [piece] if is_free => (token, stream.peer, piece.start, piece.end, true),
                    _ => (token, stream.peer, 0, pieces.iter().map(Range::len).sum(), false),
                });
            }
        }
        expected
    }

    /// Messages have left or have come, with what came where it is not yet in its place.
    fn happened(&mut self, tokens: Vec<(u64, Option<Py<PyArray1<u8>>>)>) -> PyResult<()> {
        for (token, payload) in tokens {
            let unknown = || raise(Error::new(Code::BadSpec, format!("no message {token} is under way")));
            let stream = self.streams.get_mut((token >> STREAM_BIT) as usize).ok_or_else(unknown)?;
            let at = (token & ((1 << STREAM_BIT) - 1)).checked_sub(stream.gone).ok_or_else(unknown)?;
            let under_way = stream.under_way.get_mut(at as usize).ok_or_else(unknown)?;
            (under_way.is_over, under_way.payload) = (true, payload);
            while stream.sends && stream.under_way.front().is_some_and(|oldest| oldest.is_over) {
                let oldest = stream.take();
                self.rank.sent(&oldest.message);
            }
        }
        Ok(())
    }

    /// Adds and stores what has come and may be; whether there was any.
    fn apply(&mut self, memory: &Bound<'_, PyArray1<u8>>) -> PyResult<bool> {
        let mut has_changed = false;
        for stream in self.streams.iter_mut().filter(|stream| !stream.sends) {
            while let Some(oldest) = stream.under_way.front()
                && oldest.is_over
                && self.rank.may_apply(&oldest.message)
            {
                let UnderWay { message, payload, .. } = stream.take();
                if let Some(payload) = payload {
                    let (mut memory, payload) = (memory.readwrite(), payload.bind(memory.py()).readonly());
                    let (memory, mut payload) = (memory.as_slice_mut()?, payload.as_slice()?);
                    for piece in core::pieces(&self.schedule, &message, self.element.bytes()) {
                        let (now, later) = payload.split_at(piece.len());
                        self.element.apply(message.action, &mut memory[piece], now);
                        payload = later;
                    }
                }
                self.rank.applied(&message);
                has_changed = true;
            }
        }
        Ok(has_changed)
    }

    /// First byte and end of the rank's own data before.
    #[getter]
    fn input(&self) -> (u64, u64) {
        let Range { start, end } = core::input(&self.schedule, self.number);
        (self.whole(start), self.whole(end))
    }

    /// The rank's own data before, as bytes.
    fn own<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let (schedule, input) = (&self.schedule, core::input(&self.schedule, self.number));
        let own = run(py, || Ok(core::numbers(schedule, self.element, self.number, input)))?;
        numpy(py)?;
        Ok(own.into_pyarray(py))
    }

    /// Elements of the rank's memory that are not what the collective defines. Once all were right, a digest says so.
    fn wrong(&mut self, memory: &Bound<'_, PyArray1<u8>>) -> PyResult<u64> {
        let reading = memory.readonly();
        let memory = reading.as_slice()?;
        run(reading.py(), || {
            let mut hasher = DefaultHasher::new();
            for core::Output { bytes, .. } in core::outputs(&self.schedule, self.number) {
                hasher.write(&memory[self.whole(bytes.start) as usize..self.whole(bytes.end) as usize]);
            }
            let digest = hasher.finish();
            if self.right == Some(digest) {
                return Ok(0);
            }
            let wrong = core::wrong(&self.schedule, self.element, self.number, memory);
            self.right = (wrong == 0).then_some(digest).or(self.right);
            Ok(wrong)
        })
    }

    /// All ranks have reached the first `barriers`.
    fn open(&mut self, barriers: usize) {
        self.rank.open(barriers);
    }

    /// The message that has not come yet, or not left, in words; None when done.
    fn waits_for(&self) -> Option<String> {
        self.rank.waits_for(&self.schedule).map(|message| core::describe(&self.schedule, &message))
    }

    getters! {
        /// Bytes of the memory.
        memory_bytes: u64 = core::memory_bytes(&self.schedule);
        /// Barriers, from the first, before which this rank has nothing left to do.
        reached: usize = self.rank.reached();
        /// Whether all messages have left and all that came is in its place.
        is_done: bool = self.rank.is_done();
    }
}

impl Executor {
    /// The bytes of the elements before a byte.
    fn whole(&self, bytes: u64) -> u64 {
        bytes - bytes % self.element.bytes()
    }
}

impl Stream {
    /// A token for a message that is under way from now on.
    fn start(&mut self, number: usize, message: RankMessage) -> u64 {
        self.under_way.push_back(UnderWay { message, is_over: false, payload: None });
        (number as u64) << STREAM_BIT | (self.gone + self.under_way.len() as u64 - 1)
    }

    fn take(&mut self) -> UnderWay {
        self.gone += 1;
        self.under_way.pop_front().expect("the caller has seen it")
    }
}
