//! Against the exact strength of what is left, and against what `optimal` plans anew.

use super::*;
use crate::algorithm;
use antiphon_bound::{busiest_ps, certified, strength};
use antiphon_model::collective::Kind;

fn ideal() -> System {
    System::preset("ideal").unwrap()
}

fn request(kind: Kind, fails: FailureModel) -> SurvivalRequest {
    let collective = Collective::new(kind);
    SurvivalRequest { collective, fails, nodes: FailedNode::Dead, target: 0.9, draws: 20, seed: 1 }
}

fn survived(spec: &str, request: &SurvivalRequest) -> Survival {
    survive(&Fabric::parse(spec).unwrap(), &ideal(), request, Watch::default()).unwrap()
}

/// The map of what is critical is that of the strength of every fabric that is left, which is exact.
#[test]
fn shares_are_those_of_exact_strengths() {
    let intact = Fabric::parse("mesh:4x4").unwrap();
    let value = |fabric: &Fabric| {
        let found = strength(fabric, &ideal()).unwrap();
        found.crossing as f64 / f64::from(found.parts - 1)
    };
    let found = survived("mesh:4x4", &request(Kind::AllReduce, FailureModel::Single));
    assert_eq!(found.singles.len(), 24 + 16);
    assert!(found.planned < found.singles.len(), "{}", found.planned);
    for (component, case) in found.components.iter().zip(&found.singles) {
        let left = intact.failed(&[&component.name]).unwrap().fabric;
        let (share, ShareLeft { share: least, certified: most, .. }) = (value(&left) / value(&intact), case.left);
        assert!(least <= share * (1.0 + 1e-9) && share <= most * (1.0 + 1e-9), "{component:?} {share} {case:?}");
        assert!((-1e-9..=1e-3).contains(&(most - least)), "{component:?} {case:?}");
    }
}

