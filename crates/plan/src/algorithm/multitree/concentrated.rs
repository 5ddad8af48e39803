//! MultiTree over blocks of 2x2 ranks: a block reduces into two of its ranks, half of the data each, whose trees reach
//! as many ranks of the other blocks; then the way back.
//!
//! ARIES (DATE 2024), section IV-B2 and Fig. 8.

use super::{Bundle, Ground, grow};
use crate::algorithm::{Placed, Request};
use antiphon_base::error::Result;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Fabric, LinkId, NodeId, Router};
use antiphon_model::schedule::{Builder, Issue, Op, Schedule};

/// A block: the two ranks that accumulate, on a diagonal, and the two beside them.
struct Block {
    accumulators: [u32; 2],
    beside: [u32; 2],
}

/// The grid of blocks.
struct Blocks {
    rows: u32,
    columns: u32,
    /// Row by row.
    all: Vec<Block>,
}

impl Blocks {
    /// `None` if rows or columns cannot be paired.
    fn new(grid: &Placed) -> Option<Self> {
        let (rows, columns) = grid.product.rows_columns()?;
        if rows % 2 + columns % 2 > 0 {
            return None;
        }
        let (rows, columns) = (rows / 2, columns / 2);
        let block = |at: u32| {
            let rank = |r, c| grid.rank(&[2 * (at / columns) + r, 2 * (at % columns) + c]);
            Block { accumulators: [rank(0, 0), rank(1, 1)], beside: [rank(0, 1), rank(1, 0)] }
        };
        Some(Blocks { rows, columns, all: (0..rows * columns).map(block).collect() })
    }

    /// Blocks to the right, to the left, below and above.
    fn neighbours(&self, block: u32) -> impl Iterator<Item = usize> {
        let (row, column) = (block / self.columns, block % self.columns);
        let (right, down) = (column + 1 < self.columns, row + 1 < self.rows);
        let all = [
            right.then(|| block + 1),
            (column > 0).then(|| block - 1),
            down.then(|| block + self.columns),
            (row > 0).then(|| block - self.columns),
        ];
        all.into_iter().flatten().map(|block| block as usize)
    }

    /// Steps to the block farthest away.
    fn eccentricity(&self, block: u32) -> u32 {
        let (row, column) = (block / self.columns, block % self.columns);
        row.max(self.rows - 1 - row) + column.max(self.columns - 1 - column)
    }
}

/// To the accumulators of neighbouring blocks, on the router's ways.
struct BlockWays {
    /// By rank: another, and the nodes on the way there.
    of: Vec<Vec<(u32, Vec<NodeId>)>>,
    node_of_rank: Vec<NodeId>,
}

impl BlockWays {
    fn new(fabric: &Fabric, blocks: &Blocks, configuration: u32) -> Result<Self> {
        let mut router = Router::within(fabric, configuration);
        let mut of = vec![vec![]; fabric.ranks()];
        for (at, block) in (0..).zip(&blocks.all) {
            for (plane, &from) in block.accumulators.iter().enumerate() {
                for other in blocks.neighbours(at) {
                    let to = blocks.all[other].accumulators[plane];
                    let route = router.path(fabric.node_of_rank(from), fabric.node_of_rank(to))?;
                    of[from as usize].push((to, route.iter().map(|&link| fabric.link(link).to).collect()));
                }
            }
        }
        Ok(BlockWays { of, node_of_rank: (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect() })
    }
}

impl Ground for BlockWays {
    const THOROUGH: bool = true;

    fn free_route(&mut self, bundles: &[Vec<Bundle>], rank: u32, members: &[bool]) -> Option<Vec<usize>> {
        let free = |from: NodeId, to: NodeId| {
            bundles[from as usize].iter().position(|bundle| bundle.to == to && bundle.taken < bundle.links.len())
        };
        self.of[rank as usize].iter().filter(|(to, _)| !members[*to as usize]).find_map(|(_, nodes)| {
            let froms = [self.node_of_rank[rank as usize]].into_iter().chain(nodes.iter().copied());
            froms.zip(nodes).map(|(from, &to)| free(from, to)).collect()
        })
    }

    fn leads_outside(&self, rank: u32, members: &[bool]) -> bool {
        self.of[rank as usize].iter().any(|(to, _)| !members[*to as usize])
    }
}

/// Ways between ranks of a block in a configuration: the links that join them, to be used in turn, or a longer way.
struct BlockInside<'a> {
    fabric: &'a Fabric,
    router: Router<'a>,
    configuration: u32,
}

impl<'a> BlockInside<'a> {
    fn new(fabric: &'a Fabric, phase: u32) -> Self {
        let configuration = fabric.configuration_of(phase);
        BlockInside { fabric, router: Router::within(fabric, configuration), configuration }
    }

