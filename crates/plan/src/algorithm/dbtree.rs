//! Double binary tree: two trees in which every rank is an inner node at most once; sub-flows are
//! pipelined through both.
//!
//! Sanders, Speck and Traeff, 2009; NCCL's trees as in the TTO artifact (HPCA 2024).

use super::boxes::{Boxes, CHANNELS};
use super::tree::{Demand, Table, Tree, TreeWork, spread};
use super::{ALIGN, Algorithm, Info, Request};
use antiphon_base::error::Result;
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_model::collective::Kind;
use antiphon_model::schedule::{Issue, Op, Schedule};

/// See the module.
pub struct DbTree;

const INFO: Info = Info {
    name: "dbtree",
    summary: "double binary tree, pipelined; ignores the topology",
    options: &[
        CHANNELS,
        Opt::choice(
            "pair",
            &["mirror", "shift", "xor"],
            "Rank v of the first tree in the second: n - 1 - v (v + 1 where n is odd), v + 1, or v xor 1 (n even).",
        ),
        Opt::choice(
            "routes",
            &["minimal", "spread"],
            "How messages go. minimal: as the fabric routes; spread: so that links are shared most evenly, with detours.",
        ),
        Opt {
            default: Derived("strict-steps with one channel, links with more"),
            ..Opt::choice(
                "issue",
                &["strict-steps", "links"],
                "Who goes first. strict-steps: a rank sends one message after the other, as many at once as channels; links: on all its links at once.",
            )
        },
        Opt::count(
            "chunks",
            1,
            1 << 20,
            Derived("half as many as ranks"),
            "Parts of a tree's part of the data that follow each other through it.",
        ),
        ALIGN,
    ],
    source: "Sanders et al., Parallel Computing 2009; TTO (HPCA 2024) as baseline",
    collectives: &[Kind::AllReduce],
};

/// Parent of `v` in NCCL's binary tree over `0..n`; `None` for the root 0.
pub(super) fn parent(v: u32, n: u32) -> Option<u32> {
    let low = v & v.wrapping_neg();
    if v == 0 {
        return None;
    }
    let up = (v ^ low) | (low << 1);
    Some(if up < n { up } else { v ^ low })
}

/// Parents in the first tree and in the second, where vertex `v` of the first is `image(v)`.
fn parents(n: u32, image: impl Fn(u32) -> u32) -> [Vec<Option<u32>>; 2] {
    let first: Vec<_> = (0..n).map(|v| parent(v, n)).collect();
    let mut second = vec![None; first.len()];
    (0..).zip(&first).for_each(|(v, p)| second[image(v) as usize] = p.map(&image));
    [first, second]
}

/// Parents of `n` vertices in two trees, in one of which each is an inner node.
pub(super) fn two_trees(n: u32) -> [Vec<Option<u32>>; 2] {
    parents(n, |v| if n.is_multiple_of(2) { n - 1 - v } else { (v + 1) % n })
}

impl Algorithm for DbTree {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let n = request.ranks();
        let pair = request.options.choice("pair");
        if pair == "xor" && n % 2 == 1 {
            return request.refuse(format!("pair=xor needs an even number of ranks, not {n}"));
        }
        let image = |v: u32| match pair {
            "mirror" if n.is_multiple_of(2) => n - 1 - v,
            "xor" => v ^ 1,
            _ => (v + 1) % n,
        };
        let boxes = Boxes::new(request);
        let most = MOST_TRANSFERS / (4 * u64::from(n));
        let channels = Boxes::channels(boxes.as_ref(), request, request.block_bytes(n), 8, most);
        let boxes = boxes.filter(|_| channels > 1);
        let mut builder = request.builder();
        let schedule = &mut builder.schedule;
        if request.options.given("issue").map_or(channels == 1, |issue| issue.text() == "strict-steps") {
            schedule.endpoint.issue = Issue::StrictSteps;
            schedule.endpoint.interfaces = Some(channels as u32);
        }
        let (chunks, parts) = match request.options.given("chunks").map(Value::whole) {
            Some(chunks) => (chunks, 2 * chunks),
            None => (u64::from(n / 2).max(1), n.into()),
        };
        let parts = parts * channels as u64;
        let pair = parents(n, image);
        let mut trees = vec![];
        for channel in 0..channels {
            // The rank of every vertex.
            let ranks = boxes.as_ref().map_or_else(|| (0..n).collect(), |boxes| boxes.turned(channel));
            for parents in &pair {
                let mut list = vec![None; parents.len()];
                (0..)
                    .zip(parents)
                    .for_each(|(v, p): (usize, _)| list[ranks[v] as usize] = p.map(|p| ranks[p as usize]));
                trees.push(Tree::logical(&list));
            }
        }
        if request.options.choice("routes") == "spread" {
            trees = on_links(request, trees);
        }
        // Two-wide slots: siblings differ in parity so that a pipeline of stride 2 never collides.
        let parity = |tree: usize, edge: u32, _| {
            let siblings = trees[tree].children(trees[tree].edges()[edge as usize].1);
            siblings.iter().position(|&other| other == edge).unwrap_or(0) as u32 % 2
        };
        let mut slots = Table::at_residues(request.fabric, &trees, 2, parity).slots;
        // The broadcast is the reduction backwards.
        let last = slots.iter().flatten().map(|slots| slots[0]).max().unwrap_or(0);
        slots.iter_mut().flatten().for_each(|slots| slots[1] = last - slots[0]);
        let table = Table::new(request.fabric, &trees, slots, 2, TreeWork::Phases);
        table.lanes(&mut builder, |_| request.wire_bytes(request.bytes.div_ceil(parts)), chunks);
        builder.phase("reduce-scatter", false);
        table.send(&mut builder, &[Op::Reduce])?;
        builder.phase("all-gather", false);
        table.send(&mut builder, &[Op::Copy])?;
        builder.finish()
    }
}

