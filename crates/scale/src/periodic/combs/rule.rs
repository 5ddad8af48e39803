//! The combs of an `n` x `n` mesh, and the slots of their messages, as a rule.
//!
//! In words of a *line*, which is a row for combs with teeth along rows, and a column for the others: comb `k` has a tooth in
//! every line, around position `k`, and its spine goes through position `k` of all lines to the middle one. Seen from a line
//! `a`, its links carry the teeth of `n` combs, classes `0..n`, and the spine of the comb `a` of the other kind, class `n`.
//! Both kinds are the same rule with rows and columns exchanged.
//!
//! A *side* is a direction along a line: 0 from position 0 on, 1 from the other end. On either side positions and classes count from where
//! it begins, and class `k` has the link from position `p` on in slots that are `base(k) + p` modulo the period, `n + 1`. So what
//! goes along a line goes on in every slot, and meets others only where a tooth meets its spine.

use super::super::proof::DescribedTrees;
use antiphon_base::units::Bytes;
use antiphon_model::collective::Align;
use antiphon_model::schedule::Op;

/// See the module.
pub(super) struct CombRule {
    /// Side of the mesh.
    pub n: usize,
    /// The middle line, and the position of the root on a spine.
    pub middle: usize,
    /// Data to be summed.
    pub bytes: Bytes,
    /// By side, position and line: the slot of a spine's first message over the link from this position on.
    pub spine: [Vec<u32>; 2],
    /// By side, line and class: the slot of the first copy that goes from the middle of a tooth on.
    pub tooth: [Vec<u32>; 2],
    /// By line: the slot from which the root of the spine along it has its first sum.
    pub sum: Vec<u32>,
    /// Slots of the first chunk.
    pub last: u32,
}

impl CombRule {
    /// Of the mesh with this side, at least 2. O(n^2).
    pub fn new(n: usize, bytes: Bytes) -> CombRule {
        let table = || [0, 1].map(|_| vec![0; n * n]);
        let (spine, tooth) = (table(), table());
        let mut combs = CombRule { n, middle: n / 2, bytes, spine, tooth, sum: vec![0; n], last: 0 };
        for line in 0..n {
            for side in [0, 1] {
                for p in 0..combs.mirrored(side, combs.middle) {
                    let before = p.checked_sub(1).map(|before| combs.spine[side][before * n + line] + 1);
                    let teeth = combs.tooth_has(line);
                    combs.spine[side][p * n + line] = combs.from(side, n, p, before.max(teeth).unwrap_or(0));
                }
            }
            combs.sum[line] = combs.root_has(line);
            for side in [0, 1] {
                let mut ready = combs.sum[line];
                for p in combs.mirrored(side, combs.middle)..n - 1 {
                    let slot = combs.from(side, n, p, ready);
                    combs.spine[side][p * n + line] = slot;
                    ready = slot + 1;
                }
                combs.last = combs.last.max(ready);
            }
        }
        for (line, class, side) in (0..n).flat_map(|a| (0..n).flat_map(move |k| [(a, k, 0), (a, k, 1)])) {
            let at = combs.mirrored(side, class);
            if at + 1 < n {
                let ready = match combs.spine_into(line) {
                    Some((side, p)) => combs.spine[side][p * n + class] + 1,
                    None => combs.sum[class],
                };
                let slot = combs.from(side, at, at, ready);
                combs.tooth[side][line * n + at] = slot;
                combs.last = combs.last.max(slot + (n - 1 - at) as u32);
            }
        }
        combs
    }

    /// Slots from a chunk to the next one.
    pub fn period(&self) -> usize {
        self.n + 1
    }

    /// A position, or the class of a tooth, as counted on a side; and back.
    pub fn mirrored(&self, side: usize, at: usize) -> usize {
        if side == 0 { at } else { self.n - 1 - at }
    }

    /// The slot in which the link from the first position of a side on serves a class, modulo the period.
    pub fn base(&self, side: usize, class: usize) -> usize {
        (2 * self.n - class + if side == 1 { 1 - self.n % 2 } else { 0 }) % self.period()
    }

    /// The side and the position from which the spine comes to a position beside the middle.
    pub fn spine_into(&self, at: usize) -> Option<(usize, usize)> {
        match at.cmp(&self.middle) {
            std::cmp::Ordering::Less => Some((1, self.n - 2 - at)),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some((0, at - 1)),
        }
    }

