//! The plans of a schedule, read back from its lanes: those that are still whole on a fabric that has lost links or ranks.

use crate::algorithm::{Before, Request};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_bound::synthesis::{Graph, Plan};
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Op, Schedule, Transfer};
use rustc_hash::FxBuildHasher;
use std::collections::HashSet;
use std::hash::BuildHasher;

/// Roots and plans that are whole, each once; of all plans, how many are, and how many are not.
#[derive(Default)]
pub struct LeftOver {
    pub plans: Vec<(u32, Plan)>,
    pub kept: usize,
    pub lost: usize,
}

impl LeftOver {
    fn count(&mut self, plan: Option<(u32, Plan)>) {
        match plan {
            Some(whole) => {
                self.kept += 1;
                self.plans.push(whole);
            }
            None => self.lost += 1,
        }
    }
}

/// Plans of paths that are read for every rank: parts of what it has for the others.
const PATHS: usize = 8;
/// Most links that all lanes go over: 2 GiB of memory.
const MAX_LINKS: usize = 1 << 28;

/// What is left of the plans of a schedule. O(lanes and links of their transfers).
///
/// # Errors
/// [`Code::TooLarge`] past [`MAX_LINKS`].
pub fn left(request: &Request, graph: &Graph, before: &Before) -> Result<LeftOver> {
    let reader = Reader::new(request, graph, before)?;
    let mut left = match before.schedule.collective.kind {
        Kind::AllToAll => reader.paths(),
        kind => reader.trees(kind),
    };
    let mut seen = HashSet::new();
    left.plans.retain(|plan| seen.insert(plan.clone()));
    Ok(left)
}

/// The transfers of a schedule, by lanes.
struct Reader<'a> {
    before: &'a Before<'a>,
    /// The arc of every link of the schedule's fabric.
    arcs: Vec<Option<u32>>,
    /// Ranks that are left.
    ranks: usize,
    transfers: Vec<Vec<&'a Transfer>>,
}

/// A path of a lane, if all of its links are left.
type ArcPath = (Bytes, Option<Vec<u32>>);

impl<'a> Reader<'a> {
    fn new(request: &Request, graph: &Graph, before: &'a Before) -> Result<Self> {
        let mut arc_of: Vec<Option<u32>> = vec![None; request.fabric.links.len()];
        for (id, arc) in (0..).zip(&graph.arcs) {
            arc.links.iter().for_each(|&link| arc_of[link as usize] = Some(id));
        }
        let arcs = before.links.iter().map(|link| arc_of[(*link)? as usize]).collect();
        let Schedule { lanes, transfers, .. } = before.schedule;
        let mut links = 0;
        let mut of_lanes = vec![vec![]; lanes.len()];
        for transfer in transfers {
            // It may carry many lanes, and its route be long.
            links += transfer.payload.iter().map(|lanes| lanes.len()).sum::<usize>() * transfer.route.len().max(1);
            if links > MAX_LINKS {
                let what = "the schedule to start from has lanes over more than 268435456 links; build one anew";
                return Err(Error::new(Code::TooLarge, what));
            }
            transfer.lanes().for_each(|lane| of_lanes[lane].push(transfer));
        }
        Ok(Reader { before, arcs, ranks: graph.ranks.len(), transfers: of_lanes })
    }

    fn rank(&self, rank: u32) -> Option<u32> {
        self.before.ranks[rank as usize]
    }

    /// The arcs that a transfer goes over, if all are left.
    fn way(&self, transfer: &Transfer) -> Option<Vec<u32>> {
        transfer.route.iter().map(|&link| self.arcs[link as usize]).collect()
    }

    /// The trees of the lanes that have one, of roots that are left.
    fn trees(&self, kind: Kind) -> LeftOver {
        let (mut left, mut seen) = (LeftOver::default(), HashSet::new());
        for transfers in &self.transfers {
            // Many lanes may have the same.
            let hops = transfers.iter().map(|hop| (hop.from, hop.to, hop.op == Op::Copy, &hop.route));
            if seen.insert(FxBuildHasher.hash_one(hops.collect::<Vec<_>>()))
                && let Some((root, branches)) = self.tree(kind, transfers)
                && let Some(root) = self.rank(root)
            {
                left.count(self.plan(&branches).map(|plan| (root, plan)));
            }
        }
        left
    }

