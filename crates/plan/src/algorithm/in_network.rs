//! In-network: switches add what ranks send, and multiply sums. NVLS in a box, SHARP between boxes.
//!
//! Every shard has a tree, from the rank that owns it to all others. The tree grows by the cheapest way to another rank, so that it
//! branches at switches that add and multicast; elsewhere it goes from rank to rank, in chains that load every link alike.
//! Eight ranks around a switch that is read: a rank reads the sum of its shard, which the switch adds on the way, and writes it to all.

use super::soonest::soonest;
use super::{ALIGN, Algorithm, Info, Request};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_base::units::Bytes;
use antiphon_base::watch::checkpoint;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Fabric, LinkId, Node, NodeId};
use antiphon_model::schedule::{Builder, LaneId, Op, Schedule};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// See the module.
pub struct InNetwork;

const INFO: Info = Info {
    name: "in-network",
    summary: "switches add and multicast, along a tree for every shard",
    options: &[Opt::bytes("chunk", Derived("the best of some by simulation"), "One message of a shard."), ALIGN],
    source: "NVLink SHARP as NCCL's NVLS uses it; Graham et al., \"SHARP\", COMHPC 2016; trees by Takahashi and Matsuyama, 1980",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Reduce, Kind::Broadcast],
};

/// Fewest children for which a switch that is read is worth while: with two, messages between ranks cross as many links.
const FEWEST_READ: usize = 3;
/// Chunks of a shard that are tried, and the shortest chunk.
const CHUNKS: [u64; 4] = [4, 16, 64, 256];
const SHORTEST: Bytes = 1 << 10;
/// Rounds of chunks by which what comes down a tree is behind what goes up, so that nobody waits for it in front of a link.
const ROUNDS_LATER: u32 = 2;
/// Most ranks: every shard has a tree of all.
const MOST_RANKS: u32 = 256;

impl Algorithm for InNetwork {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let ranks = request.ranks();
        if request.fabric.computing_switches().next().is_none() {
            return request.refuse("none of its switches adds or multicasts; ,switches=in-tree makes all of them add");
        }
        if ranks > MOST_RANKS {
            let what = format!("in-network on {ranks} ranks; at most {MOST_RANKS} are supported");
            return Err(Error::new(Code::TooLarge, what));
        }
        request.expect(3 * u64::from(ranks) * u64::from(ranks), 0)?;
        let mut begun = vec![0; request.fabric.links.len()];
        let trees: Vec<SwitchTree> =
            (0..ranks).map(|shard| SwitchTree::new(request, root(request, shard), shard, &mut begun)).collect();
        let shard = request.bytes.div_ceil(ranks.into());
        let chunks: Vec<Bytes> = match request.options.given("chunk").map(Value::whole) {
            Some(chunk) => vec![chunk],
            None => {
                let mut sizes = CHUNKS.map(|count| shard.div_ceil(count).max(SHORTEST)).to_vec();
                sizes.dedup();
                sizes
            }
        };
        soonest(request, chunks.into_iter().map(|chunk| lay(request, &trees, chunk)))
    }
}

/// The rank from which the tree of a shard grows.
fn root(request: &Request, shard: u32) -> u32 {
    if request.collective.kind.rooted() { request.collective.root } else { shard }
}

/// What a way costs, how many begin with the same link, and where it starts.
type WayKey = (u64, u32, u32);

/// The participant above, the way from it, and the way to it; empty if links lead one way only.
type WayUp = (u32, Vec<LinkId>, Vec<LinkId>);

/// A tree from a rank to all others, over switches that add and multicast.
struct SwitchTree {
    root: u32,
    /// Of every participant; none for the root and those that are not in it.
    above: Vec<Option<WayUp>>,
    children: Vec<Vec<u32>>,
}

