//! The plans of a schedule, read back from its lanes: what is left of them on a fabric that has lost links or ranks.

use crate::algorithm::{Before, Request};
use crate::collective::Kind;
use crate::fabric::LinkId;
use crate::schedule::{Lane, Op, Schedule, Transfer};
use crate::synthesis::{Graph, Known, Plan};
use crate::units::Bytes;
use std::collections::HashMap;
use std::ops::Range;

/// What is left of a plan, and whether that is all of it.
pub type Left = (Known, bool);

/// The upper rank of a branch, and the links up and down.
type Branch<'a> = (u32, [&'a [LinkId]; 2]);

/// Bytes from one rank to another, and the place of the arcs they go over if all are there.
struct Path {
    ends: (u32, u32),
    bytes: Bytes,
    arcs: Option<Range<usize>>,
}

/// Plans of paths that are read for every rank: parts of what it has for the others.
const PATHS: usize = 8;

/// What is left of every plan of a schedule, each once, and nothing of a rank's that has none. O(lanes and hops).
pub fn left(request: &Request, graph: &Graph, before: &Before) -> Vec<Left> {
    let reader = Reader { before, arcs: arcs(request, graph) };
    let Schedule { lanes, transfers, collective, .. } = before.schedule;
    // Transfers by lane: those of each lie together.
    let mut ends = vec![0; lanes.len() + 1];
    transfers.iter().flat_map(Transfer::lanes).for_each(|lane| ends[lane + 1] += 1);
    (0..lanes.len()).for_each(|lane| ends[lane + 1] += ends[lane]);
    let mut free = ends.clone();
    let mut sorted: Vec<Option<&Transfer>> = vec![None; ends[lanes.len()]];
    for transfer in transfers {
        for lane in transfer.lanes() {
            sorted[free[lane]] = Some(transfer);
            free[lane] += 1;
        }
    }
    let sorted: Vec<&Transfer> = sorted.into_iter().flatten().collect();
    let of_lane = lanes.iter().zip(ends.windows(2)).map(|(lane, ends)| (lane, &sorted[ends[0]..ends[1]]));
    let found: Vec<Left> = match collective.kind {
        Kind::AllToAll => reader.paths(of_lane),
        _ => of_lane.filter_map(|(lane, transfers)| reader.tree(lane.bytes, transfers)).collect(),
    };
    let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut all: Vec<Left> = vec![];
    for (known, is_whole) in found {
        let same_root = places.entry(known.root).or_default();
        match same_root.iter().find(|&&at| all[at].0.plan == known.plan) {
            Some(&at) => all[at].0.share += known.share,
            None => {
                same_root.push(all.len());
                all.push((known, is_whole));
            }
        }
    }
    if matches!(collective.kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) {
        let mut sums = vec![0.0; graph.ranks.len()];
        all.iter().for_each(|(known, _)| sums[known.root as usize] += known.share);
        all.iter_mut().for_each(|(known, _)| known.share /= sums[known.root as usize]);
        let none = (0..).zip(&sums).filter(|(_, sum)| **sum == 0.0);
        all.extend(none.map(|(root, _)| (Known { root, share: 1.0, plan: Plan::default() }, false)));
    } else {
        let sum: f64 = all.iter().map(|(known, _)| known.share).sum();
        all.iter_mut().for_each(|(known, _)| known.share /= sum);
    }
    all
}

/// The prices of a schedule's certificate, of the arcs that are left.
pub fn prices(request: &Request, graph: &Graph, before: &Before) -> Option<Vec<f64>> {
    let certificate = before.schedule.certificate.as_ref()?;
    let arcs = arcs(request, graph);
    let mut prices = vec![0.0f64; graph.arcs.len()];
    for &(link, price) in &certificate.prices {
        if let Some(arc) = before.links[link as usize].and_then(|link| arcs[link as usize]) {
            prices[arc as usize] = prices[arc as usize].max(price as f64);
        }
    }
    Some(prices)
}

/// The arc of every link.
fn arcs(request: &Request, graph: &Graph) -> Vec<Option<u32>> {
    let mut arcs: Vec<Option<u32>> = vec![None; request.fabric.links.len()];
    for (id, arc) in (0..).zip(&graph.arcs) {
        arc.links.iter().for_each(|&link| arcs[link as usize] = Some(id));
    }
    arcs
}

struct Reader<'a> {
    before: &'a Before<'a>,
    /// Arc of every link that is there.
    arcs: Vec<Option<u32>>,
}

