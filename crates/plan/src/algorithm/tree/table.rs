//! Slots for the messages of trees on all links.

use super::{OPS, Tree, TreeWork, colour};
use antiphon_base::error::Result;
use antiphon_base::units::{Bytes, Picos};
use antiphon_base::watch::interruptible;
use antiphon_model::collective::{Align, Data, Kind};
use antiphon_model::fabric::{Fabric, LinkId};
use antiphon_model::schedule::{Builder, Lane, Op};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Slots by tree and edge: of the message up, and of that down.
pub(in crate::algorithm) type Slots = Vec<Vec<[u32; 2]>>;

/// Trees, and the slots of the messages of a round: one chunk of every tree.
#[derive(Debug, Clone)]
pub(in crate::algorithm) struct Table<'a> {
    /// The trees.
    pub trees: &'a [Tree],
    /// The slots of the first round. No link has two messages in one slot of any round.
    pub slots: Slots,
    /// Slots of a round.
    pub period: u32,
    /// Slots that a message takes on every link.
    pub widths: Vec<u32>,
    /// The trees' parts of the data, beside each other.
    pub sizes: Vec<u32>,
    /// What the trees do.
    pub work: TreeWork,
    /// Whether parallel links carry messages together.
    pub together: bool,
}

/// A message of a round.
#[derive(Debug, Clone, Copy)]
pub(in crate::algorithm) struct Message<'a> {
    /// Index of its tree.
    pub tree: usize,
    /// The edge, and whether up or down.
    pub edge: u32,
    pub op: Op,
    /// Sender and receiver.
    pub from: u32,
    pub to: u32,
    /// Links from the one to the other; none where they are still to be found.
    pub route: &'a [LinkId],
    /// Its slot in the first round.
    pub slot: u32,
}

impl<'a> Message<'a> {
    fn new(index: usize, tree: &'a Tree, edge: u32, op: Op) -> Self {
        let (from, to) = tree.ends(edge, op);
        Message { tree: index, edge, op, from, to, route: tree.route(edge, op), slot: 0 }
    }
}

/// Which of the messages that may be sent gets its slot first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::algorithm) enum Priority {
    /// The one with the longest way ahead; of these the one that can start first.
    Farthest,
    /// The one that can start first; of these the one with the longest way ahead.
    Earliest,
}

/// Most slots of a message on a link; slower links than that are taken for faster.
const MOST_SLOTS: u128 = 1 << 8;

/// Slots that a message takes on links of these flit times: one on the fastest, if all others take whole ones,
/// else eight.
pub(in crate::algorithm) fn widths(flit_times: &[Picos]) -> Vec<u32> {
    let fastest = flit_times.iter().copied().min().unwrap_or(1).max(1);
    let parts = if flit_times.iter().all(|time| time % fastest == 0) { 1 } else { 8 };
    flit_times.iter().map(|&time| (u128::from(time) * parts).div_ceil(fastest.into()).min(MOST_SLOTS) as u32).collect()
}

impl<'a> Table<'a> {
    /// Trees with given slots on a fabric whose links are all alike.
    pub fn new(fabric: &Fabric, trees: &'a [Tree], slots: Slots, period: u32, work: TreeWork) -> Self {
        Table {
            trees,
            slots,
            period,
            widths: vec![1; fabric.links.len()],
            sizes: vec![1; trees.len()],
            work,
            together: false,
        }
    }

    /// Overlapped trees on a fabric whose links are all alike, where the message up or down an edge of a tree goes out as
    /// soon as it can in a slot with the given residue modulo the period. O(messages * log messages).
    pub fn at_residues(
        fabric: &Fabric,
        trees: &'a [Tree],
        period: u32,
        residue: impl Fn(usize, u32, Op) -> u32,
    ) -> Self {
        let table = Table::new(fabric, trees, unfilled(trees), period, TreeWork::Overlapped);
        Table { slots: table.list_residues(residue), ..table }
    }

