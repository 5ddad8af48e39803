//! Plans of before made whole: what is left of each is kept, and where something is missing it takes the ways that are least
//! busy by then.
//!
//! The price of an arc rises exponentially with the time for which it is busy, so that the busiest are avoided (S. Plotkin, D. Shmoys
//! and E. Tardos 1995).

use super::graph::Graph;
use super::grow::{Grower, Grown};
use super::oracle::Search;
use super::own::Own;
use super::plan::Plan;
use super::start::{Known, Load};
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use std::collections::HashMap;

/// The price of an arc rises by so many powers of e until it is as busy as it may be.
const STEEP: f64 = 30.0;
/// More than that is no price.
const HIGHEST: f64 = 500.0;
/// Plans over arcs that are too busy are laid anew in so many parts.
const PARTS: f64 = 16.0;
/// So many times as many plans come to be at most.
const MOST: usize = 4;
/// Of what the busiest arc is too busy, others may come to be so much at a look at all plans, so that many share it first.
const SHARED: f64 = 0.6;
/// The same that is left after a look which was worth another one, at most.
const BETTER: f64 = 0.75;

/// What plans are made whole for.
pub struct Mending<'a> {
    /// The graph, turned round where plans lead towards their roots.
    pub graph: &'a Graph,
    pub turned: bool,
    /// Whether plans are paths, not trees.
    pub paths: bool,
    /// Arc in the opposite direction of each, for trees that go both ways.
    pub back: Option<Vec<u32>>,
    /// What branches carry.
    pub load: Load<'a>,
    /// Picoseconds for every byte that are good enough.
    pub enough: f64,
}

impl Mending<'_> {
    /// The plans, whole, and the picoseconds for every byte for which every arc is busy.
    ///
    /// # Errors
    /// [`antiphon_base::error::Code::Interrupted`].
    pub fn mended(&self, mut plans: Vec<Known>, watch: Watch) -> Result<(Vec<Known>, Vec<f64>)> {
        let mut mender = Mender::new(self, &plans);
        // The largest first.
        let is_whole = |plan: &Plan| plan.branches.len() + 1 == self.graph.ranks.len();
        let mut order: Vec<usize> = (0..plans.len()).filter(|&at| !is_whole(&plans[at].plan)).collect();
        order.sort_by(|&a, &b| plans[b].share.total_cmp(&plans[a].share));
        for (done, &at) in order.iter().enumerate() {
            watch.at(done, order.len())?;
            mender.lay(&mut plans[at]);
        }
        let mut before = f64::INFINITY;
        while !self.paths && mender.most() > self.enough && mender.most() - self.enough < before * BETTER {
            before = mender.most() - self.enough;
            mender.limit = self.enough + before * SHARED;
            let last = plans.len() * MOST;
            for (done, &at) in mender.order(&plans).iter().enumerate() {
                if mender.too_busy == 0 || plans.len() >= last {
                    break;
                }
                watch.at(done, plans.len())?;
                mender.relieve(&mut plans, at);
            }
        }
        Ok((plans, mender.busy))
    }

    /// Picoseconds for every byte for which some plans keep every arc busy.
    fn busy(&self, plans: &[Known]) -> Vec<f64> {
        let mut bytes = vec![0.0; self.graph.arcs.len()];
        for Known { share, plan, .. } in plans {
            if self.load.matrix.is_none() {
                let load = share * self.load.share;
                plan.arcs().iter().for_each(|&arc| bytes[arc as usize] += load);
                continue;
            }
            for (branch, &ends) in plan.branches.iter().enumerate() {
                let load = share * self.load.of(ends);
                plan.both_ways(branch).iter().for_each(|&arc| bytes[arc as usize] += load);
            }
        }
        bytes.iter().zip(&self.graph.arcs).map(|(bytes, arc)| bytes / arc.rate).collect()
    }
}

/// Lays plans where arcs are least busy.
struct Mender<'a> {
    to: &'a Mending<'a>,
    enough: f64,
    /// No arc may come to be busier by what is laid anew than this, or than the arc that is relieved.
    limit: f64,
    /// Picoseconds for every byte for which every arc is busy, and what it costs then.
    busy: Vec<f64>,
    prices: Vec<f64>,
    /// Arcs that are busier than enough.
    too_busy: usize,
    /// The same that the branches of a plan take which are laid anew.
    relieved: Vec<f64>,
    grower: Grower<'a>,
    own: Own<'a>,
    search: Search,
}

