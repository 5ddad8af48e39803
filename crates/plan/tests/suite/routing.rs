//! Equally short ways through switches: shared, the first, or one that a hash chooses.

use crate::common::prelude::*;
use antiphon_model::fabric::{NodeId, Routing};

/// Ranks, switches, and links both ways of so many GB/s, with a latency of 100 ns.
fn joined(ranks: u32, switches: u32, links: impl IntoIterator<Item = (NodeId, NodeId, u64)>) -> Fabric {
    let mut nodes: Vec<Node> = (0..ranks).map(|rank| Node::rank(rank, [])).collect();
    nodes.extend((0..switches).map(|switch| Node::switch(format!("s{switch}"), [])));
    let links = links.into_iter().flat_map(|(a, b, rate)| {
        let link = Link { rate: Some(Rate::gb_per_s(rate)), latency: Some(100_000), ..Link::new(a, b, "x") };
        [link.reversed(), link]
    });
    Fabric::new("joined", Shape::Graph, nodes, links.collect()).unwrap()
}

/// So many ranks, each on the leaf that the function says, and leaves on spines.
fn spines(ranks: u32, leaves: u32, spines: u32, rate: u64, leaf: impl Fn(u32) -> u32) -> Fabric {
    let down = (0..ranks).map(|rank| (rank, ranks + leaf(rank), 50));
    let up = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (ranks + leaf, ranks + leaves + spine, rate)));
    joined(ranks, leaves + spines, down.chain(up))
}

/// Four boxes of four ranks, each on the leaf of its number.
fn rail_fat_tree(count: u32, rate: u64) -> Fabric {
    spines(16, 4, count, rate, |rank| rank % 4)
}

/// Four ranks on a switch of each rate.
fn planes(rates: &[u64]) -> Fabric {
    let links = (0..4).flat_map(|rank| (4..).zip(rates).map(move |(switch, &rate)| (rank, switch, rate)));
    joined(4, rates.len() as u32, links)
}

fn run(fabric: &Fabric, system: &System, kind: Kind, algorithm: &str) -> (Schedule, SimulationResult) {
    let schedule = algorithm::build(fabric, system, Collective::new(kind), 64 << 20, algorithm).unwrap();
    let result = simulate(fabric, &schedule, system, Fidelity::Packet).unwrap();
    (schedule, result)
}

fn time(fabric: &Fabric, algorithm: &str) -> f64 {
    run(fabric, &routed("spread"), Kind::AllReduce, algorithm).1.time_ps as f64
}

fn routed(routing: &str) -> System {
    System { routing: Routing::parse(routing).unwrap(), ..System::preset("generic").unwrap() }
}

#[test]
fn spines_are_loaded_alike() {
    let fabric = spines(8, 2, 4, 50, |rank| rank / 4);
    let carried = |routing: &str| {
        let (_, result) = run(&fabric, &routed(routing), Kind::AllToAll, "direct");
        let up = (0..4).map(|spine| fabric.links.iter().position(|link| (link.from, link.to) == (8, 10 + spine)));
        up.map(|link| result.links[link.unwrap()].bytes).collect::<Vec<_>>()
    };
    let spread = carried("spread");
    let sum: u64 = spread.iter().sum();
    assert!(sum > 0 && spread.iter().all(|&bytes| bytes == spread[0]), "{spread:?}");
    assert_eq!(carried("first"), [sum, 0, 0, 0]);
    let [one, again, other] = ["hash:1", "hash:1", "hash:2"].map(carried);
    assert!(one == again && one != other);
    assert!([one, other].iter().all(|bytes| bytes.iter().sum::<u64>() == sum));
}

#[test]
fn many_ways_are_as_good_as_one_of_their_rate() {
    for name in ["ring", "direct", "dbtree", "halving-doubling", "overlapped-tree"] {
        assert!(time(&rail_fat_tree(4, 50), name) <= 1.3 * time(&rail_fat_tree(1, 200), name), "{name}");
        for rates in [&[50; 2][..], &[25; 4]] {
            let many = if name == "overlapped-tree" { 0.0 } else { time(&planes(rates), name) };
            assert!(many <= 1.06 * time(&planes(&[100]), name), "{name} {rates:?}");
        }
    }
    // A tree of full bisection is no bottleneck.
    let [tree, switch] = [rail_fat_tree(4, 50), joined(16, 1, (0..16).map(|rank| (rank, 16, 50)))]
        .map(|fabric| run(&fabric, &routed("spread"), Kind::AllToAll, "direct").1.time_ps as f64);
    assert!(tree <= 1.05 * switch, "{tree} {switch}");
    for rates in [[50, 10], [10, 50]] {
        assert_eq!(time(&planes(&rates), "ring"), time(&planes(&[50]), "ring"));
    }
}

#[test]
fn meshes_and_products_keep_their_order() {
    for spec in ["mesh:4x4", "torus:4x4x2", "dgx-h100:1", "dgx-h100:2@400+50"] {
        let routes = |routing| {
            let (schedule, _) = run(&Fabric::parse(spec).unwrap(), &routed(routing), Kind::AllReduce, "direct");
            schedule.transfers.iter().map(|transfer| transfer.route.clone()).collect::<Vec<_>>()
        };
        assert_eq!(routes("spread"), routes("first"), "{spec}");
    }
    for text in ["ecmp", "hash", "hash:", "hash:-1", "hash:x"] {
        assert!(Routing::parse(text).unwrap_err().message.contains("routing"), "{text}");
    }
}