    fn routes(&mut self, from: u32, to: u32) -> Result<Vec<Vec<LinkId>>> {
        let [from, to] = [from, to].map(|rank| self.fabric.node_of_rank(rank));
        let joins = |link: &LinkId| self.fabric.link(*link).to == to && self.fabric.has(*link, self.configuration);
        let links: Vec<_> = self.fabric.out_links(from).iter().copied().filter(joins).map(|link| vec![link]).collect();
        Ok(if links.is_empty() { vec![self.router.path(from, to)?] } else { links })
    }

    /// How many messages each pair of neighbours can exchange at a time; 0 where some are not joined.
    fn width(&mut self, blocks: &Blocks) -> Result<usize> {
        let pairs = blocks.all.iter().flat_map(|block| {
            block.accumulators.into_iter().flat_map(|one| block.beside.map(|other| [(one, other), (other, one)]))
        });
        let widths = pairs.flatten().map(|(from, to)| {
            let routes = self.routes(from, to)?;
            Ok(if routes[0].len() == 1 { routes.len() } else { 0 })
        });
        Ok(widths.collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or(0))
    }
}

/// The schedule of an AllReduce, ReduceScatter or AllGather, with the counterpart of every link.
pub(super) fn build(request: &Request, twins: &[LinkId]) -> Result<Schedule> {
    let (fabric, kind) = (request.fabric, request.collective.kind);
    if kind.rooted() {
        return request.refuse(format!("concentration=2x2 is not for {}", kind.name()));
    }
    let Some(blocks) = request.layout().and_then(|grid| Blocks::new(&grid)) else {
        return request.refuse("concentration=2x2 needs ranks in a grid of even numbers of rows and columns");
    };
    let count = blocks.all.len() as u32;
    let passes = u64::from(request.scatters()) + u64::from(request.gathers());
    request.expect(passes * 2 * u64::from(count) * u64::from(count + 2), 0)?;
    // The phases of the trees.
    let both = [1, if kind == Kind::AllReduce { 2 } else { 1 }].map(|phase| fabric.configuration_of(phase));
    let there = |link: LinkId| both.iter().all(|&configuration| fabric.has(link, configuration));
    let mut ways = BlockWays::new(fabric, &blocks, both[0])?;
    let same = |&link: &LinkId| fabric.has(link, both[0]) == fabric.has(link, both[1]);
    if !(0..fabric.links.len() as LinkId).all(|link| same(&link)) {
        return request.refuse("concentration=2x2 needs one configuration for both phases of its trees");
    }
    let roots: Vec<u32> =
        [0, 1].into_iter().flat_map(|plane| blocks.all.iter().map(move |block| block.accumulators[plane])).collect();
    let priority: Vec<u32> =
        [(); 2].into_iter().flat_map(|()| (0..count).map(|block| blocks.eccentricity(block))).collect();
    let members = |tree: usize| {
        let mut members = vec![true; fabric.ranks()];
        blocks.all.iter().for_each(|block| members[block.accumulators[tree / count as usize] as usize] = false);
        members
    };
    let members = (0..roots.len()).map(members).collect();
    let (edges, steps) = grow(fabric, &mut ways, there, &roots, &priority, members);
    let mut builder = request.builder();
    builder.schedule.endpoint.issue = Issue::StrictSteps;
    // Of every tree the shards of its accumulator and of a rank beside it.
    for plane in 0..2 {
        for block in &blocks.all {
            for rank in [block.accumulators[plane], block.beside[plane]] {
                builder.shard_block(rank, request.shard(rank), request.block_bytes(request.ranks()));
            }
        }
    }
    let lanes = |tree: u32| 2 * tree..2 * tree + 2;
    let mut phase = 0;
    let mut width = usize::MAX;
    if request.scatters() {
        builder.phase("concentrate", false);
        let mut inside = BlockInside::new(fabric, phase);
        width = inside.width(&blocks)?.min(width);
        exchange(&mut builder, &blocks, &mut inside, Op::Reduce)?;
        builder.phase("reduce-scatter", false);
        for edge in &edges {
            let route: Vec<LinkId> = edge.route.iter().rev().map(|&link| twins[link as usize]).collect();
            builder.send_via(Op::Reduce, edge.child, edge.parent, lanes(edge.tree), steps - 1 - edge.step, route)?;
        }
        phase += 2;
    }
    if kind != Kind::AllReduce {
        // Between an accumulator and the rank whose shard it has.
        builder.phase(if request.scatters() { "scatter" } else { "gather" }, false);
        let mut inside = BlockInside::new(fabric, phase);
        for plane in 0..2 {
            for (tree, block) in (plane as u32 * count..).zip(&blocks.all) {
                let (mut from, mut to) = (block.accumulators[plane], block.beside[plane]);
                if request.gathers() {
                    std::mem::swap(&mut from, &mut to);
                }
                let route = inside.routes(from, to)?.swap_remove(0);
                builder.send_via(Op::Copy, from, to, 2 * tree + 1, 0, route)?;
            }
        }
        phase += 1;
    }
    if request.gathers() {
        builder.phase("all-gather", false);
        for edge in edges {
            builder.send_via(Op::Copy, edge.parent, edge.child, lanes(edge.tree), edge.step, edge.route)?;
        }
        builder.phase("distribute", false);
        let mut inside = BlockInside::new(fabric, phase + 1);
        width = inside.width(&blocks)?.min(width);
        exchange(&mut builder, &blocks, &mut inside, Op::Copy)?;
    }
    builder.schedule.conflict_free = (1..=2).contains(&width);
    builder.finish()
}

