//! MSCCL XML: programs of thread blocks, which RCCL, msccl-executor-nccl and MSCCL run (Cowan et al., MSCCLang, ASPLOS
//! 2023).

mod cells;
mod consumers;
mod graph;
mod grid;
mod interpret;
mod layout;
mod lower;
mod model;
mod races;
mod raise;
mod read;
mod write;

pub(super) use cells::{Cells, buffer_size};
pub(super) use graph::{Names, StepGraph, wrong};
pub(super) use grid::ChunkGrid;
pub(super) use interpret::check;
pub(super) use layout::{ChunkLayout, check as check_sayable};
pub(super) use raise::raise_graph;
pub(super) use read::kind_of;

pub use consumers::{CONSUMERS, Consumer, consumer};
pub use interpret::prove;
pub use lower::{MscclOptions, lower};
pub use model::{Algo, Buffer, ChunkPlace, MscclBlock, MscclGpu, MscclStep, StepAction, Text};
pub use raise::raise;
pub use read::read;
pub use write::write;

use super::{FileFormat, FileProof, Foreign, FormatInfo};
use antiphon_base::error::Result;
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_model::collective::Collective;
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::Schedule;

const INFO: FormatInfo = FormatInfo {
    name: "msccl",
    about: "MSCCL XML (<algo>)",
    extension: ".xml",
    consumers: &[CONSUMERS[0].name, CONSUMERS[1].name, CONSUMERS[2].name],
};

/// The format.
pub struct Msccl;

impl FileFormat for Msccl {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn recognises(&self, text: &str) -> bool {
        let mut rest = text.trim_start_matches('\u{feff}').trim_start();
        // Comments and a declaration may come first.
        while let Some(end) = [("<!--", "-->"), ("<?", "?>")]
            .iter()
            .find_map(|(start, end)| rest.starts_with(start).then(|| rest.find(end).map(|at| at + end.len())).flatten())
        {
            rest = rest[end..].trim_start();
        }
        rest.strip_prefix("<algo")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '>' || c == '/'))
    }

    fn read(&self, text: &str, watch: Watch) -> Result<Box<dyn Foreign>> {
        Ok(Box::new(read(text, watch)?))
    }

    fn write(&self, schedule: &Schedule, consumer: &str, watch: Watch) -> Result<String> {
        self.write_with(schedule, consumer, &MscclOptions::default(), watch)
    }

    fn write_with(&self, schedule: &Schedule, consumer: &str, options: &MscclOptions, watch: Watch) -> Result<String> {
        let consumer = self::consumer(consumer)?;
        let algo = lower(schedule, options, watch).map_err(|error| error.at(self.name()))?;
        consumer.check(&algo)?;
        let text = write(&algo, watch)?;
        // What is proven is what others will read.
        prove(&read(&text, watch)?, watch)?;
        Ok(text)
    }
}

impl Foreign for Algo {
    fn name(&self) -> &str {
        &self.name
    }

    fn ranks(&self) -> u32 {
        self.gpus.len() as u32
    }

    fn collective(&self) -> Collective {
        Algo::collective(self)
    }

    fn prove(&self, watch: Watch) -> Result<FileProof> {
        prove(self, watch)
    }

    fn raise(&self, fabric: &Fabric, bytes: Bytes, placement: &[NodeId], watch: Watch) -> Result<Schedule> {
        prove(self, watch)?;
        raise(self, fabric, bytes, placement, watch)
    }
}
