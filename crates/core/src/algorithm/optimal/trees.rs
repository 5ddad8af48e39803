//! Mixtures of trees, laid on links and streamed.

use super::ACCURACY;
use crate::algorithm::Request;
use crate::algorithm::estimate::flit_times;
use crate::algorithm::tree::{self, Table, Tree, Work};
use crate::collective::Kind;
use crate::error::Result;
use crate::fabric::LinkId;
use crate::schedule::Schedule;
use crate::synthesis::{self, Graph, Plan};
use crate::units::Picos;

/// Slots of a period, about: so finely parts of the data are told apart.
const SLOTS: f64 = 16384.0;
/// Smaller shares of a root's data than that are not worth a tree.
const SMALLEST_SHARE: f64 = 1.0 / 64.0;

/// The schedule of the best mixture of trees.
///
/// # Errors
/// As [`crate::algorithm::Algorithm::build`].
pub fn trees(request: &Request) -> Result<Schedule> {
    let Request { fabric, system, collective, watch, .. } = *request;
    let work = match collective.kind {
        Kind::AllReduce => Work::Overlapped,
        Kind::ReduceScatter | Kind::Reduce => Work::Reduce,
        _ => Work::Broadcast,
    };
    let mixture = synthesis::mixture(fabric, system, collective, ACCURACY, watch)?;
    let graph = Graph::new(fabric, system);
    let rates: Vec<f64> = graph.arcs.iter().map(|arc| arc.rate).collect();
    let mixture = mixture.without_small(&rates, SMALLEST_SHARE);
    let flit_times = flit_times(request);
    let mut layer = Layer::new(&graph, fabric.ranks(), &flit_times);
    // Slots for every share of a root's data.
    let scale = SLOTS / mixture.time / (flit_times.iter().copied().min().unwrap_or(1).max(1) as f64);
    let _ = scale;
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    let per_root = mixture.shares.first().copied().unwrap_or(1.0);
    let unit = SLOTS / (mixture.time * fastest / per_root);
    let widths = tree::widths(&flit_times);
    let least_width = widths.iter().copied().min().unwrap_or(1);
    let sizes: Vec<u32> = mixture
        .plans
        .iter()
        .map(|(_, share, _)| ((share * unit / f64::from(least_width)).round() as u32).max(1))
        .collect();
    let trees: Vec<Tree> = mixture.plans.iter().zip(&sizes).map(|((_, _, plan), &size)| layer.lay(plan, size)).collect();
    let table = Table::sized(&trees, sizes, widths, work);
    if std::env::var_os("TRACE").is_some() {
        eprintln!(
            "trees {} period {} heights {:?} time {}",
            trees.len(),
            table.period,
            trees.iter().map(Tree::height).max(),
            mixture.time
        );
    }
    tree::stream(request, [table])
}

/// Lays plans on links; of parallel ones on that which is through soonest.
struct Layer<'a> {
    graph: &'a Graph,
    ranks: usize,
    flit_times: &'a [Picos],
    /// Sizes on every link.
    loads: Vec<u64>,
}

impl<'a> Layer<'a> {
    fn new(graph: &'a Graph, ranks: usize, flit_times: &'a [Picos]) -> Self {
        Layer { graph, ranks, flit_times, loads: vec![0; flit_times.len()] }
    }

    fn lay(&mut self, plan: &Plan, size: u32) -> Tree {
        let edges: Vec<(u32, u32, [Vec<LinkId>; 2])> = plan
            .branches
            .iter()
            .enumerate()
            .map(|(branch, &(above, below))| (below, above, plan.ways(branch).map(|way| self.links(way, size))))
            .collect();
        Tree::new(self.ranks, edges)
    }

    fn links(&mut self, way: &[u32], size: u32) -> Vec<LinkId> {
        let link = |&arc: &u32| {
            let links = self.graph.arcs[arc as usize].links.iter().copied();
            let time = |link: &LinkId| {
                (self.loads[*link as usize] + u64::from(size)) * self.flit_times[*link as usize]
            };
            let link = links.min_by_key(time).expect("an arc has a link");
            self.loads[link as usize] += u64::from(size);
            link
        };
        way.iter().map(link).collect()
    }
}