impl SwitchTree {
    /// Grows it by the cheapest way to another rank, by what a byte takes. Of equally cheap ways that comes first whose first link fewest ways of
    /// all trees have begun with, then that from the next rank or switch behind `number`: so all trees together load all alike.
    fn new(request: &Request, root: u32, number: u32, begun: &mut [u32]) -> SwitchTree {
        let fabric = request.fabric;
        let (ranks, nodes) = (fabric.ranks() as u32, fabric.nodes.len());
        let count = ranks as usize + nodes;
        let mut tree = SwitchTree { root, above: vec![None; count], children: vec![vec![]; count] };
        let flit = |id: LinkId| request.costs().link(fabric.link(id)).flit_ps.max(1);
        let behind = |at: u32, of: u32| (at + of - number % of) % of;
        let turn = |node: NodeId| {
            fabric.nodes[node as usize].rank.map_or(behind(node, nodes as u32), |rank| behind(rank, ranks))
        };
        let mut members = vec![fabric.node_of_rank(root)];
        let mut is_in = vec![false; nodes];
        is_in[members[0] as usize] = true;
        for _ in 1..ranks {
            checkpoint();
            let mut known: Vec<WayKey> = vec![(u64::MAX, 0, 0); nodes];
            let mut last: Vec<Option<LinkId>> = vec![None; nodes];
            let mut open = BinaryHeap::new();
            for &node in &members {
                known[node as usize] = (0, 0, turn(node));
                open.push(Reverse((known[node as usize], turn(node), node)));
            }
            while let Some(Reverse((key, _, node))) = open.pop() {
                if key > known[node as usize] {
                    continue;
                }
                if fabric.nodes[node as usize].rank.is_some() && !is_in[node as usize] {
                    let first = tree.join(fabric, node, &last, &mut is_in, &mut members);
                    begun[first as usize] += 1;
                    break;
                }
                for &id in fabric.out_links(node) {
                    let to = fabric.link(id).to;
                    let uses = if is_in[node as usize] { begun[id as usize] } else { key.1 };
                    let next = (key.0 + flit(id), uses, key.2);
                    if next < known[to as usize] {
                        (known[to as usize], last[to as usize]) = (next, Some(id));
                        open.push(Reverse((next, turn(to), to)));
                    }
                }
            }
        }
        tree.pruned(fabric)
    }

    /// Adds the way to a rank, whose participants become members, and returns its first link.
    fn join(
        &mut self,
        fabric: &Fabric,
        node: NodeId,
        last: &[Option<LinkId>],
        is_in: &mut [bool],
        members: &mut Vec<NodeId>,
    ) -> LinkId {
        let (mut at, mut below, mut way, mut first) = (node, node, vec![], 0);
        while let Some(id) = last[at as usize].filter(|_| !is_in[below as usize]) {
            way.push(id);
            first = id;
            at = fabric.link(id).from;
            let Some(above) = participant(fabric, at) else { continue };
            let own = participant(fabric, below).expect("ways begin at participants") as usize;
            // From the last link to the first.
            let back = way.iter().map(|&id| fabric.link_between(fabric.link(id).to, fabric.link(id).from));
            let back = back.collect::<Option<Vec<LinkId>>>().unwrap_or_default();
            way.reverse();
            self.above[own] = Some((above, std::mem::take(&mut way), back));
            self.children[above as usize].push(own as u32);
            is_in[below as usize] = true;
            members.push(below);
            below = at;
        }
        first
    }

    /// Without switches that have nothing to add: what passes them goes from rank to rank.
    fn pruned(mut self, fabric: &Fabric) -> SwitchTree {
        let ranks = fabric.ranks();
        for switch in ranks..self.above.len() {
            let Some((above, there, back)) = self.above[switch].clone() else { continue };
            let compute = fabric.nodes[switch - ranks].compute;
            let is_read = is_read(fabric, switch as u32);
            let has_switch = |&other: &u32| other as usize >= ranks;
            let adds = compute.is_some_and(|compute| compute.reduces.is_some() && compute.multicasts);
            let few = if is_read { FEWEST_READ } else { 2 };
            let children = self.children[switch].clone();
            let among_ranks = !is_read || !has_switch(&above) && !children.iter().any(has_switch);
            if adds && children.len() >= few && among_ranks && !back.is_empty() {
                continue;
            }
            self.above[switch] = None;
            self.children[switch].clear();
            self.children[above as usize].retain(|&child| child as usize != switch);
            for child in children {
                let (_, way, way_back) = self.above[child as usize].take().expect("a child has one above");
                let joined = |one: &[LinkId], other: &[LinkId]| [one, other].concat();
                self.above[child as usize] = Some((above, joined(&there, &way), joined(&way_back, &back)));
                self.children[above as usize].push(child);
            }
        }
        self
    }
}

/// The number of a rank or of a switch that adds or multicasts, in a tree: switches come behind ranks, by node.
fn participant(fabric: &Fabric, node: NodeId) -> Option<u32> {
    let Node { rank, compute, .. } = fabric.nodes[node as usize];
    rank.or_else(|| compute.map(|_| fabric.ranks() as u32 + node))
}

