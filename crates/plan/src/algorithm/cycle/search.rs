//! Searches for Hamiltonian cycles where none is known.

use super::Cycle;
use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use antiphon_model::system::System;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Most steps of one search: neighbours looked at and places changed. Under a second.
const MAX_STEPS: usize = 1 << 24;
/// Not on the path.
const OFF: u32 = u32::MAX;

/// Ranks next to each rank.
type Neighbours = Vec<Vec<u32>>;

/// A cycle over links both ways, as fast as can be found at its slowest hop; or else one over links one way.
///
/// # Errors
/// Why there is none, or that none was found, in one line.
pub fn search(fabric: &Fabric, system: &System) -> Result<Cycle, String> {
    let all = neighbours(fabric, |_| true);
    let paired = both_ways(&all);
    let direct = !fabric.has_switches();
    match among(&paired, true, true) {
        Ok(ranks) => Ok(Cycle { ranks: fastest(fabric, system, &paired, ranks), both_ways: true, direct }),
        Err(why) if paired == all => Err(why),
        Err(_) => Ok(Cycle { ranks: among(&all, false, true)?, both_ways: false, direct }),
    }
}

/// Ranks that each rank reaches over one of some links or through switches only, in link order.
pub fn neighbours(fabric: &Fabric, joins: impl Fn(LinkId) -> bool) -> Neighbours {
    (0..fabric.ranks() as u32)
        .map(|rank| {
            let mut found = Vec::new();
            let mut seen = vec![false; fabric.nodes.len()];
            let mut stack = vec![fabric.node_of_rank(rank)];
            seen[stack[0] as usize] = true;
            while let Some(node) = stack.pop() {
                for next in fabric.out_links(node).iter().filter(|&&link| joins(link)).map(|&link| fabric.link(link).to)
                {
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        match fabric.nodes[next as usize].rank {
                            Some(other) => found.push(other),
                            None => stack.push(next),
                        }
                    }
                }
            }
            found
        })
        .collect()
}

/// The neighbours that reach a rank as it reaches them.
fn both_ways(near: &Neighbours) -> Neighbours {
    let count = near.len();
    let mut reached = vec![false; count * count];
    let pairs = near.iter().enumerate().flat_map(|(from, list)| list.iter().map(move |&to| (from, to as usize)));
    pairs.for_each(|(from, to)| reached[from * count + to] = true);
    let back = |from: usize, to: u32| reached[to as usize * count + from];
    let keep = |(from, list): (usize, &Vec<u32>)| list.iter().copied().filter(|&to| back(from, to)).collect();
    near.iter().enumerate().map(keep).collect()
}

/// A cycle without the slowest hops, as far as one is found; `ranks` has them all. Parallel links are one hop.
fn fastest(fabric: &Fabric, system: &System, near: &Neighbours, mut ranks: Vec<u32>) -> Vec<u32> {
    if fabric.has_switches() {
        return ranks;
    }
    let mut rates: HashMap<(NodeId, NodeId), u64> = HashMap::new();
    for link in &fabric.links {
        let rate = rates.entry((link.from, link.to)).or_default();
        *rate = rate.saturating_add(system.rate_of(link).0);
    }
    let rate = |a: u32, b: u32| {
        let (a, b) = (fabric.node_of_rank(a), fabric.node_of_rank(b));
        rates[&(a, b)].min(rates[&(b, a)])
    };
    let slowest = |ranks: &[u32]| {
        let next = ranks.iter().cycle().skip(1);
        ranks.iter().zip(next).map(|(&a, &b)| rate(a, b)).min().unwrap_or(0)
    };
    let mut levels: Vec<u64> =
        rates.iter().map(|(&(a, b), &there)| rates.get(&(b, a)).map_or(0, |&back| there.min(back))).collect();
    levels.sort_unstable();
    levels.dedup();
    let (mut from, mut to) = (levels.partition_point(|&level| level <= slowest(&ranks)), levels.len());
    while from < to {
        let middle = from.midpoint(to);
        let fast = |(a, list): (usize, &Vec<u32>)| {
            list.iter().copied().filter(|&b| rate(a as u32, b) >= levels[middle]).collect()
        };
        match among(&near.iter().enumerate().map(fast).collect(), true, false) {
            Ok(found) => {
                ranks = found;
                from = levels.partition_point(|&level| level <= slowest(&ranks));
            }
            Err(_) => to = middle,
        }
    }
    ranks
}

