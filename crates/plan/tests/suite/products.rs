//! Products whose dimensions have different rates, and groups of ranks: every algorithm that applies is proven, moves real
//! numbers correctly and takes no less than the bound; what is made for a product stays inside it.

use crate::algorithms::EVERYWHERE;
use crate::common::prelude::*;
use antiphon_model::fabric::{DimensionShape, View};

fn system() -> System {
    System::preset("generic").unwrap()
}

/// Most bytes that are moved.
const MOST_EXECUTED: u64 = 1 << 20;

/// A schedule, proven and executed, its time in packets and the bound; `None` if the algorithm refuses.
fn prove(fabric: &Fabric, kind: Kind, bytes: u64, name: &str) -> Option<(Schedule, u64, u64)> {
    let what = format!("{name} {} {bytes} B on {}", kind.name(), fabric.name);
    let (system, collective) = (system(), Collective::new(kind));
    let schedule = match algorithm::build(fabric, &system, collective, bytes, name) {
        Err(error) if error.code == Code::NotApplicable => return None,
        built => built.unwrap_or_else(|error| panic!("{what}: {error}")),
    };
    assert!(verify(fabric, &schedule).unwrap_or_else(|error| panic!("{what}: {error}")).complete, "{what}");
    if bytes <= MOST_EXECUTED {
        check_by_execution(&schedule, Some(1)).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let bound = lower_bound(fabric, &system, collective, bytes, None).unwrap().time_ps;
    let time = simulate(fabric, &schedule, &system, Fidelity::Packet).unwrap().time_ps;
    assert!(time >= bound || !schedule.excluded.is_empty(), "{what}: {time} {bound}");
    Some((schedule, time, bound))
}

/// Names of the algorithms that apply to AllReduce; all collectives are proven.
fn applying(fabric: &Fabric, bytes: u64) -> Vec<&'static str> {
    let mut names: Vec<&str> = algorithm::ALL.iter().map(|algorithm| algorithm.info().name).collect();
    for kind in [Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast, Kind::AllToAll] {
        names.iter().for_each(|name| drop(prove(fabric, kind, bytes, name)));
    }
    names.retain(|name| prove(fabric, Kind::AllReduce, bytes, name).is_some());
    names
}

/// Wire bytes on every link.
fn carried(fabric: &Fabric, schedule: &Schedule) -> Vec<u64> {
    let mut bytes = vec![0; fabric.links.len()];
    for transfer in &schedule.transfers {
        let sent = schedule.message_bytes(transfer) * schedule.chunks(transfer);
        transfer.route.iter().for_each(|&link| bytes[link as usize] += sent);
    }
    bytes
}

/// All of the time but for what some of the trees leave uneven.
const NEARLY: f64 = 0.93;

/// Where no dimension is too fast for what trees can send over it, all links are busy equally long; elsewhere the others
/// are. Either way AllReduce is near the strength bound.
#[test]
fn combs_on_unlike_rates_reach_the_bound() {
    let links = |fabric: &Fabric| fabric.links.iter().map(|link| link.rate.unwrap().0).collect::<Vec<_>>();
    for (spec, full, least) in [
        ("mesh:4x4@100+50", true, 0.985),
        ("mesh:8x8@50+100", true, 0.975),
        ("mesh:4x4x4@100+50+25", true, 0.975),
        ("torus:4x4x4@100/90ns+25/500ns+25/500ns", true, 0.97),
        ("fbfly:4x4@50+25", true, 0.99),
        ("fbfly:8x4@25+100", true, 0.99),
        ("torus:4x8@100+25", false, 0.985),
        ("torus:4x4x4@200/90ns+25/500ns+25/500ns", false, 0.97),
        ("torus:4x4x4@25+200+25", false, 0.985),
        ("mesh:4x4@200+25", false, 0.94),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let (schedule, time, bound) = prove(&fabric, Kind::AllReduce, 1 << 30, "combs").unwrap();
        assert!(bound as f64 >= least * time as f64, "{spec}: {}", bound as f64 / time as f64);
        let (carried, rates) = (carried(&fabric, &schedule), links(&fabric));
        let busy: Vec<f64> = carried.iter().zip(&rates).map(|(bytes, rate)| *bytes as f64 / *rate as f64).collect();
        let most = busy.iter().copied().fold(0.0, f64::max);
        let idle = busy.iter().filter(|busy| **busy < NEARLY * most).count();
        assert_eq!(idle == 0, full, "{spec}: {idle} of {} links idle for a time", busy.len());
        let slowest = rates.iter().min().unwrap();
        let slow_ones = busy.iter().zip(&rates).filter(|(_, rate)| *rate == slowest);
        assert!(slow_ones.into_iter().all(|(busy, _)| *busy >= NEARLY * most), "{spec}: a slow link has time left");
    }
}

/// Rates between those, too.
#[test]
fn combs_where_no_circle_of_dimensions_is_enough() {
    let fabric = Fabric::parse("torus:4x4x4@133+25+25").unwrap();
    let (_, time, bound) = prove(&fabric, Kind::AllReduce, 1 << 30, "combs").unwrap();
    assert!(bound as f64 >= 0.93 * time as f64, "{time} {bound}");
}

