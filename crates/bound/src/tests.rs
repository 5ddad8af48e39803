//! The bounds against closed forms, brute force and naive schedules.

use super::capacity::{Capacities, Load};
use super::*;
use antiphon_base::units::{Bytes, Rate};
use antiphon_model::collective::{Align, Matrix};
use antiphon_model::fabric::{DimensionShape, Link, Node, NodeId, Shape, grid::grid};
use antiphon_model::schedule::Certificate;
use antiphon_sim::cost::CostModel;
use proptest::prelude::*;
use std::time::Instant;

/// One byte per nanosecond and link, no latency, no hand-off, no header: 1 GB takes 1e12 ps.
fn unit_system() -> System {
    let mut system = System::preset("generic").unwrap();
    system.link_rate = Rate(1_000_000_000);
    system.link_latency_ps = 0;
    (system.hand_off_ps, system.router.hand_off_ps) = (0, 0);
    system.packet.header_flits = 0;
    system
}

fn graph(ranks: &[bool], links: Vec<Link>) -> Result<Fabric> {
    let mut next = 0..;
    let node = |(id, &has): (usize, &bool)| Node {
        name: id.to_string(),
        rank: if has { next.next() } else { None },
        ..Node::switch("", [])
    };
    let nodes = ranks.iter().enumerate().map(node).collect();
    Fabric::new("t", Shape::Graph, nodes, links)
}

fn both_ways(edges: &[(u32, u32)]) -> Vec<Link> {
    edges.iter().flat_map(|&(a, b)| [Link::new(a, b, ""), Link::new(b, a, "")]).collect()
}

/// AllReduce time in units of D / B.
fn all_reduce(fabric: &Fabric) -> f64 {
    let bytes = 1_000_000_000;
    let bound = lower_bound(fabric, &unit_system(), Collective::new(Kind::AllReduce), bytes, None).unwrap();
    assert_eq!(bound.binding, "strength");
    assert_eq!(bound.strength_ps, Some(bound.time_ps));
    bound.time_ps as f64 / 1e12
}

/// docs/explanation/combs.md: on these, edges / (N - 1) is the strength.
#[test]
fn products_have_their_closed_form() {
    use DimensionShape::{Clique, Line, Ring};
    let rows: [(DimensionShape, &[u32], f64); 15] = [
        (Line, &[4, 4], 0.625),
        (Line, &[5, 5], 0.6),
        (Line, &[8, 8], 0.5625),
        (Line, &[9, 9], 0.5556),
        (Line, &[16, 16], 0.53125),
        (Line, &[3, 5], 0.6364),
        (Line, &[4, 8], 0.5962),
        (Line, &[8, 9], 0.5591),
        (Line, &[4, 4, 4], 0.4375),
        (Ring, &[4, 4], 0.46875),
        (Ring, &[8, 8], 0.4922),
        (Clique, &[4, 4], 0.3125),
        (Clique, &[8, 8], 0.1406),
        (Line, &[2], 1.0),
        (Clique, &[8], 0.25),
    ];
    for (kind, dims, expected) in rows {
        let fabric = grid("t", kind, dims).unwrap();
        let time = all_reduce(&fabric);
        assert!((time - expected).abs() < 5e-5, "{kind:?} {dims:?}: {time}");
        let found = strength(&fabric, &unit_system()).unwrap();
        assert_eq!(found.parts as usize, fabric.ranks(), "{kind:?} {dims:?}");
        assert_eq!(found.crossing as usize, fabric.links.len() / 2, "{kind:?} {dims:?}");
    }
    let mesh = strength(&grid("t", Line, &[8, 8]).unwrap(), &unit_system()).unwrap();
    assert_eq!((mesh.crossing, mesh.parts - 1), (112, 63));
}

/// The NVLinks of a DGX-1 (C-Cube, HPCA 2023, Fig. 10(c)), where V100 GPUs have eight pairs doubled and P100 GPUs none.
#[test]
fn hybrid_cube_mesh() {
    let doubled = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)];
    let single = [(0, 1), (0, 2), (1, 3), (4, 5), (4, 6), (5, 7), (2, 6), (3, 7)];
    let p100 = graph(&[true; 8], both_ways(&[doubled, single].concat())).unwrap();
    let v100 = graph(&[true; 8], both_ways(&[doubled, doubled, single].concat())).unwrap();
    assert_eq!(all_reduce(&p100), 0.4375);
    assert!((all_reduce(&v100) - 7.0 / 24.0).abs() < 1e-9);
}

