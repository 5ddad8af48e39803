//! MultiTree: one spanning tree per rank, grown greedily in timesteps so that no link is used
//! twice in a timestep.
//!
//! Huang et al., "Communication algorithm-architecture co-design for distributed deep learning"
//! (ISCA 2021), with the turn and tie rules of the TTO artifact (HPCA 2024). [`concentrated`]: over groups of ranks.

mod concentrated;

use super::tree::{Laid, Tree, twins};
use super::{ALIGN, Algorithm, Info, Request, Scale};
use antiphon_base::error::Result;
use antiphon_base::options::{Default::Fixed, Opt};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{DimensionShape, Fabric, LinkId, NodeId, Router};
use antiphon_model::schedule::{Issue, Lane, Op, Schedule};

/// See the module.
pub struct MultiTree;

const INFO: Info = Info {
    name: "multitree",
    summary: "one greedy, contention-free tree per rank (one pipelined tree for broadcast and reduce)",
    options: &[
        Opt::bytes("chunk", Fixed("64KiB"), "One chunk of broadcast and reduce."),
        Opt::choice(
            "concentration",
            &["none", "2x2"],
            "What trees join. 2x2: blocks of four ranks, which first reduce into two of them, half of the data each (ARIES).",
        ),
        ALIGN,
    ],
    source: "MultiTree (ISCA 2021); TTO (HPCA 2024) as baseline",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast, Kind::Reduce],
};

/// A tree edge: `parent` sends to `child` at `step` along `route`.
struct MultitreeEdge {
    tree: u32,
    parent: u32,
    child: u32,
    step: u32,
    route: Vec<LinkId>,
}

/// Links out of a node that lead to the same node and were added one after another: taken in order, so that a search
/// looks at them once however many they are.
struct Bundle {
    to: NodeId,
    links: Vec<LinkId>,
    /// How many are taken in this timestep.
    taken: usize,
}

/// The bundles out of every node, in the order of their links.
fn bundles(fabric: &Fabric, there: impl Fn(LinkId) -> bool) -> Vec<Vec<Bundle>> {
    let of_node = |node| {
        let same = |&a: &LinkId, &b: &LinkId| fabric.link(a).to == fabric.link(b).to;
        let bundle = |links: &[LinkId]| Bundle { to: fabric.link(links[0]).to, links: links.to_vec(), taken: 0 };
        let links: Vec<LinkId> = fabric.out_links(node).iter().copied().filter(|&link| there(link)).collect();
        links.chunk_by(same).map(bundle).collect()
    };
    (0..fabric.nodes.len() as NodeId).map(of_node).collect()
}

/// Where a tree may grow.
trait Ground {
    /// Whether a timestep goes on until no tree grows, or as in the artifact until the last one does not.
    const THOROUGH: bool = false;

    /// The first route over free links from a rank to one outside a tree, as the bundle to take at every node.
    fn free_route(&mut self, bundles: &[Vec<Bundle>], rank: u32, members: &[bool]) -> Option<Vec<usize>>;

    /// Whether a route from a rank might lead outside a tree, were all links free.
    fn leads_outside(&self, rank: u32, members: &[bool]) -> bool;
}

/// To any rank that no other one is in front of.
struct Everywhere<'a> {
    fabric: &'a Fabric,
    switches: bool,
    seen: Vec<u32>,
    search: u32,
}

impl Ground for Everywhere<'_> {
    fn free_route(&mut self, bundles: &[Vec<Bundle>], rank: u32, members: &[bool]) -> Option<Vec<usize>> {
        self.search += 1;
        free_route(self.fabric, bundles, self.fabric.node_of_rank(rank), members, &mut self.seen, self.search)
    }

    fn leads_outside(&self, rank: u32, members: &[bool]) -> bool {
        self.switches
            || self.fabric.out_links(self.fabric.node_of_rank(rank)).iter().any(|&link| {
                let to = &self.fabric.nodes[self.fabric.link(link).to as usize];
                to.rank.is_some_and(|other| !members[other as usize])
            })
    }
}