/// A cycle from rank 0 over neighbours, `symmetric` if they are each other's. A depth-first search finds most at once;
/// where it is stuck, rotations find nearly all others. It has the last word if the search is to be `thorough`.
pub fn among(near: &Neighbours, symmetric: bool, thorough: bool) -> Result<Vec<u32>, String> {
    let none = |why: String| Err(format!("there is no Hamiltonian cycle through its ranks: {why}"));
    if let Some(why) = obstacle(near, symmetric) {
        return none(why);
    }
    let quick = (1 << 16) + 2 * near.iter().map(Vec::len).sum::<usize>();
    let most = if thorough { MAX_STEPS } else { 4 * quick };
    let mut steps = 0;
    for (search, most) in [
        (depth_first as fn(&Neighbours, usize) -> SearchOutcome, quick),
        (rotations, if symmetric { most } else { 0 }),
        (depth_first, if thorough { most } else { 0 }),
    ] {
        match search(near, most) {
            SearchOutcome::Cycle(ranks) => return Ok(ranks),
            SearchOutcome::None => return none("every way was tried".into()),
            SearchOutcome::GaveUp => steps += most,
        }
    }
    Err(format!("no Hamiltonian cycle through its ranks was found within {steps} steps"))
}

/// What shows at once that there is no cycle.
fn obstacle(near: &Neighbours, symmetric: bool) -> Option<String> {
    if let Some(rank) = near.iter().position(|list| symmetric && list.len() < 2) {
        return Some(format!("rank {rank} has fewer than two neighbours"));
    }
    let mut side = vec![None; near.len()];
    side[0] = Some(false);
    let (mut stack, mut sides) = (vec![0], [1, 0]);
    let mut two_sides = true;
    while let Some(rank) = stack.pop() {
        let other = side[rank].map(|side| !side);
        for &next in &near[rank] {
            if side[next as usize].is_none() {
                side[next as usize] = other;
                sides[usize::from(other == Some(true))] += 1;
                stack.push(next as usize);
            }
            two_sides &= side[next as usize] == other;
        }
    }
    let [a, b] = sides;
    match side.iter().position(Option::is_none) {
        Some(rank) => Some(format!("nothing leads from rank 0 to rank {rank}")),
        None => (two_sides && a != b).then(|| format!("links join only {a} ranks with {b} others")),
    }
}

/// How a search ended.
enum SearchOutcome {
    Cycle(Vec<u32>),
    /// There is none.
    None,
    GaveUp,
}

/// Depth first, neighbours with few ways out before others (Warnsdorff).
fn depth_first(near: &Neighbours, steps: usize) -> SearchOutcome {
    let count = near.len();
    let mut used = vec![false; count];
    // Unused neighbours of each rank (those that lead to it, where links go one way).
    let mut ways_out: Vec<usize> = vec![0; count];
    near.iter().flatten().for_each(|&n| ways_out[n as usize] += 1);
    let mut left = steps;
    let mut path: Vec<u32> = Vec::with_capacity(count);
    let mut stack = vec![vec![0u32]];
    while left > 0 {
        let Some(choices) = stack.last_mut() else { return SearchOutcome::None };
        match choices.pop() {
            Some(next) => {
                path.push(next);
                used[next as usize] = true;
                let list = &near[next as usize];
                list.iter().for_each(|&n| ways_out[n as usize] -= 1);
                left = left.saturating_sub(list.len());
                if path.len() == count && list.contains(&0) {
                    return SearchOutcome::Cycle(path);
                }
                let mut choices: Vec<u32> = list.iter().copied().filter(|&n| !used[n as usize]).collect();
                choices.sort_unstable_by_key(|&n| Reverse((ways_out[n as usize], n)));
                stack.push(choices);
            }
            None => {
                stack.pop();
                let Some(last) = path.pop() else { return SearchOutcome::None };
                used[last as usize] = false;
                near[last as usize].iter().for_each(|&n| ways_out[n as usize] += 1);
            }
        }
    }
    SearchOutcome::GaveUp
}

