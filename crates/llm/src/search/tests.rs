use super::*;
use crate::network::wiring;
use proptest::prelude::*;

fn search<'a>(
    model: &'a ModelShape,
    wiring: &'a dyn Wiring,
    constants: &'a Constants,
    (batch, given): (u64, &'a str),
) -> PlanSearch<'a> {
    let memory_bytes = (constants.memory_gib * (1u64 << 30) as f64) as u64;
    let endpoint = Endpoint::System;
    PlanSearch { model, wiring, constants, endpoint, prioritized: false, batch, given, memory_bytes }
}

/// The first plan of a full search is that of simulating all, and the numbers add up.
#[test]
fn the_first_is_the_fastest_of_all() {
    for (name, fabric, batch, given) in
        [("llama2-13b", "dgx-h100:2", 64, "precision=bf16"), ("mixtral-8x7b", "dgx-h100:4", 64, "mb=1,cp=1")]
    {
        let (model, wiring) = (ModelShape::preset(name).unwrap(), wiring(fabric).unwrap());
        let constants = Constants::preset("h100").unwrap();
        let search = search(&model, &*wiring, &constants, (batch, given));
        let found = search.run(Watch::default()).unwrap();
        let mut all = BestPlans { plans: vec![], legal: 0, fit: 0, simulated: 0, refused: BTreeMap::new() };
        let candidates = search.candidates(&mut all, Watch::default()).unwrap();
        let mut times: Vec<f64> =
            candidates.iter().map(|one| search.step(&one.plan).simulate(&*wiring).unwrap().iteration_s).collect();
        times.sort_by(f64::total_cmp);
        let ranked: Vec<f64> = found.plans.iter().map(|plan| plan.times.iteration_s).collect();
        assert_eq!(ranked, times[..ranked.len()]);
        assert_eq!(found.legal, found.fit + found.refused.values().sum::<usize>());
        assert!(found.simulated < candidates.len() && found.simulated >= ranked.len());
        let more = found.second_takes_more().unwrap();
        let sum = more.compute_s + more.bubble_s + more.exposed_s.iter().sum::<f64>();
        assert!((sum - (times[1] - times[0])).abs() < 1e-9 * times[0]);
    }
}

#[test]
fn changes_of_links_and_gpus() {
    let (model, wiring) = (ModelShape::preset("llama2-13b").unwrap(), wiring("dgx-h100:2").unwrap());
    let constants = Constants::preset("h100").unwrap();
    let search = search(&model, &*wiring, &constants, (32, "tp=8,pp=2,mb=1"));
    let found = search.run(Watch::default()).unwrap();
    let best = &found.plans[0];
    let changes = search.changes(best, Watch::default()).unwrap();
    let of = |start: &str| changes.iter().find(|change| change.name.starts_with(start)).unwrap().iteration_s;
    let now = best.times.iteration_s;
    assert!(of("links inside") < now && of("links between") < now && of("twice the memory") <= now);
    assert!(of("one NIC") > now && of("one GPU") > 1.03 * now && of("one GPU") < 1.1 * now);
}

#[test]
fn nothing_legal_and_nothing_that_fits() {
    let (model, wiring) = (ModelShape::preset("llama3-405b").unwrap(), wiring("dgx-h100:1").unwrap());
    let constants = Constants::preset("h100").unwrap();
    let error = |batch, given| search(&model, &*wiring, &constants, (batch, given)).run(Watch::default()).unwrap_err();
    let message = error(16, "").message;
    assert!(message.starts_with("none of ") && message.contains(" GiB a rank of 80.0 GiB"), "{message}");
    let message = error(16, "tp=7").message;
    assert!(
        message.starts_with("no legal plan of llama3-405b with 'tp=7' for 16 sequences a step on 8 ranks"),
        "{message}"
    );
    assert_eq!(error(16, "tp=x").code, Code::BadSpec);
    let stop = |_| false;
    let small = ModelShape::preset("llama3-8b").unwrap();
    let stopped = search(&small, &*wiring, &constants, (16, "")).run(Watch::new(&stop)).unwrap_err();
    assert_eq!(stopped.code, Code::Interrupted);
}

/// Some plans of models on fabrics: place in the lists, and numbers that choose among legal plans.
fn bounds_of(model: &str, fabric: &str, constants: &str, given: &str, chosen: &[u32]) -> Vec<(String, [f64; 3])> {
    let (model, wiring) = (ModelShape::preset(model).unwrap(), wiring(fabric).unwrap());
    let constants = Constants::preset(constants).unwrap();
    let search = PlanSearch { memory_bytes: u64::MAX, ..search(&model, &*wiring, &constants, (32, given)) };
    let mut all = vec![];
    Space::new(&model, &*wiring, 32, given)
        .unwrap()
        .for_each(|plans| {
            all.extend(plans.to_vec());
            Ok(())
        })
        .unwrap();
    let mut known = FlowTimes::default();
    let mut found = vec![];
    for &number in chosen {
        let plan = &all[number as usize % all.len()];
        let bound = StepBound::new(search.parts(plan), &mut known).unwrap();
        for layers_at_once in [1, model.layers] {
            let step = TrainingStep { layers_at_once: Some(layers_at_once), ..search.step(plan) };
            let time_s = step.simulate(&*wiring).unwrap().iteration_s;
            found.push((plan.spec(), [bound.quick_s(), bound.alone_s(), time_s]));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// No step is faster than its bounds.
    #[test]
    fn bounds_are_never_above_times(
        model in prop::sample::select(vec!["llama3-8b", "mixtral-8x7b", "gpt3-175b", "deepseek-v3"]),
        fabric in prop::sample::select(vec![
            "dgx-h100:2", "dgx-a100:2:nics=4", "dgx-h100:4:nics=1", "mesh:4x4@100/20ns",
        ]),
        constants in prop::sample::select(vec!["a100", "h100"]),
        given in prop::sample::select(vec![
            "", "precision=fp8,tp-overlap=tiles", "dp-overlap=no,zero=0", "flash=no,tp-overlap=backward",
            "order=tp-dp-pp-cp", "ep-overlap=no,cp-by=all-gather",
            "zero=2", "zero=2,dp-overlap=no", "zero=3,dp-overlap=no", "zero=3,schedule=dualpipe", "zero=2,schedule=zb-h1",
        ]),
        chosen in prop::collection::vec(any::<u32>(), 4),
    ) {
        for (plan, [quick_s, alone_s, time_s]) in bounds_of(model, fabric, constants, given, &chosen) {
            prop_assert!(quick_s <= time_s, "{plan}: {quick_s} {time_s}");
            prop_assert!(alone_s <= time_s, "{plan}: {alone_s} {time_s}");
            prop_assert!(alone_s > 0.25 * time_s, "{plan}: {alone_s} {time_s}");
        }
    }
}