impl Reader<'_> {
    fn arc(&self, link: LinkId) -> Option<u32> {
        self.arcs[self.before.links[link as usize]? as usize]
    }

    /// The arcs of a route, if all are there.
    fn way<'l>(&'l self, route: &'l [LinkId]) -> Option<impl Iterator<Item = u32> + 'l> {
        let is_there = route.iter().all(|&link| self.arc(link).is_some());
        is_there.then(|| route.iter().filter_map(|&link| self.arc(link)))
    }

    fn rank(&self, rank: u32) -> Option<u32> {
        self.before.ranks[rank as usize]
    }

    /// The tree of a lane of so many bytes, if it is one.
    fn tree(&self, bytes: Bytes, transfers: &[&Transfer]) -> Option<Left> {
        // By the lower rank of a branch: the upper one, and the ways up and down.
        let mut branches: Vec<Option<Branch>> = vec![None; self.before.ranks.len()];
        for transfer in transfers {
            let (above, below) = match transfer.op {
                Op::Reduce => (transfer.to, transfer.from),
                Op::Copy => (transfer.from, transfer.to),
            };
            let (upper, ways) = branches[below as usize].get_or_insert((above, [&[]; 2]));
            let way = &mut ways[usize::from(transfer.op == Op::Copy)];
            if *upper != above || !way.is_empty() {
                return None;
            }
            *way = &transfer.route;
        }
        let is_root = |above: &u32| branches[*above as usize].is_none();
        let root = branches.iter().flatten().map(|branch| branch.0).find(is_root)?;
        let root = self.rank(root)?;
        let mut plan = Plan::default();
        let all = branches.iter().flatten().count();
        for (below, (above, ways)) in (0..).zip(&branches).filter_map(|(below, branch)| Some((below, (*branch)?))) {
            let [up, down] = ways.map(|way| self.way(way));
            if let (Some(above), Some(below), Some(up), Some(down)) = (self.rank(above), self.rank(below), up, down) {
                plan.branch(above, below, up, down);
            }
        }
        let is_whole = plan.branches.len() == all;
        Some((Known { root, share: bytes.max(1) as f64, plan }, is_whole))
    }

    /// Plans of every rank: those of its paths to the others that carry the same part of what it has for them.
    fn paths<'l>(&self, lanes: impl Iterator<Item = (&'l Lane, &'l [&'l Transfer])>) -> Vec<Left> {
        let mut arcs: Vec<u32> = vec![];
        // By the ends.
        let mut paths: Vec<Path> =
            lanes.filter_map(|(lane, transfers)| self.path(lane, transfers, &mut arcs)).collect();
        paths.sort_by_key(|path| path.ends);
        let mut found = vec![];
        for of_source in paths.chunk_by(|a, b| a.ends.0 == b.ends.0) {
            let Some(root) = self.rank(of_source[0].ends.0) else { continue };
            let owners = of_source.chunk_by(|a, b| a.ends == b.ends);
            let owners: Vec<(u32, &[Path])> =
                owners.filter_map(|paths| Some((self.rank(paths[0].ends.1)?, paths))).collect();
            // Which path to each is in the middle of every part; many parts have the same.
            let mut parts = [(); PATHS].map(|()| vec![usize::MAX; owners.len()]);
            for (owner, (_, paths)) in owners.iter().enumerate() {
                let total: u128 = paths.iter().map(|path| u128::from(path.bytes)).sum();
                let (mut part, mut before) = (0, 0);
                for (number, path) in paths.iter().enumerate() {
                    before += u128::from(path.bytes);
                    while part < PATHS && total * (2 * part as u128 + 1) < before * 2 * PATHS as u128 {
                        parts[part][owner] = number;
                        part += 1;
                    }
                }
            }
            for (part, chosen) in parts.iter().enumerate().filter(|(part, chosen)| !parts[..*part].contains(chosen)) {
                let share = parts[part..].iter().filter(|other| *other == chosen).count() as f64;
                let ways = || {
                    let way = |(owner, &number): (&(u32, &[Path]), &usize)| {
                        (owner.0, owner.1.get(number).and_then(|path| path.arcs.clone()))
                    };
                    owners.iter().zip(chosen).map(way)
                };
                let length = ways().filter_map(|(_, way)| way).map(|way| way.len()).sum();
                let mut plan = Plan::with_capacity(owners.len(), length);
                for (to, way) in ways() {
                    way.into_iter().for_each(|way| plan.branch(root, to, [], arcs[way].iter().copied()));
                }
                let is_whole = plan.branches.len() == owners.len();
                found.push((Known { root, share, plan }, is_whole));
            }
        }
        found
    }

    /// The path of a lane, from its source to its owner.
    fn path(&self, lane: &Lane, transfers: &[&Transfer], arcs: &mut Vec<u32>) -> Option<Path> {
        let ends = (lane.source, lane.owner);
        let start = arcs.len();
        let (mut rank, mut is_there) = (ends.0, true);
        // They are mostly in the order of the path.
        for _ in transfers {
            for transfer in transfers {
                if transfer.from == rank && rank != ends.1 {
                    rank = transfer.to;
                    match self.way(&transfer.route) {
                        Some(way) => arcs.extend(way),
                        None => is_there = false,
                    }
                }
            }
            if rank == ends.1 {
                break;
            }
        }
        let arcs = is_there.then_some(start..arcs.len());
        (rank == ends.1 && ends.0 != ends.1).then_some(Path { ends, bytes: lane.bytes, arcs })
    }
}
