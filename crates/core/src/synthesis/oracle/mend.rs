//! Trees that are only in part there, made whole: what is left costs nothing, and the other ranks are reached by the cheapest
//! ways (R. C. Prim, "Shortest connection networks and some generalizations", 1957).

use super::closure::{Closure, Open};
use crate::synthesis::plan::Plan;
use std::collections::BinaryHeap;

/// Makes trees whole, on ways that are the same for all.
pub struct Mender<'a> {
    closure: &'a Closure,
    /// The way back of every way that a tree may take; `None` if trees go one way.
    back: Option<&'a [Option<u32>]>,
    /// Ways out of every rank.
    out: Vec<Vec<u32>>,
}

/// Branches of what is left count below, ways above it.
const WAYS: u32 = 1 << 31;

impl<'a> Mender<'a> {
    /// On these ways between so many ranks; if trees go both ways, with the way back of each.
    pub fn new(ranks: usize, closure: &'a Closure, back: Option<&'a [Option<u32>]>) -> Self {
        let mut out = vec![Vec::new(); ranks];
        for (id, way) in (0..).zip(&closure.ways) {
            if back.is_none_or(|back| back[id as usize].is_some()) {
                out[way.from as usize].push(id);
            }
        }
        Mender { closure, back, out }
    }

    /// The tree from a root that keeps as many of these branches as lead anywhere. O((branches + ways) log ways).
    ///
    /// # Panics
    /// If some rank cannot be reached.
    pub fn whole(&self, root: u32, left: &Plan) -> Plan {
        let ranks = self.out.len();
        let mut below = vec![Vec::new(); ranks];
        (0..).zip(&left.branches).for_each(|(branch, &(above, _))| below[above as usize].push(branch));
        let mut entered: Vec<Option<u32>> = vec![None; ranks];
        let mut is_reached = vec![false; ranks];
        let mut order = vec![];
        let mut open = BinaryHeap::new();
        let mut next = Some((root, None));
        while let Some((rank, by)) = next.take() {
            if !std::mem::replace(&mut is_reached[rank as usize], true) {
                entered[rank as usize] = by;
                order.push(rank);
                open.extend(below[rank as usize].iter().map(|&branch| Open(f64::NEG_INFINITY, branch)));
                let ways = self.out[rank as usize].iter();
                open.extend(ways.map(|&way| Open(self.closure.ways[way as usize].cost, WAYS + way)));
            }
            next = open.pop().map(|Open(_, by)| {
                let to = match by.checked_sub(WAYS) {
                    Some(way) => self.closure.ways[way as usize].to,
                    None => left.branches[by as usize].1,
                };
                (to, Some(by))
            });
        }
        assert_eq!(order.len(), ranks, "every rank can be reached");
        let mut plan = Plan::default();
        for by in order.into_iter().filter_map(|rank| entered[rank as usize]) {
            let Some(way) = by.checked_sub(WAYS) else {
                let ((above, below), [up, down]) = (left.branches[by as usize], left.ways(by as usize));
                plan.branch(above, below, up.iter().copied(), down.iter().copied());
                continue;
            };
            let ends = self.closure.ways[way as usize];
            let up = self.back.and_then(|back| back[way as usize]).map_or(&[][..], |back| self.closure.arcs(back));
            plan.branch(ends.from, ends.to, up.iter().copied(), self.closure.arcs(way).iter().copied());
        }
        plan
    }
}