/// A path that grows at its end and is turned where it cannot (Posa, "Hamiltonian circuits in random graphs",
/// Discrete Mathematics 1976), from other ranks again where that does not help; seeded.
fn rotations(near: &Neighbours, steps: usize) -> SearchOutcome {
    let count = near.len();
    let mut random = Pcg64Mcg::seed_from_u64(0);
    let mut below = move |n: usize| (random.next_u64() % n as u64) as usize;
    let (mut left, mut start) = (steps, 0);
    while left > 0 {
        let mut path = RankPath::new(near, start);
        let mut turns = 0;
        while left > 0 && turns < 8 * count + 64 {
            let end = path.end();
            let list = &near[end as usize];
            left = left.saturating_sub(list.len());
            let free = list.iter().copied().filter(|&n| path.place[n as usize] == OFF);
            if let Some(next) = free.min_by_key(|&n| (path.ways_out[n as usize], below(1 << 32))) {
                path.push(next);
                turns = 0;
                continue;
            }
            turns += 1;
            let closed = list.contains(&path.ranks[0]);
            if closed && path.ranks.len() == count {
                path.ranks.rotate_left(path.place[0] as usize);
                return SearchOutcome::Cycle(path.ranks);
            }
            let from = if closed {
                // Open the cycle next to a rank that is not on it.
                let way_out = path.ranks.iter().position(|&rank| path.ways_out[rank as usize] > 0);
                let at = way_out.expect("all ranks are joined") + 1;
                path.ranks.rotate_left(at);
                0
            } else {
                let inner: Vec<u32> = list
                    .iter()
                    .map(|&n| path.place[n as usize] + 1)
                    .filter(|&at| at + 1 < path.ranks.len() as u32)
                    .collect();
                let at = if inner.is_empty() || below(4) == 0 { 0 } else { inner[below(inner.len())] as usize };
                path.ranks[at..].reverse();
                at
            };
            left = left.saturating_sub(path.ranks.len() - from);
            path.number(from);
        }
        start = below(count) as u32;
    }
    SearchOutcome::GaveUp
}

/// A path of ranks.
struct RankPath<'a> {
    near: &'a Neighbours,
    ranks: Vec<u32>,
    /// Index in `ranks`, or [`OFF`].
    place: Vec<u32>,
    /// Neighbours that are not on it.
    ways_out: Vec<usize>,
}

impl<'a> RankPath<'a> {
    fn new(near: &'a Neighbours, start: u32) -> Self {
        let ways_out = near.iter().map(Vec::len).collect();
        let mut path = RankPath { near, ranks: vec![], place: vec![OFF; near.len()], ways_out };
        path.push(start);
        path
    }

    fn end(&self) -> u32 {
        self.ranks[self.ranks.len() - 1]
    }

    fn push(&mut self, rank: u32) {
        self.place[rank as usize] = self.ranks.len() as u32;
        self.ranks.push(rank);
        self.near[rank as usize].iter().for_each(|&n| self.ways_out[n as usize] -= 1);
    }

    /// Notes the places from index `from` on.
    fn number(&mut self, from: usize) {
        for (at, &rank) in self.ranks.iter().enumerate().skip(from) {
            self.place[rank as usize] = at as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;
    use antiphon_model::fabric::{Link, Node, Shape};

    fn find(fabric: &Fabric) -> Result<Cycle, String> {
        let found = search(fabric, &System::preset("generic").unwrap());
        if let Ok(Cycle { ranks, both_ways, .. }) = &found {
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..fabric.ranks() as u32).collect::<Vec<_>>(), "{}", fabric.name);
            for (&a, &b) in ranks.iter().zip(ranks.iter().cycle().skip(1)) {
                let [there, back] = [(a, b), (b, a)].map(|(a, b)| fabric.link_between(a, b).is_some());
                assert!(fabric.has_switches() || there && (back || !both_ways), "{}: {a} {b}", fabric.name);
            }
        }
        found
    }

    fn parse(spec: &str) -> Fabric {
        Fabric::parse(spec).unwrap()
    }

    /// A fabric of ranks and links (from, to, GB/s).
    fn graph(ranks: u32, links: &[(u32, u32, u64)]) -> Fabric {
        let nodes = (0..ranks).map(|rank| Node::rank(rank, [])).collect();
        let link = |&(from, to, rate)| Link { rate: Some(Rate::gb_per_s(rate)), ..Link::new(from, to, "x") };
        Fabric::new("graph", Shape::Graph, nodes, links.iter().map(link).collect()).unwrap()
    }

