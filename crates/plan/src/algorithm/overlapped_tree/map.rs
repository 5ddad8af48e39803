//! Logical trees on a physical fabric: which ranks are joined, and along which links.
//!
//! An edge of a tree may be a detour over ranks that only forward (C-Cube section IV-A). Where no link carries
//! two edges in one direction, reduction and broadcast of all trees run at once without a conflict.

use crate::algorithm::packing::PackingGraph;
use crate::algorithm::tree::{Tree, twins};
use crate::algorithm::{Request, dbtree};
use antiphon_model::fabric::{Fabric, LinkId, NodeId, Ways};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, VecDeque};

/// Most directed links of a fabric that is searched.
const MAX_LINKS: usize = 1 << 16;
/// Most directed links of a fabric that trees are packed into.
const MAX_PACKED: usize = 1 << 12;
/// Links that all tries of one height may look at.
const MAX_WORK: usize = 1 << 20;
/// Tries for every height.
const TRIES: usize = 64;

/// A child, its parent, and the links up and down.
type ChildEdge = (u32, u32, [Vec<LinkId>; 2]);

/// NCCL's binary tree over the ranks as they are numbered, and the same tree with every number XOR 1 (plus 1, if
/// the ranks are odd), on minimal routes; of parallel links the one least in use (C-Cube, HPCA 2023, section IV-A).
pub fn numbered(request: &Request, trees: usize) -> Vec<Tree> {
    let Request { fabric, system, bytes, .. } = *request;
    let n = fabric.ranks() as u32;
    let renamed = |rank: u32, tree: usize| match (tree, n % 2) {
        (0, _) => rank,
        (_, 0) => rank ^ 1,
        _ => (rank + 1) % n,
    };
    let mut ways = Ways::new(fabric, 0, system.routing, system.link_rate);
    let mut load = vec![0u32; fabric.links.len()];
    let mut route = |from: u32, to: u32| -> Vec<LinkId> {
        let minimal =
            ways.path(fabric.node_of_rank(from), fabric.node_of_rank(to), bytes, &[]).expect("ranks are joined");
        let least = |link: LinkId| {
            let (from, to) = (fabric.link(link).from, fabric.link(link).to);
            let parallel = fabric.out_links(from).iter().copied().filter(|&other| fabric.link(other).to == to);
            parallel.min_by_key(|&other| load[other as usize]).unwrap_or(link)
        };
        let route: Vec<LinkId> = minimal.into_iter().map(least).collect();
        route.iter().for_each(|&link| load[link as usize] += 1);
        route
    };
    let parents: Vec<_> = (0..n).map(|rank| dbtree::parent(rank, n)).collect();
    let outwards = Tree::logical(&parents).edges_by_depth();
    (0..trees)
        .map(|tree| {
            let edge = |&(child, parent): &(u32, u32)| {
                let (child, parent) = (renamed(child, tree), renamed(parent, tree));
                (child, parent, [route(child, parent), route(parent, child)])
            };
            Tree::new(fabric.ranks(), outwards.iter().map(edge))
        })
        .collect()
}

/// Searches a fabric for low spanning trees.
pub struct Mapper<'a> {
    fabric: &'a Fabric,
    /// Links from every node that may be used.
    out: Vec<Vec<LinkId>>,
    /// Of these, the link in the opposite direction.
    twins: Vec<Option<LinkId>>,
    /// For every rank the edges to the farthest other one, were every link there for this tree alone.
    reach: Vec<u32>,
}

impl<'a> Mapper<'a> {
    /// For the links that are `usable` and have a counterpart in the other direction that is. `None` if the fabric is
    /// too large to search, or these links do not join all ranks.
    pub fn new(fabric: &'a Fabric, usable: impl Fn(LinkId) -> bool) -> Option<Self> {
        if fabric.links.len() > MAX_LINKS {
            return None;
        }
        let pair = |(id, twin): (LinkId, Option<LinkId>)| twin.filter(|&twin| usable(id) && usable(twin));
        let twins: Vec<Option<LinkId>> = (0..).zip(twins(fabric)).map(pair).collect();
        let of = |node| fabric.out_links(node).iter().copied().filter(|&id| twins[id as usize].is_some()).collect();
        let out = (0..fabric.nodes.len() as NodeId).map(of).collect::<Vec<Vec<LinkId>>>();
        let reach = (0..fabric.ranks() as u32).map(|rank| reach(fabric, &out, rank)).collect::<Option<_>>()?;
        Some(Mapper { fabric, out, twins, reach })
    }

    fn twin(&self, link: LinkId) -> LinkId {
        self.twins[link as usize].expect("only links with a twin are used")
    }

    /// The least height of a tree without detours.
    pub fn radius(&self) -> u32 {
        self.reach.iter().copied().min().unwrap_or(0)
    }

