//! Mixtures against bounds found another way, and against loads counted again; oracles against all trees there are.

use super::oracle::{Arborescences, Oracle, Paths, SpanningTrees, TreePairs};
use super::*;
use crate::lower_bound;
use antiphon_base::units::Rate;
use antiphon_model::fabric::{Fabric, Link, Node, NodeId, Shape};
use antiphon_model::system::System;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// Ranks and perhaps a node that only forwards, joined by a tree both ways and by further links of one or both ways.
fn random_fabric(most: usize) -> impl Strategy<Value = Fabric> {
    let link = (0usize..9, 0usize..9, 1u64..5, any::<bool>());
    (2..=most, any::<bool>(), any::<u64>(), prop::collection::vec(link, 0..12)).prop_map(
        |(ranks, switch, seed, more)| {
            let count = ranks + usize::from(switch);
            let mut nodes: Vec<Node> = (0..ranks as u32).map(|rank| Node::rank(rank, [])).collect();
            nodes.extend(switch.then(|| Node::switch("forwards", [])));
            let mut links = vec![];
            let mut join = |a: usize, b: usize, rate: u64, both: bool| {
                let link = Link { rate: Some(Rate::gb_per_s(25 * rate)), ..Link::new(a as u32, b as u32, "x") };
                links.extend(both.then(|| link.reversed()));
                links.push(link);
            };
            (1..count).for_each(|node| join((seed >> (3 * node)) as usize % node, node, 1 + (seed >> node) % 3, true));
            for (a, b, rate, both) in more {
                if a % count != b % count {
                    join(a % count, b % count, rate, both);
                }
            }
            Fabric::new("random", Shape::Graph, nodes, links).unwrap()
        },
    )
}

fn wanted(accuracy: f64) -> Wanted {
    Wanted { accuracy, level: 0.0, trees: None, loss: LOSS }
}

fn ideal() -> System {
    System::preset("ideal").unwrap()
}

/// Arcs of a plan's branches follow each other from rank to rank, and branches make one tree (or reach all ranks by paths).
fn assert_plan(graph: &Graph, kind: Kind, root: u32, plan: &Plan) {
    let ranks = graph.ranks.len();
    if kind == Kind::AllReduce && plan.branches.len() == 2 * (ranks - 1) {
        // One tree up and another one down, with one root.
        let top = |branches: &[usize]| {
            let below: HashSet<u32> = branches.iter().map(|&at| plan.branches[at].1).collect();
            branches.iter().map(|&at| plan.branches[at].0).find(|rank| !below.contains(rank)).unwrap()
        };
        let trees = plan.trees();
        let root = top(&trees[0]);
        for (kind, branches) in [Kind::Reduce, Kind::Broadcast].into_iter().zip(&trees) {
            let mut tree = Plan::default();
            for &at in branches {
                let ([up, down], (above, below)) = (plan.ways(at), plan.branches[at]);
                tree.branch(above, below, up.iter().copied(), down.iter().copied());
            }
            assert_plan(graph, kind, root, &tree);
        }
        return;
    }
    assert_eq!(plan.branches.len(), ranks - 1, "{kind:?}");
    let joins = |from: u32, to: u32, way: &[u32]| {
        let step = |at: NodeId, &arc: &u32| {
            let arc = &graph.arcs[arc as usize];
            assert_eq!(arc.from, at);
            arc.to
        };
        assert_eq!(way.iter().fold(graph.ranks[from as usize], step), graph.ranks[to as usize]);
    };
    let mut above = HashMap::new();
    for (at, &(upper, lower)) in plan.branches.iter().enumerate() {
        let [up, down] = plan.ways(at);
        let (sums, copies) = match kind {
            Kind::AllReduce => (true, true),
            Kind::ReduceScatter | Kind::Reduce => (true, false),
            _ => (false, true),
        };
        assert_eq!((up.is_empty(), down.is_empty()), (!sums, !copies));
        if sums {
            joins(lower, upper, up);
        }
        if copies {
            joins(upper, lower, down);
        }
        assert_eq!(above.insert(lower, upper), None);
    }
    let tops: HashSet<u32> = above.values().copied().filter(|rank| !above.contains_key(rank)).collect();
    assert_eq!(tops.len(), 1, "one root");
    assert!(kind == Kind::AllReduce || tops.contains(&root), "{kind:?}");
    for &rank in above.keys() {
        let steps = std::iter::successors(Some(rank), |rank| above.get(rank).copied()).take(ranks + 1).count();
        assert!(steps <= ranks, "a cycle");
    }
}

