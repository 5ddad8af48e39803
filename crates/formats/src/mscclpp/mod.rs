//! Execution plans of MSCCL++ in JSON: one-sided puts between GPUs, with signals and waits (Shah et al., MSCCL++:
//! Rethinking GPU Communication Abstractions for AI Inference, 2025; github.com/microsoft/mscclpp).

mod limits;
mod lower;
mod model;
mod read;
mod steps;
mod write;

pub use lower::lower;
pub use model::{
    BlockBuffers, BlockChannels, MscclppPlan, PlanBlock, PlanChannels, PlanChunks, PlanGpu, PlanOperation, PlanPart,
    RemoteBuffer, Semaphore,
};
pub use read::read;
pub use write::write;

use super::{FileFormat, FileProof, Foreign, FormatInfo, check_consumer, json};
use antiphon_base::error::{Code, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Collective;
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::Schedule;
use steps::PlanSteps;

const INFO: FormatInfo =
    FormatInfo { name: "mscclpp", about: "MSCCL++ plan (JSON)", extension: ".json", consumers: &[limits::CONSUMER] };

/// The format.
pub struct Mscclpp;

impl FileFormat for Mscclpp {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn recognises(&self, text: &str) -> bool {
        json::first_key(text, &["gpus"])
    }

    fn read(&self, text: &str, watch: Watch) -> Result<Box<dyn Foreign>> {
        Ok(Box::new(read(text, watch)?))
    }

    fn write(&self, schedule: &Schedule, consumer: &str, watch: Watch) -> Result<String> {
        check_consumer(self, consumer)?;
        // Where nothing else is in the way, copies go to their place; else by scratch, as sums do.
        let mut refusal = None;
        for direct in [true, false] {
            let plan = lower(schedule, direct, watch).map_err(|error| error.at(self.name()))?;
            limits::check(&plan)?;
            let text = write(&plan, watch)?;
            // What is proven is what others will read.
            match read(&text, watch).and_then(|plan| plan.prove(watch)) {
                Ok(_) => return Ok(text),
                Err(error) if error.code == Code::NotProven => refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refusal.expect("both ways were tried"))
    }
}

impl Foreign for MscclppPlan {
    fn name(&self) -> &str {
        &self.name
    }

    fn ranks(&self) -> u32 {
        self.gpus.len() as u32
    }

    fn collective(&self) -> Collective {
        // It was read, so its steps are known.
        PlanSteps::of(self, true, Watch::default())
            .map_or(Collective { kind: antiphon_model::collective::Kind::AllReduce, root: 0 }, |steps| {
                steps.collective()
            })
    }

    fn prove(&self, watch: Watch) -> Result<FileProof> {
        let steps = PlanSteps::of(self, false, watch)?;
        steps.prove(watch)?;
        Ok(FileProof {
            blocks: self.gpus.iter().map(|gpu| gpu.threadblocks.len() as u64).sum(),
            steps: self.gpus.iter().flat_map(|gpu| &gpu.threadblocks).map(|block| block.ops.len() as u64).sum(),
            messages: steps.messages,
            fifo_depth: 0,
            places: vec![if self.inplace { "in-place" } else { "out-of-place" }],
            consumers: vec![(limits::CONSUMER, limits::check(self).err().map(|error| error.message))],
        })
    }

    fn raise(&self, fabric: &Fabric, bytes: Bytes, placement: &[NodeId], watch: Watch) -> Result<Schedule> {
        let steps = PlanSteps::of(self, false, watch)?;
        steps.prove(watch)?;
        if steps.packets()
            && let Ok(schedule) = PlanSteps::of(self, true, watch)?.raise(fabric, bytes, placement, watch)
        {
            return Ok(schedule);
        }
        steps.raise(fabric, bytes, placement, watch)
    }
}
