//! Proven implies finished: whatever is done to a schedule, if it is proven then it moves the right sums, in every
//! order that it allows, and runs to its end at every fidelity.

use crate::common::fuzz::fuzz;
use crate::common::mutate::{self, Mutation};
use crate::common::prelude::*;
use crate::common::random_fabric::random_fabric;
use antiphon_model::collective::Align;
use antiphon_model::fabric::{NodeId, Router};
use antiphon_model::schedule::{Dependency, Event, Issue, Lane, Pacing, Transfer};
use antiphon_model::system::Forwarding;
use proptest::sample::{Index, select};
use std::cell::RefCell;

const ISSUES: [Issue; 3] = [Issue::Links, Issue::Steps, Issue::StrictSteps];

/// What is done to a schedule.
#[derive(Debug, Clone)]
enum Tampering {
    /// Lanes like this one (they may travel together) get another stride, or number of chunks.
    Stride(Index, u32),
    Chunks(Index, u64),
    /// Ranks move to any nodes, also several to one.
    Place(Vec<Index>),
    Issue(Issue),
    Pacing(Pacing),
    Interfaces(Option<u32>),
    Step(Index, u32),
    /// A message takes a random way that passes no node twice.
    Detour(Index, Vec<Index>),
    /// A message waits for another, at its sender or receiver, if that is possible in the order of service.
    Wait(Index, Index, Event, u32, bool),
    Exclude(Index),
    /// What any schedule may suffer.
    Order(Mutation),
}

fn tampering() -> impl Strategy<Value = Tampering> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), 1u32..9).prop_map(|(lane, stride)| Tampering::Stride(lane, stride)),
        3 => (index(), 1u64..40).prop_map(|(lane, chunks)| Tampering::Chunks(lane, chunks)),
        3 => prop::collection::vec(index(), 16).prop_map(Tampering::Place),
        3 => select(&ISSUES[..]).prop_map(Tampering::Issue),
        2 => select(&[Pacing::Pipelined, Pacing::StopAndWait][..]).prop_map(Tampering::Pacing),
        1 => prop::option::of(1u32..4).prop_map(Tampering::Interfaces),
        1 => (index(), 0u32..12).prop_map(|(i, step)| Tampering::Step(i, step)),
        2 => (index(), prop::collection::vec(index(), 1..8)).prop_map(|(i, way)| Tampering::Detour(i, way)),
        4 => (index(), index(), select(&[Event::Sent, Event::Applied][..]), 0u32..4, any::<bool>())
            .prop_map(|(i, j, event, lag, receiver)| Tampering::Wait(i, j, event, lag, receiver)),
        1 => index().prop_map(Tampering::Exclude),
        8 => mutate::of_order().prop_map(Tampering::Order),
    ]
}

fn apply(fabric: &Fabric, schedule: &mut Schedule, mutation: &Tampering) {
    let (transfers, lanes) = (&mut schedule.transfers, &mut schedule.lanes);
    let count = transfers.len();
    if count == 0 || lanes.is_empty() {
        return;
    }
    let alike = |lanes: &[Lane], index: &Index| {
        let like = index.get(lanes).clone();
        move |lane: &Lane| (lane.chunks, lane.stride) == (like.chunks, like.stride)
    };
    match mutation {
        Tampering::Stride(index, stride) => {
            let alike = alike(lanes, index);
            lanes.iter_mut().filter(|lane| alike(lane)).for_each(|lane| lane.stride = *stride);
        }
        Tampering::Chunks(index, chunks) => {
            let alike = alike(lanes, index);
            for lane in lanes.iter_mut().filter(|lane| alike(lane)) {
                (lane.chunks, lane.stride) = (*chunks, lane.stride.max(1));
                lane.chunk_bytes = Align::default().payload(lane.bytes, *chunks).max(1);
            }
        }
        Tampering::Place(nodes) => {
            let node = |rank| nodes[rank as usize % nodes.len()].index(fabric.nodes.len()) as NodeId;
            schedule.placement = (0..schedule.ranks).map(node).collect();
        }
        Tampering::Issue(issue) => schedule.endpoint.issue = *issue,
        Tampering::Pacing(pacing) => schedule.endpoint.pacing = *pacing,
        Tampering::Interfaces(count) => schedule.endpoint.interfaces = *count,
        Tampering::Step(index, step) => transfers[index.index(count)].step = *step,
        Tampering::Detour(index, way) => {
            let id = index.index(count);
            let [from, to] = [transfers[id].from, transfers[id].to].map(|rank| schedule.node_of(fabric, rank));
            schedule.transfers[id].route = detour(fabric, from, to, way).into();
        }
        Tampering::Wait(index, other, event, lag, at_receiver) => {
            let id = index.index(count);
            let rank = if *at_receiver { transfers[id].to } else { transfers[id].from };
            let there = |t: &Transfer| if *event == Event::Sent { t.from == rank } else { t.to == rank };
            let able: Vec<u32> = (0..).zip(transfers.iter()).filter(|(_, t)| there(t)).map(|(id, _)| id).collect();
            if !able.is_empty() {
                let dependency = Dependency::new(*other.get(&able), *event).lagging(*lag);
                let transfer = &mut transfers[id];
                match *at_receiver {
                    true => transfer.apply_after.push(dependency),
                    false => transfer.start_after.push(dependency),
                }
            }
        }
        Tampering::Exclude(index) => schedule.excluded.push(index.index(schedule.ranks as usize) as u32),
        Tampering::Order(mutation) => mutate::apply(fabric, schedule, mutation),
    }
}