/// Finds the mixture and counts everything again.
fn check(fabric: &Fabric, collective: Collective) {
    let name = format!(
        "{:?} on {}: {:?}",
        collective,
        fabric.name,
        if fabric.shape == Shape::Graph { &fabric.links[..] } else { &[] }
    );
    let (system, ranks) = (ideal(), fabric.ranks() as f64);
    let graph = Graph::new(fabric, &system);
    let kind = collective.kind;
    let found = mixture(&graph, collective, None, &wanted(1e-7), Start::default(), Watch::default()).unwrap();
    // Arcs have some 1e-9 of room.
    assert!(found.least <= found.time * (1.0 + 1e-8), "{name}: {} {}", found.least, found.time);
    let rooted = kind.rooted() || kind == Kind::AllReduce;
    let (mut loads, mut shares) = (vec![0.0; graph.arcs.len()], HashMap::<u32, f64>::new());
    for (root, share, plan) in &found.plans {
        assert!(*share > 0.0);
        assert_plan(&graph, kind, *root, plan);
        let of_all = if rooted { *share } else { share / ranks };
        plan.carried(|_| 1).for_each(|(arc, count)| loads[arc as usize] += of_all * count as f64);
        // Trees of AllReduce have no roots to share for.
        *shares.entry(if kind == Kind::AllReduce { 0 } else { *root }).or_default() += share;
    }
    assert_eq!(shares.len(), if rooted { 1 } else { fabric.ranks() }, "{name}");
    shares.values().for_each(|sum| assert!((sum - 1.0).abs() < 1e-6, "{name}: {sum}"));
    for (arc, load) in graph.arcs.iter().zip(&loads) {
        // Spare time of switches and plans left out may cost a little, which `time` counts.
        assert!(*load <= found.time * arc.rate * (1.0 + 1e-6), "{name}: {load} {}", found.time * arc.rate);
    }
    // What `least` says is what the cheapest plans cost at the prices.
    let worth: f64 = found.prices.iter().zip(&graph.arcs).map(|(price, arc)| price * arc.rate).sum();
    assert!((worth - 1.0).abs() < 1e-6, "{name}: prices are worth {worth}");
    let roots: Vec<u32> = if kind.rooted() { vec![collective.root] } else { (0..fabric.ranks() as u32).collect() };
    let turned = matches!(kind, Kind::ReduceScatter | Kind::Reduce);
    let ground = if turned { graph.reversed() } else { graph.clone() };
    let [cheapest, _] = match kind {
        Kind::AllReduce if !graph.is_symmetric() => {
            TreePairs::new(ground, (0..graph.ranks.len() as u32).collect()).plans(&found.prices, &[0], false)
        }
        Kind::AllReduce => SpanningTrees::new(ground).plans(&found.prices, &[0], false),
        Kind::AllToAll => Paths(ground).plans(&found.prices, &roots, false),
        _ => Arborescences(ground).plans(&found.prices, &roots, false),
    };
    let cost = cheapest.iter().map(|plan| plan.cost(&found.prices)).sum::<f64>() / cheapest.len() as f64;
    assert!((cost / found.least - 1.0).abs() < 1e-6, "{name}: prices prove {cost}, not {}", found.least);
    // Without switches nothing is left out but plans of small shares.
    assert!(found.time <= found.least * 1.0041, "{name}: {} {}", found.time, found.least);
    let bytes = 1u64 << 40;
    let bound = lower_bound(fabric, &system, collective, bytes, None).unwrap();
    let [cut, strength] = [bound.cut_ps, bound.strength_ps.unwrap_or(0)].map(|time| time as f64 / bytes as f64);
    assert!(found.time >= cut.max(strength) * (1.0 - 1e-6), "{name}: {} under {bound:?}", found.time);
    match kind {
        Kind::AllToAll => {}
        Kind::AllReduce => {
            let rate = |ends: (NodeId, NodeId)| -> f64 {
                graph.arcs.iter().filter(|arc| (arc.from, arc.to) == ends).map(|arc| arc.rate).sum()
            };
            let even = graph.arcs.iter().all(|arc| {
                let [there, back] = [rate((arc.from, arc.to)), rate((arc.to, arc.from))];
                (there / back - 1.0).abs() < 1e-9
            });
            let exact = even && !fabric.has_switches();
            assert!(!exact || (found.least / strength - 1.0).abs() < 1e-6, "{name}: {} {strength}", found.least);
        }
        _ => {
            // Cuts are exact where nodes that only forward send as fast as they receive.
            let rate = |node: u32, of: fn(&Arc) -> NodeId| -> f64 {
                graph.arcs.iter().filter(|arc| of(arc) == node).map(|arc| arc.rate).sum()
            };
            let forwards = (0..graph.rank_at.len() as u32).filter(|&node| graph.rank_at[node as usize].is_none());
            let exact =
                { forwards }.all(|node| (rate(node, |arc| arc.from) / rate(node, |arc| arc.to) - 1.0).abs() < 1e-9);
            let least = found.least / cut - 1.0;
            assert!(if exact { least.abs() < 1e-6 } else { least > -1e-6 }, "{name}: {}, the cut's {cut}", found.least);
        }
    }
}