    /// The first slot from `ready` on of a class on the link from a position on.
    fn from(&self, side: usize, class: usize, p: usize, ready: u32) -> u32 {
        let (period, ready) = (self.period(), ready as usize);
        let slot = (self.base(side, class) + p) % period;
        (ready + (slot + period - ready % period) % period) as u32
    }

    /// From which slot on the middle of a tooth has what comes along its line, whichever that is.
    fn tooth_has(&self, class: usize) -> Option<u32> {
        let ends = [0, 1].map(|side| (side, self.mirrored(side, class)));
        ends.into_iter().filter(|end| end.1 > 0).map(|(side, at)| (self.base(side, at) + at) as u32).max()
    }

    /// From which slot on the root of the spine along a line has all.
    fn root_has(&self, line: usize) -> u32 {
        let n = self.n;
        let ends = [0, 1].map(|side| (side, self.mirrored(side, self.middle)));
        let spine = ends.into_iter().filter(|end| end.1 > 0);
        let spine = spine.map(|(side, at)| self.spine[side][(at - 1) * n + line] + 1).max();
        spine.max(self.tooth_has(line)).unwrap_or(0)
    }

    /// Line, position and class of a node in a tree: trees with teeth along rows and columns come in turn, and of each the
    /// middle ones first.
    fn seen(&self, tree: u32, node: u32) -> (usize, usize, usize) {
        let (row, column) = (node as usize / self.n, node as usize % self.n);
        let (place, middle) = (tree as usize / 2, self.n / 2);
        let away = place.div_ceil(2);
        let class = if place % 2 == 1 { middle - away } else { middle + away };
        if tree.is_multiple_of(2) { (row, column, class) } else { (column, row, class) }
    }
}

impl DescribedTrees for CombRule {
    fn trees(&self) -> u32 {
        2 * self.n as u32
    }

    fn period(&self) -> u32 {
        self.n as u32 + 1
    }

    fn lane(&self, tree: u32) -> (Bytes, Bytes) {
        Align::default().shard(self.bytes, 2 * self.n, tree as usize)
    }

    fn parent(&self, tree: u32, node: u32) -> Option<u32> {
        let (line, p, class) = self.seen(tree, node);
        let towards = |at: usize, to: usize| if at < to { at + 1 } else { at - 1 };
        let (line, p) = match (p == class, line == self.middle) {
            (false, _) => (line, towards(p, class)),
            (true, false) => (towards(line, self.middle), p),
            (true, true) => return None,
        };
        let (row, column) = if tree.is_multiple_of(2) { (line, p) } else { (p, line) };
        Some((row * self.n + column) as u32)
    }