#[test]
fn strength_finds_the_weak_seam_and_refuses_what_it_does_not_cover() {
    // Two cliques of four joined by one link: two parts.
    let mut edges = vec![(3, 4)];
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        edges.extend([(a, b), (a + 4, b + 4)]);
    }
    let seam = graph(&[true; 8], both_ways(&edges)).unwrap();
    let found = strength(&seam, &unit_system()).unwrap();
    assert_eq!((found.crossing, found.parts), (1, 2));
    assert_eq!(found.part_of, [0, 0, 0, 0, 1, 1, 1, 1]);

    // What is dead has no links, and is no part.
    let dead = strength(&Fabric::parse("mesh:3x3,dead=4").unwrap(), &unit_system()).unwrap();
    assert_eq!((dead.crossing, dead.parts, dead.part_of), (8, 8, (0..8).collect()));

    let star = graph(&[false, true, true, true], both_ways(&[(0, 1), (0, 2), (0, 3)])).unwrap();
    assert_eq!(strength(&star, &unit_system()), None);
    let one_way_ring: Vec<_> = (0..3).map(|i| Link::new(i, (i + 1) % 3, "")).collect();
    assert_eq!(strength(&graph(&[true; 3], one_way_ring).unwrap(), &unit_system()), None);
}

#[test]
fn a_star_of_ranks_around_a_switch() {
    let star = graph(&[false, true, true, true, true], both_ways(&[(0, 1), (0, 2), (0, 3), (0, 4)])).unwrap();
    let bytes = 4_000;
    for (kind, cut, volume) in [
        (Kind::Broadcast, 4_000_000, 1_500_000),
        (Kind::Reduce, 4_000_000, 1_500_000),
        (Kind::AllGather, 3_000_000, 1_500_000),
        (Kind::ReduceScatter, 3_000_000, 1_500_000),
        (Kind::AllToAll, 3_000_000, 3_000_000),
    ] {
        let bound = lower_bound(&star, &unit_system(), Collective::new(kind), bytes, None).unwrap();
        assert_eq!((bound.cut_ps, bound.volume_ps), (cut, volume), "{kind:?}");
        assert_eq!((bound.time_ps, bound.binding), (cut, "cut"), "{kind:?}");
        // Two hops of one flit of 64 B.
        assert_eq!(bound.latency_ps, 128_000);
    }
    // Four parts of one link each: 2 * 3 * 4000 B over 4 links.
    let bound = lower_bound(&star, &unit_system(), Collective::new(Kind::AllReduce), bytes, None).unwrap();
    assert_eq!((bound.cut_ps, bound.volume_ps, bound.strength_ps), (4_000_000, 3_000_000, Some(6_000_000)));
    assert_eq!((bound.time_ps, bound.binding), (6_000_000, "strength"));
}

/// AllReduce of switches and one-way links: what a ring reaches.
#[test]
fn rings_around_a_switch_and_one_way_are_optimal() {
    let one_way: Vec<_> = (0..5).map(|i| Link::new(i, (i + 1) % 5, "")).collect();
    for fabric in [Fabric::parse("switch:64").unwrap(), graph(&[true; 5], one_way).unwrap()] {
        let ranks = fabric.ranks() as f64;
        assert!((all_reduce(&fabric) - 2.0 * (ranks - 1.0) / ranks).abs() < 1e-9, "{}", fabric.name);
    }
}

