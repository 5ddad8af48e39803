//! A plan: how one root's data go over the arcs.

use super::symmetry::Permutation;

/// Branches between ranks, each with arcs up, towards the root, and down; or one tree of branches up and another down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The upper and the lower rank of every branch.
    pub branches: Vec<(u32, u32)>,
    /// Branch `b` is up on `arcs[ends[2 b]..ends[2 b + 1]]`, and down on `arcs[ends[2 b + 1]..ends[2 b + 2]]`.
    arcs: Vec<u32>,
    ends: Vec<u32>,
}

impl Plan {
    /// No branches, with room for some and their arcs.
    pub fn with_capacity(branches: usize, arcs: usize) -> Plan {
        let ends = Vec::with_capacity(2 * branches + 1);
        Plan { branches: Vec::with_capacity(branches), arcs: Vec::with_capacity(arcs), ends }
    }

    /// Adds a branch.
    #[inline]
    pub fn branch(
        &mut self,
        above: u32,
        below: u32,
        up: impl IntoIterator<Item = u32>,
        down: impl IntoIterator<Item = u32>,
    ) {
        if self.ends.is_empty() {
            self.ends.push(0);
        }
        self.branches.push((above, below));
        self.arcs.extend(up);
        self.ends.push(self.arcs.len() as u32);
        self.arcs.extend(down);
        self.ends.push(self.arcs.len() as u32);
    }

    /// With the branches of another plan.
    pub fn and(mut self, other: &Plan) -> Plan {
        (0..other.branches.len()).for_each(|at| self.copy(other, at));
        self
    }

    /// Adds a branch of another plan.
    fn copy(&mut self, other: &Plan, branch: usize) {
        let ((above, below), [up, down]) = (other.branches[branch], other.ways(branch));
        self.branch(above, below, up.iter().copied(), down.iter().copied());
    }

    /// The tree of the branches that have arcs up, and of those that have arcs down, by their numbers.
    pub fn trees(&self) -> [Vec<usize>; 2] {
        [0, 1].map(|way| (0..self.branches.len()).filter(|&branch| !self.ways(branch)[way].is_empty()).collect())
    }

    /// Arcs of a branch, up and down.
    #[inline]
    pub fn ways(&self, branch: usize) -> [&[u32]; 2] {
        let end = |at: usize| self.ends[2 * branch + at] as usize;
        [&self.arcs[end(0)..end(1)], &self.arcs[end(1)..end(2)]]
    }

    /// Arcs of a branch, up, then down.
    #[inline]
    pub fn both_ways(&self, branch: usize) -> &[u32] {
        &self.arcs[self.ends[2 * branch] as usize..self.ends[2 * branch + 2] as usize]
    }

    /// The arcs of all branches, each with what its branch carries.
    pub fn carried(&self, bytes: impl Fn((u32, u32)) -> u64) -> impl Iterator<Item = (u32, u64)> {
        self.branches.iter().enumerate().flat_map(move |(at, &ends)| {
            let bytes = bytes(ends);
            self.both_ways(at).iter().map(move |&arc| (arc, bytes))
        })
    }

    /// All arcs.
    pub fn arcs(&self) -> &[u32] {
        &self.arcs
    }

    /// What it costs, where all branches carry the same.
    pub fn cost(&self, prices: &[f64]) -> f64 {
        self.arcs.iter().map(|&arc| prices[arc as usize]).sum()
    }

    /// Most branches between the root and a rank, up or down. O(branches + ranks).
    pub fn height(&self) -> u32 {
        self.trees().iter().map(|branches| self.height_of(branches)).max().unwrap_or(0)
    }

