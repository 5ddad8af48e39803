//! Forest: the packing of spanning trees that reaches the physical limit of any symmetric fabric, found by
//! matroid union, e.g. where links or chiplets have failed. Nodes that only forward are not used, nor what links have one way only.
//!
//! With strength `p / q`, every edge used `q` times holds `p` spanning trees (Tutte 1961, Nash-Williams
//! 1961), after dividing out common factors. Fewer trees that load the links a little less evenly are
//! soon through, so that several packings are weighed against each other.

use super::estimate::flit_times_of_ranks;
use super::packing::PackingGraph;
use super::tree::{self, Planter, Priority, Table, Tree, TreeWork};
use super::{ALIGN, Algorithm, Info, Request};
use antiphon_base::error::Result;
use antiphon_bound::{RankEdge, edges_both_ways, strength_of};
use antiphon_model::collective::Kind;
use antiphon_model::schedule::Schedule;
use num_integer::gcd;

/// See the module.
pub struct Forest;

const INFO: Info = Info {
    name: "forest",
    summary: "an optimal packing of spanning trees on the links between ranks, reduction and broadcast at once",
    options: &[tree::PIECE, ALIGN],
    source: "Tutte and Nash-Williams; Roskind and Tarjan; tree packing: Blink",
    collectives: &[Kind::AllReduce],
};

/// Most trees of a packing: more hardly load the links more evenly.
const MOST_TREES: usize = 256;
/// Most edges of all trees of a packing together, about a second of work, and of a graph.
const MOST_EDGES: usize = 1 << 14;

impl Algorithm for Forest {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let planted = trees(request)?;
        let widths = tree::widths(&flit_times_of_ranks(request));
        let tables =
            planted.iter().map(|trees| Table::listed(trees, widths.clone(), Priority::Farthest, TreeWork::Overlapped));
        tree::stream(request, tables)
    }
}

/// Packings on the links of a request's fabric.
///
/// # Errors
/// [`antiphon_base::error::Code::NotApplicable`] if links both ways do not join all ranks, or there are too many.
pub(super) fn trees(request: &Request) -> Result<Vec<Vec<Tree>>> {
    let (edges, links) = edges_both_ways(request.fabric, request.system);
    if !PackingGraph::new(request.fabric.ranks(), edges.iter().map(|&(a, b, _)| (a, b))).is_connected() {
        return request
            .refuse("it needs ranks that links join both ways, without switches and nodes that only forward");
    }
    if edges.len() > MOST_EDGES {
        return request.refuse(format_args!("{} edges are too many; at most {MOST_EDGES}", edges.len()));
    }
    let packings = packings(request.fabric.ranks(), &edges, &links, tree::most(request));
    let planted = |packing| Planter::new(request.fabric, request.system).plant_all(packing);
    Ok(packings.iter().map(planted).collect())
}

/// A tree as the parents of all ranks.
type Parents = Vec<Option<u32>>;

