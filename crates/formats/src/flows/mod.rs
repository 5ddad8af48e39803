//! Ways of chunks, as synthesisers of routes write them. There are no sums and no memory: each chunk is copied from
//! rank to rank.

mod tacos;
mod teccl;

pub use tacos::Tacos;
pub use teccl::Teccl;

use super::{FileProof, Foreign, check_target, fail};
use antiphon_base::error::{Code, Result};
use antiphon_base::units::Bytes;
use antiphon_base::watch::Watch;
use antiphon_model::collective::{Align, Collective, Kind};
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::{Builder, Lane, Op, Schedule};
use antiphon_proof::verify_watched;

/// Most hops of a file.
const MAX_HOPS: usize = 1 << 22;

/// The contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Flows {
    /// The tool that wrote it.
    pub name: &'static str,
    /// All-gather or all-to-all.
    pub kind: Kind,
    /// Ranks, numbered as in the file.
    pub nodes: Vec<u32>,
    /// Equal parts of the full buffer.
    pub parts: u32,
    /// All pieces of data, each with its ways.
    pub pieces: Vec<Piece>,
}

/// Data that go the same ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What the file calls it.
    pub name: String,
    /// The rank that has it at first.
    pub source: u32,
    /// The rank that it is for, in an all-to-all.
    pub owner: u32,
    /// Which part of the full buffer of its source.
    pub part: u32,
    /// The cut of that part, from 0 to 1.
    pub cut: (f64, f64),
    /// By time.
    pub hops: Vec<FlowHop>,
}

/// A piece goes from a rank to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowHop {
    /// When it is sent; it can go on at a later time.
    pub time: u64,
    /// From which rank.
    pub from: u32,
    /// To which.
    pub to: u32,
}

impl Foreign for Flows {
    fn name(&self) -> &str {
        self.name
    }

    fn ranks(&self) -> u32 {
        self.nodes.len() as u32
    }

    fn collective(&self) -> Collective {
        Collective { kind: self.kind, root: 0 }
    }

    /// Checks that nothing is sent before it is there, and that all arrives where it must.
    fn prove(&self, watch: Watch) -> Result<FileProof> {
        let ranks = self.nodes.len();
        let mut there: Vec<Option<u64>> = vec![None; ranks];
        for (at, piece) in self.pieces.iter().enumerate() {
            watch.at(at, self.pieces.len())?;
            there.fill(None);
            there[piece.source as usize] = Some(0);
            for hop in &piece.hops {
                if there[hop.from as usize].is_none_or(|time| time > hop.time) {
                    let (from, to) = (self.nodes[hop.from as usize], self.nodes[hop.to as usize]);
                    let what =
                        format!("{} goes from {from} to {to} at {} before it is at {from}", piece.name, hop.time);
                    return fail(Code::NotProven, what);
                }
                there[hop.to as usize].get_or_insert(hop.time + 1);
            }
            let missing = match self.kind {
                Kind::AllToAll => (there[piece.owner as usize].is_none()).then_some(piece.owner as usize),
                _ => there.iter().position(Option::is_none),
            };
            if let Some(rank) = missing {
                return fail(Code::NotProven, format!("{} never comes to {}", piece.name, self.nodes[rank]));
            }
        }
        Ok(FileProof {
            blocks: 0,
            steps: 0,
            messages: self.pieces.iter().map(|piece| piece.hops.len() as u64).sum(),
            fifo_depth: 0,
            places: vec!["in-place"],
            consumers: vec![],
        })
    }

    fn raise(&self, fabric: &Fabric, bytes: Bytes, placement: &[NodeId], watch: Watch) -> Result<Schedule> {
        self.prove(watch)?;
        let ranks = self.nodes.len();
        check_target(ranks, fabric, bytes, placement)?;
        let align = Align::default();
        let mut builder = Builder::new(self.name, fabric, self.collective(), bytes).watched(watch);
        builder.schedule.placement = placement.to_vec();
        builder.phase("main", false);
        let mut times: Vec<u64> = self.pieces.iter().flat_map(|piece| &piece.hops).map(|hop| hop.time).collect();
        times.sort_unstable();
        times.dedup();
        if self.kind == Kind::AllToAll {
            // Shards that ranks have for themselves.
            for rank in 0..ranks as u32 {
                builder.shard_block(rank, align.shard(bytes, ranks, rank as usize), 0);
            }
        }
        for piece in &self.pieces {
            let (start, length) = align.shard(bytes, self.parts as usize, piece.part as usize);
            let at = |cut: f64| if cut >= 1.0 { length } else { align.down((length as f64 * cut) as Bytes) };
            let (offset, end) = (at(piece.cut.0), at(piece.cut.1));
            let size = end - offset;
            let lane = builder.lane(Lane {
                offset: start + offset,
                bytes: size,
                chunks: 1,
                chunk_bytes: size.max(1),
                stride: 1,
                source: piece.source,
                owner: piece.owner,
            });
            let mut there = vec![false; ranks];
            there[piece.source as usize] = true;
            for hop in &piece.hops {
                // A piece that comes a second time changes nothing.
                if !std::mem::replace(&mut there[hop.to as usize], true) {
                    let step = times.partition_point(|&time| time < hop.time) as u32;
                    builder.send(Op::Copy, hop.from, hop.to, lane..lane + 1, step)?;
                }
            }
        }
        let schedule = builder.finish()?;
        verify_watched(fabric, &schedule, watch)?;
        Ok(schedule)
    }
}