/// A walk between two nodes: some of the way anyhow, the rest, if it can, by the shortest route.
fn detour(fabric: &Fabric, from: NodeId, to: NodeId, way: &[Index]) -> Vec<u32> {
    let (mut at, mut passed, mut route) = (from, vec![from], vec![]);
    for index in way {
        let fresh = |link: &&u32| !passed.contains(&fabric.link(**link).to);
        let links: Vec<u32> = fabric.out_links(at).iter().filter(fresh).copied().collect();
        if at == to || links.is_empty() {
            break;
        }
        let link = *index.get(&links);
        route.push(link);
        at = fabric.link(link).to;
        passed.push(at);
    }
    route.extend(Router::new(fabric).route(at, to));
    route
}

/// Routes that no longer join sender and receiver become the shortest, so that mutations reach the checks behind.
fn mend_routes(fabric: &Fabric, schedule: &mut Schedule) {
    let mut router = Router::new(fabric);
    for id in 0..schedule.transfers.len() {
        let transfer = &schedule.transfers[id];
        let [from, to] = [transfer.from, transfer.to].map(|rank| schedule.node_of(fabric, rank));
        let step = |at: Option<NodeId>, &link: &u32| {
            let link = fabric.link(link);
            (Some(link.from) == at).then_some(link.to)
        };
        if transfer.route.iter().fold(Some(from), step) != Some(to) {
            schedule.transfers[id].route = router.route(from, to).into();
        }
    }
}

/// Executes a proven schedule and times it at every fidelity; what came of it at flit fidelity.
fn run(fabric: &Fabric, schedule: &Schedule, system: &System) -> Result<&'static str, TestCaseError> {
    for seed in [None, Some(1), Some(2), Some(3)] {
        let ran = check_by_execution(schedule, seed);
        prop_assert!(ran.is_ok(), "{ran:?}");
    }
    let mut outcome = "finished";
    let cut = System { forwarding: Forwarding::CutThrough, ..system.clone() };
    let runs = Fidelity::ALL.iter().map(|&(_, fidelity)| (fidelity, system)).chain([(Fidelity::Packet, &cut)]);
    for (fidelity, system) in runs {
        match simulate(fabric, schedule, system, fidelity) {
            Ok(result) => {
                // Ranks add one message at a time, and all are done when the last chunk is.
                prop_assert!(result.ranks.iter().all(|row| row.reduce_ps <= row.finish_ps), "{fidelity:?}");
                prop_assert_eq!(result.last_chunk_ps, result.time_ps, "{:?}", fidelity);
                // Refused where ranks were moved out of the reach of others.
                if let Ok(bound) = of_schedule(fabric, system, schedule, Some(fidelity)) {
                    prop_assert!(result.time_ps >= bound.time_ps, "{:?}: {} {:?}", fidelity, result.time_ps, bound);
                }
            }
            // The one documented limit: routes that wait for each other in a cycle, and no channels to part them.
            Err(error) if fidelity == Fidelity::Flit && error.message.contains("virtual channels are too few") => {
                prop_assert_eq!(error.code, Code::Stalled);
                outcome = "virtual channels are too few";
            }
            Err(error) => prop_assert!(false, "{fidelity:?}: {error}"),
        }
    }
    Ok(outcome)
}