    fn slot(&self, tree: u32, node: u32, op: Op) -> u32 {
        let ((line, p, class), n) = (self.seen(tree, node), self.n);
        match (p == class, op) {
            (false, Op::Reduce) => {
                let side = usize::from(p > class);
                (self.base(side, self.mirrored(side, class)) + self.mirrored(side, p)) as u32
            }
            (false, Op::Copy) => {
                let side = usize::from(p < class);
                let (at, middle) = (self.mirrored(side, p), self.mirrored(side, class));
                self.tooth[side][line * n + middle] + (at - 1 - middle) as u32
            }
            (true, Op::Reduce) => {
                let side = usize::from(line > self.middle);
                self.spine[side][self.mirrored(side, line) * n + class]
            }
            (true, Op::Copy) => {
                let (side, p) = self.spine_into(line).unwrap_or_default();
                self.spine[side][p * n + class]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Grid, proof::prove};
    use super::*;
    use antiphon_base::watch::Watch;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;
    use std::collections::HashMap;

    fn proof(n: usize, trees: &impl DescribedTrees, bytes: Bytes) -> Result<String, String> {
        let grid = Grid::parse(&format!("mesh:{n}x{n}")).unwrap();
        prove(&grid, trees, bytes, Watch::default()).map_err(|error| error.message)
    }

    #[test]
    fn combs_are_proven() {
        for n in (2..=40).chain([64, 101]) {
            let bytes = 8 * n as u64 + 1;
            let combs = CombRule::new(n, bytes);
            let said = proof(n, &combs, bytes).unwrap();
            assert!(said.starts_with(&format!("{} spanning trees of {} ranks", 2 * n, n * n)), "{said}");
            assert!(n == 2 || combs.last as usize == 2 * (n + n / 2), "{n}: {}", combs.last);
        }
    }

    /// Every message of the listed schedule is one of the rule, in the same slot.
    #[test]
    fn the_listed_schedule_has_the_same_messages() {
        for n in 2..=9u32 {
            let (fabric, system) = (Fabric::parse(&format!("mesh:{n}x{n}")).unwrap(), System::preset("ideal").unwrap());
            let collective = Collective::new(Kind::AllReduce);
            let schedule = antiphon_plan::algorithm::build(&fabric, &system, collective, 64 << 20, "combs").unwrap();
            let combs = CombRule::new(n as usize, 64 << 20);
            let lanes: Vec<_> = (0..combs.trees()).map(|tree| combs.lane(tree)).collect();
            assert_eq!(schedule.lanes.iter().map(|lane| (lane.offset, lane.bytes)).collect::<Vec<_>>(), lanes);
            assert!(schedule.lanes.iter().all(|lane| lane.stride == combs.period() as u32));
            let message =
                |of: &antiphon_model::schedule::Transfer| ((of.payload.first(), of.from, of.to), (of.op, of.step));
            let listed: HashMap<_, _> = schedule.transfers.iter().map(message).collect();
            assert_eq!(listed.len() as u32, combs.trees() * (n * n - 1) * 2);
            for (tree, node) in (0..combs.trees()).flat_map(|tree| (0..n * n).map(move |node| (tree, node))) {
                let Some(parent) = combs.parent(tree, node) else { continue };
                let [up, down] = [Op::Reduce, Op::Copy].map(|op| (op, combs.slot(tree, node, op)));
                assert_eq!(
                    (listed[&(tree, node, parent)], listed[&(tree, parent, node)]),
                    (up, down),
                    "{n} {tree} {node}"
                );
            }
        }
    }

    /// Combs of which one thing is another.
    struct Changed {
        combs: CombRule,
        parent: Option<(u32, u32, Option<u32>)>,
        slot: Option<(u32, u32, Op, u32)>,
        lane: Option<(u32, (Bytes, Bytes))>,
    }

    impl DescribedTrees for Changed {
        fn trees(&self) -> u32 {
            self.combs.trees()
        }
        fn period(&self) -> u32 {
            DescribedTrees::period(&self.combs)
        }
        fn lane(&self, tree: u32) -> (Bytes, Bytes) {
            self.lane.filter(|one| one.0 == tree).map_or_else(|| self.combs.lane(tree), |one| one.1)
        }
        fn parent(&self, tree: u32, node: u32) -> Option<u32> {
            let one = self.parent.filter(|one| (one.0, one.1) == (tree, node));
            one.map_or_else(|| self.combs.parent(tree, node), |one| one.2)
        }
        fn slot(&self, tree: u32, node: u32, op: Op) -> u32 {
            let one = self.slot.filter(|one| (one.0, one.1, one.2) == (tree, node, op));
            one.map_or_else(|| self.combs.slot(tree, node, op), |one| one.3)
        }
    }

    #[test]
    fn what_is_wrong_is_not_proven() {
        let changed = || Changed { combs: CombRule::new(6, 12_000), parent: None, slot: None, lane: None };
        let refused = |changed: Changed, what: &str| {
            let said = proof(6, &changed, 12_000).unwrap_err();
            assert!(said.contains(what), "{said}");
        };
        assert!(proof(6, &changed(), 12_000).is_ok());
        // Tree 0 has teeth along rows around column 3, and its root in row 3.
        refused(Changed { parent: Some((0, 0, Some(7))), ..changed() }, "no link joins node 0 and its parent 7");
        refused(Changed { parent: Some((0, 1, Some(0))), ..changed() }, "node 0 does not reach the root 21");
        refused(Changed { parent: Some((0, 0, None)), ..changed() }, "not one root");
        refused(Changed { lane: Some((1, (992, 1008))), ..changed() }, "begins at byte 992");
        refused(Changed { lane: Some((11, (11_000, 996))), ..changed() }, "end at byte 11996 of 12000");
        refused(Changed { lane: Some((0, (0, 0))), ..changed() }, "with 0 bytes");
        let combs = CombRule::new(6, 12_000);
        let slot = |node, op| combs.slot(0, node, op);
        // A later period: the link is free, but what waits for it goes before.
        refused(Changed { slot: Some((0, 0, Op::Reduce, slot(0, Op::Reduce) + 7)), ..changed() }, "do not fit");
        refused(Changed { slot: Some((0, 20, Op::Reduce, slot(20, Op::Reduce) + 28)), ..changed() }, "the root sends");
        // Nothing waits for this copy.
        refused(Changed { slot: Some((0, 0, Op::Copy, slot(0, Op::Copy) + 1)), ..changed() }, "two messages in slot");
    }
}