    /// The lowest `trees` spanning trees found of which at most `capacity` edges use any link.
    ///
    /// Trees grow in turns from random roots, each by the rank nearest to it, which is joined to the highest of
    /// the nearest members: up to a height from the radius on, a fixed number of tries and links looked at for each,
    /// until one try succeeds. The same fabric always gives the same trees.
    pub fn search(&self, trees: usize, capacity: u32) -> Option<Vec<Tree>> {
        let edges = trees * (self.fabric.ranks() - 1);
        if self.twins.iter().flatten().count() / 2 * (capacity as usize) < edges {
            return None;
        }
        let mut random = Pcg64Mcg::seed_from_u64(0);
        let any = self.fabric.ranks() as u32 - 1;
        for height in (self.radius()..self.radius() + 4).chain([any]) {
            let centres: Vec<u32> = (0..=any).filter(|&rank| self.reach[rank as usize] <= height).collect();
            let mut work = MAX_WORK;
            for attempt in 0..TRIES {
                // The first try grows from the lowest numbers, over links in their order.
                let mut pick = |index| if attempt == 0 { index } else { random.next_u32() as usize };
                let roots: Vec<u32> = (0..trees).map(|tree| centres[pick(tree) % centres.len()]).collect();
                let shuffle = (attempt > 0).then_some(&mut random);
                if let Some(found) = self.grow(&roots, height, capacity, shuffle, &mut work) {
                    return Some(found);
                }
                if work == 0 {
                    break;
                }
            }
        }
        None
    }

    /// `trees` spanning trees without detours that share no link, if there are such: by matroid union.
    pub fn packed(&self, trees: usize) -> Option<Vec<Tree>> {
        if self.fabric.links.len() > MAX_PACKED {
            return None;
        }
        // Links of every edge from its lower rank to the higher one.
        let mut links: BTreeMap<(u32, u32), Vec<LinkId>> = BTreeMap::new();
        for &id in self.out.iter().flatten() {
            let link = self.fabric.link(id);
            let rank = |node: NodeId| self.fabric.nodes[node as usize].rank;
            let (from, to) = (rank(link.from)?, rank(link.to)?);
            if from < to {
                links.entry((from, to)).or_default().push(id);
            }
        }
        let graph = PackingGraph::new(self.fabric.ranks(), links.keys().copied());
        let most: Vec<u32> = links.values().map(|links| links.len() as u32).collect();
        let packed = graph.pack(&most, trees, graph.centre())?;
        let mut edge = |(child, parent): (u32, u32)| {
            let ends = (child.min(parent), child.max(parent));
            let link = links.get_mut(&ends).and_then(Vec::pop).expect("a link for every tree on an edge");
            let twin = self.twin(link);
            (child, parent, if child < parent { [[link], [twin]] } else { [[twin], [link]] })
        };
        let mut tree = |parents: Vec<Option<u32>>| {
            let outwards = Tree::logical(&parents).edges_by_depth();
            Tree::new(parents.len(), outwards.into_iter().map(&mut edge))
        };
        Some(packed.into_iter().map(&mut tree).collect())
    }

    fn grow(
        &self,
        roots: &[u32],
        height: u32,
        capacity: u32,
        mut random: Option<&mut Pcg64Mcg>,
        work: &mut usize,
    ) -> Option<Vec<Tree>> {
        let (fabric, ranks) = (self.fabric, self.fabric.ranks());
        let mut free = vec![capacity; fabric.links.len()];
        let mut edges: Vec<Vec<ChildEdge>> = roots.iter().map(|_| Vec::with_capacity(ranks - 1)).collect();
        // Members of every tree with their depths, lowest first; those that may have a link to a rank outside.
        let mut members: Vec<Vec<(u32, NodeId)>> =
            roots.iter().map(|&root| vec![(0, fabric.node_of_rank(root))]).collect();
        let mut open = members.clone();
        let mut inside = vec![vec![false; fabric.nodes.len()]; roots.len()];
        // Edges that a node can still have, less those it needs to come into the other trees.
        let mut spare: Vec<i64> = (0..fabric.nodes.len() as NodeId)
            .map(|node| {
                let needed = if fabric.nodes[node as usize].rank.is_some() { roots.len() } else { 0 };
                self.out[node as usize].len() as i64 * i64::from(capacity) - needed as i64
            })
            .collect();
        for (inside, &root) in inside.iter_mut().zip(roots) {
            inside[fabric.node_of_rank(root) as usize] = true;
            spare[fabric.node_of_rank(root) as usize] += 1;
        }
        let mut links = self.out.clone();
        if let Some(random) = &mut random {
            for list in &mut links {
                for index in (1..list.len()).rev() {
                    list.swap(index, random.next_u32() as usize % (index + 1));
                }
            }
        }
        for tree in (1..ranks).flat_map(|_| 0..roots.len()) {
            let growth =
                GrowingTree { fabric, links: &links, free: &free, spare: &spare, inside: &inside[tree], height };
            let down = match growth.neighbour(&mut open[tree], work) {
                Some(link) => vec![link],
                None => growth.detour(&members[tree], work)?,
            };
            let (from, to) = (fabric.link(down[0]).from, fabric.link(down[down.len() - 1]).to);
            let up: Vec<LinkId> = down.iter().rev().map(|&link| self.twin(link)).collect();
            for &link in down.iter().chain(&up) {
                free[link as usize] -= 1;
                spare[fabric.link(link).from as usize] -= 1;
            }
            inside[tree][to as usize] = true;
            spare[to as usize] += 1;
            let depth = members[tree].iter().find(|(_, node)| *node == from).map_or(0, |(depth, _)| depth + 1);
            for list in [&mut members[tree], &mut open[tree]] {
                list.insert(list.partition_point(|(other, _)| *other <= depth), (depth, to));
            }
            let rank = |node: NodeId| fabric.nodes[node as usize].rank.expect("both ends are ranks");
            edges[tree].push((rank(to), rank(from), [up, down]));
        }
        Some(edges.into_iter().map(|edges| Tree::new(ranks, edges)).collect())
    }
}