    #[test]
    fn degraded_meshes_have_cycles() {
        for spec in [
            "mesh:6x10,drop=24-25,drop=33-43",
            "mesh:16x16,drop=1-2,drop=100-101,drop=120-136,drop=7-23",
            "mesh:4x4x4,drop=0-1,drop=21-22",
            "mesh:8x9,drop=3-4,drop=30>31,drop=40-49",
            "mesh:40x50,drop=5-6,drop=700-701,drop=1024-1074",
        ] {
            let cycle = find(&parse(spec)).unwrap_or_else(|why| panic!("{spec}: {why}"));
            assert!(cycle.both_ways, "{spec}");
        }
    }

    #[test]
    fn what_is_proven_to_be_missing_is_said() {
        for (spec, why) in [
            ("mesh:5", "there is no Hamiltonian cycle through its ranks: rank 0 has fewer than two neighbours"),
            ("mesh:3x3", "links join only 5 ranks with 4 others"),
            ("mesh:4x4,dead=5", "links join only 7 ranks with 8 others"),
            ("mesh:2x3,drop=1-4,drop=0-1", "fewer than two"),
        ] {
            let error = find(&parse(spec)).err().unwrap_or_else(|| panic!("{spec}"));
            assert!(error.contains(why), "{spec}: {error}");
        }
        let two_triangles = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)];
        let links: Vec<_> = two_triangles.iter().flat_map(|&(a, b)| [(a, b, 25), (b, a, 25)]).collect();
        assert!(find(&graph(5, &links)).is_err_and(|why| why.contains("every way was tried")));
    }

    #[test]
    fn dense_fabrics_are_searched_at_once() {
        for spec in ["bigraph:64x32", "fc:512,drop=0-1", "switch:2048,exclude=7"] {
            assert!(find(&parse(spec)).is_ok(), "{spec}");
        }
    }

    #[test]
    fn one_way_links_are_used_if_there_is_no_other_way() {
        let ring: Vec<_> = (0..5).map(|a| (a, (a + 1) % 5, 25)).collect();
        assert!(!find(&graph(5, &ring)).unwrap().both_ways);
        let back: Vec<_> = ring.iter().map(|&(a, b, rate)| (b, a, rate)).collect();
        assert!(find(&graph(5, &[ring, back].concat())).unwrap().both_ways);
    }

    #[test]
    fn slow_hops_are_avoided() {
        // Over 0-1-2-3 and one of 0-3 twice, a chord slower than two parallel links, and the like.
        let pairs = [(0, 1, 50), (1, 2, 50), (2, 3, 50), (0, 3, 30), (0, 3, 30), (0, 2, 40), (1, 3, 40)];
        let links: Vec<_> = pairs.iter().flat_map(|&(a, b, rate)| [(a, b, rate), (b, a, rate)]).collect();
        let ranks = find(&graph(4, &links)).unwrap().ranks;
        assert!(ranks == [0, 1, 2, 3] || ranks == [0, 3, 2, 1], "{ranks:?}");
        // The cycle of double NVLinks.
        let ranks = find(&parse("dgx1v")).unwrap().ranks;
        assert!(ranks == [0, 3, 2, 1, 5, 6, 7, 4] || ranks == [0, 4, 7, 6, 5, 1, 2, 3], "{ranks:?}");
    }

    #[test]
    #[ignore = "a sweep: prints the share found"]
    fn random_degraded_meshes() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut below = move |n: u64| random.next_u64() % n;
        let (mut found, mut none, mut longest) = (0, 0, 0.0f64);
        let begin = std::time::Instant::now();
        for _ in 0..500 {
            let (rows, columns) = loop {
                let (rows, columns) = (4 + below(13), 4 + below(13));
                if rows * columns % 2 == 0 {
                    break (rows, columns);
                }
            };
            let mut spec = format!("mesh:{rows}x{columns}");
            let whole = parse(&spec);
            for _ in 0..1 + below(4) {
                let link = whole.link(below(whole.links.len() as u64) as u32);
                spec += &format!(",drop={}-{}", link.from, link.to);
            }
            let Ok(fabric) = Fabric::parse(&spec) else { continue };
            let start = std::time::Instant::now();
            match find(&fabric) {
                Ok(_) => found += 1,
                Err(why) if why.contains("there is no") => none += 1,
                Err(why) => println!("{spec}: {why}"),
            }
            longest = longest.max(start.elapsed().as_secs_f64());
        }
        println!("{found} found, {none} proven to have none, {:.2?} in all, longest {longest:.3} s", begin.elapsed());
        assert!(found + none >= 490);
    }
}
