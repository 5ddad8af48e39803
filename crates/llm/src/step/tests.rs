use super::graph::{StepBuilder, StepJob};
use super::*;
use crate::network::wiring;
use crate::parallel::GroupKind;
use antiphon_jobs::graph::ExchangeKind;
use antiphon_model::collective::Kind;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Links so fast that nothing is exposed.
const FREE: &str = "dgx-h100:2@1000000/0ns+1000000/0ns";

fn plan(text: &str, fabric: &str, batch: u64, model: &ModelShape) -> Parallelism {
    Parallelism::parse(text, wiring(fabric).unwrap().ranks(), batch, model).unwrap()
}

fn constants() -> Constants {
    Constants {
        product_efficiency: 0.866,
        product_half_gflop: 22.7,
        attention_share: 0.6,
        host_ms: 0.0,
        all_reduces: vec![],
        ..Constants::preset("a100").unwrap()
    }
}

fn step<'a>(model: &'a ModelShape, plan: &'a Parallelism, constants: &'a Constants) -> TrainingStep<'a> {
    let endpoint = Endpoint::System;
    let (slower, tables) = (vec![], [].as_slice());
    TrainingStep { model, plan, constants, endpoint, prioritized: false, slower, layers_at_once: None, tables }
}

fn time(model: &ModelShape, text: &str, fabric: &str, batch: u64) -> StepTimes {
    let plan = plan(text, fabric, batch, model);
    step(model, &plan, &constants()).simulate(&*wiring(fabric).unwrap()).unwrap()
}

fn built(model: &ModelShape, plan: &Parallelism, fabric: &str) -> StepJob {
    let order = plan.pipeline_order().unwrap();
    let slower = vec![1.0; plan.pipeline as usize];
    let wiring = wiring(fabric).unwrap();
    let pace = (&slower[..], &Endpoint::System);
    let parts = StepParts { model, plan, constants: &constants(), wiring: &*wiring, tables: &[] };
    StepBuilder::new(parts, &order, pace, 1).build().unwrap()
}

/// A GPT whose words cost next to nothing.
fn gpt(layers: u32) -> ModelShape {
    ModelShape::gpt("gpt", 1024, 16, layers, 512, 16).unwrap()
}

fn near(one: f64, other: f64, tolerance: f64) -> bool {
    (one - other).abs() <= tolerance * one.abs().max(other.abs())
}

/// Seconds of a layer's forward and whole backward pass by the roofline, written anew: products of (rows, columns, depth).
fn layer_by_hand(micro_batch: f64, tensor: f64) -> (f64, f64) {
    let (tokens, hidden, sequence, heads) = (512.0 * micro_batch, 1024.0, 512.0, 16.0);
    let (peak, memory, half) = (312e12, 1630e9, 22.7e9);
    let product = |m: f64, n: f64, k: f64| {
        ((2.0 * m * n * k + half) / (0.866 * peak)).max(2.0 * (m * n + n * k + k * m) / memory)
    };
    let products = product(tokens, 3.0 * hidden / tensor, hidden)
        + product(tokens, hidden, hidden / tensor)
        + product(tokens, 4.0 * hidden / tensor, hidden)
        + product(tokens, hidden, 4.0 * hidden / tensor);
    let core = 4.0 * tokens * sequence * hidden / tensor / (peak * 0.866 * 0.6);
    let traffic = ((22.0 + 28.0 / tensor) * tokens * hidden + 13.0 * heads * tokens * sequence / tensor) / memory;
    (products + core + traffic, 2.0 * (products + core + traffic))
}

#[test]
fn one_layer_by_hand() {
    let model = gpt(1);
    let logits = 2.0 * 512.0 * 16.0 * 1024.0;
    let logits = ((logits + 22.7e9) / (0.866 * 312e12)) * 3.0;
    let times = time(&model, "flash=no,zero=0,dp-overlap=no", "dgx-a100:1", 8);
    let (forward, backward) = layer_by_hand(1.0, 1.0);
    // The optimizer updates the layer and the embedding.
    let optimizer = 34.0 * (model.layer_parameters(0).total() + 16 * 1024 + 2 * 1024) as f64 / 1630e9;
    let computed = forward + backward + logits + optimizer;
    assert!(near(times.mean().compute_s, computed, 1e-9), "{} {computed}", times.mean().compute_s);
    assert_eq!(times.mean().bubble_s, 0.0);
    // Eight ranks reduce gradients of 4 bytes by a ring: 14 steps of two links, and 7/4 of the bytes.
    let exposed = times.mean().exposed_s[GroupKind::Data as usize];
    let bytes = 4.0 * (model.layer_parameters(0).total() + 16 * 1024 + 2 * 1024) as f64;
    let bandwidth = 7.0 / 4.0 * bytes / 240e9;
    assert!(exposed > bandwidth && exposed < bandwidth + 50e-6, "{exposed} {bandwidth}");
    assert!(near(times.iteration_s, computed + exposed, 1e-9));
}

