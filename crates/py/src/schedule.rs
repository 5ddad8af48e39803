//! `antiphon.Schedule`.

use crate::operations;
use crate::prelude::*;
use antiphon_bound as bound;
use antiphon_model::fabric;
use antiphon_model::schedule::{self, Event, Instruction, Op, Program};
use antiphon_proof::{Proof, Proven};
use antiphon_run::{Execution, Threads, execute};
use antiphon_sim::{self as simulate, Fidelity};
use numpy::{Element, IntoPyArray, PyArray2, PyReadonlyArray1};
use pyo3::types::PyType;
use std::ops::Add;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of a table.
const MOST_CHUNKS: u64 = 1 << 24;

/// Who executes a schedule.
#[derive(Clone, Copy)]
enum How {
    /// One message after the other; in a random order if there is a seed.
    Alone(Option<u64>),
    /// Threads, one a rank, some of which pause at moments that a seed chooses.
    Threads(u64),
}

/// A complete plan for one collective on one fabric, made by `build`, by a `ScheduleBuilder` or from JSON; its size
/// does not grow with the data. Immutable, hashable, picklable, compared by value. Tables are dictionaries of numpy
/// arrays of equal length.
///
/// >>> import antiphon
/// >>> schedule = antiphon.build("ring:4", "ring", bytes="1MiB")
/// >>> Schedule.from_json(schedule.to_json()) == schedule
/// True
#[pyclass(module = "antiphon", frozen, eq)]
#[derive(PartialEq)]
pub struct Schedule(pub Arc<schedule::Schedule>, LastProof);

/// The last proof of a schedule, which does not change, and the fabric that it is about.
#[derive(Default)]
struct LastProof(Mutex<Option<(Arc<fabric::Fabric>, Proven)>>);

impl PartialEq for LastProof {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl From<schedule::Schedule> for Schedule {
    fn from(schedule: schedule::Schedule) -> Self {
        Schedule(Arc::new(schedule), LastProof::default())
    }
}

impl Schedule {
    /// Its last proof, if there was one.
    pub fn last_proof(&self) -> Option<Proof> {
        self.last().as_ref().map(|(_, proven)| proven.proof().clone())
    }

    fn last(&self) -> MutexGuard<'_, Option<(Arc<fabric::Fabric>, Proven)>> {
        self.1.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is proven on a fabric: by the last proof, if that was on this fabric, or by a new one.
    pub fn proven(
        &self,
        fabric: &Arc<fabric::Fabric>,
        prove: impl FnOnce(Arc<schedule::Schedule>) -> Result<Proven, Error>,
    ) -> Result<Proven, Error> {
        if let Some((known, proven)) = &*self.last()
            && (Arc::ptr_eq(known, fabric) || known == fabric)
        {
            return Ok(proven.clone());
        }
        let proven = prove(self.0.clone())?;
        *self.last() = Some((fabric.clone(), proven.clone()));
        Ok(proven)
    }
}

#[literal_defaults]
#[pymethods]
impl Schedule {
    /// The schedule of JSON text (schema in docs/reference/schedule.md), its numbers checked against `fabric` if there
    /// is one, and that this has its routes where it has another name, but nothing proven.
    ///
    /// Raises AntiphonError: `bad-file` with the place, or `too-large`.
    #[classmethod]
    #[pyo3(signature = (text, fabric = None))]
    fn from_json(class: &Bound<'_, PyType>, text: Text<'_>, fabric: Option<&Fabric>) -> PyResult<Self> {
        let fabric = fabric.map(|fabric| &*fabric.0);
        let schedule =
            run_watched(class.py(), None, |watch| schedule::Schedule::from_json_watched(text.0, fabric, watch))?;
        Ok(schedule.into())
    }

    /// JSON text from which `from_json` makes an equal schedule.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || Ok(self.0.to_json()))
    }

