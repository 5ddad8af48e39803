//! How long an accelerator computes a layer: a roofline whose efficiency grows with the size of a product, traffic of
//! element-wise operations, and a time that the host needs to start it all.

use crate::constants::Constants;
use crate::parallel::{Parallelism, Recompute};
use crate::shape::ModelShape;
use antiphon_model::collective::Kind;
use antiphon_model::system::Left;

/// Seconds that one rank computes of a layer, for a micro batch, going forward.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayerSeconds {
    /// Products of attention with weights.
    pub projections: f64,
    /// Core attention.
    pub core: f64,
    /// A dense feed-forward network, or shared experts.
    pub dense: f64,
    /// Routed experts, and their router.
    pub routed: f64,
    /// Norms, activations, residuals and dropout.
    pub traffic: f64,
    /// Softmax and dropout of core attention, where its scores are kept in memory.
    pub scores: f64,
}

/// Products of a layer on one rank: rows, columns and depth of each.
struct Products {
    projections: Vec<[f64; 3]>,
    dense: Vec<[f64; 3]>,
    router: Vec<[f64; 3]>,
    /// Of all routed experts together.
    routed: Vec<[f64; 3]>,
    /// Experts of the rank that have a token, whose weights are read.
    read_experts: f64,
}

impl Constants {
    /// Operations a second of products in 16 or 8 bits.
    pub fn peak_flops(&self, fp8: bool) -> f64 {
        1e12 * if fp8 { self.fp8_tflops.unwrap_or(self.tflops) } else { self.tflops }
    }

    /// Those of an accelerator of which so much is left.
    pub fn left(&self, left: Left) -> Constants {
        let share = |(numerator, denominator): (u64, u64)| numerator as f64 / denominator as f64;
        let (processors, memory) = (share(left.processors), share(left.memory));
        Constants {
            tflops: processors * self.tflops,
            fp8_tflops: self.fp8_tflops.map(|tflops| processors * tflops),
            // What a small product loses stays as long.
            product_half_gflop: processors * self.product_half_gflop,
            memory_gb_per_s: memory * self.memory_gb_per_s,
            ..self.clone()
        }
    }

    /// Measured times of a collective of `ranks` ranks in a box: bytes and seconds. Half an AllReduce is an AllGather.
    pub fn points(&self, ranks: u32, collective: Kind) -> Vec<(f64, f64)> {
        let half = if collective == Kind::AllReduce { 1.0 } else { 0.5 };
        let of = self.all_reduces.iter().filter(|each| each.0 == ranks);
        of.map(|&(_, bytes, seconds)| (bytes, half * seconds)).collect()
    }

    /// Seconds of `bytes` of memory traffic.
    pub fn traffic_s(&self, bytes: f64) -> f64 {
        bytes / (1e9 * self.memory_gb_per_s)
    }

    /// Seconds of a product of `rows` x `depth` by `depth` x `columns`, whose right side is read `copies` times as often (an
    /// expert's weights for each expert).
    fn product_s(&self, [rows, columns, depth]: [f64; 3], copies: f64, plan: &Parallelism) -> f64 {
        if rows == 0.0 {
            return 0.0;
        }
        let flops = 2.0 * rows * columns * depth;
        // What a small product loses is time, so it is the same for 8 bits.
        let half = 1e9 * self.product_half_gflop / self.peak_flops(false);
        let arithmetic = (flops / self.peak_flops(plan.fp8) + half) / self.product_efficiency;
        let element = if plan.fp8 { 1.0 } else { 2.0 };
        let bytes = element * (rows * depth + copies * depth * columns) + 2.0 * rows * columns;
        arithmetic.max(self.traffic_s(bytes))
    }