/// Reduces every block into its accumulators, or copies from them to all of it: what the rank opposite has goes over
/// either of the two in between, by turns.
fn exchange(builder: &mut Builder, blocks: &Blocks, inside: &mut BlockInside, op: Op) -> Result<()> {
    let width = inside.width(blocks)?.max(1) as u32;
    let count = blocks.all.len() as u32;
    for block in &blocks.all {
        for plane in 0..2 {
            let [at, opposite] = [block.accumulators[plane], block.accumulators[1 - plane]];
            for turn in 0..count {
                let tree = plane as u32 * count + turn;
                let relay = block.beside[turn as usize % 2];
                let last = [block.beside[0], block.beside[1]].map(|beside| (beside, at, 1, turn));
                for (from, to, after, nth) in [(opposite, relay, 0, turn / 2)].into_iter().chain(last) {
                    let (from, to, after) = if op == Op::Reduce { (from, to, after) } else { (to, from, 1 - after) };
                    let mut routes = inside.routes(from, to)?;
                    let route = routes.swap_remove(nth as usize % (width as usize).min(routes.len()));
                    builder.send_via(op, from, to, 2 * tree..2 * tree + 2, turn / width + after, route)?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm;
    use antiphon_base::error::Code;
    use antiphon_model::collective::Collective;
    use antiphon_model::system::System;

    fn schedule(fabric: &str, kind: Kind, spec: &str) -> Result<Schedule> {
        let (fabric, system) = (Fabric::parse(fabric).unwrap(), System::preset("aries").unwrap());
        algorithm::build(&fabric, &system, Collective::new(kind), 1 << 16, spec)
    }

    /// Links longer than a step are those between blocks, which bypasses of two columns or rows make short.
    #[test]
    fn bypasses_join_blocks() {
        let longest = |fabric: &str| {
            let schedule = schedule(fabric, Kind::AllReduce, "multitree:concentration=2x2").unwrap();
            assert!(schedule.conflict_free);
            schedule.transfers.iter().map(|transfer| transfer.route.len()).max()
        };
        assert_eq!(longest("mesh:4x4"), Some(2));
        let bypasses = "x0=0-2,x1=1-3,x2=0-2,x3=1-3,y0=0-2,y1=1-3,y2=0-2,y3=1-3";
        assert_eq!(longest(&format!("aries:4x4,{bypasses},off=1-2+4-8+5-6+5-9+6-10+7-11+9-10+13-14")), Some(1));
    }

    /// A quarter as many nodes.
    #[test]
    fn trees_are_lower() {
        for kind in [Kind::ReduceScatter, Kind::AllGather] {
            let name = if kind == Kind::ReduceScatter { "reduce-scatter" } else { "all-gather" };
            let height = |spec| {
                let schedule = schedule("mesh:8x8", kind, spec).unwrap();
                let phase = schedule.phases.iter().position(|phase| phase.name == name).unwrap() as u32;
                schedule.transfers.iter().filter(|transfer| transfer.phase == phase).map(|transfer| transfer.step).max()
            };
            assert!(height("multitree:concentration=2x2") < height("multitree"));
        }
    }

    #[test]
    fn what_has_no_blocks_is_refused() {
        for (fabric, kind, why) in [
            ("mesh:3x4", Kind::AllReduce, "even numbers of rows and columns"),
            ("switch:4", Kind::AllReduce, "even numbers of rows and columns"),
            ("mesh:4x4", Kind::Broadcast, "not for broadcast"),
        ] {
            let error = schedule(fabric, kind, "multitree:concentration=2x2").unwrap_err();
            assert!(error.code == Code::NotApplicable && error.message.contains(why), "{error}");
        }
    }
}
