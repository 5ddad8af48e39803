//! Whatever an algorithm builds is proven, on any fabric; what it cannot build it refuses in one line.

use crate::common::prelude::*;

/// Every algorithm, and options that change what is sent.
const SPECS: [&str; 38] = [
    "ring",
    "ring-bi",
    "ring-bi-odd",
    "ring-2d",
    "ring-2d:dependencies=held",
    "nested-ring",
    "nested-ring:levels=1",
    "nested-ring:levels=2",
    "dbtree",
    "dbtree:pair=shift,issue=links,chunks=3",
    "dbtree:pair=xor,routes=spread",
    "dbtree:routes=spread,issue=links",
    "multitree",
    "multitree:chunk=300",
    "multitree:concentration=2x2",
    "tto",
    "tto:chunk=1000",
    "tto:excluded=0",
    "tto:barrier=no",
    "tto:third=breadth-first",
    "combs",
    "combs:piece=500",
    "forest",
    "forest:piece=500",
    "optimal",
    "optimal:piece=500",
    "overlapped-tree",
    "overlapped-tree:overlap=no",
    "overlapped-tree:trees=1",
    "overlapped-tree:trees=2,pacing=stop-and-wait",
    "overlapped-tree:mapping=numbered,chunk=400",
    "halving-doubling",
    "halving-doubling:mapping=linear",
    "halving-doubling:mapping=hdrm",
    "halving-doubling:chunk=500",
    "direct",
    "direct:chunk=500",
    "exchange",
];

/// What is wrong with builds on a fabric: those that the verifier refuses, and refusals that are no single line.
fn wrong_builds(fabric: &Fabric, bytes: u64) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let system = System::preset(if bytes.is_multiple_of(2) { "generic" } else { "tto" }).unwrap();
    let last = fabric.ranks() as u32 - 1;
    for spec in SPECS {
        for kind in Kind::ALL {
            for root in if kind.rooted() { vec![0, last] } else { vec![0] } {
                let name = || format!("{spec} {} {bytes} B on {}", kind.name(), fabric.name);
                match algorithm::build(fabric, &system, Collective { kind, root }, bytes, spec) {
                    Ok(schedule) => {
                        wrong.extend(verify(fabric, &schedule).err().map(|error| format!("{}: {error}", name())));
                    }
                    Err(error) if error.code == Code::NotApplicable && !error.message.contains('\n') => {}
                    Err(error) => drop(wrong.insert(format!("{}: {error}", name()))),
                }
            }
        }
    }
    wrong
}

/// A random fabric of 2 to 9 nodes, of which some may be switches or excluded ranks: a ring one way or a tree both
/// ways, and further links one way or both, some parallel, some slow.
pub fn random_fabric() -> impl Strategy<Value = Fabric> {
    let link = (0usize..9, 0usize..9, 1usize..4, 1u64..4, any::<bool>());
    let rank = prop_oneof![4 => Just(true), 1 => Just(false)];
    (prop::collection::vec(rank, 2..10), any::<bool>(), any::<u64>(), prop::collection::vec(link, 0..12)).prop_map(
        |(mut ranks, tree, seed, extra)| {
            ranks[0] = true;
            ranks[1] = true;
            let count = ranks.len();
            let mut next = 0..;
            let node = |rank| if rank { Node::rank(next.next().unwrap(), []) } else { Node::switch("forwards", []) };
            let nodes: Vec<Node> = ranks.into_iter().map(node).collect();
            let mut links = vec![];
            let mut join = |a: usize, b: usize, parallel: usize, rate: u64, both: bool| {
                let link = Link { rate: Some(Rate::gb_per_s(25 * rate)), ..Link::new(a as u32, b as u32, "x") };
                for _ in 0..parallel {
                    links.push(link.clone());
                    links.extend(both.then(|| link.reversed()));
                }
            };
            for a in 1..=count {
                let parallel = 1 + (seed >> (2 * a)) as usize % 3 / 2;
                match tree {
                    true if a < count => join((seed >> (3 * a)) as usize % a, a, parallel, 1, true),
                    true => {}
                    false => join(a - 1, a % count, parallel, 1, false),
                }
            }
            for (a, b, parallel, rate, both) in extra {
                if a % count != b % count {
                    join(a % count, b % count, parallel, rate, both);
                }
            }
            Fabric::new("random", Shape::Graph, nodes, links).unwrap()
        },
    )
}