    /// Seconds of a layer on one rank, forward.
    pub fn layer(&self, model: &ModelShape, layer: u32, plan: &Parallelism) -> LayerSeconds {
        let sequence = model.sequence as f64;
        let tensor = f64::from(plan.tensor);
        let tokens = f64::from(plan.micro_batch) * sequence / f64::from(plan.context);
        let products = Products::of(model, layer, plan, tokens);
        let sum = |list: &[[f64; 3]], copies| list.iter().map(|each| self.product_s(*each, copies, plan)).sum::<f64>();
        let (hidden, heads) = (model.hidden as f64, model.heads as f64);
        // Kernels that keep scores on the chip skip what is masked.
        let widths = model.latent.map_or(2.0 * model.head_dim as f64, |of| (of.nope + of.rope + of.value) as f64);
        let core_flops = 2.0 * tokens * sequence * heads * widths / tensor * if plan.flash { 0.5 } else { 1.0 };
        let core = core_flops / (self.peak_flops(false) * self.attention_share * self.product_efficiency);
        // Bytes for each element of the residual stream: norms, dropout and residuals (22) on all ranks unless they divide the
        // sequence; projections' outputs (12) and activations (two or three of the network's width) divided.
        let width = if products.read_experts > 0.0 {
            let of = model.experts.expect("a layer of experts");
            (of.per_token + of.shared) as f64 * of.ffn as f64
        } else {
            model.ffn as f64
        };
        let inner = 12.0 + if model.gated { 6.0 } else { 4.0 } * width / hidden;
        let outer = if plan.sequence_parallel { 22.0 / tensor } else { 22.0 };
        let bytes = (outer + inner / tensor) * tokens * hidden;
        let score_bytes = if plan.flash { 0.0 } else { 13.0 * heads * tokens * sequence / tensor };
        LayerSeconds {
            projections: sum(&products.projections, 1.0),
            core,
            dense: sum(&products.dense, 1.0),
            routed: sum(&products.router, 1.0) + sum(&products.routed, products.read_experts),
            traffic: self.traffic_s(bytes),
            scores: self.traffic_s(score_bytes),
        }
    }

    /// Seconds of a layer on one rank for the next token of each sequence of a micro batch, which attends to `context` tokens:
    /// their keys and values are read, or what latent attention keeps of them. Those of its heads are not expanded: products
    /// with the weights that would do so are moved to queries and outputs (DeepSeek-V2, arXiv 2405.04434, section 2.1.2).
    pub fn next_token_layer(&self, model: &ModelShape, layer: u32, plan: &Parallelism, context: f64) -> LayerSeconds {
        let one = ModelShape { sequence: 1, ..model.clone() };
        let tokens = f64::from(plan.micro_batch);
        let heads = model.heads as f64 / f64::from(plan.tensor);
        let widths = model.latent.map_or(2 * model.head_dim, |of| 2 * of.key_value + of.rope) as f64;
        let flops = 2.0 * tokens * context * heads * widths;
        let arithmetic = flops / (self.peak_flops(false) * self.attention_share * self.product_efficiency);
        let bytes = tokens * context * cache_bytes(model, plan);
        LayerSeconds { core: arithmetic.max(self.traffic_s(bytes)), ..self.layer(&one, layer, plan) }
    }

    /// Seconds of the logits of a micro batch on one rank of the last stage, forward; backward takes twice as long.
    pub fn logits_s(&self, model: &ModelShape, plan: &Parallelism) -> f64 {
        let tokens = f64::from(plan.micro_batch) * model.sequence as f64 / f64::from(plan.context);
        let columns = model.vocab as f64 / f64::from(plan.tensor);
        // In 16 bits in all recipes.
        let plan = Parallelism { fp8: false, ..plan.clone() };
        self.product_s([tokens, columns, model.hidden as f64], 1.0, &plan)
    }

    /// Least seconds of a layer and micro batch: forward, gradients of inputs with what is computed again, gradients of weights.
    pub fn host_s(&self) -> [f64; 3] {
        [0.25, 0.5, 0.25].map(|share| share * self.host_ms / 1e3)
    }
}

