//! Random fabrics.

use antiphon_model::fabric::{Fabric, Link, Node, Shape};
use proptest::prelude::*;

/// A random connected symmetric fabric of 2 to 9 ranks, with or without a switch.
pub fn random_fabric() -> impl Strategy<Value = Fabric> {
    (2usize..10, any::<bool>(), proptest::collection::vec((0usize..10, 0usize..10, 1u32..4), 0..14), any::<u64>())
        .prop_map(|(ranks, switch, extra, seed)| {
            let count = ranks + usize::from(switch);
            let mut nodes: Vec<Node> = (0..ranks as u32).map(|r| Node::rank(r, vec![])).collect();
            if switch {
                nodes.push(Node::switch("switch", vec![]));
            }
            let mut links = Vec::new();
            let mut join = |a: usize, b: usize, speed: u32| {
                for (from, to) in [(a, b), (b, a)] {
                    let mut link = Link::new(from as u32, to as u32, "x");
                    link.speed_permille = speed;
                    links.push(link);
                }
            };
            for node in 1..count {
                join((seed >> (node * 3)) as usize % node, node, 1000);
            }
            for (a, b, speed) in extra {
                if a % count != b % count {
                    join(a % count, b % count, speed * 500);
                }
            }
            Fabric::new("random", Shape::Graph, nodes, links).unwrap()
        })
}
