//! Nested rings: rings of neighbouring ranks, then rings through the ranks at corresponding positions of these blocks,
//! and so on: L levels of rings of N^(1/L) ranks take L (N^(1/L) - 1) steps each way, and move no more than one ring.
//!
//! ARIES (DATE 2024), section IV-A2. Positions correspond as in a mirror (Fig. 6(c)), so that blocks that adjoin meet at
//! neighbours, and the longer edges lie inside each other.

use super::path::{self, Way};
use super::soonest::soonest;
use super::{ALIGN, Algorithm, Info, Placed, Request, cycle};
use antiphon_base::error::Result;
#[cfg(test)]
use antiphon_base::options::Options;
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::parameter::Value;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Router;
use antiphon_model::schedule::{Issue, Op, Schedule};
use std::cmp::Reverse;

/// See the module.
pub struct NestedRing;

const INFO: Info = Info {
    name: "nested-ring",
    summary: "rings of neighbours, then rings through corresponding ranks of these, and so on: few steps",
    options: &[
        Opt::count(
            "levels",
            1,
            32,
            Derived("as many as take the least time on the routes of the fabric"),
            "Levels of rings; at most as many as the sizes of the grid have prime factors.",
        ),
        ALIGN,
    ],
    source: "ARIES (DATE 2024), latency-optimised ring",
    collectives: &[Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather],
};

impl Algorithm for NestedRing {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn build(&self, request: &Request) -> Result<Schedule> {
        let Some(grid) = request.layout() else {
            return request.refuse("it needs ranks in a grid");
        };
        let factors = factors(grid.product.coordinates.sizes());
        let levels = match request.options.given("levels").map(Value::whole) {
            None => 1..=factors.len().max(1),
            Some(levels) if levels <= factors.len() as u64 => levels as usize..=levels as usize,
            Some(levels) => {
                return request.refuse(format!("it can be cut into {} levels, not {levels}", factors.len()));
            }
        };
        let turns = 0..request.fabric.configurations();
        let mut routers: Vec<Router> = turns.map(|turn| Router::within(request.fabric, turn)).collect();
        let costs = levels.map(|levels| Rings::new(&grid, &factors, levels)).map(|rings| {
            let fits = request.expect(rings.transfers(request), 0);
            (fits.is_err(), rings.time(request, &mut routers), rings)
        });
        let mut costs: Vec<_> = costs.collect();
        costs.sort_by_key(|cost| (cost.0, cost.1));
        let (is_refused, least) = (costs[0].0, costs[0].1);
        let is_near = |cost: &&(bool, u128, Rings)| cost.0 == is_refused && cost.1 <= least.saturating_add(least / 2);
        // Where messages meet, queues decide.
        soonest(request, costs.iter().take_while(is_near).map(|(_, _, rings)| rings.lowered(request)))
    }
}

impl Rings {
    /// Their schedule.
    fn lowered(&self, request: &Request) -> Result<Schedule> {
        let rings = self;
        request.expect(rings.transfers(request), 0)?;
        let mut builder = request.builder();
        builder.schedule.endpoint.issue = Issue::Links;
        builder.schedule.conflict_free = rings.direct(request);
        for &rank in &rings.ranks {
            builder.shard_block(rank, request.shard(rank), request.block_bytes(request.ranks()));
        }
        let levels = 0..rings.sizes.len();
        if request.scatters() {
            for level in levels.clone() {
                builder.phase(&format!("reduce-scatter {}", level + 1), false);
                let mut ways: Vec<Way> = rings.of(level).flat_map(LevelRing::ways).collect();
                ways.iter_mut().for_each(|way| way.path.reverse());
                path::reduce_along(&mut builder, &ways, 0)?;
            }
        }
        if request.gathers() {
            for level in levels.rev() {
                builder.phase(&format!("all-gather {}", level + 1), false);
                let ways: Vec<Way> = rings.of(level).flat_map(LevelRing::ways).collect();
                path::copy_along(&mut builder, &ways, 0)?;
            }
        }
        builder.finish()
    }
}

