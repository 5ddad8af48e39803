use super::*;
use crate::network::wiring;
use antiphon_base::units::Bytes;
use proptest::prelude::*;

const GIB: Bytes = 1 << 30;

/// Rates of nothing but memory: products take no time.
fn only_memory() -> Constants {
    let constants = Constants::preset("h100").unwrap();
    Constants { tflops: 1e9, fp8_tflops: None, memory_gb_per_s: 2000.0, ..constants }
}

struct Case {
    model: ModelShape,
    fabric: &'static str,
    plan: &'static str,
    batch: u64,
    context: u64,
    constants: Constants,
}

impl Case {
    fn new(model: &str, fabric: &'static str, plan: &'static str, batch: u64) -> Case {
        let (model, constants) = (ModelShape::preset(model).unwrap(), only_memory());
        Case { model, fabric, plan, batch, context: 4096, constants }
    }

    fn with<T>(&self, take: impl FnOnce(Inference, &dyn Wiring) -> T) -> T {
        let wiring = wiring(self.fabric).unwrap();
        let plan = inference_plan(self.plan, wiring.ranks(), self.batch, &self.model).unwrap();
        let of = Inference {
            model: &self.model,
            plan: &plan,
            constants: &self.constants,
            batch: self.batch,
            prompt: self.context.min(4096),
            context: self.context,
            host_us: 0.0,
        };
        take(of, &*wiring)
    }

    fn times(&self) -> InferenceTimes {
        self.with(|of, wiring| of.simulate(wiring).unwrap())
    }
}

fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} is not {expected}");
}

/// Pope et al. (arXiv 2211.05102), section 2: a token at least reads all parameters and the cache.
#[test]
fn decode_reads_parameters_and_cache() {
    for (batch, context) in [(1, 1), (1, 4096), (32, 4096)] {
        let case = Case { context, ..Case::new("llama3-8b", "fc:2", "", 2 * batch) };
        let (model, times) = (&case.model, case.times());
        let words = model.vocab * model.hidden;
        let cache = batch * context * 4 * 8 * 128 * u64::from(model.layers);
        let least = (2 * (model.parameters() - words) + cache) as f64 / 2e12;
        // And what goes in and out of products and other operations, which is small.
        let token_s = times.next_token.total_s;
        assert!((1.0..1.0 + 0.002 * batch as f64).contains(&(token_s / least)), "{token_s} {least}");
        assert_eq!(times.next_token.compute_s, token_s);
        assert_eq!((times.slowest_link, times.smallest_link), (None, None));
    }
}

#[test]
fn two_all_reduces_a_layer() {
    let case = Case::new("llama3-8b", "switch:4@100/1us", "tp=4", 8);
    let times = case.times();
    // 8 tokens of 4096 elements; trees of four have two levels there and back, each over two links.
    let bytes = 8.0 * 4096.0 * 2.0;
    let one = 2.0 * 2.0 * 2e-6 + 1.5 * bytes / 100e9;
    near(times.next_token.exposed_s[GroupKind::Tensor as usize], 64.0 * one, 1e-6);
    let of_prompt = 2.0 * 2.0 * 2e-6 + 1.5 * 4096.0 * 4096.0 * 2.0 / 100e9;
    near(times.first_token.exposed_s[GroupKind::Tensor as usize], 64.0 * of_prompt, 1e-6);
    // The rate at which bytes add a tenth of what computation and latencies take.
    let at_best = times.next_token.compute_s + 64.0 * 8e-6;
    assert_eq!(times.slowest_link, Some(100e9));
    near(times.smallest_link.unwrap(), 64.0 * 1.5 * bytes / (0.1 * at_best), 2e-3);
}

#[test]
fn experts_without_tokens_are_not_read() {
    let time =
        |batch: u64| Case { context: 1, ..Case::new("mixtral-8x7b", "fc:2", "", 2 * batch) }.times().next_token.total_s;
    let model = ModelShape::preset("mixtral-8x7b").unwrap();
    let words = model.vocab * model.hidden;
    let active = 2.0 * (model.active_parameters() - words) as f64 / 2e12;
    near(time(1), active, 0.002);
    // Of two tokens with 2 of 8 experts each, 8 (1 - (3/4)^2) experts are read.
    let expert = 2.0 * 32.0 * 3.0 * 4096.0 * 14_336.0 / 2e12;
    near(time(2), active + 1.5 * expert, 0.003);
    near(time(256), 2.0 * (model.parameters() - words) as f64 / 2e12, 0.06);
}

