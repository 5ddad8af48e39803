//! `antiphon.ScheduleBuilder`.

use crate::operations::{aligned, collective};
use crate::prelude::*;
use antiphon_base::units::clip;
use antiphon_model::collective::{Collective, Data};
use antiphon_model::fabric;
use antiphon_model::schedule::{Builder, Dependency, Event, Lane, LaneId, MAX_TRANSFERS, Op, Payload, TransferId};
use std::sync::Arc;

/// Builds a schedule for a collective of `bytes` bytes on a fabric, step by step: cut the buffer into lanes, add
/// transfers, `finish`. A transfer carries what its sender had before the step; what it waits for follows from that.
/// The fabric may be a specification. `name` is shown as the algorithm, `excluded` ranks take no part, and
/// `conflict_free` claims, to be proven, that no link has two messages in a step. Lanes and their chunks begin at multiples
/// of `align` bytes, as those of `antiphon.shard`.
///
/// >>> import antiphon
/// >>> builder = ScheduleBuilder("ring:3", "broadcast", "1KiB")
/// >>> lane = builder.lane(0, 1024)
/// >>> first = builder.copy(0, 1, lane, 0)
/// >>> second = builder.copy(1, 2, lane, 1)
/// >>> antiphon.verify("ring:3", builder.finish()).complete
/// True
///
/// Raises AntiphonError: `unknown-name`, `bad-spec` for a root that does not exist or another `align` than a power of
/// two from 4 to 4096, `bad-size`.
#[pyclass(module = "antiphon")]
pub struct ScheduleBuilder {
    fabric: Arc<fabric::Fabric>,
    collective: Collective,
    data: Data,
    name: String,
    excluded: Vec<u32>,
    conflict_free: bool,
    lanes: Vec<Lane>,
    /// What the core's builder replays in `finish`.
    calls: Vec<Call>,
    transfers: TransferId,
}

enum Call {
    Phase { name: String, barrier: bool },
    Send { op: Op, from: u32, to: u32, payload: Payload, step: u32, route: Option<Vec<u32>> },
    Wait { transfer: TransferId, dependency: Dependency, at_receiver: bool },
}

#[literal_defaults]
#[pymethods]
impl ScheduleBuilder {
    #[new]
    #[pyo3(signature = (fabric, collective, bytes, name = "custom", *, root = 0, excluded = [], conflict_free = false, align = 4))]
    fn new(
        py: Python<'_>,
        fabric: FabricLike,
        collective: Text<'_>,
        bytes: Size,
        name: Text<'_>,
        root: Int,
        excluded: Fit<Vec<u32>>,
        conflict_free: bool,
        align: Int,
    ) -> PyResult<Self> {
        let fabric = match fabric {
            FabricLike::Object(fabric) => fabric.get().0.clone(),
            FabricLike::Spec(spec) => Arc::new(run(py, || fabric::Fabric::parse(&spec.0))?),
        };
        Ok(ScheduleBuilder {
            collective: self::collective(collective.0, root, &fabric)?,
            fabric,
            data: Data { align: aligned(align)?, ..bytes.0.into() },
            name: name.0.into(),
            excluded: excluded.0,
            conflict_free,
            lanes: vec![],
            calls: vec![],
            transfers: 0,
        })
    }

    /// Starts a phase, whose steps count from 0; with `barrier` it begins when all earlier ones are complete.
    #[pyo3(signature = (name, barrier = false))]
    fn phase(&mut self, name: Text<'_>, barrier: bool) {
        self.calls.push(Call::Phase { name: name.0.into(), barrier });
    }