/// Paths by a matrix: loads counted again, and what prices prove.
#[test]
fn paths_carry_what_a_matrix_says() {
    for (number, spec) in ["mesh:3x3", "dgx1v", "switch:5", "dgx-a100:2", "mesh:2x4,slow=0-1:0.5"].iter().enumerate() {
        let fabric = Fabric::parse(spec).unwrap();
        let (system, ranks) = (ideal(), fabric.ranks());
        // Some pairs have nothing, one rank sends nothing, and one pair has much.
        let entry = |from: usize, to: usize| match (from * 31 + to * 17 + number) % 7 {
            _ if from == 2 || from == to => 0,
            _ if (from, to) == (0, ranks - 1) => 50_000_000,
            rest => rest as u64 * 1_000_003,
        };
        let rows: Vec<Vec<u64>> = (0..ranks).map(|from| (0..ranks).map(|to| entry(from, to)).collect()).collect();
        let matrix = Matrix::new(&rows).unwrap();
        let collective = Collective::new(Kind::AllToAll);
        let graph = Graph::new(&fabric, &system);
        let found =
            mixture(&graph, collective, Some(&matrix), &wanted(1e-6), Start::default(), Watch::default()).unwrap();
        let (mut loads, mut shares) = (vec![0.0; graph.arcs.len()], HashMap::<u32, f64>::new());
        for (root, share, plan) in &found.plans {
            assert_plan(&graph, Kind::AllToAll, *root, plan);
            let bytes = |(from, to): (u32, u32)| entry(from as usize, to as usize);
            plan.carried(bytes).for_each(|(arc, bytes)| loads[arc as usize] += share * bytes as f64);
            *shares.entry(*root).or_default() += share;
        }
        assert_eq!(shares.len(), ranks - 1, "{spec}");
        shares.values().for_each(|sum| assert!((sum - 1.0).abs() < 1e-6, "{spec}: {sum}"));
        let time = found.time * matrix.most() as f64;
        for (arc, load) in graph.arcs.iter().zip(&loads) {
            assert!(*load <= time * arc.rate * (1.0 + 1e-6), "{spec}: {load} {}", time * arc.rate);
        }
        // The cheapest path of every pair, for all that goes along it.
        let all: Vec<u32> = (0..ranks as u32).collect();
        let [cheapest, _] = Paths(graph.clone()).plans(&found.prices, &all, false);
        let bytes = |(from, to): (u32, u32)| entry(from as usize, to as usize);
        let carried = cheapest.iter().flat_map(|plan| plan.carried(bytes));
        let cost: f64 = carried.map(|(arc, bytes)| found.prices[arc as usize] * bytes as f64).sum();
        let least = found.least * matrix.most() as f64;
        assert!((cost / least - 1.0).abs() < 1e-6, "{spec}: prices prove {cost}, not {least}");
        assert!(found.time <= found.least * 1.0041, "{spec}: {} {}", found.time, found.least);
        let bound = lower_bound(&fabric, &system, collective, matrix, None).unwrap();
        assert!(time >= bound.cut_ps.max(bound.volume_ps) as f64 * (1.0 - 1e-6), "{spec}: {time} under {bound:?}");
    }
}