/// Links that break or slow down never lower a bound: cuts of the intact grid are looked at, too.
#[test]
fn all_to_all_of_degraded_grids() {
    let of = |spec: &str| {
        let fabric = Fabric::parse(spec).unwrap();
        lower_bound(&fabric, &unit_system(), Collective::new(Kind::AllToAll), 64_000, None).unwrap()
    };
    // The middle of 4x4: 8 * 8 pairs of 4000 B over 4 links, or 3.
    assert_eq!((of("mesh:4x4").time_ps, of("mesh:4x4,drop=5-6").time_ps), (64_000_000, 85_333_333));
    // The middle of 8x8: 32 * 32 pairs of 1000 B over 8 links, or 7; a broken link elsewhere changes nothing.
    assert_eq!((of("mesh:8x8").time_ps, of("mesh:8x8,drop=27-28").time_ps), (128_000_000, 146_285_714));
    assert_eq!(of("mesh:8x8,drop=0-1").time_ps, 128_000_000);
    // A quarter behind slow links.
    let slow = (0..4).flat_map(|i| [(i * 8 + 3, i * 8 + 4), (24 + i, 32 + i)]);
    let slow: String = slow.map(|(a, b)| format!(",slow={a}-{b}:0.1")).collect();
    assert_eq!(of(&format!("mesh:8x8{slow}")).time_ps, 16 * 48 * 1_000_000 * 10 / 8);
    // Two boxes of eight, each on a switch, joined by one slow link.
    let mut links = both_ways(&[(16, 17)]);
    links.iter_mut().for_each(|link| link.speed_permille = 500);
    links.extend(both_ways(&(0..16).map(|rank| (rank, 16 + rank % 2)).collect::<Vec<_>>()));
    let boxes = graph(&[&[true; 16][..], &[false; 2]].concat(), links).unwrap();
    let bound = lower_bound(&boxes, &unit_system(), Collective::new(Kind::AllToAll), 64_000, None).unwrap();
    assert_eq!((bound.time_ps, bound.binding), (2 * 8 * 8 * 4_000_000, "cut"));
}

#[test]
fn meshes_by_hand() {
    let mesh = grid("t", DimensionShape::Line, &[4, 8]).unwrap();
    let of = |kind| lower_bound(&mesh, &unit_system(), Collective::new(kind), 32_000, None).unwrap();
    // A corner: 31/32 of the data over two links.
    assert_eq!(of(Kind::AllGather).cut_ps, 15_500_000);
    // The middle of the long side: 16 * 16 pairs of 1000 B over 4 links.
    assert_eq!(of(Kind::AllToAll).cut_ps, 64_000_000);
    assert_eq!(of(Kind::Broadcast).cut_ps, 16_000_000);
    // 10 hops of one flit.
    assert_eq!(of(Kind::AllReduce).latency_ps, 640_000);
    assert_eq!(
        lower_bound(&mesh, &unit_system(), Collective { kind: Kind::Reduce, root: 9 }, 1, None).unwrap().latency_ps,
        512_000
    );
}

#[test]
fn packets_are_stored_or_cost_their_tail_once() {
    let line = grid("t", DimensionShape::Line, &[4]).unwrap();
    let tto = System::preset("tto").unwrap();
    let of = |system: &System, fidelity| {
        let bound = lower_bound(&line, system, Collective::new(Kind::AllReduce), 1, fidelity).unwrap();
        assert_eq!(bound.binding, "latency");
        bound.latency_ps
    };
    let (stored, cut) = (3 * 17 * 21_000, (3 + 16) * 21_000);
    assert_eq!(of(&tto, Some(Fidelity::Packet)), stored + 12_000);
    assert_eq!(of(&tto, Some(Fidelity::AlphaBeta)), cut + 12_000);
    assert_eq!(of(&tto, Some(Fidelity::Flit)), cut + 3_000);
    assert_eq!(of(&tto, None), cut + 3_000);
    let with = |key, text| {
        let mut system = tto.clone();
        system.set(key, text).unwrap();
        of(&system, Some(Fidelity::Packet))
    };
    assert_eq!(with("link_switching", "cut-through"), cut + 12_000);
    assert_eq!(with("endpoint", "ideal:delay_ns=5"), stored + 12_000 + 5_000);
}

/// 14 hops of 17 flits of 21 ns; the links need 0.1 us.
#[test]
fn little_data_is_a_matter_of_latency() {
    let (mesh, tto) = (Fabric::parse("mesh:6x10").unwrap(), System::preset("tto").unwrap());
    let bound = lower_bound(&mesh, &tto, Collective::new(Kind::AllReduce), 4096, Some(Fidelity::Packet)).unwrap();
    assert_eq!((bound.time_ps, bound.binding), (14 * 357_000 + 12_000, "latency"));
}