/// The trees rooted at `roots` on the links that are `there`, of which each has yet to reach the ranks that are no members,
/// and the number of timesteps.
///
/// Complexity: O(timesteps * roots * open parents * neighbours).
fn grow<G: Ground>(
    fabric: &Fabric,
    ground: &mut G,
    there: impl Fn(LinkId) -> bool,
    roots: &[u32],
    priority: &[u32],
    mut in_tree: Vec<Vec<bool>>,
) -> (Vec<MultitreeEdge>, u32) {
    // Members that may still have neighbours outside, in insertion order, with their timestep.
    let mut open: Vec<Vec<(u32, u32)>> = vec![Vec::new(); roots.len()];
    let outside = |members: &Vec<bool>| members.iter().filter(|member| !**member).count() - 1;
    let mut missing: Vec<usize> = in_tree.iter().map(outside).collect();
    let mut edges = Vec::with_capacity(missing.iter().sum());
    for (tree, &root) in roots.iter().enumerate() {
        in_tree[tree][root as usize] = true;
        open[tree].push((root, 0));
    }
    let mut order: Vec<usize> = (0..roots.len()).collect();
    let mut bundles = bundles(fabric, there);
    let mut step = 0;
    let mut first_round = true;
    while missing.iter().any(|&left| left > 0) {
        bundles.iter_mut().flatten().for_each(|bundle| bundle.taken = 0);
        loop {
            let (mut last_added, mut some_added) = (false, false);
            for &tree in &order {
                last_added = false;
                let members = &in_tree[tree];
                let found = open[tree]
                    .iter()
                    .take_while(|_| missing[tree] > 0)
                    .filter(|m| m.1 <= step)
                    .find_map(|&(parent, _)| Some((parent, ground.free_route(&bundles, parent, members)?)));
                if let Some((parent, hops)) = found {
                    let mut end = fabric.node_of_rank(parent);
                    let mut route = Vec::with_capacity(hops.len());
                    for hop in hops {
                        let bundle = &mut bundles[end as usize][hop];
                        route.push(bundle.links[bundle.taken]);
                        bundle.taken += 1;
                        end = bundle.to;
                    }
                    let child = fabric.nodes[end as usize].rank.expect("routes end at ranks");
                    in_tree[tree][child as usize] = true;
                    open[tree].push((child, step + 1));
                    missing[tree] -= 1;
                    edges.push(MultitreeEdge { tree: tree as u32, parent, child, step, route });
                    (last_added, some_added) = (true, true);
                }
            }
            if first_round {
                order.sort_by_key(|&tree| std::cmp::Reverse((priority[tree], roots[tree])));
                first_round = false;
            }
            if !(last_added || G::THOROUGH && some_added) {
                break;
            }
        }
        for (members, list) in in_tree.iter().zip(&mut open) {
            list.retain(|&(rank, _)| ground.leads_outside(rank, members));
        }
        step += 1;
    }
    (edges, step)
}

/// The first route over free links from `node` to a rank outside the tree, through switches only, as the bundle to take
/// at every node; bundles in order.
fn free_route(
    fabric: &Fabric,
    bundles: &[Vec<Bundle>],
    node: NodeId,
    members: &[bool],
    seen: &mut [u32],
    search: u32,
) -> Option<Vec<usize>> {
    seen[node as usize] = search;
    for (hop, bundle) in bundles[node as usize].iter().enumerate() {
        if bundle.taken == bundle.links.len() || seen[bundle.to as usize] == search {
            continue;
        }
        match fabric.nodes[bundle.to as usize].rank {
            Some(rank) if members[rank as usize] => {}
            Some(_) => return Some(vec![hop]),
            None => {
                if let Some(mut rest) = free_route(fabric, bundles, bundle.to, members, seen, search) {
                    rest.insert(0, hop);
                    return Some(rest);
                }
            }
        }
    }
    None
}

/// Order of turns: farthest roots first. On a square mesh the artifact's distance to a corner,
/// max over corners |row - corner row| + |corner row - corner column|, which ignores the column.
fn priorities(fabric: &Fabric, roots: &[u32]) -> Vec<u32> {
    if let Some((product, (rows, columns))) = fabric.product().and_then(|p| Some((p, p.rows_columns()?)))
        && product.is_all(DimensionShape::Line)
    {
        let corners = [(0, 0), (0, columns - 1), (rows - 1, 0), (rows - 1, columns - 1)];
        let positions = product.positions(fabric.nodes.len());
        let of = |&root: &u32| {
            let position = positions[fabric.node_of_rank(root) as usize].expect("ranks of a product have positions");
            let row = product.coordinates.of(position, 0);
            corners.iter().map(|&(r, c)| row.abs_diff(r) + r.abs_diff(c)).max().unwrap_or(0)
        };
        return roots.iter().map(of).collect();
    }
    let router = Router::new(fabric);
    let eccentricity = |root: u32| {
        let distances = router.distances(fabric.node_of_rank(root));
        (0..fabric.ranks() as u32).map(|other| distances[fabric.node_of_rank(other) as usize]).max().unwrap_or(0)
    };
    roots.iter().map(|&root| eccentricity(root)).collect()
}

