//! Credits: a small part of a reduction that goes through ranks to which nothing comes at the pace of a busy link.
//!
//! Such a rank sends as fast as its links allow. Where that is faster than planned, and behind a switch, its packets queue in front of
//! others. So one more tree, of the smallest part of the data, leads from a rank that is fed by a busy link through all of these to the
//! root: what comes to them so is their pace ([`Timetable::credited`]). In networks that is known as
//! credit-based flow control.

use crate::algorithm::Request;
use crate::algorithm::tree::{Timetable, Tree};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{LinkId, Router};
use antiphon_model::schedule::Op;

/// Links that are so busy, of the time of the busiest, give the pace.
const BUSY: f64 = 0.9;

/// The tree of credits for the reduction of a timetable, and the ranks that need it; `None` if nobody does, or nobody has a pace to give.
/// O(messages * ranks).
pub fn tree(request: &Request, timetable: &Timetable) -> Option<(Tree, Vec<u32>)> {
    let (fabric, trees) = (request.fabric, timetable.trees());
    let mut routes = trees.iter().flat_map(Tree::routes);
    if request.collective.kind != Kind::Reduce || routes.all(|route| route.len() < 2) {
        return None;
    }
    let busy = timetable.utilization();
    let busiest = |route: &[LinkId]| route.iter().map(|&link| busy[link as usize]).fold(0.0, f64::max);
    let messages = || {
        trees.iter().flat_map(|tree| {
            let message = |(edge, &(from, to))| (from as usize, to as usize, tree.route(edge, Op::Reduce));
            (0..).zip(tree.edges()).map(message)
        })
    };
    let ranks = fabric.ranks();
    let mut is_fed = vec![false; ranks];
    messages().for_each(|(_, to, _)| is_fed[to] = true);
    // How busy, at most and at least, the links are over which things come to every rank, or on which those send to whom nothing comes.
    let mut paces = vec![[0.0; 2]; ranks];
    for (from, _, route) in messages().filter(|message| !is_fed[message.0]) {
        paces[from] = [busiest(&route[..1]).max(paces[from][0]); 2];
    }
    loop {
        let mut next = paces.clone();
        (0..ranks).filter(|&rank| is_fed[rank]).for_each(|rank| next[rank] = [0.0, 1.0]);
        for (from, to, route) in messages() {
            let [most, least] = paces[from].map(|pace| busiest(route).max(pace));
            next[to] = [most.max(next[to][0]), least.min(next[to][1])];
        }
        if next == paces {
            break;
        }
        paces = next;
    }
    let root = request.collective.root;
    let [most, least] = [0, 1].map(|side| paces.iter().map(|pace| pace[side]).collect::<Vec<_>>());
    let others = || (0..ranks as u32).filter(|&rank| rank != root);
    let through: Vec<u32> = others().filter(|&rank| most[rank as usize] < BUSY).collect();
    let fed = others().filter(|&rank| is_fed[rank as usize] && least[rank as usize] >= BUSY);
    let start = fed.max_by(|&a, &b| least[a as usize].total_cmp(&least[b as usize]))?;
    through.first()?;
    // The others are joined as in the tree that has most of the data.
    let widest = timetable.widest();
    let mut router = Router::new(fabric);
    let mut route = |from: u32, to: u32| router.route(fabric.node_of_rank(from), fabric.node_of_rank(to));
    let path: Vec<u32> = [start].into_iter().chain(through.iter().copied()).chain([root]).collect();
    let mut edges: Vec<_> = path.windows(2).map(|ends| (ends[0], ends[1], [route(ends[0], ends[1]), vec![]])).collect();
    for (edge, &(child, parent)) in (0..).zip(widest.edges()) {
        if !path.contains(&child) {
            edges.push((child, parent, [widest.route(edge, Op::Reduce).to_vec(), vec![]]));
        }
    }
    Some((Tree::new(ranks, edges), through))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tree::TreeWork;
    use antiphon_base::options::Options;
    use antiphon_base::watch::Watch;
    use antiphon_model::collective::Collective;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;

    /// The edges of the credits for two equal chains to rank 0 over a switch, through ranks 2 and 3.
    fn credits(fabric: &str, chains: [[u32; 4]; 2]) -> Option<Vec<(u32, u32)>> {
        let (fabric, system) = (Fabric::parse(fabric).unwrap(), System::preset("ideal").unwrap());
        let request = Request {
            fabric: &fabric,
            system: &system,
            collective: Collective::new(Kind::Reduce),
            bytes: 1 << 20,
            matrix: None,
            align: antiphon_model::collective::Align::default(),
            spec: "test",
            options: Options::parse("test", "", &[]).unwrap(),
            watch: Watch::default(),
        };
        let mut router = Router::new(&fabric);
        let mut route = |from: u32, to: u32| router.route(fabric.node_of_rank(from), fabric.node_of_rank(to));
        let mut chain = |ranks: &[u32; 4]| {
            Tree::new(4, ranks.windows(2).map(|ends| (ends[0], ends[1], [route(ends[0], ends[1]), vec![]])))
        };
        let trees: Vec<Tree> = chains.iter().map(&mut chain).collect();
        let (found, through) = tree(&request, &Timetable::new(&request, &trees, vec![1; 2], TreeWork::Reduce, true))?;
        assert_eq!(through, [2, 3]);
        assert!(found.edges().iter().zip(0..).all(|(&(from, to), edge)| {
            let route = found.route(edge, Op::Reduce);
            fabric.link(route[0]).from == fabric.node_of_rank(from)
                && fabric.link(route[1]).to == fabric.node_of_rank(to)
        }));
        Some(found.edges().to_vec())
    }

    #[test]
    fn they_lead_from_who_is_fed_through_who_is_not() {
        // What comes to rank 1 is slow; ranks 2 and 3 could send twice as fast, also where each waits for the other.
        let slow = "switch:4,slow=4>1:0.5";
        let path = Some(vec![(1, 2), (2, 3), (3, 0)]);
        assert_eq!(credits(slow, [[3, 2, 1, 0]; 2]), path);
        assert_eq!(credits(slow, [[3, 2, 1, 0], [2, 3, 1, 0]]), path);
        // All links are as busy.
        assert_eq!(credits("switch:4", [[3, 2, 1, 0]; 2]), None);
    }
}