/// A prime factor of the size of a dimension.
struct Factor {
    dimension: usize,
    prime: u32,
}

/// Those of all sizes: large ones first, those of one size by turns.
fn factors(sizes: &[u32]) -> Vec<Factor> {
    let mut all = Vec::new();
    for (dimension, &size) in sizes.iter().enumerate() {
        let (mut rest, mut prime) = (size, 2);
        while rest > 1 {
            if prime * prime > rest {
                prime = rest;
            }
            for turn in 0.. {
                if rest % prime > 0 {
                    break;
                }
                all.push((Reverse(prime), turn, Factor { dimension, prime }));
                rest /= prime;
            }
            prime += 1;
        }
    }
    all.sort_by_key(|&(prime, turn, ref factor)| (prime, turn, factor.dimension));
    all.into_iter().map(|(_, _, factor)| factor).collect()
}

/// Sides of the blocks of so many levels, from rings of ranks upwards: rings about as large as each other, and of these the
/// squarest blocks; the larger rings below, where most data goes over neighbours.
fn blocks(dimensions: usize, factors: &[Factor], levels: usize) -> Vec<Vec<u32>> {
    let mut blocks = vec![vec![1; dimensions]; levels];
    for &Factor { dimension, prime } in factors {
        let size = |block: &&mut Vec<u32>| (block.iter().product::<u32>(), block[dimension]);
        blocks.iter_mut().min_by_key(size).expect("levels")[dimension] *= prime;
    }
    blocks.sort_by_key(|block| Reverse(block.iter().product::<u32>()));
    blocks
}

/// The rings of all levels.
struct Rings {
    /// Ranks of a ring of every level, from the lowest.
    sizes: Vec<u32>,
    /// The rank at every place. The places around its rings are the digits of a place's number, that of the lowest level
    /// first; so what a rank holds after some levels adjoins.
    ranks: Vec<u32>,
}

/// A ring of some level.
struct LevelRing {
    ranks: Vec<u32>,
    /// The first lane of those that go around.
    first: u32,
    /// Lanes that stay with a rank.
    lanes: u32,
}

impl LevelRing {
    /// The way around from every slot, with the lanes that stay with the rank there.
    fn ways(self) -> impl Iterator<Item = Way> {
        (0..self.ranks.len()).map(move |slot| {
            let first = self.first + slot as u32 * self.lanes;
            Way { lanes: first..first + self.lanes, path: path::around(&self.ranks, slot, 0) }
        })
    }
}

impl Rings {
    fn new(grid: &Placed, factors: &[Factor], levels: usize) -> Self {
        let dimensions = grid.product.dimensions.len();
        let blocks = blocks(dimensions, factors, levels);
        let orders: Vec<_> = blocks.iter().map(|block| cycle::around(block)).collect();
        let sizes: Vec<u32> = orders.iter().map(|order| order.len() as u32).collect();
        let rank = |place: u32| {
            let mut below = grid.ranks.len() as u32;
            let slot = |size: &u32| {
                below /= size;
                place / below % size
            };
            let slots: Vec<u32> = sizes.iter().map(slot).collect();
            // From the largest blocks to the rank in its smallest one; every second block is a mirror image.
            let mut at = vec![0; dimensions];
            for (level, slot) in slots.iter().enumerate().rev() {
                for (dimension, at) in at.iter_mut().enumerate() {
                    let (side, inside) = (blocks[level][dimension], orders[level][*slot as usize][dimension]);
                    *at = *at * side + if *at % 2 == 0 { inside } else { side - 1 - inside };
                }
            }
            grid.rank(&at)
        };
        let ranks = (0..grid.ranks.len() as u32).map(rank).collect();
        Rings { sizes, ranks }
    }

    /// The rings of a level.
    fn of(&self, level: usize) -> impl Iterator<Item = LevelRing> {
        let size = self.sizes[level];
        let groups: u32 = self.sizes[..level].iter().product();
        let lanes = self.ranks.len() as u32 / (groups * size);
        (0..groups).flat_map(move |group| (0..lanes).map(move |lane| (group * size * lanes, lane))).map(
            move |(first, lane)| {
                let ranks = (0..size).map(|slot| self.ranks[(first + slot * lanes + lane) as usize]).collect();
                LevelRing { ranks, first, lanes }
            },
        )
    }