#[test]
fn sizes_and_roots_out_of_range_are_refused() {
    let line = grid("t", DimensionShape::Line, &[4]).unwrap();
    let of = |collective, bytes| lower_bound(&line, &unit_system(), collective, bytes, None);
    for bytes in [0, MAX_BYTES + 1] {
        assert_eq!(of(Collective::new(Kind::AllReduce), bytes).unwrap_err().code, Code::BadSize);
    }
    let collective = Collective { kind: Kind::Reduce, root: 4 };
    assert_eq!(of(collective, 1).unwrap_err().code, Code::BadSpec);
}

#[test]
fn the_smallest_and_largest_sizes_do_not_overflow() {
    for system in [System::preset("generic").unwrap(), System::preset("tto").unwrap(), unit_system()] {
        for kind in Kind::ALL {
            let mut fabric = grid("t", DimensionShape::Line, &[3, 40]).unwrap();
            for rates in [&[None][..], &[Some(Rate(1))], &[Some(Rate(1)), None, Some(Rate(u64::MAX))]] {
                for (id, link) in fabric.links.iter_mut().enumerate() {
                    link.rate = rates[id % rates.len()];
                }
                let of = |bytes| lower_bound(&fabric, &system, Collective::new(kind), bytes, None).unwrap();
                assert!(of(1).time_ps <= of(MAX_BYTES).time_ps, "{kind:?}");
            }
        }
    }
}

#[test]
fn long_rings_are_bounded_at_once() {
    // In plain node order these flows took minutes.
    let ring = grid("t", DimensionShape::Ring, &[4096]).unwrap();
    let found = strength(&ring, &unit_system()).unwrap();
    assert_eq!((found.parts, found.crossing), (4096, 4096));
    let of = |kind| lower_bound(&ring, &unit_system(), Collective::new(kind), 4096 * 4, None).unwrap();
    assert_eq!(of(Kind::AllGather).cut_ps, 4095 * 4 * 1_000 / 2);
}

/// Not a test of speed on a shared machine; `cargo test --release -- --ignored --nocapture bound_timings` prints it.
#[test]
#[ignore]
fn bound_timings() {
    use DimensionShape::{Clique, Line, Ring};
    for (kind, dims) in [
        (Line, &[8u32, 8][..]),
        (Line, &[16, 16]),
        (Clique, &[16, 16]),
        (Ring, &[8, 8, 8]),
        (Line, &[64, 64]),
        (Ring, &[16, 16, 16]),
        (Line, &[4096]),
        (Clique, &[64, 64]),
        (Clique, &[1024]),
    ] {
        for mixed in [false, true] {
            let mut fabric = grid("t", kind, dims).unwrap();
            if mixed {
                // A slow seam along the diagonal makes Newton work.
                fabric.links.iter_mut().for_each(|link| link.speed_permille = 1000 - 100 * ((link.from + link.to) % 7));
            }
            let start = Instant::now();
            let found = strength(&fabric, &unit_system()).unwrap();
            print!("{kind:?} {dims:?} mixed {mixed}: {} parts, strength {:.0?};", found.parts, start.elapsed());
            for collective in Kind::ALL {
                let start = Instant::now();
                lower_bound(&fabric, &unit_system(), Collective::new(collective), 1 << 26, None).unwrap();
                print!(" {} {:.0?}", collective.name(), start.elapsed());
            }
            println!();
        }
    }
}

/// Random connected fabrics of 2 to 7 nodes: some switches, parallel and one-way links, several rates.
fn fabrics(switches: bool, symmetric: bool) -> impl Strategy<Value = Fabric> {
    let rates = prop::sample::select(vec![1_000_000_000u64, 2_000_000_000, 3_000_000_000, 12_500_000_000, 777_777_777]);
    let links = prop::collection::vec((0u32..7, 0u32..7, rates, 0u64..50_000), 1..30);
    let ranks = prop::collection::vec(prop::bool::weighted(if switches { 0.8 } else { 1.0 }), 2..=7);
    let build = move |(ranks, links): (Vec<bool>, Vec<_>)| {
        let count = ranks.len() as u32;
        let mut list = Vec::new();
        for (from, to, rate, latency) in links {
            let (from, to) = (from % count, to % count);
            for (from, to) in [(from, to), (to, from)].into_iter().take(if symmetric { 2 } else { 1 }) {
                let mut link = Link::new(from, to, "");
                link.rate = Some(Rate(rate));
                link.latency = Some(latency);
                if from != to {
                    list.push(link);
                }
            }
        }
        graph(&ranks, list).ok()
    };
    (ranks, links).prop_filter_map("disconnected", build)
}