#[test]
fn mixtures_are_at_the_bound_of_presets() {
    for spec in
        ["mesh:4x4", "mesh:3x5", "torus:4x4", "dgx1v", "fc:8", "mi250:1", "dgx-a100:2", "mesh:5x5,drop=0-1,drop=12-13"]
    {
        let fabric = Fabric::parse(spec).unwrap();
        for kind in Kind::ALL {
            let root = if kind.rooted() { fabric.ranks() as u32 - 2 } else { 0 };
            check(&fabric, Collective { kind, root });
        }
    }
}

/// As many trees as there are, where every rank but the root takes any other as its upper one.
fn trees(ranks: u32, root: u32) -> Vec<Vec<(u32, u32)>> {
    let mut all: Vec<Vec<u32>> = vec![vec![]];
    for rank in 0..ranks {
        let choices: Vec<u32> = if rank == root { vec![root] } else { (0..ranks).filter(|&at| at != rank).collect() };
        all = all.iter().flat_map(|first| choices.iter().map(|&at| [first.clone(), vec![at]].concat())).collect();
    }
    let is_tree = |above: &Vec<u32>| (0..ranks).all(|rank| (0..ranks).fold(rank, |at, _| above[at as usize]) == root);
    let branches = |above: Vec<u32>| (0..ranks).filter(|&at| at != root).map(|at| (above[at as usize], at)).collect();
    all.into_iter().filter(is_tree).map(branches).collect()
}