/// A tree that grows: what it may use next.
struct GrowingTree<'a> {
    fabric: &'a Fabric,
    /// Links that leave every node, in the order of this try.
    links: &'a [Vec<LinkId>],
    /// By link: edges it can still carry.
    free: &'a [u32],
    /// By node: edges it can still have and not miss in another tree.
    spare: &'a [i64],
    /// Whether a node is in the tree.
    inside: &'a [bool],
    height: u32,
}

impl GrowingTree<'_> {
    /// A free link from the first of the members to a rank outside. Members that have none leave the list.
    fn neighbour(&self, open: &mut Vec<(u32, NodeId)>, work: &mut usize) -> Option<LinkId> {
        let mut found = None;
        open.retain(|&(depth, node)| {
            if found.is_some() || depth >= self.height {
                return true;
            }
            let list = &self.links[node as usize];
            *work = work.saturating_sub(list.len());
            let outside = list.iter().copied().find(|&link| {
                let to = self.fabric.link(link).to as usize;
                self.free[link as usize] > 0 && self.fabric.nodes[to].rank.is_some() && !self.inside[to]
            });
            found = outside.filter(|_| self.spare[node as usize] > 0);
            outside.is_some()
        });
        found
    }

    /// The shortest route over free links, switches and members that only forward, from the first of the members
    /// that have one, to a rank outside.
    fn detour(&self, members: &[(u32, NodeId)], work: &mut usize) -> Option<Vec<LinkId>> {
        let sources = members.iter().take_while(|(depth, _)| *depth < self.height).map(|&(_, node)| node);
        let mut queue: VecDeque<NodeId> = sources.filter(|&node| self.spare[node as usize] > 0).collect();
        let mut reached: Vec<Option<LinkId>> = vec![None; self.links.len()];
        let mut seen = vec![false; self.links.len()];
        queue.iter().for_each(|&node| seen[node as usize] = true);
        *work = work.checked_sub(self.links.len() / 8)?;
        while let Some(node) = queue.pop_front() {
            for &link in &self.links[node as usize] {
                *work = work.checked_sub(1)?;
                let to = self.fabric.link(link).to;
                if self.free[link as usize] == 0 || seen[to as usize] {
                    continue;
                }
                (seen[to as usize], reached[to as usize]) = (true, Some(link));
                if self.fabric.nodes[to as usize].rank.is_none() || self.inside[to as usize] {
                    // One that forwards has two more edges.
                    if self.spare[to as usize] > 1 {
                        queue.push_back(to);
                    }
                    continue;
                }
                let mut route = vec![];
                let mut at = to;
                while let Some(link) = reached[at as usize] {
                    route.push(link);
                    at = self.fabric.link(link).from;
                }
                route.reverse();
                return Some(route);
            }
        }
        None
    }
}

/// Edges from `rank` to the farthest other one over the links `out`, without detours: switches are passed, ranks are not;
/// `None` if some cannot be reached.
fn reach(fabric: &Fabric, out: &[Vec<LinkId>], rank: u32) -> Option<u32> {
    let start = fabric.node_of_rank(rank);
    let mut distance = vec![u32::MAX; fabric.nodes.len()];
    distance[start as usize] = 0;
    let mut queue = VecDeque::from([start]);
    let (mut farthest, mut ranks) = (0, 1);
    while let Some(node) = queue.pop_front() {
        for &link in &out[node as usize] {
            let to = fabric.link(link).to;
            if distance[to as usize] != u32::MAX {
                continue;
            }
            distance[to as usize] = distance[node as usize];
            if fabric.nodes[to as usize].rank.is_none() {
                queue.push_front(to);
                continue;
            }
            distance[to as usize] += 1;
            ranks += 1;
            farthest = farthest.max(distance[to as usize]);
            queue.push_back(to);
        }
    }
    (ranks == fabric.ranks()).then_some(farthest)
}