#[test]
fn what_is_computed_again() {
    let model = gpt(1);
    let of =
        |recompute: &str| time(&model, &format!("flash=no,recompute={recompute}"), "dgx-a100:1", 8).mean().compute_s;
    let (forward, _) = layer_by_hand(1.0, 1.0);
    let core = 4.0 * 512.0 * 512.0 * 1024.0 / (312e12 * 0.866 * 0.6);
    assert!(near(of("full") - of("none"), forward, 1e-6));
    let scores = 13.0 * 16.0 * 512.0 * 512.0 / 1630e9;
    assert!(near(of("selective") - of("none"), core + scores, 1e-6));
}

/// 1F1B and interleaved stages without transfers: all stages alike but for the logits of the last.
#[test]
fn closed_forms_of_pipelines() {
    let model = gpt(16);
    for (pipeline, chunks, micro_batches) in [(2, 1, 3), (4, 1, 9), (8, 1, 8), (4, 2, 8), (2, 4, 6), (4, 4, 12)] {
        let text = format!("pp={pipeline},v={chunks},zero=0,dp-overlap=no");
        let data = 16 / pipeline;
        let times = time(&model, &text, FREE, u64::from(micro_batches * data));
        let computed: Vec<f64> = times.stages.iter().map(|stage| stage.compute_s).collect();
        // Whole micro batches, without the optimizer.
        let optimizer = |stage: &Vec<f64>| stage.iter().sum::<f64>();
        let works: Vec<f64> = (0..pipeline)
            .map(|stage| {
                let spans = times.spans.iter().filter(|span| span.stage == stage && span.work == 3);
                computed[stage as usize] - optimizer(&spans.map(|span| span.end_s - span.start_s).collect())
            })
            .collect();
        let m = f64::from(micro_batches);
        let (first, last) = (works[0] / m, works[pipeline as usize - 1] / m);
        if chunks == 1 {
            let expected = (m - 1.0) * last + f64::from(pipeline - 1) * first + last;
            let ends = times.spans.iter().filter(|span| span.work < 3).map(|span| span.end_s).fold(0.0, f64::max);
            assert!(near(ends, expected, 1e-4), "{pipeline} {ends} {expected}");
        } else {
            let bubble = times.stages[pipeline as usize - 1].bubble_s;
            let expected = f64::from(pipeline - 1) * first / f64::from(chunks);
            assert!(near(bubble, expected, 0.1), "{pipeline} {chunks}: {bubble} {expected}");
        }
    }
}