    /// Trees by a list schedule: with the shortest period where there is room, every message in its turn takes the first
    /// slot that is free on all links of its route.
    ///
    /// The shortest is what the busiest link needs if routes have one link. Where they have two, as over a switch, and
    /// the list schedule fails, [`colour`] may find the slots.
    /// O(periods tried * messages * (log messages + slots of a period)).
    pub fn listed(trees: &'a [Tree], widths: Vec<u32>, priority: Priority, work: TreeWork) -> Self {
        let sizes = vec![1; trees.len()];
        let mut table = Table { trees, slots: unfilled(trees), period: 1, widths, sizes, work, together: false };
        table.period = table.busy().into_iter().flatten().max().unwrap_or(0).max(1);
        loop {
            let coloured = || {
                let residues = colour::residues(&table)?;
                Some(table.list_residues(|tree, edge, op| residues[tree][edge as usize][op as usize]))
            };
            let mut places = Places::new(&table);
            let take = |message: &Message| places.take(message).map(|slot| (slot, slot + table.width(message.route)));
            if let Some(slots) = table.list(priority, take).or_else(coloured) {
                return Table { slots, ..table };
            }
            table.period += 1;
        }
    }

    /// Slots taken on every link in a round, by phase.
    fn busy(&self) -> Vec<[u32; 2]> {
        let mut busy = vec![[0u32; 2]; self.widths.len()];
        for message in self.messages(self.work.ops()) {
            let phase = self.phase(message.op);
            message.route.iter().for_each(|&link| busy[link as usize][phase] += self.widths[link as usize]);
        }
        busy
    }

