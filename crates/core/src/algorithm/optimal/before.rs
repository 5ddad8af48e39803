//! The plans of a schedule, read back from its lanes: what is left of them on a fabric that has lost links or ranks.

use crate::algorithm::{Before, Request};
use crate::collective::Kind;
use crate::fabric::LinkId;
use crate::schedule::{Op, Schedule, Transfer};
use crate::synthesis::{Graph, Known, Plan};
use crate::units::Bytes;
use std::collections::{BTreeMap, HashMap};

/// What is left of a plan, and whether that is all of it.
pub type Left = (Known, bool);

/// The upper rank of a branch, and the links up and down.
type Branch<'a> = (u32, [&'a [LinkId]; 2]);

/// Bytes, and the links they go over.
type Path = (Bytes, Vec<LinkId>);

/// Plans of paths that are read for every rank: parts of what it has for the others.
const PATHS: u64 = 8;

/// What is left of every plan of a schedule, each once, and nothing of a rank's that has none. O(lanes and hops).
pub fn left(request: &Request, graph: &Graph, before: &Before) -> Vec<Left> {
    let reader = Reader { before, arcs: arcs(request, graph) };
    let Schedule { lanes, transfers, collective, .. } = before.schedule;
    let mut of_lane: Vec<Vec<&Transfer>> = vec![Vec::new(); lanes.len()];
    for transfer in transfers {
        transfer.lanes().for_each(|lane| of_lane[lane].push(transfer));
    }
    let found: Vec<Left> = match collective.kind {
        Kind::AllToAll => reader.paths(&of_lane),
        _ => lanes.iter().zip(&of_lane).filter_map(|(lane, transfers)| reader.tree(lane.bytes, transfers)).collect(),
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
    fn paths(&self, lanes: &[Vec<&Transfer>]) -> Vec<Left> {
        // By the ends.
        let mut pairs: BTreeMap<u32, BTreeMap<u32, Vec<Path>>> = BTreeMap::new();
        for (lane, transfers) in self.before.schedule.lanes.iter().zip(lanes) {
            if let Some(path) = path(lane.source, lane.owner, transfers) {
                pairs.entry(lane.source).or_default().entry(lane.owner).or_default().push((lane.bytes, path));
            }
        }
        let mut found = vec![];
        for (source, owners) in &pairs {
            let Some(root) = self.rank(*source) else { continue };
            for part in 0..PATHS {
                let (mut plan, mut is_whole) = (Plan::default(), true);
                for (owner, paths) in owners {
                    let Some(to) = self.rank(*owner) else { continue };
                    let total: u128 = paths.iter().map(|path| u128::from(path.0)).sum();
                    // In the middle of the part.
                    let mut place = total * u128::from(2 * part + 1) / u128::from(2 * PATHS);
                    let chosen = paths.iter().find(|path| {
                        let is_here = place < u128::from(path.0);
                        place = place.saturating_sub(u128::from(path.0));
                        is_here
                    });
                    match chosen.and_then(|path| self.way(&path.1)) {
                        Some(way) => plan.branch(root, to, [], way),
                        None => is_whole = false,
                    }
                }
                found.push((Known { root, share: 1.0, plan }, is_whole));
            }
        }
        found
    }
}

/// The links from a rank to another one, as a lane goes.
fn path(source: u32, owner: u32, transfers: &[&Transfer]) -> Option<Vec<LinkId>> {
    let (mut rank, mut links) = (source, vec![]);
    for _ in transfers {
        if rank == owner {
            break;
        }
        let next = transfers.iter().find(|transfer| transfer.from == rank)?;
        links.extend_from_slice(&next.route);
        rank = next.to;
    }
    (rank == owner && source != owner).then_some(links)
}