/// Random grids of at most 12 nodes whose links differ.
fn grids() -> impl Strategy<Value = Fabric> {
    let kind = prop::sample::select(vec![DimensionShape::Line, DimensionShape::Ring, DimensionShape::Clique]);
    let dims = prop::sample::select(vec![vec![5], vec![2, 3], vec![3, 4], vec![2, 1, 4], vec![2, 2, 3]]);
    (kind, dims, prop::collection::vec(1u32..5, 7)).prop_map(|(kind, dims, speeds)| {
        let mut fabric = grid("t", kind, &dims).unwrap();
        for (id, link) in fabric.links.iter_mut().enumerate() {
            link.speed_permille = 250 * speeds[id % speeds.len()];
        }
        fabric
    })
}

/// Load of an AllReduce of one byte on the worst partition, by trying all, with every part's least cut of what leaves,
/// or of what enters.
fn strength_by_force(fabric: &Fabric, capacities: &Capacities) -> Load {
    fn extend(part_of: &mut Vec<u32>, parts: u32, ranks: usize, visit: &mut impl FnMut(&[u32], u32)) {
        if part_of.len() == ranks {
            return visit(part_of, parts);
        }
        for part in 0..=parts {
            part_of.push(part);
            extend(part_of, parts.max(part + 1), ranks, visit);
            part_of.pop();
        }
    }
    let switches: u32 = (0..).zip(&fabric.nodes).filter(|(_, node)| node.rank.is_none()).map(|(id, _)| 1 << id).sum();
    let capacity = |set: u32, reversed: bool| -> u128 {
        let has = |node: NodeId| (set >> node & 1 == 1) != reversed;
        let crosses = |(link, _): &(&Link, &u128)| has(link.from) && !has(link.to);
        fabric.links.iter().zip(&capacities.links).filter(crosses).map(|(_, c)| c).sum()
    };
    let least = |part: u32, reversed: bool| {
        let subsets = std::iter::successors(Some(switches), |&set| (set > 0).then(|| (set - 1) & switches));
        subsets.map(|set| capacity(set | part, reversed)).min().unwrap()
    };
    let mut worst = Load::NONE;
    extend(&mut Vec::new(), 0, fabric.ranks(), &mut |part_of, parts| {
        for reversed in [false, true].into_iter().filter(|_| parts > 1) {
            let part = |part: u32| -> u32 {
                let ranks = (0..).zip(part_of).filter(|&(_, &other)| other == part);
                ranks.map(|(rank, _)| 1 << fabric.node_of_rank(rank)).sum()
            };
            let capacity = (0..parts).map(|each| least(part(each), reversed)).sum();
            worst = worst.max(Load { bytes: 2 * (parts as u128 - 1), capacity });
        }
    });
    worst
}

/// The worst cut of an AllToAll by a matrix, by trying every node set.
fn matrix_cut_by_force(fabric: &Fabric, capacities: &Capacities, matrix: &Matrix) -> Load {
    let mut worst = Load::NONE;
    for set in 0u32..1 << fabric.nodes.len() {
        let has = |node: NodeId| set >> node & 1 == 1;
        let inside = |rank: usize| has(fabric.node_of_rank(rank as u32));
        let pairs = (0..fabric.ranks()).flat_map(|from| (0..fabric.ranks()).map(move |to| (from, to)));
        let leaving = pairs.filter(|&(from, to)| inside(from) && !inside(to));
        let bytes: u128 = leaving.map(|(from, to)| u128::from(matrix.bytes(from, to))).sum();
        let crosses = |(link, _): &(&Link, &u128)| has(link.from) && !has(link.to);
        let capacity = fabric.links.iter().zip(&capacities.links).filter(crosses).map(|(_, c)| c).sum();
        worst = if bytes == 0 { worst } else { worst.max(Load { bytes, capacity }) };
    }
    worst
}

/// A matrix of so many ranks from numbers, about half of them zero.
fn matrix_of(ranks: usize, numbers: &[Bytes]) -> Option<Matrix> {
    let entry = |from: usize, to: usize| match numbers[from * ranks + to] {
        even if even % 2 == 0 => 0,
        odd => odd / 2,
    };
    let rows: Vec<Vec<Bytes>> = (0..ranks).map(|from| (0..ranks).map(|to| entry(from, to)).collect()).collect();
    Matrix::new(&rows).ok()
}