/// Every collective, with switches, links of different rates and links one way, is as good as what is planned anew.
#[test]
fn as_good_as_optimal() {
    let specs = ["mesh:2x3", "ring:4,drop=1>0", "switch:3", "mesh:2x2@25+50"];
    for (spec, kind) in specs.into_iter().flat_map(|spec| Kind::ALL.map(|kind| (spec, kind))) {
        let (intact, collective, bytes) = (Fabric::parse(spec).unwrap(), Collective::new(kind), 1 << 30);
        let busy = |fabric: &Fabric| {
            let schedule = algorithm::build(fabric, &ideal(), collective, bytes, "optimal").unwrap();
            let least = certified(fabric, &ideal(), &schedule).unwrap().unwrap().least_ps;
            [busiest_ps(fabric, &ideal(), &schedule), least].map(|time| time as f64)
        };
        let before = busy(&intact);
        let found = survived(spec, &request(kind, FailureModel::Links));
        for case in &found.singles {
            let ShareLeft { share, certified, stopped } = case.left;
            let name = &found.components[case.failed[0]].name;
            assert!((-1e-9..=1e-3).contains(&(certified - share)), "{spec} {kind:?} {name} {case:?}");
            match intact.failed(&[name]) {
                Err(_) => assert_eq!((share, certified, stopped), (0.0, 0.0, Some(Stopped::Disconnected))),
                Ok(left) => {
                    let after = busy(&left.fabric);
                    assert!(share >= before[1] / after[0] * (1.0 - 1e-3), "{spec} {kind:?} {name} {case:?}");
                    assert!(certified * (1.0 + 1e-3) >= before[1] / after[0], "{spec} {kind:?} {name} {case:?}");
                    assert!(share <= before[0] / after[1] * (1.0 + 1e-3), "{spec} {kind:?} {name} {case:?}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_left_for_a_reason() {
    let stopped = |spec: &str, kind, fails| {
        let found = survived(spec, &request(kind, fails));
        found.singles.iter().map(|case| (case.left.share, case.left.stopped)).collect::<Vec<_>>()
    };
    let line = stopped("mesh:1x3", Kind::Broadcast, FailureModel::Nodes);
    assert_eq!(line[0], (0.0, Some(Stopped::RootFailed)));
    assert_eq!(line[1], (0.0, Some(Stopped::Disconnected)));
    assert!(line[2].0 > 0.99 && line[2].1.is_none());
    assert_eq!(stopped("mesh:1x2", Kind::AllReduce, FailureModel::Nodes)[0].1, Some(Stopped::TooFewRanks));
    assert_eq!(stopped("switch:3", Kind::AllReduce, FailureModel::Nodes)[3].1, Some(Stopped::Disconnected));
}

/// A rank that is lost and forwards leaves no less than one that is dead.
#[test]
fn nodes_that_forward_leave_more() {
    let dead = request(Kind::AllReduce, FailureModel::Nodes);
    let [dead, forwards] = [FailedNode::Dead, FailedNode::Forwards]
        .map(|nodes| survived("mesh:3x3", &SurvivalRequest { nodes, ..dead }).singles);
    assert!(dead.iter().zip(&forwards).all(|(dead, forwards)| forwards.left.certified >= dead.left.share - 1e-9));
    // The middle: eight ranks in a ring, or with four ways across.
    assert!(forwards[4].left.share > dead[4].left.share + 0.1, "{:?} {:?}", dead[4], forwards[4]);
}

/// Pairs that spares leave one failure of have its share.
#[test]
fn spares_leave_what_else_fails() {
    let [singles, pairs] = [FailureModel::Single, FailureModel::Pairs]
        .map(|fails| survived("mesh:2x3", &SurvivalRequest { draws: 100, ..request(Kind::AllReduce, fails) }));
    assert_eq!((pairs.cases.len(), pairs.is_sample), (13 * 12 / 2, false));
    let share = |at: usize| singles.singles[at].left.share;
    for spare in &pairs.spares {
        let gain = pairs.cases.iter().map(|case| match *case.failed {
            [a, b] if a == spare.component => share(b) - case.left.share,
            [a, b] if b == spare.component => share(a) - case.left.share,
            _ => 0.0,
        });
        let gain = gain.sum::<f64>() / pairs.cases.len() as f64;
        assert!((spare.gain - gain).abs() < 1e-9, "{spare:?} {gain}");
    }
    assert!(pairs.spares.is_sorted_by(|a, b| a.gain >= b.gain));
    let best = singles.spares[0];
    assert!(
        (best.gain - (1.0 - share(best.component)) / 13.0).abs() < 1e-9
            && best.worst >= singles.worst().unwrap().left.share
    );
}

#[test]
fn draws_are_the_same_for_a_seed() {
    let rate = SurvivalRequest { draws: 40, ..request(Kind::AllReduce, FailureModel::Rate(0.1)) };
    let [first, again, other] = [1, 1, 2].map(|seed| survived("mesh:2x3", &SurvivalRequest { seed, ..rate }));
    assert_eq!(first.cases, again.cases);
    assert_ne!(first.cases, other.cases);
    let TargetChance { chance, interval } = first.chance;
    assert!(interval.0 < chance && chance < interval.1 && first.is_sample);
    assert_eq!(first.singles.len(), 13);
}

#[test]
fn a_target_that_is_proven_to_be_missed_is_not_met() {
    let chance = |share, certified| {
        let left = ShareLeft { share, certified, stopped: None };
        super::chance(&[FailureCase { failed: vec![], left }], 0.9, false).chance
    };
    assert_eq!([chance(0.8995, 0.9001), chance(0.8995, 0.8999), chance(0.898, 0.91)], [1.0, 0.0, 0.0]);
    assert_eq!(chance(0.9 - 1e-12, 0.9 - 1e-12), 1.0);
}

#[test]
fn intervals_are_those_of_wilson() {
    let case = |share| FailureCase { failed: vec![], left: ShareLeft { share, certified: share, stopped: None } };
    let cases: Vec<FailureCase> = (0..10).map(|at| case(if at < 8 { 0.95 } else { 0.5 })).collect();
    let TargetChance { chance, interval } = super::chance(&cases, 0.9, true);
    assert!((chance - 0.8).abs() < 1e-12);
    assert!((interval.0 - 0.4902).abs() < 1e-4 && (interval.1 - 0.9433).abs() < 1e-4, "{interval:?}");
    assert_eq!(super::chance(&cases, 0.9, false).interval, (0.8, 0.8));
}

#[test]
fn refusals_say_what_is_wrong() {
    let refused = |spec: &str, request: SurvivalRequest| {
        survive(&Fabric::parse(spec).unwrap(), &ideal(), &request, Watch::default()).unwrap_err().message
    };
    let single = request(Kind::AllReduce, FailureModel::Single);
    for draws in [0, 10_001] {
        assert!(refused("ring:4", SurvivalRequest { draws, ..single }).contains("give 1 to 10000"));
    }
    for target in [0.0, 1.5, f64::NAN] {
        assert!(refused("ring:4", SurvivalRequest { target, ..single }).contains("at most 1"));
    }
    let error = survive(&Fabric::parse("mesh:8x8").unwrap(), &ideal(), &single, Watch::new(&|_| false)).unwrap_err();
    assert_eq!(error.code, Code::Interrupted);
}