/// What the cheapest way from each rank to each other costs without ranks between: Bellman and Ford.
fn ways(graph: &Graph, prices: &[f64]) -> Vec<Vec<f64>> {
    let from = |rank: u32| {
        let start = graph.ranks[rank as usize];
        let mut cost = vec![f64::INFINITY; graph.rank_at.len()];
        cost[start as usize] = 0.0;
        for _ in 0..cost.len() {
            for (arc, price) in graph.arcs.iter().zip(prices) {
                if arc.from == start || graph.rank_at[arc.from as usize].is_none() {
                    cost[arc.to as usize] = cost[arc.to as usize].min(cost[arc.from as usize] + price);
                }
            }
        }
        graph.ranks.iter().map(|&node| cost[node as usize]).collect()
    };
    (0..graph.ranks.len() as u32).map(from).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn oracles_find_the_cheapest_of_all_trees(
        fabric in random_fabric(6),
        prices in prop::collection::vec(prop_oneof![Just(0.0), 0.0f64..1.0, (1u32..4).prop_map(f64::from)], 64),
    ) {
        let graph = Graph::new(&fabric, &ideal());
        let prices = &prices[..graph.arcs.len()];
        let (ranks, cost) = (graph.ranks.len() as u32, ways(&graph, prices));
        let roots: Vec<u32> = (0..ranks).collect();
        let [found, low] = Arborescences(graph.clone()).plans(prices, &roots, true);
        for (&root, plan) in roots.iter().zip(&found) {
            assert_plan(&graph, Kind::AllGather, root, plan);
            let price = |tree: &Vec<(u32, u32)>| tree.iter().map(|&(a, b)| cost[a as usize][b as usize]).sum::<f64>();
            let least = trees(ranks, root).iter().map(price).fold(f64::INFINITY, f64::min);
            prop_assert!((plan.cost(prices) - least).abs() < 1e-9, "{} {least}", plan.cost(prices));
        }
        for (&root, plan) in roots.iter().zip(&low) {
            assert_plan(&graph, Kind::AllGather, root, plan);
            prop_assert!(plan.height() <= found[root as usize].height());
            prop_assert!(plan.cost(prices) >= found[root as usize].cost(prices) - 1e-9);
        }
        // A tree up and another one down, of the best root.
        let back = |tree: &Vec<(u32, u32)>| tree.iter().map(|&(a, b)| cost[b as usize][a as usize]).sum::<f64>();
        let there = |tree: &Vec<(u32, u32)>| tree.iter().map(|&(a, b)| cost[a as usize][b as usize]).sum::<f64>();
        let pair = |root: u32| -> f64 {
            let trees = trees(ranks, root);
            let least = |costs: &mut dyn Iterator<Item = f64>| costs.fold(f64::INFINITY, f64::min);
            least(&mut trees.iter().map(back)) + least(&mut trees.iter().map(there))
        };
        let least = roots.iter().map(|&root| pair(root)).fold(f64::INFINITY, f64::min);
        let mut pairs = TreePairs::new(graph.clone(), roots.clone());
        let [found, low] = pairs.plans(prices, &[0], true);
        let found = &found[0];
        assert_plan(&graph, Kind::AllReduce, 0, found);
        prop_assert!((found.cost(prices) - least).abs() < 1e-9, "{} {least}", found.cost(prices));
        let low = &low[0];
        assert_plan(&graph, Kind::AllReduce, 0, low);
        prop_assert!(low.cost(prices) >= least - 1e-9);
        // Both ways count, whatever the root.
        let both = |tree: &Vec<(u32, u32)>| {
            let each = |&(a, b): &(u32, u32)| cost[a as usize][b as usize] + cost[b as usize][a as usize];
            tree.iter().map(each).sum::<f64>()
        };
        let least = trees(ranks, 0).iter().map(both).fold(f64::INFINITY, f64::min);
        let plan = &SpanningTrees::new(graph.clone()).plans(prices, &[0], false)[0][0];
        assert_plan(&graph, Kind::AllReduce, 0, plan);
        // Where neighbours are joined one way only, ways back lead over other ranks, and may be cheaper.
        let one_way = |a: usize, b: usize| cost[a][b].is_finite() && !cost[b][a].is_finite();
        let through = (0..ranks as usize).any(|a| (0..ranks as usize).any(|b| one_way(a, b)));
        prop_assert!(plan.cost(prices) < least + 1e-9, "{} {least}", plan.cost(prices));
        prop_assert!(found.cost(prices) < plan.cost(prices) + 1e-9);
        prop_assert!(through || plan.cost(prices) > least - 1e-9, "{} {least}", plan.cost(prices));
    }

    #[test]
    fn mixtures_are_at_the_bound(fabric in random_fabric(7), root in any::<prop::sample::Index>()) {
        for kind in Kind::ALL {
            let root = if kind.rooted() { root.index(fabric.ranks()) as u32 } else { 0 };
            check(&fabric, Collective { kind, root });
        }
    }
}