/// Bytes of all exchanges by kind, stage and collective, for one buffer of each.
fn exchanged(built: &StepJob) -> BTreeMap<(GroupKind, u32, &'static str), f64> {
    let mut sums = BTreeMap::new();
    for (exchange, carried) in built.graph.exchanges.iter().zip(&built.carried) {
        let (kind, stage) = built.flow_keys[carried.flow as usize];
        let name = match exchange.kind {
            ExchangeKind::Collective(collective) => collective.kind.name(),
            _ => "message",
        };
        *sums.entry((kind, stage, name)).or_insert(0.0) += carried.bytes * carried.count;
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What groups of a dense model exchange in a step, by the formulas of Korthikanti et al. (arXiv 2205.05198), Narayanan et
    /// al. (arXiv 2104.04473) and ZeRO (arXiv 1910.02054); computed and waited for add up; nothing is faster than
    /// computation or the bytes of any link.
    #[test]
    fn bytes_of_dense_plans(
        (tensor, context, stages) in (0u32..4, 0u32..2, 0u32..3),
        (micro_batch, micro_batches) in (1u32..3, 2u32..7),
        (sequence_parallel, full, zero, overlap) in (any::<bool>(), any::<bool>(), 0u32..4, any::<bool>()),
        by in 0usize..3,
    ) {
        let fabric = "dgx-h100:4";
        let [t, c, p] = [tensor, context, stages].map(|log| 1u32 << log);
        prop_assume!(t * c * p <= 32);
        let data = 32 / (t * c * p);
        let model = ModelShape::gpt("gpt", 1024, 16, 8, 512, 160).unwrap();
        let [sp, ov] = [sequence_parallel, overlap].map(|flag| if flag { "yes" } else { "no" });
        let cp_by = ["ring", "all-gather", "ulysses"][by];
        let recompute = if full { "full" } else { "none" };
        let text = format!(
            "tp={t},cp={c},pp={p},mb={micro_batch},sp={sp},zero={zero},dp-overlap={ov},cp-by={cp_by},recompute={recompute}"
        );
        let plan = plan(&text, fabric, u64::from(micro_batch * micro_batches * data), &model);
        let built = built(&model, &plan, fabric);
        let found = exchanged(&built);
        let of = |kind, stage, name| found.get(&(kind, stage, name)).copied().unwrap_or(0.0);

        let tokens = f64::from(micro_batch) * 512.0 / f64::from(c);
        let buffer = 2.0 * tokens * 1024.0;
        let passes = f64::from(micro_batches) * 8.0 / f64::from(p);
        // Two AllReduces a layer forward, two backward, two in recomputation; or as many pairs of AllGather and ReduceScatter,
        // and two AllGathers of inputs for gradients of weights.
        let calls = if full { 6.0 } else { 4.0 };
        let sequence_parallel = sequence_parallel && t > 1;
        for stage in 0..p {
            let tensor = if t == 1 { 0.0 } else { calls * passes * buffer };
            let (reduced, gathered) = if sequence_parallel { (0.0, 2.0 * (tensor + passes * buffer)) } else { (tensor, 0.0) };
            prop_assert!(near(of(GroupKind::Tensor, stage, "all-reduce"), reduced, 1e-9));
            prop_assert!(near(of(GroupKind::Tensor, stage, "all-gather"), gathered, 1e-9));
            // Keys and values of a group, gathered forward, in recomputation and backward, and their gradients reduced.
            let times = if full { 4.0 } else { 3.0 };
            let keys = if c == 1 || by == 2 { 0.0 } else { times * passes * 2.0 * 2.0 * tokens * f64::from(c) * 1024.0 / f64::from(t) };
            prop_assert!(near(of(GroupKind::Context, stage, "all-gather"), keys, 1e-9));
            // Queries, keys, values and outputs.
            let times = if full { 3.0 } else { 2.0 };
            let heads = if c == 1 || by != 2 { 0.0 } else { times * passes * 4.0 * 2.0 * tokens * 1024.0 / f64::from(t) };
            prop_assert!(near(of(GroupKind::Context, stage, "all-to-all"), heads, 1e-9));
            // A message a micro batch to each neighbour.
            let divided = if sequence_parallel { f64::from(t) } else { 1.0 };
            let neighbours = if p == 1 { 0.0 } else if stage == 0 || stage == p - 1 { 1.0 } else { 2.0 };
            let messages = neighbours * f64::from(micro_batches) * buffer / divided;
            prop_assert!(near(of(GroupKind::Pipeline, stage, "message"), messages, 1e-9));
            // Parameters of the stage on a rank.
            let layer = model.layer_parameters(0);
            let embedding = 160.0 * 1024.0 / f64::from(t);
            let copies = f64::from(u32::from(stage == 0) + u32::from(stage == p - 1 && p > 1));
            let norm = if stage == p - 1 { 2.0 * 1024.0 } else { 0.0 };
            let parameters = 8.0 / f64::from(p) * ((layer.attention + layer.dense) as f64 / f64::from(t) + layer.norms as f64)
                + copies * embedding + norm;
            let ranks = data * c;
            let each = |bytes: f64| if ranks == 1 { 0.0 } else { bytes * parameters };
            let m = f64::from(micro_batches);
            let (reduced, scattered, gathered) = match zero {
                0 => (4.0, 0.0, 0.0),
                1 => (0.0, 4.0, 2.0),
                // Reduced after every backward pass.
                2 => (0.0, 4.0 * m, 2.0),
                // Gathered before every pass.
                _ => (0.0, 4.0 * m, 2.0 * 2.0 * m),
            };
            prop_assert!(near(of(GroupKind::Data, stage, "all-reduce"), each(reduced), 1e-9));
            prop_assert!(near(of(GroupKind::Data, stage, "reduce-scatter"), each(scattered), 1e-9));
            prop_assert!(near(of(GroupKind::Data, stage, "all-gather"), each(gathered), 1e-9));
        }
        let embedding = if p == 1 { 0.0 } else { 4.0 * 160.0 * 1024.0 / f64::from(t) };
        prop_assert!(near(of(GroupKind::Embedding, 0, "all-reduce"), embedding, 1e-9));

        let wiring = wiring(fabric).unwrap();
        let times = step(&model, &plan, &constants()).simulate(&*wiring).unwrap();
        for stage in &times.stages {
            let sum = stage.compute_s + stage.bubble_s + stage.exposed_s.iter().sum::<f64>();
            prop_assert!(near(sum, times.iteration_s, 1e-9));
        }
        let exposed: f64 = times.mean().exposed_s.iter().sum();
        prop_assert!(near(times.exposed_links_s().iter().sum(), exposed, 1e-9) || exposed < 1e-9);
        for class in &times.links {
            let busy: f64 = class.seconds.iter().map(|(_, seconds)| seconds).sum();
            prop_assert!(busy <= times.iteration_s * (1.0 + 1e-9), "{busy} {}", times.iteration_s);
        }
    }

    /// Blocks of several layers take as long as single layers where nothing else is under way.
    #[test]
    fn layers_at_once(tensor in 0u32..4, micro_batches in 1u32..5, pipeline in 0u32..3) {
        let model = gpt(16);
        let text = format!("tp={},pp={},zero=0,dp-overlap=no", 1 << tensor, 1 << pipeline);
        let fabric = "dgx-h100:4";
        let data = 32 >> (tensor + pipeline);
        let plan = plan(&text, fabric, u64::from(micro_batches * data), &model);
        let constants = constants();
        let wiring = wiring(fabric).unwrap();
        let at = |layers| {
            let step = TrainingStep { layers_at_once: Some(layers), ..step(&model, &plan, &constants) };
            step.simulate(&*wiring).unwrap().iteration_s
        };
        prop_assert!(near(at(1), at(16), 1e-6), "{} {}", at(1), at(16));
    }
}

/// Experts of a token are asked once a box: bytes that ranks send, and on their NICs.
#[test]
fn experts_exchange_tokens() {
    let model = ModelShape::preset("deepseek-v3").unwrap();
    let fabric = "h800:32";
    let plan = plan("pp=4,ep=64,schedule=dualpipe", fabric, 8 * 64, &model);
    let built = built(&model, &plan, fabric);
    let found = exchanged(&built);
    let tokens = 4096.0;
    // Layers with experts of a stage and its mirror, once each forward and backward, out and back.
    let layers: u32 = plan
        .stage_parts(1)
        .iter()
        .map(|&part| plan.part_layers(&model)[part as usize].clone().filter(|&layer| layer >= 3).count() as u32)
        .sum();
    let bytes = 4.0 * f64::from(layers) * 4.0 * 8.0 * tokens * 7168.0 * 2.0;
    let all = found[&(GroupKind::Expert, 1, "all-to-all")];
    assert!(near(all, bytes, 1e-9), "{all} {bytes}");
    // Of eight boxes of a group at most four get a token, once each: 4 of 8 copies, of which 1/8 stays.
    let flow = built.flow_keys.iter().position(|&key| key == (GroupKind::Expert, 1)).unwrap();
    let wiring = wiring(fabric).unwrap();
    let most = built.flows[flow].link_bytes(1.0).filter(|(link, _)| wiring.name(*link).contains("rail"));
    let most = most.map(|(_, bytes)| bytes).fold(0.0, f64::max);
    assert!(near(most, 7.0 / 8.0 * 0.5, 1e-9), "{most}");
}

/// An endpoint that takes half of memory and processors makes computation beside exchanges twice as long.
#[test]
fn endpoints_slow_computation_down() {
    let model = ModelShape::gpt("gpt", 8192, 64, 8, 2048, 16).unwrap();
    let plan = plan("zero=0", "dgx-h100:2", 32, &model);
    let (constants, wiring) = (constants(), wiring("dgx-h100:2").unwrap());
    let with = |endpoint: &str| {
        let step = TrainingStep { endpoint: Endpoint::parse(endpoint).unwrap(), ..step(&model, &plan, &constants) };
        step.simulate(&*wiring).unwrap()
    };
    let (alone, beside) = (with("system"), with("npu:slowdown=2"));
    let longest = 2.0 * alone.mean().compute_s;
    assert!(beside.mean().compute_s > alone.mean().compute_s * 1.02 && beside.mean().compute_s < longest);
}

/// Every order of a pipeline can be simulated, and none waits for ever.
#[test]
fn every_schedule() {
    let model = gpt(16);
    for schedule in ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe"] {
        let times = time(&model, &format!("tp=2,pp=4,schedule={schedule},sp=yes"), "dgx-h100:2", 32);
        assert!(times.mean().bubble_s < 0.6 * times.iteration_s, "{schedule} {times:?}");
    }
}

