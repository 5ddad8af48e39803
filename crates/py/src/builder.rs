//! `antiphon.ScheduleBuilder`.

use crate::convert::{Size, run};
use crate::fabric::Fabric;
use crate::operations::collective;
use crate::schedule::Schedule;
use antiphon_core::collective::Collective;
use antiphon_core::error::{Code, Error};
use antiphon_core::fabric;
use antiphon_core::schedule::{Builder, Lane, LaneId, Op};
use antiphon_core::units::Bytes;
use pyo3::prelude::*;
use std::sync::Arc;

/// Collects a schedule step by step; the core's builder replays it in `finish`.
#[pyclass(module = "antiphon")]
pub struct ScheduleBuilder {
    fabric: Arc<fabric::Fabric>,
    collective: Collective,
    bytes: Bytes,
    name: String,
    excluded: Vec<u32>,
    conflict_free: bool,
    lanes: Vec<Lane>,
    calls: Vec<Call>,
}

enum Call {
    Phase { name: String, barrier: bool },
    Send { op: Op, from: u32, to: u32, lane: LaneId, lanes: u32, step: u32, route: Option<Vec<u32>> },
}

#[pymethods]
impl ScheduleBuilder {
    #[new]
    #[pyo3(signature = (fabric, collective, bytes, name = "custom", *, root = 0, excluded = vec![], conflict_free = false))]
    fn new(
        fabric: &Fabric,
        collective: &str,
        bytes: Size,
        name: &str,
        root: u32,
        excluded: Vec<u32>,
        conflict_free: bool,
    ) -> PyResult<Self> {
        Ok(ScheduleBuilder {
            collective: self::collective(collective, root, &fabric.0)?,
            fabric: fabric.0.clone(),
            bytes: bytes.0,
            name: name.into(),
            excluded,
            conflict_free,
            lanes: vec![],
            calls: vec![],
        })
    }

    #[pyo3(signature = (name, barrier = false))]
    fn phase(&mut self, name: String, barrier: bool) {
        self.calls.push(Call::Phase { name, barrier });
    }

    #[pyo3(signature = (offset, bytes, chunks = 1, *, chunk_bytes = None, stride = 1, source = 0, owner = 0))]
    #[allow(clippy::too_many_arguments)]
    fn lane(
        &mut self,
        offset: u64,
        bytes: u64,
        chunks: u64,
        chunk_bytes: Option<u64>,
        stride: u32,
        source: u32,
        owner: u32,
    ) -> LaneId {
        let chunk_bytes = chunk_bytes.unwrap_or_else(|| Lane::payload(bytes, chunks.max(1)).max(1));
        self.lanes.push(Lane { offset, bytes, chunks, chunk_bytes, stride, source, owner });
        self.lanes.len() as LaneId - 1
    }

    #[pyo3(signature = (from_, to, lane, step, *, lanes = 1, route = None))]
    fn reduce(&mut self, from_: u32, to: u32, lane: LaneId, step: u32, lanes: u32, route: Option<Vec<u32>>) {
        self.calls.push(Call::Send { op: Op::Reduce, from: from_, to, lane, lanes, step, route });
    }

    #[pyo3(signature = (from_, to, lane, step, *, lanes = 1, route = None))]
    fn copy(&mut self, from_: u32, to: u32, lane: LaneId, step: u32, lanes: u32, route: Option<Vec<u32>>) {
        self.calls.push(Call::Send { op: Op::Copy, from: from_, to, lane, lanes, step, route });
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Schedule> {
        run(py, || self.replay()).map(Schedule)
    }

    fn __repr__(&self) -> String {
        format!("<ScheduleBuilder {} on {}: {} lanes>", self.name, self.fabric.name, self.lanes.len())
    }
}

impl ScheduleBuilder {
    fn replay(&self) -> Result<antiphon_core::schedule::Schedule, Error> {
        let mut builder = Builder::new(&self.name, &self.fabric, self.collective, self.bytes);
        builder.schedule.excluded.clone_from(&self.excluded);
        builder.schedule.conflict_free = self.conflict_free;
        builder.schedule.lanes.clone_from(&self.lanes);
        for call in &self.calls {
            match call {
                Call::Phase { name, barrier } => builder.phase(name, *barrier),
                Call::Send { op, from, to, lane, lanes, step, route } => match route {
                    Some(route) => builder.send_via(*op, *from, *to, *lane, *lanes, *step, route.clone())?,
                    None => builder.send(*op, *from, *to, *lane, *lanes, *step)?,
                },
            }
        }
        if builder.schedule.transfers.is_empty() {
            return Err(Error::new(Code::BadSpec, format!("schedule '{}' has no transfers", self.name)));
        }
        builder.finish()
    }
}