/// Rings of rows and columns share the data so that it takes less than in halves; like rates halve it.
#[test]
fn ring_2d_divides_by_rates() {
    let time = |spec: &str| prove(&Fabric::parse(spec).unwrap(), Kind::AllReduce, 1 << 28, "ring-2d").unwrap().1;
    for kind in ["mesh", "torus", "fbfly"] {
        let like = time(&format!("{kind}:4x4@25"));
        for rates in ["100+25", "25+100"] {
            let unlike = time(&format!("{kind}:4x4@{rates}"));
            // A half each way would take as long as with the slow rate alone; four fifths along the fast dimension
            // first take 16 / 25 of it.
            assert!((unlike as f64 / like as f64 - 0.64).abs() < 0.01, "{kind} {rates}: {unlike} {like}");
        }
        assert_eq!(time(&format!("{kind}:4x4@25+25")), like);
    }
}

/// Where one dimension takes everything, it takes the last bytes, too.
#[test]
fn rates_so_unlike_that_one_dimension_is_not_used() {
    for spec in ["mesh:4x4@0.001+200", "mesh:4x4@200+0.001", "torus:3x4@0.001+10"] {
        for bytes in [1001, 4000] {
            assert!(prove(&Fabric::parse(spec).unwrap(), Kind::AllReduce, bytes, "ring-2d").is_some(), "{spec}");
        }
    }
}

#[test]
fn every_algorithm_on_unlike_rates() {
    for (spec, expected) in [
        ("mesh:4x4@100+50/9ns", "ring ring-bi ring-2d nested-ring tto combs forest halving-doubling hierarchical"),
        ("mesh:3x3@100+5", "ring ring-bi-odd ring-2d nested-ring tto combs forest hierarchical"),
        ("torus:2x4x3@7+50+3", "ring ring-bi nested-ring combs forest hierarchical"),
        ("fbfly:3x4@25+1", "ring ring-bi ring-2d nested-ring combs forest hierarchical"),
        ("hypercube:3@1+2+4", "ring ring-bi nested-ring combs forest halving-doubling hierarchical"),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let (everywhere, others): (Vec<_>, Vec<_>) =
            applying(&fabric, 20_000).into_iter().partition(|name| EVERYWHERE.contains(name));
        assert_eq!((everywhere, others.join(" ").as_str()), (EVERYWHERE.to_vec(), expected), "{spec}");
        assert!(verify_dimensions(&fabric));
    }
}

/// Whether links have the rates and latencies of the product's dimensions.
fn verify_dimensions(fabric: &Fabric) -> bool {
    let product = fabric.product().unwrap();
    let positions = product.positions(fabric.nodes.len());
    let own = |link: &antiphon_model::fabric::Link| {
        let ends = positions[link.from as usize].zip(positions[link.to as usize]);
        let dimension = ends.and_then(|(from, to)| product.coordinates.differ(from, to)).unwrap();
        let dimension = product.dimensions[dimension];
        (link.rate, link.latency) == (dimension.link_rate(), dimension.latency)
    };
    fabric.links.iter().all(own)
}

fn group(spec: &str, ranks: &[u32]) -> View {
    Fabric::parse(spec).unwrap().group(ranks).unwrap()
}

const CORNER: [u32; 16] = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];

/// What needs a product finds it in a group, and uses no link to other nodes.
#[test]
fn groups_are_products_of_their_own() {
    let mut turned = CORNER;
    turned.reverse();
    turned.swap(3, 11);
    for (spec, ranks, names) in [
        ("mesh:8x8", &CORNER[..], "ring ring-bi ring-2d tto combs"),
        ("mesh:8x8", &turned, "ring ring-bi ring-2d tto combs"),
        ("torus:8x8@50+25,slow=60-61:0.5", &CORNER, "ring ring-bi ring-2d tto combs"),
        ("mesh:8x8", &[27, 28, 29, 35, 36, 37, 43, 44, 45], "ring ring-bi-odd ring-2d tto combs"),
        ("torus:4x4", &[4, 5, 6, 7], "ring ring-bi combs"),
        ("torus:4x4", &[3, 0], "ring combs"),
        ("torus:4x6", &[0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20], "ring ring-bi ring-2d tto combs"),
        ("fbfly:4x6", &[1, 3, 4, 13, 15, 16], "ring ring-bi ring-2d combs"),
        ("hypercube:4", &[0, 1, 4, 5, 8, 9, 12, 13], "ring ring-bi combs"),
        ("ring:16", &[14, 15, 0, 1, 2], "combs"),
    ] {
        let view = group(spec, ranks);
        assert!(matches!(view.fabric.shape, Shape::Product(_)), "{spec}");
        let inside = |node: u32| view.fabric.nodes[node as usize].rank.is_some();
        for name in names.split(' ') {
            let what = format!("{name} on {}", view.fabric.name);
            let (schedule, ..) = prove(&view.fabric, Kind::AllReduce, 100_000, name).expect(&what);
            let used = carried(&view.fabric, &schedule);
            for (link, _) in view.fabric.links.iter().zip(used).filter(|(_, bytes)| *bytes > 0) {
                assert!(inside(link.from) && inside(link.to), "{what}: link from {} to {}", link.from, link.to);
            }
            simulate(&view.fabric, &schedule, &system(), Fidelity::Flit).expect(&what);
        }
    }
}