    /// Table of the regions of the buffer that stream in chunks: `offset`, `bytes` and `chunk_bytes` in bytes,
    /// `chunks`, `stride` in steps, `source` and `owner` as ranks.
    #[getter]
    fn lanes<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let lanes = || self.0.lanes.iter();
        table!(py, lane in lanes(), {
            offset, bytes, chunks, chunk_bytes, stride, source, owner,
        })
    }

    /// Table of the chunks of all lanes that are not empty: `lane`, `chunk`, and `first` byte and `end` in a rank's memory, where numbers of
    /// `itemsize` bytes are whole.
    ///
    /// Raises AntiphonError: `bad-size`, `too-large` past 2^24 chunks.
    #[pyo3(signature = (itemsize: "int" = 1))]
    fn chunk_ranges<'py>(&self, py: Python<'py>, itemsize: i64) -> PyResult<Table<'py>> {
        let chunks: u64 = self.0.lanes.iter().fold(0, |sum, lane| sum.saturating_add(lane.chunks));
        if chunks > MOST_CHUNKS || !(1..=16).contains(&itemsize) {
            let what = format!("{chunks} chunks, numbers of {itemsize} bytes; at most {MOST_CHUNKS}, and 1 to 16");
            return Err(exception(what, if chunks > MOST_CHUNKS { "too-large" } else { "bad-size" }));
        }
        let chunks = || antiphon_run::chunks(&self.0, itemsize as u64);
        table!(py, chunk in chunks(), {
            lane: chunk.0 as u64, chunk: chunk.1, first: chunk.2.start as u64, end: chunk.2.end as u64,
        })
    }

    /// Table of the transfers: ranks `from` and `to`, `reduces` (else it copies), number of `lanes` and `chunks`,
    /// `message_bytes` of one chunk on the wire, `phase`, `step` and `hops`.
    #[getter]
    fn transfers<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let transfers = || self.0.transfers.iter();
        table!(py, transfer in transfers(), {
            from, to,
            reduces: transfer.op == Op::Reduce,
            lanes: transfer.lanes().count() as u64,
            chunks: self.0.chunks(transfer),
            message_bytes: self.0.message_bytes(transfer),
            phase, step,
            hops: transfer.route.len() as u64,
        })
    }

    /// Table with an entry for each lane of each transfer: `transfer` and `lane`.
    #[getter]
    fn payloads<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let rows = || (0u32..).zip(&self.0.transfers).flat_map(|(id, t)| t.lanes().map(move |lane| (id, lane as u32)));
        table!(py, row in rows(), { transfer: row.0, lane: row.1 })
    }

    /// Table with an entry for each link on the route of each transfer: `transfer`, `hop` from 0, `link` as numbered in
    /// `Fabric.links`.
    #[getter]
    fn routes<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let hops =
            || (0u32..).zip(&self.0.transfers).flat_map(|(id, t)| (0u32..).zip(&t.route).map(move |hop| (id, hop)));
        table!(py, hop in hops(), { transfer: hop.0, hop: hop.1.0, link: *hop.1.1 })
    }

    /// Table with an entry for each thing that a transfer waits for: `transfer`; `after`, the other transfer; `sent`,
    /// whether that must have left its sender rather than be applied; `lag` in chunks; `at_receiver`, whether the
    /// receiver is the one to wait.
    #[getter]
    fn dependencies<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let rows = || {
            (0u32..).zip(&self.0.transfers).flat_map(|(id, transfer)| {
                let starts = transfer.start_after.iter().map(move |&other| (id, other, false));
                starts.chain(transfer.apply_after.iter().map(move |&other| (id, other, true)))
            })
        };
        table!(py, row in rows(), {
            transfer: row.0,
            after: row.1.transfer(),
            sent: row.1.event() == Event::Sent,
            lag: row.1.lag(),
            at_receiver: row.2,
        })
    }

    /// A `Stats`: steps of the phases, heights of trees, messages, bytes on each link.
    ///
    /// Raises AntiphonError: `bad-file` or `too-large` for a schedule that is not for this fabric.
    #[pyo3(signature = (fabric) -> "Stats")]
    fn stats<'py>(&self, py: Python<'py>, fabric: &Fabric) -> PyResult<Bound<'py, PyAny>> {
        let (schedule, fabric) = (&self.0, &fabric.0);
        let stats = run(py, || schedule.check(fabric).map(|()| schedule.stats(fabric)))?;
        let lanes = Table::new(py)
            .column("reduce_height", stats.reduce_heights.into_iter().map(i64::from))?
            .column("copy_height", stats.copy_heights.into_iter().map(i64::from))?;
        let links = Table::new(py).column("bytes", stats.link_bytes.into_iter())?;
        let phases: Vec<(String, u64)> = stats.phases.into_iter().map(|phase| (phase.name, phase.steps)).collect();
        record!(py, "Stats", {
            ..stats: steps, transfers, messages, used_links_percent;
            phases: phases,
            lanes: lanes.0,
            links: links.0,
        })
    }

    /// Time in ns for which its busiest link is at work on a system: no run is shorter.
    /// `system` is a preset's name or a `System`. O(hops of all transfers).
    ///
    /// Raises AntiphonError: `unknown-name` for the system, and as `stats`.
    #[pyo3(signature = (fabric, system = "generic"))]
    fn busiest_link_ns(&self, py: Python<'_>, fabric: &Fabric, system: operations::SystemLike) -> PyResult<f64> {
        let (schedule, fabric, system) = (&self.0, &fabric.0, system.get()?);
        let time = run(py, || schedule.check(fabric).map(|()| bound::busiest_ps(fabric, &system, schedule)))?;
        Ok(nanos(time))
    }

    /// Time in ns that no run of it on a system is below, at `fidelity`, or at any if it is None: the larger of what its
    /// longest chain of messages takes, and its busiest link with what is before and after it. `system` is a preset's name
    /// or a `System`. O(hops, lanes and dependencies of all transfers).
    ///
    /// Raises AntiphonError: `unknown-name`, and as `stats`.
    #[pyo3(signature = (fabric, system = "generic", fidelity = None))]
    fn least_ns(
        &self,
        py: Python<'_>,
        fabric: &Fabric,
        system: operations::SystemLike,
        fidelity: Option<Named<Fidelity>>,
    ) -> PyResult<f64> {
        let (schedule, fabric, system) = (&self.0, &fabric.0, system.get()?);
        let fidelity = fidelity.map(|named| named.0);
        let time =
            run(py, || schedule.check(fabric).map(|()| bound::schedule_ps(fabric, &system, schedule, fidelity)))?;
        Ok(nanos(time))
    }

    /// For every rank of the fabric, or of the whole one of a group, the streams that it passes on: pairs of links by which
    /// routes come in and go out.
    ///
    /// Raises AntiphonError: `bad-file` for routes over links that the fabric does not have.
    fn relays(&self, py: Python<'_>, fabric: &Fabric) -> PyResult<Vec<u32>> {
        let (schedule, fabric) = (&self.0, &fabric.0);
        run(py, || schedule.relays(fabric))
    }

    /// Whether another schedule sends the same messages in the same order, whatever made the two, how its phases are
    /// named and how near it claims to be to the optimum: then their runs are the same.
    fn sends_the_same(&self, py: Python<'_>, other: &Schedule) -> bool {
        py.detach(|| self.0.sends_the_same(&other.0))
    }

    /// A `Proof` that every rank ends with the right bytes and that nothing can deadlock; `antiphon.verify` also
    /// reports progress. `system` is a preset's name or a `System`.
    ///
    /// Raises AntiphonError: `not-proven` with a counter-example, and as `stats`.
    #[pyo3(signature = (fabric, system = "generic") -> "Proof")]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        fabric: &Fabric,
        system: operations::SystemLike,
    ) -> PyResult<Bound<'py, PyAny>> {
        operations::verify(py, fabric, self, None, system)
    }

    /// The same schedule, to be timed on this fabric though it is not proven: its proof is not `complete`, and says in `gaps`
    /// why. For reproductions of what others ran; it must be one that cannot deadlock.
    ///
    /// Raises AntiphonError: `not-proven` for wrong routes and for what could deadlock, and as `stats`.
    fn assumed(&self, py: Python<'_>, fabric: &Fabric) -> PyResult<Schedule> {
        let own = Schedule(self.0.clone(), LastProof::default());
        run_watched(py, None, |watch| own.proven(&fabric.0, |schedule| Proven::assumed(&fabric.0, schedule, watch)))?;
        Ok(own)
    }

    /// An `Energy`: what its messages take on a fabric, whenever they are sent, without static power. `system` is a preset's
    /// name or a `System`.
    ///
    /// Raises AntiphonError: `unknown-name` for the system, and as `stats`.
    #[pyo3(signature = (fabric, system = "generic") -> "Energy")]
    fn dynamic_energy<'py>(
        &self,
        py: Python<'py>,
        fabric: &Fabric,
        system: operations::SystemLike,
    ) -> PyResult<Bound<'py, PyAny>> {
        let system = system.get()?;
        let proven = |watch: Watch| operations::prove_part(&fabric.0, self, watch);
        let energy = run_watched(py, None, |watch| simulate::dynamic_energy(&fabric.0, &proven(watch)?, &system))?;
        energy_record(py, &energy, &system, None)
    }

    /// A `Bound`, in ns, on every schedule for the same collective among the ranks that this one does not exclude,
    /// placed where it places them, at `fidelity`, or at any if it is None. `system` is a preset's name or a `System`.
    ///
    /// Raises AntiphonError: `unknown-name`, `bad-file` if no rank takes part, and as `stats`.
    #[pyo3(signature = (fabric, system = "generic", fidelity = None) -> "Bound")]
    fn lower_bound<'py>(
        &self,
        py: Python<'py>,
        fabric: &Fabric,
        system: operations::SystemLike,
        fidelity: Option<Named<Fidelity>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        operations::bound_of(py, fabric, self, system, fidelity)
    }

    /// Table of what each rank sends and receives, in order, an entry for either end of each transfer: `rank`, `stream`
    /// (its number at the rank), `peer`, `action` (`send`, `reduce` or `copy`), `transfer`, `phase`, `step`,
    /// `after_barrier`, and `waits`, how many dependencies it has.
    ///
    /// Raises AntiphonError: `bad-file` or `too-large` for a schedule out of range.
    fn program<'py>(&self, py: Python<'py>) -> PyResult<Table<'py>> {
        let program = run(py, || self.0.check_alone().map(|()| Program::new(&self.0)))?;
        let mut rows = vec![];
        for (rank, of_rank) in (0u32..).zip(&program.ranks) {
            for (stream, of_stream) in (0u32..).zip(&of_rank.streams) {
                rows.extend(
                    of_stream.instructions.iter().map(|instruction| (rank, stream, of_stream.peer, instruction)),
                );
            }
        }
        let transfer = |row: &(u32, u32, u32, &Instruction)| &self.0.transfers[row.3.transfer as usize];
        table!(py, row in rows.iter(), {
            rank: row.0,
            stream: row.1,
            peer: row.2,
            action: row.3.action.name(),
            transfer: row.3.transfer,
            phase: transfer(row).phase,
            step: transfer(row).step,
            after_barrier: row.3.barrier.is_some(),
            waits: row.3.waits.len() as u64,
        })
    }

    /// Runs the schedule on data and returns the arrays that the ranks end with. `buffers` has one array a rank, of
    /// shape (bytes / itemsize,), all int32, int64, float32 or float64; for an all-to-all `ranks` times as long. A
    /// `seed` makes the order of messages random; `threads` gives every rank a thread, and then the seed only says when
    /// some pause. A test of the proof; `antiphon.execute` is faster.
    ///
    /// Raises AntiphonError: `bad-spec` or `bad-size` for wrong buffers, `not-proven` for a deadlock, `too-large`.
    #[pyo3(signature = (buffers: "Sequence[_Array]", seed = None, *, threads = false) -> "list[_Array]")]
    fn execute<'py>(
        &self,
        buffers: &Bound<'py, PyAny>,
        seed: Option<Fit<u64>>,
        threads: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let seed = seed.map(|seed| seed.0);
        let how = if threads { How::Threads(seed.unwrap_or(0)) } else { How::Alone(seed) };
        macro_rules! of_type {
            ($($number:ty),*) => {
                $(if let Ok(arrays) = buffers.extract() { return self.execute_as::<$number>(buffers.py(), arrays, how); })*
            };
        }
        of_type!(i32, i64, f32, f64);
        let what = "buffers must be one-dimensional numpy arrays, all of int32, int64, float32 or float64";
        Err(raise(Error::new(Code::BadSpec, what)))
    }

    /// Bytes from every rank, by row, to every other one, in an all-to-all by a matrix; None for others.
    #[getter]
    fn matrix<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<u64>>>> {
        let Some(matrix) = &self.0.matrix else { return Ok(None) };
        Ok(Some(PyArray2::from_vec2(py, &Vec::from(matrix.clone()))?))
    }

    getters! {
        /// Memory in bytes that it takes, about.
        memory_bytes: usize = self.0.memory_bytes();
        /// Specification of the algorithm that made it, with its options.
        algorithm: &str = &self.0.algorithm;
        /// Name of the fabric it is for.
        fabric: &str = &self.0.fabric;
        /// Name of the collective, such as `all-reduce`.
        collective: &str = self.0.collective.kind.name();
        /// Root rank of a broadcast or reduce, None for other collectives.
        root: Option<u32> = self.0.collective.kind.rooted().then_some(self.0.collective.root);
        /// Size of the full buffer in bytes: with a matrix, the most that a rank sends.
        bytes: u64 = self.0.bytes;
        /// At multiples of so many bytes shards are cut and chunks begin.
        align: u64 = self.0.align.bytes();
        /// Sum of the matrix in bytes; None without.
        matrix_bytes: Option<u64> = self.0.matrix.as_ref().map(|matrix| matrix.total());
        /// Number of ranks of the fabric, excluded ones among them.
        ranks: u32 = self.0.ranks;
        /// For a group of a fabric's ranks, their numbers there; None if it is for all.
        group: Option<Vec<u32>> = (!self.0.group.is_empty()).then(|| self.0.group.clone());
        /// Ranks that contribute nothing and need no result; they may forward and add.
        excluded: Vec<u32> = self.0.excluded.clone();
        /// Switches that add or multicast, by node; in `transfers` they have the numbers behind those of ranks.
        switches: Vec<u32> = self.0.switches.clone();
        /// Whom `lower_bound` counts: `all-ranks` on their own nodes, `placement` (all, on other nodes) or `participants`
        /// (those not excluded).
        bound_of: &'static str = bound::subject(&self.0);
    }

    fn __repr__(&self) -> String {
        let schedule = &self.0;
        format!(
            "<Schedule {} on {}: {} of {} bytes, {} lanes, {} transfers>",
            schedule.algorithm,
            schedule.fabric,
            schedule.collective.kind.name(),
            schedule.bytes,
            schedule.lanes.len(),
            schedule.transfers.len()
        )
    }

    fn __hash__(&self) -> u64 {
        let schedule = &self.0;
        hash_of((&schedule.algorithm, &schedule.fabric, schedule.bytes, schedule.transfers.len()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json(slf.py())?,)))
    }
}

impl Schedule {
    fn execute_as<'py, T: Element + Copy + Default + Send + Sync + Add<Output = T>>(
        &self,
        py: Python<'py>,
        arrays: Vec<PyReadonlyArray1<'py, T>>,
        how: How,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut data: Vec<Vec<T>> = arrays.iter().map(|array| array.as_array().to_vec()).collect();
        run(py, || match how {
            How::Alone(seed) => execute(&self.0, &mut data, seed),
            How::Threads(seed) => {
                let mut buffers: Vec<&mut [T]> = data.iter_mut().map(Vec::as_mut_slice).collect();
                Execution::new(&self.0)?.run(&mut buffers, Threads::Pausing(seed))
            }
        })?;
        Ok(data.into_iter().map(|values| values.into_pyarray(py).into_any()).collect())
    }
}