    /// Messages of a round, by tree and edge, of one edge in the order of `ops`.
    pub fn messages(&self, ops: &[Op]) -> impl Iterator<Item = Message<'a>> {
        let messages = self.trees.iter().zip(&self.slots).enumerate().flat_map(move |(index, (tree, slots))| {
            (0..).zip(slots).flat_map(move |(edge, slots)| {
                ops.iter().map(move |&op| Message { slot: slots[op as usize], ..Message::new(index, tree, edge, op) })
            })
        });
        interruptible(messages)
    }

    /// Slots from the start to the arrival of the first round's last message, over all phases.
    pub fn last(&self) -> u32 {
        let mut last = [0, 0];
        for message in self.messages(self.work.ops()) {
            let last = &mut last[self.phase(message.op)];
            *last = (message.slot + self.width(message.route)).max(*last);
        }
        last[0] + last[1]
    }

    /// Bytes of a tree's piece where every tree sends its part of what all trees move, in so many `rounds`.
    pub fn piece(&self, tree: usize, data: (Bytes, Align), rounds: u64) -> Bytes {
        Self::piece_of(self.sizes[tree], self.all(), data, rounds)
    }

    /// [`Table::piece`] of every tree.
    pub fn pieces(&self, data: (Bytes, Align), rounds: u64) -> Vec<Bytes> {
        let all = self.all();
        self.sizes.iter().map(|&size| Self::piece_of(size, all, data, rounds)).collect()
    }

    /// Sizes of all trees.
    fn all(&self) -> u64 {
        self.sizes.iter().map(|&size| u64::from(size)).sum()
    }

    fn piece_of(size: u32, all: u64, (bytes, align): (Bytes, Align), rounds: u64) -> Bytes {
        let part = (u128::from(bytes) * u128::from(size)).div_ceil(all.into()) as Bytes;
        align.payload(part, rounds)
    }

    /// Adds a lane to an empty schedule for every tree: its part of the data, in so many chunks of at least `chunk(tree)`
    /// bytes.
    pub fn lanes(&self, builder: &mut Builder, chunk: impl Fn(usize) -> Bytes, chunks: u64) {
        let parts = self.parts(builder.schedule.collective.kind, &builder.schedule.data());
        for (tree, ((offset, bytes), [source, owner])) in parts.into_iter().enumerate() {
            let chunk_bytes = chunk(tree).max(builder.schedule.align.payload(bytes, chunks));
            builder.lane(Lane { offset, bytes, chunks, chunk_bytes, stride: self.period, source, owner });
        }
    }

    /// The part of the data that every tree moves, and the ranks that have it before and after: trees with one root share
    /// the shard of that rank where ranks have shards, paths with the same ends what the one has for the other, all trees
    /// the whole buffer elsewhere.
    fn parts(&self, kind: Kind, data: &Data) -> Vec<((Bytes, Bytes), [u32; 2])> {
        let ranks = self.trees[0].nodes.len();
        let ends = |tree: &Tree| ends(kind, tree);
        let sized = || self.trees.iter().zip(&self.sizes);
        let mut all: HashMap<[u32; 2], usize> = HashMap::new();
        sized().for_each(|(tree, &size)| *all.entry(ends(tree)).or_default() += size as usize);
        let mut before: HashMap<[u32; 2], usize> = HashMap::new();
        let part = |(tree, &size): (&Tree, &u32)| {
            let ends = ends(tree);
            let (start, length) = match kind {
                Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => {
                    data.part(ranks, ends[0] as usize, ends[1] as usize)
                }
                _ => (0, data.bytes),
            };
            let (before, all) = (before.entry(ends).or_default(), all[&ends]);
            // From the first of so many equal parts to the last.
            let end = |count: usize| if count == all { length } else { data.align.shard(length, all, count).0 };
            let first = *before;
            *before += size as usize;
            ((start + end(first), end(*before) - end(first)), ends)
        };
        sized().map(part).collect()
    }

    /// Adds the messages of these operations, in the order of [`Table::messages`].
    ///
    /// # Errors
    /// As [`Builder::send`].
    pub fn send(&self, builder: &mut Builder, ops: &[Op]) -> Result<()> {
        for Message { tree, op, from, to, route, slot, .. } in self.messages(ops) {
            match route {
                [] => builder.send(op, from, to, tree as u32, slot)?,
                route if self.together => builder.send_over(op, from, to, tree as u32, slot, route)?,
                route => builder.send_via(op, from, to, tree as u32, slot, route)?,
            };
        }
        Ok(())
    }

    /// The phase of an operation.
    pub(super) fn phase(&self, op: Op) -> usize {
        usize::from(self.work == TreeWork::Phases && op == Op::Copy)
    }

    /// Slots of a message on a route.
    fn width(&self, route: &[LinkId]) -> u32 {
        route.iter().map(|&link| self.widths[link as usize]).max().unwrap_or(1)
    }

    /// The slots where every message goes out as soon as it can in one with its residue.
    fn list_residues(&self, residue: impl Fn(usize, u32, Op) -> u32) -> Slots {
        let next = |message: &Message| {
            let Message { tree, edge, op, slot, .. } = message;
            let slot = slot + (residue(*tree, *edge, *op) + self.period - slot % self.period) % self.period;
            Some((slot, slot + self.width(message.route)))
        };
        self.list(Priority::Earliest, next).expect("every message has a slot")
    }

    /// A list schedule: every message in its turn gets the slot that `take` finds from its own on, the first in which it
    /// can be sent, and arrives when it says. `None` if it finds none for some message.
    pub(super) fn list(
        &self,
        priority: Priority,
        mut take: impl FnMut(&Message) -> Option<(u32, u32)>,
    ) -> Option<Slots> {
        let mut slots = unfilled(self.trees);
        // When a rank has everything of its children, then when it has the sum; children still to come.
        let missing = |tree: &Tree| (0..tree.nodes.len() as u32).map(|rank| (0, tree.children(rank).len())).collect();
        let mut ready: Vec<Vec<(u32, usize)>> = self.trees.iter().map(missing).collect();
        let waits = |index: usize, edge: u32, op: Op, earliest: u32| {
            let ahead = self.trees[index].ahead(edge, op, self.work);
            let first = match priority {
                Priority::Farthest => (ahead, !earliest),
                Priority::Earliest => (!earliest, ahead),
            };
            (first, Reverse((index, edge)), op == Op::Reduce)
        };
        let mut waiting = BinaryHeap::new();
        for (index, tree) in self.trees.iter().enumerate() {
            if self.work == TreeWork::Broadcast {
                waiting
                    .extend(tree.of(Op::Copy).children(tree.root).iter().map(|&edge| waits(index, edge, Op::Copy, 0)));
                continue;
            }
            let leaves = (0..).zip(&tree.edges).filter(|(_, (child, _))| tree.children(*child).is_empty());
            waiting.extend(leaves.map(|(edge, _)| waits(index, edge, Op::Reduce, 0)));
        }
        while let Some((_, Reverse((index, edge)), up)) = waiting.pop() {
            let (tree, op) = (&self.trees[index], OPS[usize::from(!up)]);
            let mut message = Message::new(index, tree, edge, op);
            message.slot = ready[index][message.from as usize].0;
            let (slot, arrives) = take(&message)?;
            slots[index][edge as usize][op as usize] = slot;
            let (at, missing) = &mut ready[index][message.to as usize];
            if up {
                (*at, *missing) = (arrives.max(*at), *missing - 1);
                match tree.nodes[message.to as usize].above {
                    _ if *missing > 0 => continue,
                    Some(above) => {
                        waiting.push(waits(index, above, Op::Reduce, *at));
                        continue;
                    }
                    None if self.work == TreeWork::Overlapped => {}
                    None if self.work == TreeWork::Reduce => continue,
                    None => *at = 0,
                }
            } else {
                *at = arrives;
            }
            // It has the whole sum: to its children.
            let below = tree.of(Op::Copy).children(message.to);
            waiting.extend(below.iter().map(|&edge| waits(index, edge, Op::Copy, *at)));
        }
        Some(slots)
    }
}