/// Whether a participant is a switch that is read.
fn is_read(fabric: &Fabric, participant: u32) -> bool {
    let switch = (participant as usize).checked_sub(fabric.ranks());
    switch.and_then(|node| fabric.nodes[node].compute).is_some_and(|compute| compute.is_on_read())
}

/// What a tree asks of a builder.
struct Laying<'a> {
    tree: &'a SwitchTree,
    fabric: &'a Fabric,
    lane: LaneId,
    /// Participants of the schedule by those of the tree.
    number: &'a [u32],
    /// Slots of a round, which each level of a tree takes.
    stride: u32,
}

impl Laying<'_> {
    fn send(&self, builder: &mut Builder, op: Op, from: u32, to: u32, step: u32) -> Result<()> {
        let (_, there, back) = match &self.tree.above[to as usize] {
            Some(way) if way.0 == from => way,
            _ => self.tree.above[from as usize].as_ref().expect("one is above the other"),
        };
        let down = self.tree.above[to as usize].as_ref().is_some_and(|way| way.0 == from);
        let route = if down { there } else { back };
        if route.is_empty() {
            let what =
                format!("in-network does not apply to {}: sums go back the way that copies come", self.fabric.name);
            return Err(Error::new(Code::NotApplicable, what));
        }
        let [from, to] = [from, to].map(|one| self.number[one as usize]);
        builder.send_over(op, from, to, self.lane, step * self.stride, route.clone()).map(drop)
    }

    /// Sends sums up to a participant; the step at which it has its own.
    fn up(&self, builder: &mut Builder, at: u32) -> Result<u32> {
        let children = &self.tree.children[at as usize];
        let (read, plain): (Vec<u32>, Vec<u32>) = children.iter().partition(|&&child| is_read(self.fabric, child));
        let mut ready = 0;
        for child in plain {
            let step = self.up(builder, child)?;
            self.send(builder, Op::Reduce, child, at, step)?;
            ready = ready.max(step + 1);
        }
        // What is read holds all that the reader has.
        for switch in read {
            let members = &self.tree.children[switch as usize];
            let steps: Vec<u32> = members.iter().map(|&member| self.up(builder, member)).collect::<Result<_>>()?;
            let step = steps.into_iter().fold(ready, u32::max);
            for &member in members {
                self.send(builder, Op::Reduce, member, switch, step)?;
            }
            self.send(builder, Op::Reduce, at, switch, step)?;
            self.send(builder, Op::Copy, switch, at, step + 1)?;
            ready = step + 2;
        }
        Ok(ready)
    }

    /// Sends copies down from a participant that has its own at a step.
    fn down(&self, builder: &mut Builder, at: u32, step: u32) -> Result<()> {
        for &child in &self.tree.children[at as usize] {
            self.send(builder, Op::Copy, at, child, step)?;
            if is_read(self.fabric, child) {
                self.send(builder, Op::Copy, child, at, step + 1)?;
            }
            self.down(builder, child, step + 1)?;
        }
        Ok(())
    }
}

/// The schedule of trees, in chunks of about so many bytes.
fn lay(request: &Request, trees: &[SwitchTree], chunk: Bytes) -> Result<Schedule> {
    let fabric = request.fabric;
    let mut builder = request.builder();
    builder.schedule.switches = fabric
        .computing_switches()
        .filter(|&node| trees.iter().any(|tree| !tree.children[fabric.ranks() + node as usize].is_empty()))
        .collect();
    let mut number: Vec<u32> = (0..(fabric.ranks() + fabric.nodes.len()) as u32).collect();
    for (at, &node) in (0..).zip(&builder.schedule.switches) {
        number[fabric.ranks() + node as usize] = fabric.ranks() as u32 + at;
    }
    // A round of a link: a message of every shard, and one more of its rank's own.
    let stride = fabric.ranks() as u32 + 1;
    request.shard_lanes(&mut builder, 0..fabric.ranks() as u32, chunk, stride)?;
    let adds = request.collective.kind.reduces();
    let copies = !matches!(request.collective.kind, Kind::ReduceScatter | Kind::Reduce);
    builder.phase(request.collective.kind.name(), false);
    for (lane, tree) in (0..).zip(trees) {
        let laying = Laying { tree, fabric, lane, number: &number, stride };
        let ready = if adds { laying.up(&mut builder, tree.root)? } else { 0 };
        if copies {
            let later = if adds { ROUNDS_LATER } else { 0 };
            laying.down(&mut builder, tree.root, ready + later)?;
        }
    }
    builder.finish()
}