/// The worst cut by trying every node set.
fn cut_by_force(fabric: &Fabric, capacities: &Capacities, collective: Collective, bytes: Bytes) -> Load {
    let shard = |rank| Align::default().shard(bytes, fabric.ranks(), rank).1 as u128;
    let mut worst = Load::NONE;
    for set in 0u32..1 << fabric.nodes.len() {
        let has = |node: NodeId| set >> node & 1 == 1;
        let inside = |rank: &usize| has(fabric.node_of_rank(*rank as u32));
        let within = (0..fabric.ranks()).filter(inside).count();
        if within == 0 || within == fabric.ranks() {
            continue;
        }
        let share: u128 = (0..fabric.ranks()).filter(inside).map(shard).sum();
        let rest = bytes as u128 - share;
        let root_within = inside(&(collective.root as usize));
        let leaving = match collective.kind {
            Kind::AllReduce => bytes as u128,
            Kind::Broadcast => bytes as u128 * u128::from(root_within),
            Kind::Reduce => bytes as u128 * u128::from(!root_within),
            Kind::AllGather => share,
            Kind::ReduceScatter => rest,
            Kind::AllToAll => within as u128 * rest,
        };
        let crosses = |(link, _): &(&Link, &u128)| has(link.from) && !has(link.to);
        let capacity = fabric.links.iter().zip(&capacities.links).filter(crosses).map(|(_, c)| c).sum();
        worst = worst.max(Load { bytes: leaving, capacity });
    }
    worst
}

/// Whether some message has to cross a cut more often than from one side to the other.
fn crosses_again(fabric: &Fabric, Limit { links, part_of, .. }: &Limit) -> bool {
    let mut crossings = vec![0; fabric.links.len()];
    links.iter().for_each(|&link| crossings[link as usize] = 1);
    let crossings = paths::CheapestPaths::of_costs(fabric, false, &crossings);
    let ranks = || (0..).zip(part_of);
    let crosses_again = |(from, side): (u32, &u32)| {
        let crossed = crossings.from(fabric.node_of_rank(from));
        ranks().any(|(to, other)| crossed[fabric.node_of_rank(to) as usize] > u64::from(side < other))
    };
    ranks().any(crosses_again)
}