/// Bytes in 16 bits that a rank keeps of a token in a layer: keys and values of its heads, one at least, or the compressed
/// ones of latent attention, which every rank of a tensor group has.
pub fn cache_bytes(model: &ModelShape, plan: &Parallelism) -> f64 {
    match model.latent {
        Some(of) => 2.0 * (of.key_value + of.rope) as f64,
        None => 4.0 * model.head_dim as f64 * (model.kv_heads as f64 / f64::from(plan.tensor)).max(1.0),
    }
}

impl LayerSeconds {
    /// All of it.
    pub fn forward(&self) -> f64 {
        self.projections + self.core + self.dense + self.routed + self.traffic + self.scores
    }

    /// Gradients of inputs: products once, core attention and traffic twice (Korthikanti et al., arXiv 2205.05198).
    pub fn input_gradient(&self) -> f64 {
        self.forward() + self.core + self.traffic + self.scores
    }

    /// Gradients of weights: products once.
    pub fn weight_gradient(&self) -> f64 {
        self.projections + self.dense + self.routed
    }

    /// What is computed again before gradients.
    pub fn again(&self, recompute: Recompute) -> f64 {
        match recompute {
            Recompute::None => 0.0,
            Recompute::Selective => self.core + self.scores,
            Recompute::Full => self.forward(),
        }
    }
}

impl Products {
    fn of(model: &ModelShape, layer: u32, plan: &Parallelism, tokens: f64) -> Products {
        let tensor = f64::from(plan.tensor);
        let (hidden, heads) = (model.hidden as f64, model.heads as f64 / tensor);
        let projections = match model.latent {
            Some(of) => {
                let [query, key_value, nope, rope, value] =
                    [of.query, of.key_value, of.nope, of.rope, of.value].map(|each| each as f64);
                // What is compressed is on every rank, of its own tokens if the sequence is divided.
                let own = if plan.sequence_parallel { tokens / tensor } else { tokens };
                let queries = heads * (nope + rope);
                let mut products = match of.query {
                    0 => vec![[tokens, queries, hidden]],
                    _ => vec![[own, query, hidden], [tokens, queries, query]],
                };
                products.extend([
                    [own, key_value + rope, hidden],
                    [tokens, heads * (nope + value), key_value],
                    [tokens, hidden, heads * value],
                ]);
                products
            }
            None => {
                let width = model.head_dim as f64;
                let keys = (model.kv_heads as f64 / tensor).max(1.0);
                vec![[tokens, width * (heads + 2.0 * keys), hidden], [tokens, hidden, width * heads]]
            }
        };
        let matrices = if model.gated { 2.0 } else { 1.0 };
        let network = |tokens, width| vec![[tokens, matrices * width, hidden], [tokens, hidden, width]];
        match model.experts.filter(|of| layer >= of.dense_layers) {
            None => {
                let dense = network(tokens, model.ffn as f64 / tensor);
                Products { projections, dense, router: vec![], routed: vec![], read_experts: 0.0 }
            }
            Some(of) => {
                let parts = f64::from(plan.expert_tensor);
                // Ranks of a tensor group that do not divide experts have different tokens of it.
                let pairs = tokens * of.per_token as f64 * parts / tensor;
                let routed = network(pairs, of.ffn as f64 / parts);
                let own = tokens / if plan.sequence_parallel { tensor } else { 1.0 };
                let router = vec![[own, of.count as f64, hidden]];
                let dense = network(tokens, (of.shared * of.ffn) as f64 / tensor);
                let dense = if of.shared > 0 { dense } else { vec![] };
                // An expert has none of so many tokens with probability (1 - k / E)^tokens, if all are as likely.
                let (count, expert) = (of.count as f64, f64::from(plan.expert));
                let met = tokens * expert * parts / tensor;
                let read_experts = count / expert * (1.0 - (1.0 - of.per_token as f64 / count).powf(met));
                Products { projections, dense, router, routed, read_experts }
            }
        }
    }
}