#[test]
fn stages_take_turns() {
    let one = Case::new("llama3-8b", "fc:2", "", 16).times();
    // Two stages of half the layers: a token takes as long for half the sequences, of which there are two.
    let case = Case::new("llama3-8b", "fc:2@100/1us", "pp=2", 8);
    let times = case.times().next_token;
    assert_eq!(case.with(|of, _| (of.plan.micro_batch, of.plan.micro_batches)), (4, 2));
    let half = Case::new("llama3-8b", "fc:2", "", 8).times().next_token.total_s;
    near(times.compute_s, half, 1e-9);
    // The output makes the last stage slower, so that it is what others wait for.
    assert!(times.total_s > times.compute_s && times.total_s < 1.1 * half, "{times:?}");
    let parts = times.compute_s + times.waiting_s + times.exposed_s.iter().sum::<f64>();
    near(parts, times.total_s, 1e-9);
    // One sequence: stages wait for each other, and only messages are added.
    let alone = Case::new("llama3-8b", "fc:2@100/1us", "pp=2", 1).times().next_token;
    let message = 1e-6 + 4096.0 * 2.0 / 100e9;
    near(alone.exposed_s[GroupKind::Pipeline as usize], message + 1e-6 + 4.0 / 100e9, 1e-6);
    assert_eq!(alone.waiting_s, 0.0);
    assert!(alone.total_s < one.next_token.total_s);
}

#[test]
fn experts_divided() {
    let case = Case::new("deepseek-v3", "dgx-h100:4", "tp=4,ep=32,precision=fp8", 256);
    case.with(|of, _| {
        assert_eq!((of.plan.expert_tensor, of.plan.data, of.plan.sequence_parallel), (1, 8, true));
        let memory = of.memory()[0];
        // A 32nd of routed experts and a quarter of the rest in 8 bits; compressed keys and values on all ranks.
        let routed = 58.0 * 256.0 * 3.0 * 7168.0 * 2048.0;
        near(memory.cache, 32.0 * 4096.0 * 61.0 * 2.0 * (512.0 + 64.0), 1e-12);
        let words = 2.0 * 129_280.0 * 7168.0;
        let rest = of.model.parameters() as f64 - routed - words;
        near(memory.parameters, routed / 32.0 + rest / 4.0 + 2.0 * words / 4.0, 0.02);
    });
    let times = case.times().next_token;
    assert!(times.exposed_s[GroupKind::Expert as usize] > 0.0 && times.exposed_s[GroupKind::Tensor as usize] > 0.0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = Case::new("llama3-405b", "dgx-h100:1", "tp=8", 1);
    let error = case.with(|of, _| of.memory()[0].check(80 * GIB)).unwrap_err().to_string();
    assert!(error.starts_with("stage 0 takes 94."), "{error}");
    assert!(error.contains("a larger tp, pp or"), "{error}");
    let case = Case { context: 100_000, ..Case::new("llama3-8b", "fc:2", "", 128) };
    let error = case.with(|of, _| of.memory()[0].check(80 * GIB)).unwrap_err().to_string();
    assert!(error.contains("a smaller batch"), "{error}");
}

#[test]
fn bad_input_is_refused() {
    let model = ModelShape::preset("llama3-8b").unwrap();
    let refuse = |text: &str, batch| inference_plan(text, 8, batch, &model).unwrap_err().to_string();
    assert!(refuse("tp=8,v=2", 8).starts_with("plan: v is for training"), "{}", refuse("tp=8,v=2", 8));
    assert!(refuse("tp=8,ep=8", 8).contains("has no experts"));
    assert!(refuse("tp=2", 3).contains("does not divide a batch of 3"));
    let case = Case::new("llama3-8b", "fc:2", "", 2);
    for (prompt, context, host_us) in [(0, 1, 0.0), (1, 1 << 40, 0.0), (2, 1, 0.0), (1, 1, f64::NAN), (1, 1, -1.0)] {
        let error = case.with(|of, wiring| Inference { prompt, context, host_us, ..of }.simulate(wiring).map(|_| ()));
        assert_eq!(error.unwrap_err().code, Code::BadSize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A token takes no longer with faster links, and never less than what a rank reads.
    #[test]
    fn faster_links_are_no_slower(
        model in prop::sample::select(vec!["llama3-8b", "mixtral-8x7b"]),
        plan in prop::sample::select(vec!["tp=4", "pp=4", "tp=2,pp=2", "tp=2", "tp=2,pp=2,order=pp-tp-dp"]),
        batch in 1u64..16,
        rates in (1u32..100, 1u32..100),
    ) {
        let rate = |rate: u32| {
            let mut case = Case::new(model, "", plan, 2 * batch);
            case.fabric = Box::leak(format!("ring:4@{rate}/1us").into_boxed_str());
            let least = case.with(|of, _| {
                let active = of.memory().iter().map(|of| of.cache).fold(0.0, f64::max);
                active / 2e12 / f64::from(of.plan.micro_batches)
            });
            (case.times(), least)
        };
        let (slow, least) = rate(rates.0.min(rates.1));
        let (fast, _) = rate(rates.0.max(rates.1));
        prop_assert!(fast.next_token.total_s <= slow.next_token.total_s * (1.0 + 1e-9));
        prop_assert!(fast.first_token.total_s <= slow.first_token.total_s * (1.0 + 1e-9));
        prop_assert!(fast.next_token.total_s >= least);
        let smallest = [slow, fast].map(|times| times.smallest_link.unwrap());
        near(smallest[0], smallest[1], 3e-3);
    }
}