    /// The edges of a level.
    fn edges(&self, level: usize) -> impl Iterator<Item = (u32, u32)> {
        self.of(level).flat_map(|LevelRing { ranks, .. }| {
            (0..ranks.len()).map(move |slot| (ranks[slot], ranks[(slot + 1) % ranks.len()]))
        })
    }

    /// Whether all edges are on links of their own.
    fn direct(&self, request: &Request) -> bool {
        let node = |rank| request.fabric.node_of_rank(rank);
        let joined = |(from, to)| request.fabric.link_between(node(from), node(to)).is_some();
        (0..self.sizes.len()).flat_map(|level| self.edges(level)).all(joined)
    }

    /// Transfers of a schedule.
    fn transfers(&self, request: &Request) -> u64 {
        let passes = u64::from(request.scatters()) + u64::from(request.gathers());
        let steps: u64 = self.sizes.iter().map(|&size| u64::from(size) - 1).sum();
        passes * steps * self.ranks.len() as u64
    }

    /// About the time of all levels, in picoseconds: a step takes the longest way and the busiest link of its level.
    /// The greatest there is where the configuration of a level does not join its rings.
    fn time(&self, request: &Request, routers: &mut [Router]) -> u128 {
        let (costs, fabric) = (request.costs(), request.fabric);
        let links = costs.links(fabric);
        let ops = [(Op::Reduce, request.scatters()), (Op::Copy, request.gathers())];
        let (mut parts, mut time) = (1, 0);
        for (level, &size) in self.sizes.iter().enumerate() {
            parts *= size;
            // Every block is padded by itself.
            let blocks = u64::from(request.ranks() / parts);
            let bytes = blocks * request.block_bytes(request.ranks());
            let phase = if request.scatters() { level } else { self.sizes.len() - 1 - level };
            let router = &mut routers[fabric.configuration_of(phase as u32) as usize];
            let (mut routes, mut busy, mut reads) = (vec![], vec![0u128; links.len()], vec![0u128; fabric.nodes.len()]);
            for (from, to) in self.edges(level) {
                let [from, to] = [from, to].map(|rank| fabric.node_of_rank(rank));
                let Ok(route) = router.path(from, to) else { return u128::MAX };
                for (hop, &link) in route.iter().enumerate() {
                    busy[link as usize] += u128::from(links[link as usize].flit_ps);
                    let is_read = hop == 0 || costs.is_stored_at(fabric, link);
                    reads[fabric.link(link).from as usize] += u128::from(is_read);
                }
                routes.push(route);
            }
            let [busiest, reads] = [busy, reads].map(|each| each.into_iter().max().unwrap_or(0));
            for (op, _) in ops.iter().filter(|(_, is_done)| *is_done) {
                let message = costs.message(bytes, *op);
                let around = routes.iter().map(|route| costs.around_ps(fabric, route, &message)).max().unwrap_or(0);
                let sending = (u128::from(message.flits()) * busiest).max(reads * u128::from(message.fetch.busy_ps()));
                time += u128::from(size - 1) * (sending + u128::from(around) + u128::from(message.adding_ps));
            }
        }
        time
    }
}