/// The tree of every rank on the links of a request's fabric, if all have a counterpart in the opposite direction.
pub(super) fn trees(request: &Request) -> Option<Vec<Tree>> {
    let fabric = request.fabric;
    let twins = twins(fabric).into_iter().collect::<Option<Vec<LinkId>>>()?;
    let roots: Vec<u32> = (0..request.ranks()).collect();
    let mut edges: Vec<Vec<Laid>> = vec![Vec::new(); roots.len()];
    for MultitreeEdge { tree, parent, child, route, .. } in everywhere(fabric, &roots).0 {
        let back = route.iter().rev().map(|&link| twins[link as usize]).collect();
        edges[tree as usize].push((child, parent, [back, route]));
    }
    Some(edges.into_iter().map(|edges| Tree::new(roots.len(), edges)).collect())
}

/// The trees of these roots on all links, and the number of timesteps.
fn everywhere(fabric: &Fabric, roots: &[u32]) -> (Vec<MultitreeEdge>, u32) {
    let (switches, seen) = (fabric.has_switches(), vec![0; fabric.nodes.len()]);
    let mut ground = Everywhere { fabric, switches, seen, search: 0 };
    let nobody = vec![vec![false; fabric.ranks()]; roots.len()];
    grow(fabric, &mut ground, |_| true, roots, &priorities(fabric, roots), nobody)
}

impl Algorithm for MultiTree {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn scale(&self) -> Scale {
        Scale::Large
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let (fabric, kind) = (request.fabric, request.collective.kind);
        let Some(twins) = twins(fabric).into_iter().collect::<Option<Vec<LinkId>>>() else {
            return request.refuse("some link has no counterpart in the opposite direction");
        };
        if request.options.choice("concentration") == "2x2" {
            return concentrated::build(request, &twins);
        }
        let chunk = request.options.bytes("chunk");
        let chunk = request.align.up(chunk.min(request.bytes));
        let roots: Vec<u32> =
            if kind.rooted() { vec![request.collective.root] } else { (0..request.ranks()).collect() };
        // Growing the trees takes long; do not start what cannot be held.
        let passes = if kind == Kind::AllReduce { 2 } else { 1 };
        let transfers = (passes * roots.len() * (fabric.ranks() - 1)) as u64;
        request.expect(transfers, 0)?;
        let (edges, steps) = everywhere(fabric, &roots);
        let mut builder = request.builder();
        builder.reserve(transfers);
        if kind.rooted() {
            let chunks = request.bytes.div_ceil(chunk);
            let lane = Lane {
                offset: 0,
                bytes: request.bytes,
                chunks,
                chunk_bytes: chunk.max(request.align.payload(request.bytes, chunks)),
                stride: 1,
                source: 0,
                owner: 0,
            };
            builder.lane(lane);
        } else {
            builder.schedule.endpoint.issue = Issue::StrictSteps;
            builder.schedule.conflict_free = true;
            for &root in &roots {
                builder.shard_block(root, request.shard(root), request.block_bytes(request.ranks()));
            }
        }
        if kind.reduces() {
            builder.phase(if kind == Kind::Reduce { "reduce" } else { "reduce-scatter" }, false);
            for edge in &edges {
                let route: Vec<LinkId> = edge.route.iter().rev().map(|&link| twins[link as usize]).collect();
                builder.send_via(Op::Reduce, edge.child, edge.parent, edge.tree, steps - 1 - edge.step, route)?;
            }
        }
        if request.gathers() || kind == Kind::Broadcast {
            builder.phase(if kind == Kind::Broadcast { "broadcast" } else { "all-gather" }, false);
            for edge in edges {
                builder.send_via(Op::Copy, edge.parent, edge.child, edge.tree, edge.step, edge.route)?;
            }
        }
        builder.finish()
    }
}