    /// Adds `bytes` bytes of the buffer from byte `offset` on, which stream in equal chunks, and returns the lane's
    /// number. `chunk_bytes` is the size of a chunk on the wire, if padded; `stride` the steps between chunks; `source`
    /// the rank that starts with the lane (all-gather, all-to-all), `owner` the one that ends with it (reduce-scatter,
    /// all-to-all).
    #[pyo3(signature = (offset, bytes, chunks = 1, *, chunk_bytes = None, stride = 1, source = 0, owner = 0))]
    fn lane(
        &mut self,
        offset: Fit<u64>,
        bytes: Fit<u64>,
        chunks: Fit<u64>,
        chunk_bytes: Option<Fit<u64>>,
        stride: Fit<u32>,
        source: Fit<u32>,
        owner: Fit<u32>,
    ) -> LaneId {
        let (bytes, chunks) = (bytes.0, chunks.0);
        let chunk_bytes =
            chunk_bytes.map_or_else(|| self.data.align.payload(bytes, chunks.max(1)).max(1), |size| size.0);
        let (offset, stride, source, owner) = (offset.0, stride.0, source.0, owner.0);
        self.lanes.push(Lane { offset, bytes, chunks, chunk_bytes, stride, source, owner });
        self.lanes.len() as LaneId - 1
    }

    /// Adds a transfer after which rank `to` has added what rank `from_` sent to its own, and returns its number.
    /// `lane` is one lane, the first of `lanes` adjacent ones, or a list of lanes in one message; `route` is a list of
    /// links as numbered in `Fabric.links`, by default a shortest path.
    ///
    /// Raises AntiphonError: `bad-spec` for lanes that cannot be, `too-large` past the limit of transfers.
    #[pyo3(signature = (from_, to, lane, step, *, lanes = 1, route = None))]
    fn reduce(
        &mut self,
        from_: Fit<u32>,
        to: Fit<u32>,
        lane: Lanes,
        step: Fit<u32>,
        lanes: Fit<u32>,
        route: Option<Fit<Vec<u32>>>,
    ) -> PyResult<TransferId> {
        self.send(Op::Reduce, [from_.0, to.0], lane.payload(lanes.0)?, step.0, route.map(|links| links.0))
    }

    /// As `reduce`, but what arrives replaces what rank `to` had.
    ///
    /// Raises AntiphonError: as `reduce`.
    #[pyo3(signature = (from_, to, lane, step, *, lanes = 1, route = None))]
    fn copy(
        &mut self,
        from_: Fit<u32>,
        to: Fit<u32>,
        lane: Lanes,
        step: Fit<u32>,
        lanes: Fit<u32>,
        route: Option<Fit<Vec<u32>>>,
    ) -> PyResult<TransferId> {
        self.send(Op::Copy, [from_.0, to.0], lane.payload(lanes.0)?, step.0, route.map(|links| links.0))
    }

    /// Makes a transfer wait at its sender until `other` is `applied` at its receiver or `sent`, as `event` says; chunk
    /// `k` waits for chunk `k - lag`, with a lag of at most 255.
    ///
    /// Raises AntiphonError: `bad-spec` for a transfer that was not added, and for other events and lags.
    #[pyo3(signature = (transfer, other, event = "applied", lag = 0))]
    fn start_after(
        &mut self,
        transfer: Fit<TransferId>,
        other: Fit<TransferId>,
        event: Text<'_>,
        lag: Fit<u32>,
    ) -> PyResult<()> {
        self.wait(transfer.0, other.0, event.0, lag.0, false)
    }

    /// As `start_after`, but what has arrived waits at the receiver before it is added or stored.
    ///
    /// Raises AntiphonError: as `start_after`.
    #[pyo3(signature = (transfer, other, event = "applied", lag = 0))]
    fn apply_after(
        &mut self,
        transfer: Fit<TransferId>,
        other: Fit<TransferId>,
        event: Text<'_>,
        lag: Fit<u32>,
    ) -> PyResult<()> {
        self.wait(transfer.0, other.0, event.0, lag.0, true)
    }

    /// The `Schedule`: ranges are checked, nothing is proven.
    ///
    /// Raises AntiphonError: `bad-file`, `bad-spec` or `too-large`, naming the transfer or lane.
    fn finish(&self, py: Python<'_>) -> PyResult<Schedule> {
        run(py, || self.replay()).map(Schedule::from)
    }