    /// The same of these branches.
    fn height_of(&self, branches: &[usize]) -> u32 {
        let branches = || branches.iter().map(|&branch| self.branches[branch]);
        let ranks = branches().map(|(above, below)| above.max(below) + 1).max().unwrap_or(0) as usize;
        let mut above = vec![None; ranks];
        branches().for_each(|(upper, lower)| above[lower as usize] = Some(upper));
        // Of roots and of what has been measured.
        let mut depths: Vec<Option<u32>> = above.iter().map(|above| above.is_none().then_some(0)).collect();
        for (upper, lower) in branches() {
            if depths[lower as usize].is_some() {
                continue;
            }
            // Mostly the upper one comes first.
            if let Some(depth) = depths[upper as usize] {
                depths[lower as usize] = Some(depth + 1);
                continue;
            }
            let up = |&rank: &u32| if depths[rank as usize].is_none() { above[rank as usize] } else { None };
            let path: Vec<u32> = std::iter::successors(Some(lower), up).collect();
            let known = depths[path[path.len() - 1] as usize].unwrap_or(0);
            path.iter().rev().zip(known..).for_each(|(&rank, depth)| depths[rank as usize] = Some(depth));
        }
        depths.into_iter().flatten().max().unwrap_or(0)
    }

    /// What becomes of it by a permutation.
    pub fn moved(&self, by: &Permutation) -> Plan {
        let rank = |rank: u32| by.ranks[rank as usize];
        Plan {
            branches: self.branches.iter().map(|&(above, below)| (rank(above), rank(below))).collect(),
            arcs: self.arcs.iter().map(|&arc| by.arcs[arc as usize]).collect(),
            ends: self.ends.clone(),
        }
    }

    /// A number that says what becomes of it by a permutation, whatever the order of branches: two plans have the same about
    /// once in 2^100. O(arcs).
    pub fn mark(&self, by: &Permutation) -> u128 {
        // A linear congruential generator whose constants are those of PCG's.
        let mix = |mark: u128, with: u32| {
            let mark = (mark ^ u128::from(with)).wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645);
            (mark ^ (mark >> 67)).wrapping_add(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f)
        };
        let branch = |(at, &(above, below)): (usize, &(u32, u32))| {
            let ends = [above, below].into_iter().fold(0, |mark, rank| mix(mark, by.ranks[rank as usize]));
            self.ways(at).into_iter().fold(ends, |mark, way| {
                way.iter().fold(mix(mark, way.len() as u32), |mark, &arc| mix(mark, by.arcs[arc as usize]))
            })
        };
        self.branches.iter().enumerate().map(branch).fold(0, u128::wrapping_add)
    }

    /// The same with its branches in order; no two have the same ends.
    pub fn sorted(&self) -> Plan {
        let mut order: Vec<usize> = (0..self.branches.len()).collect();
        order.sort_unstable_by_key(|&at| self.branches[at]);
        let mut plan = Plan::with_capacity(self.branches.len(), self.arcs.len());
        order.into_iter().for_each(|at| plan.copy(self, at));
        plan
    }

    /// The same with up and down exchanged.
    pub fn turned(mut self) -> Plan {
        for branch in 0..self.branches.len() {
            let [start, middle, end] = [0, 1, 2].map(|at| self.ends[2 * branch + at]);
            self.arcs[start as usize..end as usize].reverse();
            self.ends[2 * branch + 1] = start + end - middle;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turned_plans_go_the_other_way() {
        let mut plan = Plan::with_capacity(2, 6);
        plan.branch(0, 1, [1, 2], [3]);
        plan.branch(1, 2, [], [4, 5, 6]);
        let turned = plan.clone().turned();
        assert_eq!(
            [0, 1].map(|branch| turned.ways(branch).map(<[u32]>::to_vec)),
            [[vec![3], vec![2, 1]], [vec![6, 5, 4], vec![]]]
        );
        assert_eq!(turned.both_ways(0), [3, 2, 1]);
        assert_eq!(turned.turned(), plan);
    }

    #[test]
    fn heights_do_not_depend_on_the_order_of_branches() {
        let path = [(0, 1), (1, 2), (2, 3), (0, 4)];
        for order in [[0, 1, 2, 3], [2, 1, 0, 3], [3, 1, 2, 0]] {
            let mut plan = Plan::default();
            order.iter().for_each(|&at: &usize| plan.branch(path[at].0, path[at].1, [], [at as u32]));
            assert_eq!(plan.height(), 3);
        }
    }
}