/// What is expected of rings on two levels, and their schedule.
#[cfg(test)]
pub(super) fn estimated(request: &Request) -> (u128, Schedule) {
    let grid = request.layout().unwrap();
    let rings = Rings::new(&grid, &factors(grid.product.coordinates.sizes()), 2);
    let time = rings.time(request, &mut [Router::within(request.fabric, 0)]);
    let options = Options::parse("test", "levels=2", INFO.options).unwrap();
    (time, NestedRing.build(&Request { options, matrix: None, ..*request }).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::build;
    use antiphon_model::collective::Collective;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::system::System;

    fn schedule(fabric: &str, spec: &str) -> Schedule {
        let (fabric, system) = (Fabric::parse(fabric).unwrap(), System::preset("aries").unwrap());
        build(&fabric, &system, Collective::new(Kind::AllReduce), 1 << 16, spec).unwrap()
    }

    /// A configuration may part ranks that only another phase joins; a message between them is refused.
    #[test]
    fn ranks_that_a_configuration_parts() {
        let system = System::preset("aries").unwrap();
        let fabric = Fabric::parse("aries:2x2,off=0-1+0-2,then").unwrap();
        for name in ["ring", "nested-ring", "dbtree", "multitree:concentration=2x2", "direct"] {
            let error = build(&fabric, &system, Collective::new(Kind::AllReduce), 4096, name).unwrap_err();
            assert!(error.message.contains("no path from node"), "{name}: {error}");
        }
    }

    /// Steps of the paper, section IV-A2, and of other sizes.
    #[test]
    fn steps() {
        for (fabric, levels, expected) in [
            ("mesh:4x4", 1, 30),
            ("mesh:4x4", 2, 12),
            ("mesh:4x4", 4, 8),
            ("mesh:8x8", 2, 28),
            ("mesh:8x8", 3, 18),
            ("mesh:16x16", 4, 24),
            ("torus:4x4x4", 3, 18),
            ("mesh:6x6", 2, 20),
            ("mesh:3x5", 2, 12),
            ("mesh:12x2", 2, 16),
            ("ring:7", 1, 12),
            ("hypercube:4", 4, 8),
        ] {
            let schedule = schedule(fabric, &format!("nested-ring:levels={levels}"));
            assert_eq!(schedule.stats(&Fabric::parse(fabric).unwrap()).steps, expected, "{fabric}, {levels} levels");
        }
    }

    /// The four quadrants of Fig. 6(c), and the ring through 1, 2, 13 and 14.
    #[test]
    fn positions_correspond_as_in_a_mirror() {
        let fabric = Fabric::parse("mesh:4x4").unwrap();
        let product = fabric.product().unwrap();
        let grid = Placed { product, ranks: product.ranks(&fabric) };
        let rings = Rings::new(&grid, &factors(&[4, 4]), 2);
        let sorted = |level| {
            let mut all: Vec<_> = rings.of(level).map(|ring| ring.ranks).collect();
            all.iter_mut().for_each(|ranks| ranks.sort_unstable());
            all.sort();
            all.dedup();
            all
        };
        assert_eq!(sorted(0), [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]);
        assert_eq!(sorted(1), [[0, 3, 12, 15], [1, 2, 13, 14], [4, 7, 8, 11], [5, 6, 9, 10]]);
    }

    #[test]
    fn blocks_are_square_and_large_ones_are_below() {
        let of = |sizes: &[u32], levels| blocks(sizes.len(), &factors(sizes), levels);
        assert_eq!(of(&[4, 4], 2), [[2, 2], [2, 2]]);
        assert_eq!(of(&[8, 8], 2), [[4, 2], [2, 4]]);
        assert_eq!(of(&[4, 8], 2), [[2, 4], [2, 2]]);
        assert_eq!(of(&[6, 6], 2), [[3, 2], [2, 3]]);
        assert_eq!(of(&[5, 3], 2), [[5, 1], [1, 3]]);
        assert_eq!(of(&[7], 1), [[7]]);
    }

    /// No more than a ring: every rank sends and receives (N - 1) / N of the data each way.
    #[test]
    fn volume_is_optimal() {
        for spec in ["nested-ring:levels=1", "nested-ring:levels=2", "nested-ring:levels=6"] {
            let schedule = schedule("mesh:8x8", spec);
            let mut sent = vec![0; 64];
            for transfer in &schedule.transfers {
                let lanes: usize = transfer.payload.iter().map(|lanes| lanes.len()).sum();
                sent[transfer.from as usize] += lanes;
            }
            assert!(sent.iter().all(|&lanes| lanes == 2 * 63), "{spec}: {sent:?}");
        }
    }
}