const FABRICS: [&str; 9] = [
    "ring:4",
    "mesh:2x3",
    "mesh:3x3",
    "mesh:2x2@7/3ns",
    "torus:3x3",
    "switch:4",
    "bigraph:2x2",
    "hypercube:3",
    "mesh:3x3,drop=4-5,exclude=7",
];

/// A fabric, a system, and a schedule that an algorithm built for them.
fn built() -> impl Strategy<Value = (Fabric, System, Schedule)> {
    let fabric =
        prop_oneof![select(&FABRICS[..]).prop_map(|spec| Fabric::parse(spec).unwrap()), random_fabric()].boxed();
    let mut names: Vec<String> = algorithm::ALL.iter().map(|a| a.info().name.to_string()).collect();
    let options = ["tto:barrier=no", "dbtree:pair=shift", "direct:chunk=64", "multitree:chunk=300"];
    names.extend(options.map(String::from));
    let system = (select(&["generic", "tto"][..]), prop::option::of(1u64..50)).prop_map(|(name, rate)| {
        let system = System::preset(name).unwrap();
        let reduce_rate = rate.map(antiphon_base::units::Rate::gb_per_s).or(system.reduce_rate);
        System { reduce_rate, ..system }
    });
    let kind = select([Kind::ALL.to_vec(), vec![Kind::AllReduce; 6]].concat());
    (fabric, system, 0..names.len(), kind, any::<Index>(), 1u64..6000).prop_map(
        move |(fabric, system, first, kind, root, bytes)| {
            let root = if kind.rooted() { root.index(fabric.ranks()) as u32 } else { 0 };
            let build = |name: &String| algorithm::build(&fabric, &system, Collective { kind, root }, bytes, name).ok();
            let schedule = names.iter().cycle().skip(first).take(names.len()).find_map(build);
            (fabric, system, schedule.expect("direct applies to everything"))
        },
    )
}

#[test]
fn proven_implies_finished() {
    let outcomes = RefCell::new(BTreeMap::<&str, u64>::new());
    let count = |what| *outcomes.borrow_mut().entry(what).or_default() += 1;
    let tried =
        fuzz(1500, (built(), prop::collection::vec(tampering(), 1..6)), |((fabric, system, mut schedule), list)| {
            schedule.conflict_free = false;
            list.iter().for_each(|mutation| {
                apply(&fabric, &mut schedule, mutation);
                mend_routes(&fabric, &mut schedule);
            });
            if verify(&fabric, &schedule).is_ok_and(|proof| proof.complete) {
                count(run(&fabric, &schedule, &system)?);
            } else {
                count("not proven");
            }
            Ok(())
        });
    println!("{tried} tried: {:?}", outcomes.borrow());
    assert!(outcomes.borrow()["finished"] > tried / 4, "{:?}", outcomes.borrow());
}

/// Ranks on one node share its links, so what any of them receives may be what a link waits for.
#[test]
fn ranks_share_a_node_and_its_links() {
    let generic = System::preset("generic").unwrap();
    for (spec, algorithm, placement) in [
        ("ring:4", "ring", &[0, 0, 1, 1][..]),
        ("ring:4", "ring-bi", &[0, 0, 1, 1]),
        ("ring:4", "direct", &[0, 0, 1, 1]),
        ("ring:4", "dbtree", &[2, 0, 2, 0]),
        ("torus:3x3", "dbtree", &[0, 0, 0, 0, 1, 1, 1, 1, 2]),
        ("mesh:4x4", "dbtree", &[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),
    ] {
        for issue in ISSUES {
            let fabric = Fabric::parse(spec).unwrap();
            let collective = Collective::new(Kind::AllReduce);
            let mut schedule = algorithm::build(&fabric, &generic, collective, 10_000, algorithm).unwrap();
            (schedule.endpoint.issue, schedule.conflict_free) = (issue, false);
            schedule.placement = placement.to_vec();
            mend_routes(&fabric, &mut schedule);
            assert!(verify(&fabric, &schedule).unwrap().complete);
            let outcome = run(&fabric, &schedule, &generic);
            assert!(matches!(outcome, Ok("finished")), "{algorithm} on {spec}, {issue:?}: {outcome:?}");
        }
    }
}