/// With at most so many trees a root there are no more, they carry everything, and none is sooner through than the best of any
/// number; more trees are hardly worse than fewer.
#[test]
fn few_trees_are_as_few_as_wanted() {
    for (spec, kind, enough, near) in [
        ("dgx1v", Kind::AllGather, 6, 1.03),
        ("dgx1v", Kind::AllReduce, 6, 1.16),
        ("mi250:1:raw", Kind::AllGather, 6, 1.03),
        ("mesh:4x4,drop=5-6", Kind::AllReduce, 4, 1.16),
        ("mesh:4x4,drop=5-6", Kind::ReduceScatter, 4, 1.03),
        ("torus:4x4", Kind::Broadcast, 4, 1.34),
        ("dgx-h100:2:raw", Kind::AllGather, 2, 1.03),
    ] {
        let fabric = Fabric::parse(spec).unwrap();
        let graph = Graph::new(&fabric, &ideal());
        let root_share = if kind.rooted() || kind == Kind::AllReduce { 1.0 } else { 1.0 / fabric.ranks() as f64 };
        let mut before = f64::INFINITY;
        for trees in [1, 2, 3, enough] {
            let wanted = Wanted { trees: Some(trees), ..wanted(1e-3) };
            let found =
                mixture(&graph, Collective::new(kind), None, &wanted, Start::default(), Watch::default()).unwrap();
            let (mut roots, mut loads) = (HashMap::<u32, (usize, f64)>::new(), vec![0.0; graph.arcs.len()]);
            for (root, share, plan) in &found.plans {
                assert_plan(&graph, kind, *root, plan);
                // Those of an AllReduce are of no root.
                let root = roots.entry(if kind == Kind::AllReduce { 0 } else { *root }).or_default();
                (root.0, root.1) = (root.0 + 1, root.1 + share);
                plan.carried(|_| 1).for_each(|(arc, count)| loads[arc as usize] += root_share * share * count as f64);
            }
            let all = if root_share == 1.0 { 1 } else { fabric.ranks() };
            assert_eq!(roots.len(), all, "{spec}");
            assert!(roots.values().all(|root| root.0 <= trees && (root.1 - 1.0).abs() < 1e-6), "{spec}: {roots:?}");
            for (arc, load) in graph.arcs.iter().zip(&loads) {
                assert!(*load <= found.time * arc.rate * (1.0 + 1e-6), "{spec}: {load} {}", found.time * arc.rate);
            }
            assert!(
                found.time >= found.least * (1.0 - 1e-8) && found.time <= before * 1.02,
                "{spec}, {trees}: {before}"
            );
            before = found.time;
            let time = found.time / found.least;
            assert!(trees < enough || time < near, "{spec} {kind:?}: {time}");
        }
    }
}

/// Every permutation of a group is one of the fabric, and classes and orbits are what the group makes alike.
#[test]
fn symmetries_leave_the_fabric_as_it_is() {
    for (spec, alike) in [
        ("torus:8x8", true),
        ("mesh:8x8", true),
        ("fc:16", true),
        ("dgx-h100:2", true),
        ("mesh:4x4", false),
        ("mesh:3x5", false),
        ("mesh:2x3x4", false),
        ("bigraph:4x4", false),
        ("mesh:8x8,slow=0-1:0.5", false),
        ("mi250:1", false),
        ("dgx1v", false),
    ] {
        let graph = Graph::new(&Fabric::parse(spec).unwrap(), &ideal());
        for fixed in [None, Some(1)] {
            let Symmetry { group, class_of, arcs } = &Symmetry::new(&graph, fixed);
            let mut seen = HashSet::new();
            for one in group {
                assert!(seen.insert(one.ranks.clone()) && fixed.is_none_or(|rank| one.ranks[rank as usize] == rank));
                let images: HashSet<u32> = one.arcs.iter().copied().collect();
                assert_eq!(images.len(), graph.arcs.len(), "{spec}");
                let mut nodes = HashMap::new();
                for (at, &to) in one.arcs.iter().enumerate() {
                    let (arc, image) = (&graph.arcs[at], &graph.arcs[to as usize]);
                    assert_eq!((arc.rate, class_of[at]), (image.rate, class_of[to as usize]), "{spec}");
                    for (node, image) in [(arc.from, image.from), (arc.to, image.to)] {
                        assert_eq!(*nodes.entry(node).or_insert(image), image, "{spec}");
                        let [rank, image] = [node, image].map(|node| graph.rank_at[node as usize]);
                        assert_eq!(rank.map(|rank| one.ranks[rank as usize]), image, "{spec}");
                    }
                }
            }
            let counted: usize = arcs.iter().map(Vec::len).sum();
            assert_eq!(counted, graph.arcs.len(), "{spec}: every arc is in one class");
            let all: Vec<u32> = (0..graph.ranks.len() as u32).collect();
            let classes = Symmetry::new(&graph, fixed).orbits(&all);
            assert_eq!(classes.iter().map(Vec::len).sum::<usize>(), all.len(), "{spec}");
            // Until few are left, where there are symmetries.
            let few = classes.len() + arcs.len() <= 48;
            assert!(few || fixed.is_some() || !alike, "{spec}: {} orbits, {} classes", classes.len(), arcs.len());
        }
    }
}
