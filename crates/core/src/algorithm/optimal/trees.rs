//! Mixtures of trees, laid on links and streamed.

use super::ACCURACY;
use crate::algorithm::Request;
use crate::algorithm::estimate::flit_times;
use crate::algorithm::tree::{self, Timetable, Tree, Work};
use crate::collective::Kind;
use crate::error::Result;
use crate::fabric::LinkId;
use crate::schedule::Schedule;
use crate::synthesis::{self, Graph, Plan};
use crate::units::Picos;

/// Parts of a root's data that shares are rounded to.
const WHOLE: f64 = 65536.0;
/// Trees with smaller shares of their root's data are left out first; then smaller ones, until that costs little.
const LARGEST_CUT: f64 = 1.0 / 16.0;
/// What leaving out trees may cost, relative.
const LOSS: f64 = 2e-3;

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
    let mut smallest = LARGEST_CUT;
    let mixture = loop {
        let fewer = mixture.without_small(&rates, smallest);
        if fewer.time <= mixture.time * (1.0 + LOSS) {
            break fewer;
        }
        smallest /= 2.0;
    };
    let flit_times = flit_times(request);
    let mut layer = Layer::new(&graph, fabric.ranks(), &flit_times);
    let sizes: Vec<u32> = mixture.plans.iter().map(|plan| ((plan.1 * WHOLE).round() as u32).max(1)).collect();
    let trees: Vec<Tree> = mixture.plans.iter().zip(&sizes).map(|(plan, &size)| layer.lay(&plan.2, size)).collect();
    let timetable = Timetable::new(request, &trees, sizes, work);
    tree::stream_timed(request, &[timetable])
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