impl<'a> Mender<'a> {
    /// With the arcs as busy as plans, or what is left of them, keep them.
    fn new(to: &'a Mending<'a>, plans: &[Known]) -> Self {
        let arcs = to.graph.arcs.len();
        let (grower, own) = (Grower::new(to.graph, to.turned), Own::new(to.graph));
        let search = Search::new(to.graph.rank_at.len());
        let (enough, busy, prices) = (to.enough, to.busy(plans), vec![0.0; arcs]);
        let mut mender = Mender {
            to,
            enough,
            limit: enough,
            busy,
            prices,
            too_busy: 0,
            relieved: vec![0.0; arcs],
            grower,
            own,
            search,
        };
        if to.paths {
            // Of paths no better time is known than that of before, which what is left takes.
            mender.enough = mender.most().max(f64::MIN_POSITIVE);
        }
        mender.too_busy = mender.busy.iter().filter(|busy| **busy > mender.enough).count();
        (0..arcs as u32).for_each(|arc| mender.add(arc, 0.0));
        mender
    }

    /// Of the busiest arc.
    fn most(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    fn add(&mut self, arc: u32, bytes: f64) {
        let (rate, busy) = (self.to.graph.arcs[arc as usize].rate, &mut self.busy[arc as usize]);
        self.too_busy -= usize::from(*busy > self.enough);
        *busy += bytes / rate;
        self.too_busy += usize::from(*busy > self.enough);
        self.prices[arc as usize] = (STEEP * (*busy / self.enough - 1.0)).min(HIGHEST).exp() / rate;
    }

    /// By how many powers of e a tree of a share raises prices, times their rates.
    fn powers(&self, share: f64) -> f64 {
        STEEP / self.enough * share * self.to.load.share
    }

    /// Counts what some branches of a plan keep busy.
    fn count(&mut self, plan: &Plan, branches: impl IntoIterator<Item = usize>, share: f64) {
        for branch in branches {
            let bytes = share * self.to.load.of(plan.branches[branch]);
            plan.both_ways(branch).iter().for_each(|&arc| self.add(arc, bytes));
        }
    }

    /// Makes a plan whole whose load is counted.
    fn lay(&mut self, known: &mut Known) {
        let left = std::mem::take(&mut known.plan);
        known.plan = match self.to.paths {
            true => {
                let start = left.branches.len();
                let most = known.share * self.to.load.most(known.root, self.to.graph.ranks.len());
                let prices = self.own.added(&self.prices, STEEP / self.enough * most);
                let plan = self.search.added(self.to.graph, prices, known.root, left);
                self.count(&plan, start..plan.branches.len(), known.share);
                plan
            }
            false => {
                let load = self.powers(known.share);
                let grown = self.grower.tree(&self.prices, load, self.to.back.as_deref(), known.root, &left, &[]);
                self.count(&left, grown.gone.iter().copied(), -known.share);
                self.count(&grown.new, 0..grown.new.branches.len(), known.share);
                grown.of(left)
            }
        };
    }

    /// The plans: first those that are most over arcs that are too busy, as they have most to leave.
    fn order(&self, plans: &[Known]) -> Vec<usize> {
        let is_over: Vec<bool> = self.busy.iter().map(|&busy| busy > self.enough).collect();
        let count = |plan: &Plan| plan.arcs().iter().map(|&arc| usize::from(is_over[arc as usize])).sum::<usize>();
        let over = |known: &Known| known.share * count(&known.plan) as f64;
        let mut all: Vec<(f64, usize)> = plans.iter().map(over).zip(0..).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().map(|(_, at)| at).collect()
    }

    /// Lays as many branches of a plan anew as are too much for its arcs, or a part of one, if that does not make others too busy.
    fn relieve(&mut self, plans: &mut Vec<Known>, at: usize) {
        let Known { root, share, ref plan } = plans[at];
        let (busy, enough) = (&self.busy, self.enough);
        let too_busy: Vec<usize> = plan.places(|arc| busy[arc as usize] > enough);
        let arc = |place: &usize| plan.arcs()[*place] as usize;
        let Some(worst) = too_busy.iter().map(arc).max_by(|&a, &b| busy[a].total_cmp(&busy[b])) else { return };
        let mut off: Vec<usize> = vec![];
        for places in too_busy.chunk_by(|&a, &b| plan.branch_at(a) == plan.branch_at(b)) {
            let branch = plan.branch_at(places[0]);
            if places.iter().map(arc).any(|arc| busy[arc] - self.relieved[arc] > enough) {
                let bytes = share * self.to.load.of(plan.branches[branch]);
                off.push(branch);
                for arc in places.iter().map(arc) {
                    self.relieved[arc] += bytes / self.to.graph.arcs[arc].rate;
                }
            }
        }
        too_busy.iter().map(arc).for_each(|arc| self.relieved[arc] = 0.0);
        let worst = worst as u32;
        let load = self.powers(share);
        let grown = self.grower.tree(&self.prices, load, self.to.back.as_deref(), root, plan, &off);
        let moved = self.room(share, plan, &grown, worst);
        if moved <= 0.0 {
            return;
        }
        let whole = std::mem::take(&mut plans[at].plan);
        self.count(&whole, grown.gone.iter().copied(), -moved);
        self.count(&grown.new, 0..grown.new.branches.len(), moved);
        if moved < share {
            plans[at] = Known { root, share: share - moved, plan: whole.clone() };
            plans.push(Known { root, share: moved, plan: grown.of(whole) });
        } else {
            plans[at] = Known { root, share, plan: grown.of(whole) };
        }
    }

    /// How much of a plan with a share may become what is grown from it, in whole parts: as much as is too much for the busiest of its
    /// arcs, unless others come to be busier than they may.
    fn room(&self, share: f64, plan: &Plan, grown: &Grown, worst: u32) -> f64 {
        // Picoseconds for every byte by which arcs are busier if all of a root's bytes go.
        let gone = grown.gone.iter().map(|&branch| (plan, branch, -1.0));
        let new = (0..grown.new.branches.len()).map(|branch| (&grown.new, branch, 1.0));
        let mut each: Vec<(u32, f64)> = vec![];
        for (plan, branch, sign) in gone.chain(new) {
            let bytes = sign * self.to.load.of(plan.branches[branch]);
            let more = |&arc: &u32| (arc, bytes / self.to.graph.arcs[arc as usize].rate);
            each.extend(plan.both_ways(branch).iter().map(more));
        }
        each.sort_unstable_by_key(|more| more.0);
        let of_arc = |all: &[(u32, f64)]| (all[0].0, all.iter().map(|more| more.1).sum::<f64>());
        let all = || each.chunk_by(|a, b| a.0 == b.0).map(of_arc);
        let less = all().find(|more| more.0 == worst).map_or(0.0, |more| -more.1);
        if less <= 0.0 {
            return 0.0;
        }
        let most = self.busy[worst as usize];
        let room = all().filter(|more| more.1 > 0.0).map(|(arc, more)| {
            let busy = self.busy[arc as usize];
            ((self.limit - busy) / more).max((most - busy) / (more + less))
        });
        let part = share / PARTS;
        let room = (room.fold(f64::INFINITY, f64::min) / part).floor();
        let needed = ((most - self.enough) / less / part).ceil();
        part * needed.min(room).clamp(0.0, PARTS)
    }
}

/// The arc in the opposite direction of each, if all have one that is as fast.
pub fn opposite(graph: &Graph) -> Option<Vec<u32>> {
    let mut free: HashMap<(u32, u32, u64), Vec<u32>> = HashMap::new();
    for (id, arc) in (0..).zip(&graph.arcs) {
        free.entry((arc.from, arc.to, arc.rate.to_bits())).or_default().push(id);
    }
    free.values_mut().for_each(|ids| ids.reverse());
    graph.arcs.iter().map(|arc| free.get_mut(&(arc.to, arc.from, arc.rate.to_bits()))?.pop()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::level::Levelling;
    use super::super::tests::{assert_plan, broken};
    use super::super::{Graph, Known, Start, Wanted, mixture};
    use super::*;
    use antiphon_base::watch::Watch;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;
    use proptest::prelude::*;

    /// Ends of a branch, and its ways.
    type Branch = ((u32, u32), [Vec<u32>; 2]);

    fn branches(plan: &Plan) -> Vec<Branch> {
        (0..plan.branches.len()).map(|at| (plan.branches[at], plan.ways(at).map(<[u32]>::to_vec))).collect()
    }

    /// Trees of an all-reduce are good enough without a linear program: what is cut off is joined by whichever rank is cheapest, and
    /// plans stay few.
    #[test]
    fn trees_that_go_both_ways_are_turned_round() {
        for (spec, failed, most) in [("dgx-h100:4", "dgx-h100:4,drop=0-36", 6), ("mesh:6x6", "mesh:6x6,drop=3-4", 12)] {
            let [whole, graph] =
                [spec, failed].map(|spec| Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap()));
            let ids: HashMap<(u32, u32), u32> =
                (0..).zip(&graph.arcs).map(|(id, arc)| ((arc.from, arc.to), id)).collect();
            let id = |arc: u32| ids.get(&(whole.arcs[arc as usize].from, whole.arcs[arc as usize].to)).copied();
            let mut known = broken(&whole, Kind::AllReduce, |arc| id(arc).is_none());
            for known in &mut known {
                let way = |way: &[u32]| way.iter().map(|&arc| id(arc).unwrap()).collect::<Vec<u32>>();
                let left = std::mem::take(&mut known.plan);
                for (branch, &(above, below)) in left.branches.iter().enumerate() {
                    let [up, down] = left.ways(branch).map(way);
                    known.plan.branch(above, below, up, down);
                }
            }
            let wanted = Wanted { accuracy: 1e-4, level: 0.0, trees: None };
            let collective = Collective::new(Kind::AllReduce);
            let best = mixture(&graph, collective, None, &wanted, Start::default(), Watch::default()).unwrap();
            let (load, enough) = (Load { share: 1.0, matrix: None }, best.least * 1.005);
            let mending = Mending { graph: &graph, turned: false, paths: false, back: opposite(&graph), load, enough };
            let plans = known.len();
            let (found, busy) = mending.mended(known, Watch::default()).unwrap();
            found.iter().for_each(|each| assert_plan(&graph, Kind::AllReduce, each.root, &each.plan));
            let time = busy.into_iter().fold(0.0, f64::max);
            assert!(time <= enough, "{failed}: {}", time / best.least);
            assert!(found.len() <= most * plans, "{failed}: {} of {plans}", found.len());
        }
    }

    /// Of paths nothing may be left, so that no arc is busy.
    #[test]
    fn paths_that_are_all_lost_are_laid_anew() {
        let graph = Graph::new(&Fabric::parse("dgx1v").unwrap(), &System::preset("ideal").unwrap());
        let none = |root| Known { root, share: 1.0, plan: Plan::default() };
        let load = Load { share: 0.125, matrix: None };
        let mending = Mending { graph: &graph, turned: false, paths: true, back: None, load, enough: f64::INFINITY };
        let (found, _) = mending.mended((0..8).map(none).collect(), Watch::default()).unwrap();
        found.iter().for_each(|each| assert_plan(&graph, Kind::AllToAll, each.root, &each.plan));
        // Neither are numbers of what is not busy.
        let levelling = Levelling::new(&graph, load, vec![0.0; graph.arcs.len()]);
        let levelled = levelling.levelled(vec![], None, 1e-3, Watch::default()).unwrap();
        assert!(levelled.prices.iter().all(|price| price.is_finite()) && levelled.time == 0.0);
    }

    proptest! {
        /// Plans are whole, of the same shares, and keep what was left; the busiest arc is counted right.
        #[test]
        fn what_is_mended_is_whole(
            spec in prop::sample::select(vec!["fc:5", "dgx-a100:2", "dgx1v", "torus:3x3"]),
            kind in prop::sample::select(vec![Kind::AllGather, Kind::AllReduce, Kind::Broadcast, Kind::AllToAll]),
            lost in any::<u32>(),
            is_enough in any::<bool>(),
        ) {
            let graph = Graph::new(&Fabric::parse(spec).unwrap(), &System::preset("ideal").unwrap());
            let (ranks, arcs) = (graph.ranks.len(), graph.arcs.len() as u32);
            let known = broken(&graph, kind, |arc| arc == lost % arcs || arc == (lost >> 8) % arcs);
            let back = if kind == Kind::AllReduce { opposite(&graph) } else { None };
            let share = if matches!(kind, Kind::AllGather | Kind::AllToAll) { 1.0 / ranks as f64 } else { 1.0 };
            let paths = kind == Kind::AllToAll;
            // Of paths no time is enough.
            let is_enough = is_enough || paths;
            let enough = if is_enough { f64::INFINITY } else { 1e-3 };
            let mending = Mending { graph: &graph, turned: false, paths, back, load: Load { share, matrix: None }, enough };
            let (found, counted) = mending.mended(known.clone(), Watch::default()).unwrap();
            let mut busy = vec![0.0; graph.arcs.len()];
            for each in &found {
                assert_plan(&graph, kind, each.root, &each.plan);
                for &arc in each.plan.arcs() {
                    busy[arc as usize] += share * each.share / graph.arcs[arc as usize].rate;
                }
            }
            prop_assert!(counted.iter().zip(&busy).all(|(counted, busy)| (counted - busy).abs() <= 1e-9 * busy));
            for root in 0..ranks as u32 {
                let sum = |all: &[Known]| all.iter().filter(|one| one.root == root).map(|one| one.share).sum::<f64>();
                prop_assert!((sum(&found) - sum(&known)).abs() < 1e-9);
            }
            if is_enough {
                for (before, after) in known.iter().zip(&found) {
                    let after = branches(&after.plan);
                    // Those that go both ways may be turned round.
                    let turned = |branch: &Branch| ((branch.0.1, branch.0.0), [branch.1[1].clone(), branch.1[0].clone()]);
                    let has = |one: &Branch| after.contains(one) || kind == Kind::AllReduce && after.contains(&turned(one));
                    prop_assert!(branches(&before.plan).iter().all(has));
                }
            }
        }
    }
}
