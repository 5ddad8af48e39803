//! AllReduce by many spanning trees at once: each reduces its part of the data to its root and broadcasts
//! the sum, in pieces, without a barrier. Who finds the trees is another's matter (`combs`, `forest`).

mod choice;
mod table;

pub(super) use table::Table;

use super::Request;
use crate::collective::shard;
use crate::error::{Code, Error, Result};
use crate::fabric::{Fabric, LinkId};
use crate::schedule::{Issue, Lane, Op, Pacing, Schedule};
use crate::units::Picos;
use std::collections::HashMap;

/// What is above a rank: its parent, and the links to it and from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub rank: u32,
    pub up: LinkId,
    pub down: LinkId,
}

/// A spanning tree of all ranks.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// Of every rank but the root.
    pub parents: Vec<Option<Parent>>,
    /// Ranks from the root outwards, nearer ones first.
    pub outwards: Vec<u32>,
}

impl Tree {
    /// Links from the root to every rank.
    fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.parents.len()];
        for &rank in &self.outwards {
            if let Some(parent) = self.parents[rank as usize] {
                depths[rank as usize] = depths[parent.rank as usize] + 1;
            }
        }
        depths
    }
}

/// Plants trees on the links of a fabric; on parallel links in turn, in proportion to their rates.
pub(super) struct Planter<'a> {
    fabric: &'a Fabric,
    /// Links from one rank to another, with their flit times; only looked up.
    between: HashMap<(u32, u32), Vec<(LinkId, Picos)>>,
    /// Trees on every link.
    trees: Vec<u64>,
}

impl<'a> Planter<'a> {
    /// For a fabric on whose links a flit takes so long.
    pub fn new(fabric: &'a Fabric, flit_times: &[Picos]) -> Self {
        let mut between: HashMap<_, Vec<_>> = HashMap::new();
        for (id, (link, &time)) in (0..).zip(fabric.links.iter().zip(flit_times)) {
            let ends = [link.from, link.to].map(|node| fabric.nodes[node as usize].rank);
            if let [Some(from), Some(to)] = ends {
                between.entry((from, to)).or_default().push((id, time));
            }
        }
        Planter { fabric, between, trees: vec![0; fabric.links.len()] }
    }

    /// The tree with these parents.
    ///
    /// # Panics
    /// If the parents are no tree of all ranks, or a rank and its parent are not joined both ways.
    pub fn plant(&mut self, parents: &[Option<u32>]) -> Tree {
        let ranks = self.fabric.ranks();
        let mut children = vec![Vec::new(); ranks];
        let mut outwards = Vec::with_capacity(ranks);
        for (rank, parent) in (0..).zip(parents) {
            match *parent {
                Some(parent) => children[parent as usize].push(rank),
                None => outwards.push(rank),
            }
        }
        let mut at = 0;
        while at < outwards.len() {
            outwards.extend_from_slice(&children[outwards[at] as usize]);
            at += 1;
        }
        assert_eq!((outwards.len(), parents.iter().flatten().count() + 1), (ranks, ranks), "a spanning tree");
        let mut link = |from: u32, to: u32| {
            let trees = &mut self.trees;
            let least = self.between[&(from, to)].iter().min_by_key(|(id, time)| (trees[*id as usize] + 1) * time);
            let id = least.expect("an entry has a link").0;
            trees[id as usize] += 1;
            id
        };
        let parents = (0..).zip(parents).map(|(rank, parent)| {
            parent.map(|parent| Parent { rank: parent, up: link(rank, parent), down: link(parent, rank) })
        });
        Tree { parents: parents.collect(), outwards }
    }
}

/// Most edges of all trees together: some seconds of work.
const MOST_EDGES: u64 = 1 << 20;

/// Most trees worth considering: with more, pieces would be smaller than half the smallest packet.
pub(super) fn most(request: &Request) -> usize {
    let format = &request.system.packet;
    let smallest = if format.fixed_size { format.payload_bytes } else { format.flit_bytes };
    let pieces = request.bytes.div_ceil(smallest) * 2;
    pieces.min(MOST_EDGES / u64::from(request.ranks())).max(1) as usize
}

/// Time of a flit on every link.
pub(super) fn flit_times(request: &Request) -> Vec<Picos> {
    request.fabric.links.iter().map(|link| request.system.flit_time(link)).collect()
}

/// How many of `count` trees to consider: few for little data, all in the long run.
pub(super) fn prefixes(count: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS).map(|exponent| 1 << exponent).take_while(move |&few| few < count).chain([count])
}

/// Options of algorithms that [`stream`].
pub(super) const OPTIONS: &[(&str, &str)] =
    &[("piece", "bytes of one piece of one tree (default: the best by the slots it takes)")];

/// The schedule of the table that is soonest through by the model of `choice`, in the best number of pieces.
pub(super) fn stream(request: &Request, tables: impl IntoIterator<Item = Table>) -> Result<Schedule> {
    let given = request.options.get("piece").map(|_| request.options.bytes("piece", 0)).transpose()?;
    if given.is_some_and(|piece| piece < 4) {
        let what = format!("{}: piece is less than an element; give 4 bytes or more", request.spec);
        return Err(Error::new(Code::BadSpec, what));
    }
    let (Table { trees, steps, period, .. }, rounds) = choice::best(request, tables, given);
    let mut builder = request.builder();
    (builder.schedule.issue, builder.schedule.pacing) = (Issue::Links, Pacing::Pipelined);
    builder.phase("reduce and broadcast", false);
    for (index, (tree, steps)) in trees.iter().zip(&steps).enumerate() {
        let (offset, bytes) = shard(request.bytes, trees.len(), index);
        // All trees have as many pieces, of whole elements.
        let chunk_bytes = piece_bytes(request.bytes, trees.len(), rounds).max(Lane::payload(bytes, rounds));
        let stride = period;
        let lane = builder.lane(Lane { offset, bytes, chunks: rounds, chunk_bytes, stride, source: 0, owner: 0 });
        for (rank, parent) in (0..).zip(&tree.parents) {
            let Some(Parent { rank: parent, up, down }) = *parent else { continue };
            let (reduce, copy) = steps[rank as usize];
            builder.send_via(Op::Reduce, rank, parent, lane, 1, reduce, vec![up])?;
            builder.send_via(Op::Copy, parent, rank, lane, 1, copy, vec![down])?;
        }
    }
    builder.finish()
}

/// Bytes of a piece where every tree sends its part of `bytes` in so many `rounds`.
fn piece_bytes(bytes: u64, trees: usize, rounds: u64) -> u64 {
    bytes.div_ceil(trees as u64).div_ceil(rounds).next_multiple_of(4)
}