/// Time of a schedule that sends one message after the other, each store-and-forward along its quickest path.
fn naive(fabric: &Fabric, system: &System, collective: Collective, data: &Data) -> u128 {
    let (ranks, bytes) = (0..fabric.ranks() as u32, data.bytes);
    let message = |from: u32, to: u32, bytes: Bytes| -> u128 {
        let packets = system.packets(bytes);
        let flits = packets.count * packets.flits;
        let hop = |link: &Link| system.latency_of(link) + flits * system.flit_time(link);
        let path = paths::CheapestPaths::new(fabric, false, hop).from(fabric.node_of_rank(from));
        let handed = u128::from(CostModel::in_packets(system).hand_off_ps());
        if bytes == 0 { 0 } else { path[fabric.node_of_rank(to) as usize] as u128 + handed }
    };
    let part = |from: u32, to: u32| data.part(fabric.ranks(), from as usize, to as usize).1;
    let gather = |root| ranks.clone().map(|rank| message(rank, root, bytes)).sum::<u128>();
    let spread = |root| ranks.clone().map(|rank| message(root, rank, bytes)).sum::<u128>();
    let pairs = |size: &dyn Fn(u32, u32) -> Bytes| -> u128 {
        let all = ranks.clone().flat_map(|from| ranks.clone().map(move |to| (from, to)));
        all.map(|(from, to)| message(from, to, size(from, to))).sum()
    };
    match collective.kind {
        Kind::AllReduce => ranks.clone().map(|root| gather(root) + spread(root)).min().unwrap(),
        Kind::Broadcast => spread(collective.root),
        Kind::Reduce => gather(collective.root),
        Kind::AllGather => pairs(&|from, to| part(to, from)),
        Kind::ReduceScatter | Kind::AllToAll => pairs(&part),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_local_rejects: 1 << 24, ..ProptestConfig::default() })]

    #[test]
    fn strength_is_the_least_over_all_partitions(
        fabric in prop_oneof![fabrics(false, true), fabrics(true, true), fabrics(true, false)],
        bytes in 1u64..200,
    ) {
        let capacities = Capacities::new(&fabric, &unit_system());
        let task = Task::new(&fabric, Collective::new(Kind::AllReduce), bytes);
        let mut expected = strength_by_force(&fabric, &capacities);
        expected.bytes *= bytes as u128;
        prop_assert_eq!(strength::weakest(&fabric, &capacities, &task).load.reduced(), expected.reduced());
        let Some(found) = strength(&fabric, &unit_system()) else { return Ok(()) };
        let load = Load { bytes: bytes as u128 * (found.parts as u128 - 1), capacity: found.crossing };
        prop_assert_eq!(load.reduced(), expected.reduced());
        // The partition is what it claims to be.
        let part = |node: NodeId| found.part_of[fabric.nodes[node as usize].rank.unwrap() as usize];
        let apart = |link: &Link| part(link.from) < part(link.to);
        let crossing = fabric.links.iter().zip(&capacities.links).filter(|(link, _)| apart(link)).map(|(_, c)| c);
        prop_assert_eq!(found.crossing, crossing.sum());
        prop_assert_eq!(found.parts, found.part_of.iter().max().unwrap() + 1);
    }

    #[test]
    fn cuts_are_the_worst_over_all_sets(
        fabric in prop_oneof![4 => fabrics(true, false), 1 => grids()],
        bytes in 1u64..200,
        root in 0u32..7,
    ) {
        let capacities = Capacities::new(&fabric, &unit_system());
        for kind in Kind::ALL {
            let collective = Collective { kind, root: root % fabric.ranks() as u32 };
            let found = cut::cut(&fabric, &capacities, &Task::new(&fabric, collective, bytes));
            let expected = cut_by_force(&fabric, &capacities, collective, bytes);
            prop_assert_eq!(found.load.reduced(), expected.reduced(), "{:?}", kind);
            // The links that it names prove it, by way of the cheapest plan at their prices.
            let bound = lower_bound(&fabric, &unit_system(), collective, bytes, None).unwrap();
            let task = Task::new(&fabric, collective, bytes);
            let proven = prices::load(&fabric, &capacities, &task, &bound.limit.certificate()).unwrap();
            let rates = [bound.volume_ps, bound.cut_ps, bound.strength_ps.unwrap_or(0), bound.prices_ps.unwrap_or(0)];
            let largest = rates.into_iter().max().unwrap();
            // Where switches are between ranks more can be said: messages through them are neither added nor copied there.
            // So it can where those of an AllToAll cross a cut several times.
            // Of an AllReduce partitions are exact where links are equally fast both ways.
            let is_exact = match kind {
                _ if fabric.has_switches() => false,
                Kind::AllToAll => !crosses_again(&fabric, &bound.limit),
                Kind::AllReduce => crate::synthesis::Graph::new(&fabric, &unit_system()).is_symmetric(),
                _ => true,
            };
            let proven = capacities.time(proven);
            prop_assert!(proven >= largest && (proven == largest || !is_exact), "{:?} {} {:?}", kind, proven, bound);
        }
    }

    #[test]
    fn no_bound_exceeds_a_naive_schedule(
        fabric in fabrics(true, false),
        bytes in prop_oneof![1u64..100, 1u64..1 << 20],
        root in 0u32..7,
        tto in any::<bool>(),
    ) {
        let system = System::preset(if tto { "tto" } else { "generic" }).unwrap();
        for kind in Kind::ALL {
            let collective = Collective { kind, root: root % fabric.ranks() as u32 };
            let bound = lower_bound(&fabric, &system, collective, bytes, None).unwrap();
            let time = naive(&fabric, &system, collective, &bytes.into());
            prop_assert!(bound.time_ps as u128 <= time, "{:?}: {:?} against {}", kind, bound, time);
        }
    }

    /// Whatever the prices, they prove no more than is true: the exact bounds, or the time of a naive schedule.
    #[test]
    fn any_prices_hold(
        fabric in fabrics(true, false),
        prices in prop::collection::vec(0u64..9, 200),
        bytes in 1u64..200,
        root in 0u32..7,
    ) {
        let (system, capacities) = (unit_system(), Capacities::new(&fabric, &unit_system()));
        let prices = (0..fabric.links.len() as u32).map(|link| (link, prices[link as usize % 200])).collect();
        let certificate = Certificate { prices, ..Certificate::default() };
        for kind in Kind::ALL {
            let collective = Collective { kind, root: root % fabric.ranks() as u32 };
            let task = Task::new(&fabric, collective, bytes);
            let proven = capacities.time(prices::load(&fabric, &capacities, &task, &certificate).unwrap());
            let bound = lower_bound(&fabric, &system, collective, bytes, None).unwrap();
            let exact = match kind {
                Kind::AllReduce | Kind::AllToAll => naive(&fabric, &system, collective, &bytes.into()) as u64,
                _ if fabric.has_switches() => naive(&fabric, &system, collective, &bytes.into()) as u64,
                _ => bound.cut_ps,
            };
            prop_assert!(proven <= exact, "{:?} {} {:?}", kind, proven, bound);
        }
    }

    #[test]
    fn bounds_of_matrices_are_those_of_cuts_and_paths(
        fabric in prop_oneof![4 => fabrics(true, false), 1 => grids()],
        numbers in prop_oneof![
            prop::collection::vec(0u64..200, 144),
            prop::collection::vec(prop_oneof![4 => 0u64..8, 1 => 0u64..1 << 30], 144),
        ],
        tto in any::<bool>(),
    ) {
        let capacities = Capacities::new(&fabric, &unit_system());
        let Some(matrix) = matrix_of(fabric.ranks(), &numbers) else { return Ok(()) };
        let (collective, data) = (Collective::new(Kind::AllToAll), Data::from(matrix.clone()));
        let task = Task::new(&fabric, collective, matrix.clone());
        let found = cut::cut(&fabric, &capacities, &task);
        prop_assert_eq!(found.load.reduced(), matrix_cut_by_force(&fabric, &capacities, &matrix).reduced());
        let hops = paths::CheapestPaths::new(&fabric, false, |_| 1);
        let mut volume = 0;
        for from in 0..fabric.ranks() {
            let hops = hops.from(fabric.node_of_rank(from as u32));
            let way = |to: usize| u128::from(hops[fabric.node_of_rank(to as u32) as usize]);
            volume += (0..fabric.ranks()).map(|to| u128::from(matrix.bytes(from, to)) * way(to)).sum::<u128>();
        }
        prop_assert_eq!(volume::volume(&fabric, &capacities, &task).bytes, volume);
        let system = System::preset(if tto { "tto" } else { "generic" }).unwrap();
        let bound = lower_bound(&fabric, &system, collective, matrix, None).unwrap();
        let time = naive(&fabric, &system, collective, &data);
        prop_assert!(bound.time_ps as u128 <= time, "{:?} against {}", bound, time);
    }

    /// A matrix that says what a buffer in equal shards says.
    #[test]
    fn even_matrices_have_the_bound_of_buffers(
        fabric in prop_oneof![fabrics(true, false), grids()],
        words in 1u64..1 << 20,
    ) {
        let (ranks, system) = (fabric.ranks(), System::preset("generic").unwrap());
        let collective = Collective::new(Kind::AllToAll);
        let matrix = Matrix::new(&vec![vec![4 * words; ranks]; ranks]).unwrap();
        let [even, plain] = [Data::from(matrix), Data::from(4 * words * ranks as u64)]
            .map(|data| lower_bound(&fabric, &system, collective, data, None).unwrap());
        // Prices are only looked for where shards are equal.
        let of = |bound: Bound| (bound.volume_ps, bound.cut_ps, bound.latency_ps);
        prop_assert_eq!(of(even), of(plain));
    }

    /// A two-rank exchange of full packets reaches the bound exactly.
    #[test]
    fn two_ranks_are_tight(packets in 1u64..1000) {
        let line = grid("t", DimensionShape::Line, &[2]).unwrap();
        let system = unit_system();
        let bytes = packets * system.packet.payload_bytes;
        for kind in [Kind::AllReduce, Kind::Broadcast, Kind::Reduce] {
            let bound = lower_bound(&line, &system, Collective::new(kind), bytes, None).unwrap();
            prop_assert_eq!(bound.time_ps, bytes * 1_000);
        }
    }
}
