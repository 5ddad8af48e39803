//! The consumers of the format, and their limits.

use super::{Msccl, model::Algo};
use crate::unknown_consumer;
use antiphon_base::error::{Code, Error, Result};

/// A program that reads files, with its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumer {
    /// Name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Steps of a thread block.
    pub steps: u32,
    /// Thread blocks of a GPU.
    pub blocks: u32,
    /// Channels.
    pub channels: u32,
    /// Whether it refuses files without `minBytes`, `maxBytes` or `outofplace`.
    pub strict: bool,
}

/// Consecutive `re` with one destination, which are done as one.
pub const MAX_FUSED_REDUCTIONS: u32 = 16;
/// Chunks that one step may move.
pub const MAX_COUNT: u32 = 71;
/// Largest offset: offsets have 16 bits, with a sign.
pub const MAX_OFFSET: u32 = i16::MAX as u32;
/// XML elements that are for one rank.
pub const MAX_NODES: u32 = 4096;
/// Largest id of a thread block that others wait for.
pub const MAX_AWAITED_BLOCK: u32 = 127;

/// All consumers; the default is first.
pub const CONSUMERS: [Consumer; 3] = [
    Consumer { name: "rccl", about: "RCCL", steps: 64, blocks: 64, channels: 128, strict: true },
    Consumer { name: "executor", about: "msccl-executor-nccl", steps: 256, blocks: 1024, channels: 32, strict: true },
    Consumer { name: "msccl", about: "MSCCL", steps: 256, blocks: 216, channels: 32, strict: false },
];

/// The consumer of a name.
///
/// # Errors
/// [`Code::UnknownName`] with the nearest known one.
pub fn consumer(name: &str) -> Result<&'static Consumer> {
    CONSUMERS.iter().find(|consumer| consumer.name == name).ok_or_else(|| unknown_consumer(&Msccl, name))
}

impl Consumer {
    /// Checks that it would read a text, and use it.
    ///
    /// # Errors
    /// [`Code::BadFile`] with the reason why not.
    fn check_text(&self, algo: &Algo) -> Result<()> {
        let refuse = |what: String| Err(Error::new(Code::BadFile, format!("{}: {what}", self.about)));
        if let Some(markup) = algo.text.markup {
            return refuse(format!("the text {markup}, which its reader of XML does not know"));
        }
        match algo.text.missing.first() {
            Some(key) if self.strict => refuse(format!("<algo> has no {key}, without which it is not read")),
            _ if !self.strict && algo.max_bytes == 0 => refuse("maxBytes is 0, so it is never used".into()),
            _ => Ok(()),
        }
    }

    /// Checks a program against its limits, and its text. O(steps).
    ///
    /// # Errors
    /// [`Code::TooLarge`] with the first limit that is passed; [`Code::BadFile`] for a text that it would not read.
    pub fn check(&self, algo: &Algo) -> Result<()> {
        self.check_text(algo)?;
        let over = |what: String| Err(Error::new(Code::TooLarge, format!("{}: {what}", self.about)));
        for (id, gpu) in algo.gpus.iter().enumerate() {
            let blocks = gpu.blocks.len();
            if blocks > self.blocks as usize {
                return over(format!("gpu {id} has {blocks} thread blocks, at most {} are read", self.blocks));
            }
            for (tb, block) in gpu.blocks.iter().enumerate() {
                let place = format!("gpu {id} tb {tb}");
                let steps = block.steps.len();
                if steps > self.steps as usize {
                    return over(format!("{place} has {steps} steps, at most {} are read", self.steps));
                }
                if block.channel >= self.channels {
                    return over(format!("{place} uses channel {}, there are {}", block.channel, self.channels));
                }
                let mut fused = 0;
                for (at, step) in block.steps.iter().enumerate() {
                    if step.count > MAX_COUNT {
                        return over(format!("{place} step {at} moves {} chunks, at most {MAX_COUNT} go", step.count));
                    }
                    let offset = step.src.offset.max(step.dst.offset);
                    if offset > MAX_OFFSET {
                        return over(format!("{place} step {at} has offset {offset}, the largest is {MAX_OFFSET}"));
                    }
                    let follows = at > 0 && block.steps[at - 1].dst == step.dst;
                    fused = match step.action.adds_to_dst() {
                        true if follows => fused + 1,
                        adds => u32::from(adds),
                    };
                    if fused > MAX_FUSED_REDUCTIONS {
                        return over(format!(
                            "{place} step {at} is one of more than {MAX_FUSED_REDUCTIONS} reductions in a row"
                        ));
                    }
                    if let Some((other, _)) = step.after.filter(|&(other, _)| other > MAX_AWAITED_BLOCK) {
                        return over(format!(
                            "{place} step {at} waits for tb {other}, the last to wait for is {MAX_AWAITED_BLOCK}"
                        ));
                    }
                }
            }
            let nodes = 2 + blocks + gpu.blocks.iter().map(|block| block.steps.len()).sum::<usize>();
            if nodes > MAX_NODES as usize {
                return over(format!("gpu {id} takes {nodes} XML elements, at most {MAX_NODES} are read"));
            }
        }
        Ok(())
    }
}