    fn __repr__(&self) -> String {
        format!("<ScheduleBuilder {} on {}: {} lanes>", self.name, self.fabric.name, self.lanes.len())
    }
}

/// A fabric, or its specification.
#[derive(FromPyObject)]
enum FabricLike {
    Object(Py<Fabric>),
    Spec(OwnText),
}

/// What a transfer carries: a lane, the first of several, or a list.
#[derive(FromPyObject)]
enum Lanes {
    One(LaneId),
    List(Vec<LaneId>),
}

impl Lanes {
    fn payload(self, count: u32) -> PyResult<Payload> {
        let wrong = |what: &str| Err(raise(Error::new(Code::BadSpec, what)));
        match self {
            Lanes::One(first) => match first.checked_add(count) {
                Some(end) => Ok((first..end).into()),
                None => wrong("there are no so many lanes"),
            },
            Lanes::List(_) if count != 1 => wrong("lanes is for a single first lane; a list names all of them"),
            Lanes::List(lanes) if lanes.contains(&LaneId::MAX) => wrong("there are no so many lanes"),
            Lanes::List(lanes) => Ok(Payload::of(lanes.into_iter().map(|lane| lane..lane + 1))),
        }
    }
}

impl ScheduleBuilder {
    fn send(
        &mut self,
        op: Op,
        [from, to]: [u32; 2],
        payload: Payload,
        step: u32,
        route: Option<Vec<u32>>,
    ) -> PyResult<TransferId> {
        if self.transfers as usize == MAX_TRANSFERS {
            let what = format!("more than {MAX_TRANSFERS} transfers; use fewer ranks, or chunks instead of transfers");
            return Err(raise(Error::new(Code::TooLarge, what)));
        }
        self.calls.push(Call::Send { op, from, to, payload, step, route });
        self.transfers += 1;
        Ok(self.transfers - 1)
    }

    fn wait(
        &mut self,
        transfer: TransferId,
        other: TransferId,
        event: &str,
        lag: u32,
        at_receiver: bool,
    ) -> PyResult<()> {
        let wrong = |what: String| Err(raise(Error::new(Code::BadSpec, what)));
        let event = match event {
            "applied" => Event::Applied,
            "sent" => Event::Sent,
            _ => return wrong(format!("no event '{}'; known: applied, sent", clip(event))),
        };
        if let Some(unknown) = [transfer, other].into_iter().find(|&id| id >= self.transfers) {
            return wrong(format!("there is no transfer {unknown} yet; {} were added", self.transfers));
        }
        if lag > Dependency::MAX_LAG {
            return wrong(format!("a lag of {lag} chunks; at most {} are supported", Dependency::MAX_LAG));
        }
        let dependency = Dependency::new(other, event).lagging(lag);
        self.calls.push(Call::Wait { transfer, dependency, at_receiver });
        Ok(())
    }

    fn replay(&self) -> Result<antiphon_model::schedule::Schedule, Error> {
        let mut builder = Builder::new(&self.name, &self.fabric, self.collective, self.data.clone());
        builder.keep_numbers = true;
        builder.schedule.excluded.clone_from(&self.excluded);
        builder.schedule.conflict_free = self.conflict_free;
        builder.schedule.lanes.clone_from(&self.lanes);
        for call in &self.calls {
            match call {
                Call::Phase { name, barrier } => builder.phase(name, *barrier),
                Call::Send { op, from, to, payload, step, route } => {
                    _ = match route {
                        Some(route) => builder.send_via(*op, *from, *to, payload.clone(), *step, route.clone())?,
                        None => builder.send(*op, *from, *to, payload.clone(), *step)?,
                    }
                }
                Call::Wait { transfer, dependency, at_receiver: false } => builder.start_after(*transfer, *dependency),
                Call::Wait { transfer, dependency, at_receiver: true } => builder.apply_after(*transfer, *dependency),
            }
        }
        if builder.schedule.transfers.is_empty() {
            return Err(Error::new(Code::BadSpec, format!("schedule '{}' has no transfers", self.name)));
        }
        builder.finish()
    }
}