/// A lowest tree, then packings of more and more trees that load the links more and more evenly: the last
/// one exactly, unless it would have more than `most` or [`MOST_TREES`] trees, or [`MOST_EDGES`] edges.
fn packings(ranks: usize, edges: &[RankEdge], links: &[[Vec<u128>; 2]], most: usize) -> Vec<Vec<Parents>> {
    let graph = PackingGraph::new(ranks, edges.iter().map(|&(a, b, _)| (a, b)));
    let centre = graph.centre();
    let fastest = links.iter().flatten().flatten().copied().max().unwrap_or(1);
    let strength = strength_of(ranks, edges);
    let (crossing, parts) = (strength.crossing, u128::from(strength.parts) - 1);
    // Uses of the fastest link by the smallest packing that is exact.
    let exact = parts / gcd(crossing, parts) * fastest;
    let fewer =
        (0..).flat_map(|exponent| [2u128 << exponent >> 1, 3 << exponent >> 1]).take_while(|&uses| uses < exact);
    let mut packings = graph.pack(&vec![1; edges.len()], 1, centre).into_iter().collect::<Vec<_>>();
    let most = most.min(MOST_TREES);
    let mut best = (0, 1);
    for uses in fewer.chain([exact]) {
        // Every one of parallel links holds whole trees.
        let whole = |links: &Vec<u128>| links.iter().map(|capacity| capacity * uses / fastest).sum::<u128>();
        let room = |(&(a, b, _), [there, back]): (&RankEdge, &[Vec<u128>; 2])| (a, b, whole(there).min(whole(back)));
        let room: Vec<RankEdge> = edges.iter().zip(links).map(room).collect();
        let count = if room.iter().zip(edges).all(|(room, edge)| room.2 * fastest == edge.2 * uses) {
            crossing * uses / (parts * fastest)
        } else {
            let strength = strength_of(ranks, &room);
            strength.crossing / (u128::from(strength.parts) - 1)
        };
        if count > most as u128 || count * (ranks as u128 - 1) > MOST_EDGES as u128 {
            break;
        }
        // Trees for every use of the fastest link.
        if count * best.1 > best.0 * uses {
            best = (count, uses);
            let most: Vec<u32> = room.iter().map(|edge| edge.2.min(count) as u32).collect();
            packings.push(graph.pack(&most, count as usize, centre).expect("as many trees as the strength says"));
        }
    }
    packings
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::fabric::{Fabric, Link, Node, Shape};
    use antiphon_model::system::System;
    use proptest::prelude::*;

    /// A connected graph: a random tree and more edges, some parallel, with capacities.
    fn graphs() -> impl Strategy<Value = (usize, Vec<(u32, u32, u32)>)> {
        let more = prop::collection::vec((0u32..12, 0u32..12, 1u32..4), 0..24);
        (2u32..12, prop::collection::vec((any::<u32>(), 1u32..4), 11), more).prop_map(|(nodes, tree, more)| {
            let tree = (1..nodes).zip(tree).map(|(node, (above, capacity))| (above % node, node, capacity));
            let more = more.into_iter().map(|(a, b, capacity)| (a % nodes, b % nodes, capacity));
            (nodes as usize, tree.chain(more).filter(|edge| edge.0 != edge.1).collect())
        })
    }

    /// A fabric with a pair of links for every edge: a quarter, half or all of the rate.
    fn fabric(nodes: usize, edges: &[(u32, u32, u32)]) -> Fabric {
        let link = |from, to, capacity| {
            let mut link = Link::new(from, to, "x");
            link.speed_permille = 125u32 << capacity;
            link
        };
        let links = edges.iter().flat_map(|&(a, b, capacity)| [link(a, b, capacity), link(b, a, capacity)]);
        let nodes = (0..nodes as u32).map(|rank| Node::rank(rank, []));
        Fabric::new("random", Shape::Graph, nodes.collect(), links.collect()).unwrap()
    }

    /// Loads of all edges by trees, which are checked to span.
    fn loads(ranks: usize, edges: &[RankEdge], trees: &[Parents]) -> Vec<u128> {
        let mut loads = vec![0; edges.len()];
        for parents in trees {
            assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1);
            for (rank, parent) in (0..).zip(parents) {
                let steps = std::iter::successors(*parent, |&parent| parents[parent as usize]).take(ranks);
                assert!(steps.count() < ranks, "a cycle");
                if let Some(parent) = *parent {
                    let ends = (rank.min(parent), rank.max(parent));
                    loads[edges.iter().position(|edge| (edge.0, edge.1) == ends).expect("an edge")] += 1;
                }
            }
        }
        loads
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// The last packing has the strength exactly: no edge has more than its share of the trees.
        #[test]
        fn the_packing_reaches_the_strength((nodes, edges) in graphs()) {
            let fabric = fabric(nodes, &edges);
            let (edges, links) = edges_both_ways(&fabric, &System::preset("ideal").unwrap());
            let strength = strength_of(nodes, &edges);
            let packings = packings(nodes, &edges, &links, usize::MAX);
            let trees = packings.last().unwrap();
            let time = |load: u128, capacity: u128| load * strength.crossing <= capacity * trees.len() as u128 * (u128::from(strength.parts) - 1);
            for (load, edge) in loads(nodes, &edges, trees).into_iter().zip(&edges) {
                prop_assert!(time(load, edge.2), "edge {edge:?} in {load} of {} trees, {strength:?}", trees.len());
            }
        }
    }

    /// DGX-1 V100 reaches 7/24 (docs/explanation/combs.md, Forest), and every link takes its part.
    #[test]
    fn parallel_links_share_the_trees() {
        let fabric = Fabric::parse("dgx1v").unwrap();
        let system = System::preset("ideal").unwrap();
        let (edges, links) = edges_both_ways(&fabric, &system);
        let packings = packings(8, &edges, &links, usize::MAX);
        let mut planter = Planter::new(&fabric, &system);
        let trees = planter.plant_all(packings.last().unwrap());
        let mut loads = vec![0; fabric.links.len()];
        trees.iter().flat_map(Tree::routes).flatten().for_each(|&link| loads[link as usize] += 1);
        assert_eq!((trees.len(), loads.iter().max()), (24, Some(&7)));
        let table = Table::listed(&trees, vec![1; loads.len()], Priority::Farthest, TreeWork::Overlapped);
        assert_eq!(table.period, 7);
        table.assert_free();
    }

    /// Also where all edges have as many parallel links, none is left idle.
    #[test]
    fn all_of_parallel_links_are_used() {
        for (nodes, ring, count) in [(2, false, 3), (4, false, 2), (3, true, 4), (4, true, 2), (4, true, 7)] {
            let around = (0..nodes - u32::from(!ring)).map(|node| (node, (node + 1) % nodes, 3));
            let edges: Vec<_> = around.flat_map(|edge| vec![edge; count]).collect();
            let fabric = fabric(nodes as usize, &edges);
            let system = System::preset("ideal").unwrap();
            let (edges, links) = edges_both_ways(&fabric, &system);
            let packings = packings(nodes as usize, &edges, &links, usize::MAX);
            let mut planter = Planter::new(&fabric, &system);
            let trees = planter.plant_all(packings.last().unwrap());
            let mut loads = vec![0; fabric.links.len()];
            trees.iter().flat_map(Tree::routes).flatten().for_each(|&link| loads[link as usize] += 1);
            let strength = strength_of(nodes as usize, &edges);
            let most: u128 = *loads.iter().max().unwrap();
            let limit = trees.len() as u128 * (u128::from(strength.parts) - 1);
            assert_eq!(most * strength.crossing, limit, "{nodes} nodes, ring: {ring}, {count} links");
        }
    }

    /// Between edges of rates 1 and 3/2 every link keeps its places.
    #[test]
    fn slow_links_have_wider_places() {
        let fabric = Fabric::parse("mesh:3x3,slow=0-1:0.5,slow=4-5:0.75,slow=7-8:0.3").unwrap();
        let system = System::preset("ideal").unwrap();
        let (edges, links) = edges_both_ways(&fabric, &system);
        let flit_times: Vec<u64> = fabric.links.iter().map(|link| system.flit_time(link)).collect();
        for packing in packings(9, &edges, &links, usize::MAX) {
            let mut planter = Planter::new(&fabric, &system);
            let trees = planter.plant_all(&packing);
            Table::listed(&trees, tree::widths(&flit_times), Priority::Farthest, TreeWork::Overlapped).assert_free();
        }
    }
}