/// The ranks that have a tree's part of the data before and after; of trees with the same ends the parts are beside each other.
pub(super) fn ends(kind: Kind, tree: &Tree) -> [u32; 2] {
    match kind {
        Kind::AllGather | Kind::ReduceScatter => [tree.root; 2],
        Kind::AllToAll => [tree.root, tree.farthest()],
        _ => [0, 0],
    }
}

pub(super) fn unfilled(trees: &[Tree]) -> Slots {
    trees.iter().map(|tree| vec![[0; 2]; tree.edges.len()]).collect()
}

/// The slots of a period on all links, by phase.
struct Places<'a> {
    table: &'a Table<'a>,
    taken: Vec<bool>,
}

impl<'a> Places<'a> {
    fn new(table: &'a Table) -> Self {
        let phases = table.phase(Op::Copy) + 1;
        Places { table, taken: vec![false; phases * table.widths.len() * table.period as usize] }
    }

    /// The first multiple of its width, from its slot on in any period, where all links of a message are free; no longer
    /// are. On a single link there is always one, as the places of all messages are next to each other.
    fn take(&mut self, message: &Message) -> Option<u32> {
        let Table { period, ref widths, .. } = *self.table;
        let (width, phase) = (self.table.width(message.route), self.table.phase(message.op));
        let at = |link: LinkId, slot: u32| {
            let first = (phase * widths.len() + link as usize) * period as usize + slot as usize;
            first..first + widths[link as usize] as usize
        };
        let first = message.slot / period;
        let (mut round, mut slot) = (first, (message.slot % period).next_multiple_of(width));
        while round <= first + 1 {
            if slot + width > period {
                (round, slot) = (round + 1, 0);
            } else if message.route.iter().any(|&link| self.taken[at(link, slot)].contains(&true)) {
                slot += width;
            } else {
                message.route.iter().for_each(|&link| self.taken[at(link, slot)].fill(true));
                return Some(round * period + slot);
            }
        }
        None
    }
}