/// Exchanges of gradients make way for those that computation waits for.
#[test]
fn priorities_help_what_is_waited_for() {
    let model = ModelShape::preset("mixtral-8x7b").unwrap();
    let plan = plan("ep=8,etp=1,pp=2,v=2", "dgx-h100:8", 4 * 32, &model);
    let (constants, wiring) = (Constants::preset("h100").unwrap(), wiring("dgx-h100:8").unwrap());
    let with =
        |prioritized| TrainingStep { prioritized, ..step(&model, &plan, &constants) }.simulate(&*wiring).unwrap();
    let (fair, first) = (with(false), with(true));
    let expert = GroupKind::Expert as usize;
    assert!(first.mean().exposed_s[expert] <= fair.mean().exposed_s[expert] * (1.0 + 1e-9));
}

#[test]
fn steps_of_too_many_operations_are_refused() {
    let model = gpt(16);
    let plan = plan("pp=16", FREE, 1 << 17, &model);
    let error = step(&model, &plan, &constants()).simulate(&*wiring(FREE).unwrap()).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
}

#[test]
fn given_times_replace_rings_of_their_groups_only() {
    let (model, wiring) = (ModelShape::preset("llama3-8b").unwrap(), wiring("dgx-h100:2:nics=4").unwrap());
    let (plan, constants) = (plan("tp=2,sp=no,zero=0,dp-overlap=no", "dgx-h100:2:nics=4", 16, &model), constants());
    let rings = step(&model, &plan, &constants);
    let found = rings.exchanges(&*wiring).unwrap();
    let told: Vec<_> = found.iter().map(|each| (each.kind, each.collective, &each.group[..2], each.boxes)).collect();
    let reduce = Some(Kind::AllReduce);
    assert_eq!(told, [(GroupKind::Tensor, reduce, &[0, 1][..], 1), (GroupKind::Data, reduce, &[0, 2][..], 2)]);
    assert!(found.iter().all(|each| each.is_even && each.timed_by == TimedBy::Rings));
    let size = found[0].most_bytes;
    assert_eq!((found[0].least_bytes, size), (size, 2.0 * 8192.0 * 4096.0));
    // 1 ms for each of 2 AllReduces of 32 layers forward and as many backward, for each of 2 micro batches.
    let (collective, is_alone) = (Kind::AllReduce, true);
    let table = |kind, ranks, boxes, points| CollectiveTimes { kind, collective, ranks, boxes, points, is_alone };
    let tables = [table(GroupKind::Tensor, 2, 1, vec![(size, 1e-3)]), table(GroupKind::Data, 2, 2, vec![(1.0, 1.0)])];
    let given = TrainingStep { tables: &tables, ..step(&model, &plan, &constants) };
    let [before, after] = [rings, given].map(|step| step.simulate(&*wiring).unwrap());
    let micro_batches = f64::from(plan.micro_batches);
    let tensor = |times: &StepTimes| times.stages[0].exposed_s[GroupKind::Tensor as usize];
    assert!((tensor(&after) - 128.0 * micro_batches * 1e-3).abs() < 1e-6, "{}", tensor(&after));
    let data = |times: &StepTimes| times.stages[0].exposed_s[GroupKind::Data as usize];
    assert_eq!(data(&before), data(&after));
    assert_eq!(after.exchanges[0].timed_by, TimedBy::Given);
    assert_eq!(after.exchanges[1].timed_by, TimedBy::Rings);
    // Two groups send through each NIC: what the table adds to its first time takes twice as long.
    let points = vec![(1e6, 1e-4), (1e12, 10.0)];
    for (is_alone, expected) in [(true, 1e-4 + 2.0 * (10.0 - 1e-4)), (false, 10.0)] {
        let tables = [CollectiveTimes { is_alone, ..table(GroupKind::Data, 8, 2, points.clone()) }];
        let parts = StepParts { model: &model, plan: &plan, constants: &constants, wiring: &*wiring, tables: &tables };
        let flow = exchanges::group_flow(parts, (GroupKind::Data, 0), Kind::AllReduce).unwrap();
        assert!((flow.time_alone_s(1e12) - expected).abs() < 1e-9, "{}", flow.time_alone_s(1e12));
    }
}