/// A corner of a mesh is as fast as a mesh of its own, in whatever order its ranks are.
#[test]
fn a_corner_takes_as_long_as_a_mesh() {
    let alone = Fabric::parse("mesh:4x4").unwrap();
    let corner = group("mesh:8x8", &CORNER).fabric;
    for (bytes, name) in
        [(1 << 20, "tto"), (1 << 20, "combs"), (1 << 30, "combs"), (1 << 20, "ring-2d"), (1 << 20, "ring-bi")]
    {
        let time = |fabric| prove(fabric, Kind::AllReduce, bytes, name).unwrap().1;
        assert_eq!(time(&corner), time(&alone), "{name}");
    }
}

/// Groups of a plain graph are plain graphs in which the others forward.
#[test]
fn groups_of_graphs() {
    for (spec, ranks) in [
        ("mesh:4x4,drop=5-6", &[0, 5, 10][..]),
        ("dgx1v", &[7, 0, 3, 4]),
        ("bigraph:4x4", &[0, 17, 30]),
        ("bigraph:2x2", &[7, 6, 5, 4, 3, 2, 1, 0]),
        ("mesh:4x4", &[0, 3, 9, 14, 6]),
        ("ring:8", &[0, 2, 4, 6]),
        ("switch:8", &[6, 1, 3]),
        ("torus:3x3,exclude=4", &[7, 1, 2, 0]),
    ] {
        let view = group(spec, ranks);
        assert_eq!(view.ranks, ranks);
        let names = applying(&view.fabric, 20_000);
        assert!(["dbtree", "multitree", "direct"].iter().all(|name| names.contains(name)), "{spec}: {names:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Everything works with any ranks in any order; no algorithm takes nodes for ranks.
    #[test]
    fn any_group(
        (spec, order) in prop::sample::select(vec!["mesh:3x4", "torus:3x4@9+4", "fbfly:3x4", "dgx1v", "switch:12", "mesh:3x4,drop=5-6"])
            .prop_flat_map(|spec| {
                let ranks = Fabric::parse(spec).unwrap().ranks() as u32;
                (Just(spec), Just((0..ranks).collect::<Vec<u32>>()).prop_shuffle())
            }),
        count in 2usize..13,
        bytes in 1u64..50_000,
    ) {
        applying(&group(spec, &order[..count.min(order.len())]).fabric, bytes);
    }

    /// A part of a product is one just when it is a box, and neighbours in it are joined as its dimensions say.
    #[test]
    fn parts_of_products(
        spec in prop::sample::select(vec!["mesh:5x4", "torus:5x4", "fbfly:4x5", "torus:3x2x3@1+2+3", "switch:9", "mesh:1x6"]),
        sides in prop::collection::vec((0u32..6, 1u32..6), 3),
    ) {
        let fabric = Fabric::parse(spec).unwrap();
        let product = fabric.product().unwrap();
        let sizes = product.coordinates.sizes();
        // From a coordinate on, around the end.
        let inside = |position: &u32| sizes.iter().zip(&sides).enumerate().all(|(number, (&size, &(first, count)))| {
            (product.coordinates.of(*position, number) + size - first % size) % size < count
        });
        let ranks: Vec<u32> = (0..product.coordinates.count()).filter(inside).collect();
        prop_assume!(ranks.len() > 1);
        let view = fabric.group(&ranks).unwrap();
        // On a line an arc around the end is two pieces.
        let torn = sizes.iter().zip(&sides).zip(&product.dimensions).any(|((&size, &(first, count)), dimension)| {
            dimension.shape == DimensionShape::Line && count < size && first % size + count > size
        });
        prop_assert_eq!(view.fabric.product().is_none(), torn, "{}", view.fabric.name);
        let Some(part) = view.fabric.product() else { return Ok(()) };
        prop_assert_eq!(part.nodes.len(), ranks.len());
        for position in 0..part.coordinates.count() {
            for (number, dimension) in part.dimensions.iter().enumerate() {
                let at = part.coordinates.of(position, number);
                let size = part.coordinates.sizes()[number];
                let next = match dimension.shape {
                    DimensionShape::Line if at + 1 == size => continue,
                    DimensionShape::Switch => continue,
                    _ if size == 1 => continue,
                    _ => part.coordinates.with(position, number, (at + 1) % size),
                };
                let link = fabric.link_between(part.nodes[position as usize], part.nodes[next as usize]);
                prop_assert!(link.is_some(), "{}: {position} {next}", view.fabric.name);
                prop_assert_eq!(fabric.link(link.unwrap()).rate, dimension.link_rate());
            }
        }
    }
}