#[cfg(test)]
impl Table<'_> {
    /// Asserts that no link has two messages at a time and that every message is sent when it has come.
    pub fn assert_free(&self) {
        let mut taken = std::collections::HashSet::new();
        for message in self.messages(self.work.ops()) {
            for &link in message.route {
                for slot in message.slot..message.slot + self.widths[link as usize] {
                    let place = (self.phase(message.op), link, slot % self.period);
                    assert!(taken.insert(place), "link {link}, slot {slot}");
                }
            }
        }
        for (tree, slots) in self.trees.iter().zip(&self.slots) {
            for edge in 0..slots.len() as u32 {
                let [up, down] = OPS.map(|op| slots[edge as usize][op as usize] + self.width(tree.route(edge, op)));
                let sends = |rank: u32, arrives: u32| {
                    let below = tree.of(Op::Copy).children(rank);
                    below.iter().all(|&next| arrives <= slots[next as usize][Op::Copy as usize])
                };
                let copies = self.work != TreeWork::Reduce;
                assert!(!copies || sends(tree.ends(edge, Op::Copy).1, down), "broadcast");
                let parent = tree.ends(edge, Op::Reduce).1;
                match tree.nodes[parent as usize].above {
                    Some(next) => assert!(
                        up <= slots[next as usize][Op::Reduce as usize] || self.work == TreeWork::Broadcast,
                        "reduction"
                    ),
                    None => {
                        assert!(self.work != TreeWork::Overlapped || sends(parent, up), "broadcast starts with the sum")
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parent of the next edge, and its links up and down.
    type Edge = (u32, Vec<LinkId>, Vec<LinkId>);

    /// Trees, or pairs of them, with routes of up to three links out of twelve.
    fn trees() -> impl Strategy<Value = Vec<Tree>> {
        let route = || prop::sample::subsequence((0..12).collect::<Vec<LinkId>>(), 1..=3);
        let edges = prop::collection::vec((any::<u32>(), route(), route()), 1..10);
        let two = (edges, any::<bool>(), any::<bool>(), any::<prop::sample::Index>());
        prop::collection::vec(two, 1..4).prop_map(|trees| {
            let tree = |edges: Vec<Edge>, backwards: bool| {
                let mut edges: Vec<_> =
                    (1..).zip(edges).map(|(child, (parent, up, down))| (child, parent % child, [up, down])).collect();
                if backwards {
                    edges.reverse();
                }
                Tree::new(10, edges)
            };
            let lane = |(edges, backwards, two, turn): (Vec<Edge>, bool, bool, prop::sample::Index)| {
                // Another tree of the same ranks: with the same parents in another order.
                let mut others = edges.clone();
                others.rotate_left(turn.index(edges.len()));
                let up = tree(edges, backwards);
                if two { Tree::pair(up, tree(others, !backwards)) } else { up }
            };
            trees.into_iter().map(lane).collect()
        })
    }

    proptest! {
        /// On any links, with places of any width.
        #[test]
        fn a_list_schedule_is_free(
            trees in trees(),
            widths in prop::collection::vec(1u32..5, 12),
            priority in prop::sample::select(vec![Priority::Farthest, Priority::Earliest]),
            work in prop::sample::select(vec![TreeWork::Phases, TreeWork::Overlapped, TreeWork::Reduce, TreeWork::Broadcast]),
            alike in any::<bool>(),
        ) {
            let widths = if alike { vec![1; 12] } else { widths };
            let table = Table::listed(&trees, widths, priority, work);
            table.assert_free();
            let least = |tree: &Tree| work.ops().iter().map(|&op| tree.of(op).height()).sum::<u32>();
            prop_assert!(table.last() >= trees.iter().map(least).max().unwrap());
        }

        /// Nothing of a buffer is left out or twice, however uneven the trees' parts.
        #[test]
        fn parts_are_the_whole(
            trees in trees(),
            sizes in prop::collection::vec(1u32..70_000, 4),
            bytes in prop_oneof![1u64..50, 1u64..1 << 40],
            rounds in 1u64..50,
            power in 2u32..13,
        ) {
            let align = Align::new(1 << power).unwrap();
            let data = Data { align, ..bytes.into() };
            let sizes = sizes[..trees.len()].to_vec();
            let widths = vec![1; 12];
            let table = Table { sizes, ..Table::listed(&trees, widths, Priority::Farthest, TreeWork::Broadcast) };
            for kind in [Kind::AllReduce, Kind::Broadcast, Kind::AllGather, Kind::ReduceScatter] {
                let rooted = matches!(kind, Kind::AllGather | Kind::ReduceScatter);
                let (mut end, all) = if rooted { align.shard(bytes, 10, trees[0].root as usize) } else { (0, bytes) };
                let last = end + all;
                for (tree, ((start, length), ends)) in table.parts(kind, &data).into_iter().enumerate() {
                    prop_assert_eq!((start, ends), (end, if rooted { [trees[tree].root; 2] } else { [0, 0] }));
                    prop_assert!(rooted || table.piece(tree, (bytes, align), rounds) * rounds + align.bytes() >= length);
                    prop_assert!(start.is_multiple_of(align.bytes()) || length == 0 || end == last);
                    end += length;
                }
                prop_assert_eq!(end, last);
            }
        }
    }
}