/// A preset with some links or nodes degraded.
pub fn degraded_preset() -> impl Strategy<Value = Fabric> {
    let kinds = [
        "mesh:2x2",
        "mesh:3x3",
        "mesh:4x3",
        "mesh:1x4",
        "mesh:5",
        "torus:2x2",
        "torus:3x3",
        "torus:2x4",
        "ring:5",
        "fc:4",
        "fbfly:3x2",
        "hypercube:3",
        "switch:4",
        "bigraph:2x2",
        "bigraph:3x1",
        "dgx1v",
        "mesh:2x2x2",
        "torus:2x3x2",
    ];
    let what = (0usize..5, any::<prop::sample::Index>());
    (prop::sample::select(kinds.to_vec()), prop::collection::vec(what, 0..4)).prop_map(|(kind, what)| {
        let mut spec = kind.to_string();
        let intact = Fabric::parse(kind).unwrap();
        for (what, which) in what {
            let link = &intact.links[which.index(intact.links.len())];
            let (from, to) = (link.from, link.to);
            let more = match what {
                0 => format!("{spec},drop={from}-{to}"),
                1 => format!("{spec},drop={from}>{to}"),
                2 => format!("{spec},slow={from}>{to}:0.5"),
                3 => format!("{spec},exclude={from}"),
                _ => format!("{spec},dead={from}"),
            };
            // Some cannot be combined, or leave ranks unreachable.
            if Fabric::parse(&more).is_ok() {
                spec = more;
            }
        }
        Fabric::parse(&spec).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn builds_on_random_fabrics_are_proven(fabric in random_fabric(), bytes in 1u64..20_000) {
        prop_assert_eq!(wrong_builds(&fabric, bytes), BTreeSet::new());
    }

    #[test]
    fn builds_on_degraded_presets_are_proven(fabric in degraded_preset(), bytes in 1u64..20_000) {
        prop_assert_eq!(wrong_builds(&fabric, bytes), BTreeSet::new());
    }
}

#[test]
#[ignore = "a sweep of minutes; prints everything that is wrong"]
fn all_builds_are_proven() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut wrong = BTreeSet::new();
    for case in 0..1000 {
        let bytes = case * 37 + 1;
        for fabric in [random_fabric().boxed(), degraded_preset().boxed()] {
            let fabric = fabric.new_tree(&mut runner).unwrap().current();
            wrong.extend(wrong_builds(&fabric, bytes));
        }
    }
    assert!(wrong.is_empty(), "{} of 2,000 fabrics' builds: {wrong:#?}", wrong.len());
}

fn one_way_ring(ranks: u32) -> Fabric {
    let nodes = (0..ranks).map(|rank| Node::rank(rank, [])).collect();
    let links = (0..ranks).map(|rank| Link::new(rank, (rank + 1) % ranks, "x")).collect();
    Fabric::new("one-way ring", Shape::Graph, nodes, links).unwrap()
}

#[test]
fn rings_go_round_one_way_rings() {
    let (fabric, system) = (one_way_ring(5), System::preset("generic").unwrap());
    for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather] {
        let build = |spec| algorithm::build(&fabric, &system, Collective::new(kind), 10_000, spec);
        let schedule = build("ring").unwrap();
        assert!(verify(&fabric, &schedule).unwrap().conflict_free);
        assert!(schedule.transfers.iter().all(|transfer| transfer.route.len() == 1));
        let error = build("ring-bi").unwrap_err();
        assert_eq!(error.code, Code::NotApplicable);
        assert!(error.message.contains("go one way"), "{error}");
    }
}

/// Cycles that a depth-first search does not find, and a reason where there is none.
#[test]
fn rings_on_degraded_meshes() {
    let system = System::preset("generic").unwrap();
    let build = |spec: &str, name| {
        let fabric = Fabric::parse(spec).unwrap();
        let schedule = algorithm::build(&fabric, &system, Collective::new(Kind::AllReduce), 10_000, name)?;
        verify(&fabric, &schedule).map(drop)
    };
    for name in ["ring", "ring-bi"] {
        assert_eq!(build("mesh:6x10,drop=24-25,drop=33-43", name), Ok(()));
        let error = build("mesh:3x3,drop=4-5", name).unwrap_err();
        assert!(error.message.contains("there is no Hamiltonian cycle"), "{error}");
    }
}