    /// The root and the branches of a lane that is one tree, with the transfers up and down.
    fn tree(&self, kind: Kind, transfers: &[&'a Transfer]) -> Option<(u32, Vec<KnownBranch<'a>>)> {
        let mut at = vec![usize::MAX; self.before.ranks.len()];
        let mut branches: Vec<KnownBranch> = vec![];
        for &transfer in transfers {
            let (ends, way) = match transfer.op {
                Op::Reduce => ((transfer.to, transfer.from), 0),
                _ => ((transfer.from, transfer.to), 1),
            };
            let place = &mut at[ends.1 as usize];
            if *place == usize::MAX {
                *place = branches.len();
                branches.push((ends, [None; 2]));
            }
            let branch = &mut branches[*place];
            if branch.0 != ends || branch.1[way].replace(transfer).is_some() {
                return None;
            }
        }
        let is_up = matches!(kind, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce);
        let is_down = !matches!(kind, Kind::ReduceScatter | Kind::Reduce);
        let is_like = |branch: &KnownBranch| branch.1.map(|way| way.is_some()) == [is_up, is_down];
        let root = branches.iter().map(|branch| branch.0.0).find(|&rank| at[rank as usize] == usize::MAX)?;
        branches.iter().all(is_like).then_some((root, branches))
    }

    /// The plan of a tree's branches, if these reach all ranks that are left.
    fn plan(&self, branches: &[KnownBranch]) -> Option<Plan> {
        let mut plan = Plan::default();
        for &((above, below), ways) in branches {
            let Some(below) = self.rank(below) else { continue };
            let [up, down] = ways.map(|way| way.map_or(Some(vec![]), |transfer| self.way(transfer)));
            plan.branch(self.rank(above)?, below, up?, down?);
        }
        (plan.branches.len() + 1 == self.ranks).then_some(plan)
    }

    /// Plans of every rank: those of its paths to the others that carry the same part of what it has for them.
    fn paths(&self) -> LeftOver {
        let ranks = self.before.ranks.len();
        let mut of_pairs: Vec<Vec<ArcPath>> = vec![vec![]; ranks * ranks];
        for (lane, transfers) in self.before.schedule.lanes.iter().zip(&self.transfers) {
            if let Some(path) = self.path((lane.source, lane.owner), transfers) {
                of_pairs[lane.source as usize * ranks + lane.owner as usize].push((lane.bytes, path));
            }
        }
        let mut left = LeftOver::default();
        for (source, of_owners) in (0..).zip(of_pairs.chunks(ranks)) {
            let Some(root) = self.rank(source) else { continue };
            let owners = (0..).zip(of_owners).filter(|(_, paths)| !paths.is_empty());
            let owners: Vec<(u32, &[ArcPath])> =
                owners.filter_map(|(owner, paths)| Some((self.rank(owner)?, paths.as_slice()))).collect();
            let mut seen = HashSet::new();
            for part in 0..PATHS {
                let chosen: Vec<usize> = owners.iter().map(|(_, paths)| middle(paths, part)).collect();
                if !chosen.is_empty() && seen.insert(chosen.clone()) {
                    let mut plan = Plan::default();
                    let mut ways = owners.iter().zip(chosen).map(|((to, paths), number)| (*to, &paths[number].1));
                    let whole = ways.try_for_each(|(to, way)| {
                        plan.branch(root, to, [], way.as_ref()?.iter().copied());
                        Some(())
                    });
                    left.count(whole.map(|()| (root, plan)));
                }
            }
        }
        left
    }

    /// The arcs of the path that a lane's transfers are, if all are left; `None` if they are no path.
    fn path(&self, (source, owner): (u32, u32), transfers: &[&Transfer]) -> Option<Option<Vec<u32>>> {
        let (mut rank, mut arcs) = (source, Some(vec![]));
        let mut rest: Vec<&Transfer> = transfers.to_vec();
        while rank != owner {
            let next = rest.iter().position(|transfer| transfer.from == rank)?;
            // They are mostly in the order of the path.
            let transfer = rest.remove(next);
            rank = transfer.to;
            arcs = arcs.and_then(|mut arcs: Vec<u32>| {
                arcs.extend(self.way(transfer)?);
                Some(arcs)
            });
        }
        (source != owner).then_some(arcs)
    }
}

/// The upper and the lower rank, and what goes up and down.
type KnownBranch<'a> = ((u32, u32), [Option<&'a Transfer>; 2]);

/// The path that is in the middle of one of [`PATHS`] parts of what all carry.
fn middle(paths: &[ArcPath], part: usize) -> usize {
    let total: u128 = paths.iter().map(|path| u128::from(path.0)).sum();
    let mut before = 0;
    let is_past = |path: &ArcPath| {
        before += u128::from(path.0);
        total * (2 * part as u128 + 1) < before * 2 * PATHS as u128
    };
    paths.iter().position(is_past).unwrap_or(0)
}