/// About the most messages for which there is more than one channel unless it is asked for: some seconds of work.
const MOST_TRANSFERS: u64 = 1 << 20;

/// The trees on routes that share the links evenly.
fn on_links(request: &Request, trees: Vec<Tree>) -> Vec<Tree> {
    let node = |rank| request.fabric.node_of_rank(rank);
    let demands = trees.iter().flat_map(Tree::edges).flat_map(|&(child, parent)| {
        // Phases go through the configurations.
        [(child, parent), (parent, child)].into_iter().zip(0..).map(move |((from, to), phase)| {
            let configuration = request.fabric.configuration_of(phase as u32);
            Demand { from: node(from), to: node(to), phase, configuration }
        })
    });
    let mut routes = spread(request.fabric, request.system, &demands.collect::<Vec<_>>()).into_iter();
    let laid = trees.iter().map(|tree| {
        let edges = tree.edges().iter().map(|&(child, parent)| {
            let [up, down] = [(); 2].map(|()| routes.next().expect("a route for every message"));
            (child, parent, [up, down])
        });
        Tree::new(request.fabric.ranks(), edges)
    });
    laid.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::build;
    use antiphon_model::collective::Collective;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;

    fn schedule(fabric: &Fabric, spec: &str) -> Schedule {
        build(fabric, &System::preset("aries").unwrap(), Collective::new(Kind::AllReduce), 1 << 20, spec).unwrap()
    }

    /// Most messages of a phase over a link.
    fn load(fabric: &str, spec: &str) -> u32 {
        let fabric = Fabric::parse(fabric).unwrap();
        let mut loads = vec![[0; 2]; fabric.links.len()];
        for transfer in &schedule(&fabric, spec).transfers {
            transfer.route.iter().for_each(|&link| loads[link as usize][transfer.phase as usize] += 1);
        }
        loads.into_iter().flatten().max().unwrap()
    }

    #[test]
    fn every_rank_is_an_inner_node_at_most_once() {
        for (ranks, pair) in [(16, "mirror"), (10, "mirror"), (16, "shift"), (16, "xor"), (10, "xor")] {
            let schedule = schedule(&Fabric::parse(&format!("ring:{ranks}")).unwrap(), &format!("dbtree:pair={pair}"));
            for rank in 0..ranks {
                let below = |tree: u32| {
                    let to = schedule.transfers.iter().filter(|transfer| (transfer.to, transfer.phase) == (rank, 0));
                    to.filter(|transfer| transfer.payload.first() == tree).count()
                };
                assert!(below(0).min(below(1)) == 0, "rank {rank} of {ranks}, {pair}");
            }
        }
    }

    /// Shorter edges on the mesh, longer ones on bypasses and what the mesh has left: no link has two edges of a phase.
    #[test]
    fn all_edges_fit_the_links_of_a_configured_mesh() {
        let apart = |side: u32| -> Vec<String> {
            let column = |c| (0..side - 1).map(move |r| format!("{}-{}", r * side + c, (r + 1) * side + c));
            (1..side - 1).flat_map(column).collect()
        };
        let rows =
            |side: u32, segments: &str| -> Vec<String> { (0..side).map(|r| format!("x{r}={segments}")).collect() };
        let small = format!("aries:4x4,{},off={}", rows(4, "1-2").join(","), apart(4).join("+"));
        let segments = "1>2+2>4+4>6+6>5+5>3+3>1";
        let large = format!("aries:8x8,{},y0=2-4,y7=3-5,off={}", rows(8, segments).join(","), apart(8).join("+"));
        assert_eq!([load(&small, "dbtree:routes=spread"), load(&large, "dbtree:routes=spread")], [1, 1]);
        assert_eq!([load("mesh:4x4", "dbtree"), load("mesh:8x8", "dbtree")], [3, 3]);
        assert_eq!([load("mesh:4x4", "dbtree:routes=spread"), load("mesh:8x8", "dbtree:routes=spread")], [2, 2]);
    }
}
