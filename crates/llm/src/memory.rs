//! What a step keeps in the memory of a rank.
//!
//! States: Megatron-LM's table of bytes a parameter, and ZeRO (arXiv 1910.02054), section 5. Activations: Korthikanti
//! et al. (arXiv 2205.05198), section 4 and table 2, made general for grouped queries, gated networks and experts. Sums
//! of integers and shares: nothing is fitted. Numbers of 16 bits take 2 bytes, with products in 8 bits, too.

use crate::parallel::{Parallelism, Recompute};
use crate::pipeline::PipelineKind;
use crate::shape::ModelShape;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;

/// What each rank of a stage keeps at once at most, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Which stage.
    pub stage: u32,
    /// Parameters of its layers.
    pub parameters: f64,
    /// Their gradients.
    pub gradients: f64,
    /// Their states of the optimizer: 32-bit parameters and both moments of Adam, and 32-bit gradients where those that
    /// are exchanged have 16 bits.
    pub optimizer: f64,
    /// All states of embedding, output and last norm.
    pub embeddings: f64,
    /// Activations of its layers, of all micro batches in flight.
    pub activations: f64,
    /// What dropout behind the embedding keeps.
    pub embedding_dropout: f64,
    /// Activations of last norm, output and loss.
    pub logits: f64,
    /// What is there for a layer at a time: activations that are computed again, gradients before ZeRO divides them,
    /// and with ZeRO-3 the parameters of two layers and of the embeddings.
    pub buffers: f64,
}

impl Memory {
    /// All of it by name, in bytes.
    pub fn by_name(&self) -> [(&'static str, f64); 8] {
        [
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("embeddings", self.embeddings),
            ("activations", self.activations),
            ("embedding dropout", self.embedding_dropout),
            ("logits", self.logits),
            ("buffers", self.buffers),
        ]
    }

    /// The sum of all, in bytes.
    pub fn total(&self) -> f64 {
        self.by_name().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The largest part and its bytes.
    pub fn largest(&self) -> (&'static str, f64) {
        self.by_name().into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are some")
    }

    /// Refuses what takes more than `capacity_bytes`.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] with the stage, the largest part, and what would make it smaller.
    pub fn check(&self, capacity_bytes: Bytes) -> Result<()> {
        let total = self.total();
        if total <= capacity_bytes as f64 {
            return Ok(());
        }
        let (part, bytes) = self.largest();
        let change = match part {
            "parameters" => "a larger tp, pp or, for experts, ep, or zero=3",
            "gradients" => "a larger tp, pp or, for experts, ep, or zero=2",
            "optimizer" => "a larger tp, pp or, for experts, ep, or at least zero=1 with more data ranks",
            "activations" => "recompute=full, zero=3 with pp=1, fewer sequences at once (mb), or a larger tp or cp",
            "embeddings" | "logits" => "a larger tp",
            _ => "a smaller mb, or a larger tp",
        };
        let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
        let what = format!(
            "stage {} takes {:.1} GiB a rank of {:.1} GiB, {part} {:.1} GiB; {change} would help",
            self.stage,
            gib(total),
            gib(capacity_bytes as f64),
            gib(bytes)
        );
        Err(Error::new(Code::NotApplicable, what))
    }
}

/// Bytes of a parameter's states on a rank that holds it together with `ranks - 1` others.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StateBytes {
    parameter: f64,
    gradient: f64,
    optimizer: f64,
}

impl StateBytes {
    fn new(plan: &Parallelism, ranks: u32) -> StateBytes {
        let share =
            |zero, bytes: u32| if plan.zero >= zero { f64::from(bytes) / f64::from(ranks) } else { bytes.into() };
        // Megatron's optimizer copies gradients of 16 bits to 32; ZeRO's reads them where it divides them.
        let copy = if plan.gradient_bytes == 2 && plan.zero < 2 { 4 } else { 0 };
        StateBytes { parameter: share(3, 2), gradient: share(2, plan.gradient_bytes), optimizer: share(1, 12 + copy) }
    }

    fn total(&self) -> f64 {
        self.parameter + self.gradient + self.optimizer
    }
}

/// Parameters on one rank.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RankParameters {
    /// Those that all data ranks hold.
    pub dense: f64,
    /// Those that only ranks with the same experts hold.
    pub routed: f64,
}

impl RankParameters {
    /// Dense ones and those of experts.
    pub fn both(self) -> [f64; 2] {
        [self.dense, self.routed]
    }

    pub fn of_layer(shape: &ModelShape, plan: &Parallelism, layer: u32) -> RankParameters {
        let all = shape.layer_parameters(layer);
        let tensor = f64::from(plan.tensor);
        // A rank has at least one head of keys and values.
        let copied_heads = kv_heads(shape, plan) - shape.kv_heads as f64 / tensor;
        let copied =
            if shape.latent.is_some() { 0.0 } else { 2.0 * (shape.hidden * shape.head_dim) as f64 * copied_heads };
        let divided = (all.attention + all.dense) as f64 / tensor;
        RankParameters {
            dense: divided + copied + (all.router + all.norms) as f64,
            routed: all.routed as f64 / (f64::from(plan.expert) * f64::from(plan.expert_tensor)),
        }
    }
}

/// Heads of keys and values on a rank.
fn kv_heads(shape: &ModelShape, plan: &Parallelism) -> f64 {
    (shape.kv_heads as f64 / f64::from(plan.tensor)).max(1.0)
}

/// Parameters of embedding, output and last norm on a rank of a stage that holds the first, the last part.
pub(crate) fn end_parameters(shape: &ModelShape, plan: &Parallelism, first: bool, last: bool) -> f64 {
    let words = (shape.vocab * shape.hidden) as f64 / f64::from(plan.tensor);
    let positions = if shape.learned_positions { (shape.sequence * shape.hidden) as f64 } else { 0.0 };
    let norm = shape.final_norm_parameters() as f64;
    let input = if first { words + positions } else { 0.0 };
    let output = if first && shape.tied_embeddings { norm } else { words + norm };
    if last { input + output } else { input }
}

/// Tokens of a micro batch on a rank.
fn tokens(shape: &ModelShape, plan: &Parallelism) -> f64 {
    f64::from(plan.micro_batch) * shape.sequence as f64 / f64::from(plan.context)
}

/// By how many ranks sequences are divided outside of products with weights.
fn sequence_ranks(plan: &Parallelism) -> f64 {
    if plan.sequence_parallel { plan.tensor.into() } else { 1.0 }
}

/// Bytes that a rank keeps of a layer's forward pass of one micro batch for the backward pass, if it computes
/// `recompute` again.
///
/// Of each token and rank, in 16 bits: what norms read and write (8 h), with dropout its masks (2 h, 8 bits; the layers
/// with biases, GPT's, have it); queries, keys, values, and what attention gives out; of a feed-forward network the
/// hidden layer before and after its activation (4 f), and if it is gated its gate, too (6 f). Scores of core attention
/// and what softmax makes of them are kept where it is neither computed again nor done on the chip: 5 a s with dropout,
/// else only softmax's output, 2 a s. That is table 2 of arXiv 2205.05198 for its shapes.
///
/// Queries and keys with norms of their own are kept before and after these; so are the compressed queries, keys and
/// values of latent attention.
///
/// Experts, derived here: tokens are spread evenly. A rank sends each of its tokens to k experts, and gets as many
/// tokens as it sends, times etp, whose ranks all get a token that one of them has: their elements (2 h), 1/etp of the
/// hidden layer (4 f or 6 f), what comes back for its own tokens (2 h), which the gradient of the router's weights
/// needs, and the router's 32-bit probabilities (4 E).
pub fn layer_activations(shape: &ModelShape, plan: &Parallelism, layer: u32, recompute: Recompute) -> f64 {
    let (hidden, heads) = (shape.hidden as f64, shape.heads as f64);
    let (tensor, sequence_ranks) = (f64::from(plan.tensor), sequence_ranks(plan));
    let tokens = tokens(shape, plan);
    if recompute == Recompute::Full {
        return tokens * 2.0 * hidden / sequence_ranks;
    }

    let dropout = shape.biases;
    let mut norms = if dropout { 10.0 * hidden } else { 8.0 * hidden };
    let mut on_rank = match shape.latent {
        None => {
            let (queries, keys) = (heads / tensor, kv_heads(shape, plan));
            let before_norms = if shape.query_key_norms { 2.0 * (queries + keys) } else { 0.0 };
            (4.0 * queries + 4.0 * keys + before_norms) * shape.head_dim as f64
        }
        Some(latent) => {
            norms += (4 * latent.query + 4 * latent.key_value + 2 * latent.rope) as f64;
            4.0 * heads * (latent.nope + latent.rope + latent.value) as f64 / tensor
        }
    };
    if recompute == Recompute::None && !plan.flash {
        on_rank += if dropout { 5.0 } else { 2.0 } * heads * shape.sequence as f64 / tensor;
    }
    let of_width = if shape.gated { 6.0 } else { 4.0 };
    match shape.experts {
        Some(experts) if layer >= experts.dense_layers => {
            on_rank += of_width * (experts.shared * experts.ffn) as f64 / tensor;
            let own = 1.0 / sequence_ranks;
            let sent = experts.per_token as f64 * own;
            // Without division of the sequence, all ranks of a tensor group have all tokens already.
            let expert_tensor = f64::from(plan.expert_tensor);
            let got = if plan.tensor > 1 && !plan.sequence_parallel { sent } else { sent * expert_tensor };
            on_rank += got * (2.0 * hidden + of_width * experts.ffn as f64 / expert_tensor);
            on_rank += sent * 2.0 * hidden + own * 4.0 * experts.count as f64;
        }
        _ => on_rank += of_width * shape.ffn as f64 / tensor,
    }
    tokens * (norms / sequence_ranks + on_rank)
}

impl Parallelism {
    /// For each part that `stage` holds, of how many micro batches it keeps activations when it keeps most;
    /// interleaved, when its first backward pass begins. In closed form, in O(parts), what [`PipelineOrder::in_flight`]
    /// counts: 1F1B and interleaved arXiv 2104.04473, section 2.2; ZB-H1 and ZB-H2 arXiv 2401.10241, table 2; DualPipe
    /// arXiv 2412.19437, table 2, the stage's distance from either end.
    ///
    /// [`PipelineOrder::in_flight`]: crate::pipeline::PipelineOrder::in_flight
    pub fn in_flight(&self, stage: u32) -> Vec<u32> {
        let (stages, micro_batches, chunks) = (self.pipeline, self.micro_batches, self.chunks);
        let most = |count: u32| vec![count.min(micro_batches)];
        match self.schedule {
            PipelineKind::GPipe => most(micro_batches),
            PipelineKind::OneForwardOneBackward if chunks == 1 => most(stages - stage),
            PipelineKind::OneForwardOneBackward => {
                // All chunks of the first group, which is a largest one, and the first chunk of the second group.
                let group = micro_batches.div_ceil((micro_batches / stages).max(1));
                let mut left = 2 * (stages - stage - 1) + (chunks - 1) * group + 1;
                let of_first_group = (0..chunks).map(|_| {
                    let count = left.min(group);
                    left -= count;
                    count
                });
                let mut in_flight: Vec<u32> = of_first_group.collect();
                in_flight[0] += left.min(micro_batches - group);
                in_flight
            }
            PipelineKind::ZeroBubbleH1 => most(stages),
            PipelineKind::ZeroBubbleH2 => most(2 * stages - 1),
            PipelineKind::DualPipe => [stages - stage, stage + 1].map(|count| count.min(micro_batches / 2)).to_vec(),
        }
    }
}

/// What each rank of `stage` keeps.
///
/// Not counted: what libraries and kernels keep for themselves, and gaps between allocations.
pub fn memory(shape: &ModelShape, plan: &Parallelism, stage: u32) -> Memory {
    let part_layers = plan.part_layers(shape);
    let parts = plan.stage_parts(stage);
    let first_chunk = parts.iter().position(|&part| part == 0);
    let has_last = parts.contains(&(plan.parts() - 1));
    let in_flight = plan.in_flight(stage);
    let (tokens, sequence_ranks) = (tokens(shape, plan), sequence_ranks(plan));
    let hidden = shape.hidden as f64;

    let mut held = RankParameters::default();
    let (mut largest, mut largest_recomputed) = (0f64, 0f64);
    let mut activations = 0.0;
    for (&part, &in_flight) in parts.iter().zip(&in_flight) {
        for layer in part_layers[part as usize].clone() {
            let parameters = RankParameters::of_layer(shape, plan, layer);
            held.dense += parameters.dense;
            held.routed += parameters.routed;
            largest = largest.max(parameters.dense + parameters.routed);
            let kept = layer_activations(shape, plan, layer, plan.recompute);
            activations += kept * f64::from(in_flight);
            largest_recomputed = largest_recomputed.max(layer_activations(shape, plan, layer, Recompute::None) - kept);
        }
    }

    let dense = StateBytes::new(plan, plan.data_ranks());
    let routed = StateBytes::new(plan, plan.expert_data_ranks());
    let ends = end_parameters(shape, plan, first_chunk.is_some(), has_last);
    let states = |bytes: fn(&StateBytes) -> f64| held.dense * bytes(&dense) + held.routed * bytes(&routed);
    let embedded = first_chunk.filter(|_| shape.biases).map_or(0, |chunk| in_flight[chunk]);
    // GPipe does all forward passes first, with the loss of all micro batches.
    let losses = match (has_last, plan.schedule) {
        (false, _) => 0,
        (true, PipelineKind::GPipe) => plan.micro_batches,
        (true, _) => 1,
    };
    let mut buffers = largest_recomputed;
    if plan.zero >= 2 {
        buffers += largest * f64::from(plan.gradient_bytes);
    }
    if plan.zero >= 3 {
        buffers += 2.0 * (2.0 * largest + ends);
    }
    Memory {
        stage,
        parameters: states(|bytes| bytes.parameter),
        gradients: states(|bytes| bytes.gradient),
        optimizer: states(|bytes| bytes.optimizer),
        embeddings: ends * dense.total(),
        activations,
        embedding_dropout: f64::from(embedded) * tokens * hidden / sequence_ranks,
        logits: f64::from(losses)
            * tokens
            * 4.0
            * (hidden / sequence_ranks + shape.vocab as f64 / f64::from(plan.tensor)),
        buffers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{gpt, mixtral, plan, preset};
    use antiphon_base::parameter::Choice;
    use proptest::prelude::*;

    const GIB: f64 = (1u64 << 30) as f64;

    fn near(value: f64, expected: f64, share: f64) {
        assert!((value / expected - 1.0).abs() <= share, "{value} is not {expected}");
    }

    fn of_layers(memory: &Memory) -> f64 {
        memory.parameters + memory.gradients + memory.optimizer
    }

    #[test]
    fn figure_1_of_korthikanti() {
        // Table 3 and figure 1 of arXiv 2205.05198: states of matrices at 18 bytes a parameter, and activations of
        // layers.
        for (shape, text, ranks, batch, state, tensor, selective) in [
            (gpt("22b", 6144, 64, 48, 2048, 51200), "tp=8,mb=4", 8, 4, 45.5625, 59.25, 9.5625),
            (gpt("175b", 12288, 96, 96, 2048, 51200), "tp=8,pp=8,v=3", 64, 64, 45.5625, 66.84375, 12.3515625),
            (
                gpt("530b", 20480, 128, 105, 2048, 51200),
                "tp=8,pp=35,v=3",
                280,
                280,
                31.640625,
                114.0234375,
                23.076171875,
            ),
            (gpt("1t", 25600, 160, 128, 2048, 51200), "tp=8,pp=64", 512, 512, 32.958984375, 131.25, 26.5625),
        ] {
            let with = |more: &str| memory(&shape, &plan(&format!("{text},{more}"), ranks, batch, &shape), 0);
            let tensor_only = with("sp=no,flash=no");
            near(of_layers(&tensor_only) / GIB, state, 0.001);
            near(tensor_only.activations / GIB, tensor, 0.001);
            near(with("recompute=selective,flash=no").activations / GIB, selective, 0.001);
            near(with("flash=yes").activations / GIB, selective, 0.001);
        }
    }

    #[test]
    fn bytes_of_a_parameter() {
        let shape = gpt("gpt", 64, 8, 4, 64, 1000);
        for (text, bytes) in [
            ("zero=0", 18.0),
            ("zero=1", 6.0 + 12.0 / 8.0),
            ("zero=2", 2.0 + 16.0 / 8.0),
            ("zero=3", 18.0 / 8.0),
            ("zero=0,precision=fp16", 20.0),
            ("zero=1,precision=fp16", 4.0 + 16.0 / 8.0),
            ("zero=2,precision=fp16", 2.0 + 14.0 / 8.0),
            ("zero=3,precision=fp16", 16.0 / 8.0),
        ] {
            // Context ranks hold the same parameters, too.
            let plan = plan(&format!("cp=2,{text}"), 8, 8, &shape);
            assert_eq!(StateBytes::new(&plan, plan.data_ranks()).total(), bytes, "{text}");
            let parameters = 4.0 * (12 * 64 * 64 + 13 * 64) as f64;
            near(of_layers(&memory(&shape, &plan, 0)), bytes * parameters, 1e-12);
        }
    }

    #[test]
    fn activations_of_a_layer() {
        let gpt = gpt("gpt", 64, 8, 4, 128, 1000);
        let kept = |shape: &ModelShape, text: &str, ranks, recompute| {
            layer_activations(shape, &plan(text, ranks, 16, shape), 3, recompute)
        };
        let none = |shape: &ModelShape, text: &str, ranks| kept(shape, text, ranks, Recompute::None);
        // Table 2 of arXiv 2205.05198; a s / h is 16 here.
        let sbh = 2.0 * 128.0 * 64.0;
        assert_eq!(none(&gpt, "mb=2,flash=no", 1), sbh * (34.0 + 5.0 * 16.0));
        assert_eq!(none(&gpt, "mb=2,flash=no,tp=4,sp=no", 4), sbh * (10.0 + 24.0 / 4.0 + 5.0 * 16.0 / 4.0));
        assert_eq!(none(&gpt, "mb=2,flash=no,tp=4", 4), sbh / 4.0 * (34.0 + 5.0 * 16.0));
        assert_eq!(none(&gpt, "mb=2,flash=no,tp=4,cp=2", 8), sbh / 8.0 * (34.0 + 5.0 * 16.0));
        assert_eq!(kept(&gpt, "mb=2,flash=no,tp=4", 4, Recompute::Selective), sbh / 4.0 * 34.0);
        assert_eq!(kept(&gpt, "mb=2,tp=4,sp=no", 4, Recompute::Full), sbh * 2.0);
        assert_eq!(kept(&gpt, "mb=2,tp=4", 4, Recompute::Full), sbh / 4.0 * 2.0);

        // Grouped queries, gated, no dropout; at tp = 16 each of 8 heads of keys and values is on two ranks.
        let llama = preset("llama3-405b");
        let sbh = 8192.0 * 16384.0;
        let gated = |heads| 12.0 + 4.0 * heads / 128.0 + 6.0 * 53248.0 / 16384.0;
        near(none(&llama, "tp=8", 8), sbh / 8.0 * gated(8.0), 1e-12);
        near(none(&llama, "tp=16", 16), sbh / 16.0 * gated(16.0), 1e-12);

        // Two experts a token: norms 8 h, attention (4 + 4/4) h, two copies of 2 h + 6 f and what comes back, the
        // router.
        let (mixtral, token) = (mixtral(), 13.0 * 4096.0 + 2.0 * (4.0 * 4096.0 + 6.0 * 14336.0) + 4.0 * 8.0);
        assert_eq!(none(&mixtral, "", 1), 4096.0 * token);
        assert_eq!(none(&mixtral, "ep=8", 8), 4096.0 * token);
        assert_eq!(none(&mixtral, "tp=4,etp=1", 4), 1024.0 * token);
        // Each rank of an expert has all tokens of the others.
        assert_eq!(none(&mixtral, "tp=4", 4), 1024.0 * (token + 3.0 * 2.0 * 2.0 * 4096.0));
        assert_eq!(none(&mixtral, "etp=2", 2), 4096.0 * (token + 2.0 * 2.0 * 4096.0));
        // All have all without sequence parallelism.
        let everywhere = 8.0 * 4096.0 + 2.0 * 4.0 * 4096.0 + 32.0;
        let divided = 5.0 * 4096.0 + 2.0 * 6.0 * 14336.0;
        assert_eq!(none(&mixtral, "tp=4,sp=no", 4), 4096.0 * (everywhere + divided / 4.0));

        let normed = ModelShape { query_key_norms: true, ..mixtral.clone() };
        assert_eq!(none(&normed, "", 1), 4096.0 * (token + 2.0 * 40.0 * 128.0));

        // DeepSeek-V3: compressed queries, keys and values; 8 of 256 experts and a shared one.
        let attention = 8 * 7168 + 4 * 1536 + 4 * 512 + 2 * 64 + 4 * 128 * (128 + 64 + 128);
        let experts = 9 * 6 * 2048 + 8 * 4 * 7168 + 4 * 256;
        assert_eq!(none(&preset("deepseek-v3"), "", 1), 4096.0 * f64::from(attention + experts));
    }

    #[test]
    fn micro_batches_in_flight() {
        let shape = gpt("gpt", 64, 8, 24, 64, 1000);
        let in_flight = |text: &str, batch| {
            let plan = plan(text, 4, batch, &shape);
            (0..4).map(|stage| plan.in_flight(stage)).collect::<Vec<_>>()
        };
        assert_eq!(in_flight("pp=4", 8), [[4], [3], [2], [1]]);
        assert_eq!(in_flight("pp=4", 2), [[2], [2], [2], [1]]);
        assert_eq!(in_flight("pp=4,schedule=gpipe", 8), [[8]; 4]);
        assert_eq!(in_flight("pp=4,schedule=zb-h1", 8), [[4]; 4]);
        assert_eq!(in_flight("pp=4,schedule=zb-h2", 8), [[7]; 4]);
        assert_eq!(in_flight("pp=4,schedule=dualpipe", 8), [[4, 1], [3, 2], [2, 3], [1, 4]]);
        // 2 (p - r - 1) + (v - 1) p + 1, in groups of p.
        assert_eq!(in_flight("pp=4,v=3", 8), [[7, 4, 4], [5, 4, 4], [4, 4, 3], [4, 4, 1]]);
        assert_eq!(in_flight("pp=4,v=3", 2), [[2, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 1]]);
        // Six are one group, larger than the stages.
        assert_eq!(in_flight("pp=4,v=3", 6), [[6, 6, 6], [6, 6, 5], [6, 6, 3], [6, 6, 1]]);
    }

    #[test]
    fn states_of_experts_and_ends() {
        let shape = mixtral();
        let plan = plan("tp=2,pp=2,ep=4,etp=1,order=tp-cp-ep-dp-pp", 16, 16, &shape);
        let layer = 2.0 * (4096.0 * (2.0 * 32.0 + 2.0 * 8.0) * 128.0) / 4.0 + 2.0 * 4096.0 + 4096.0 * 8.0;
        let routed = 8.0 * 3.0 * 4096.0 * 14336.0 / 4.0;
        // Four ranks share dense states, two those of experts.
        let states = 16.0 * (layer * (6.0 + 12.0 / 4.0) + routed * (6.0 + 12.0 / 2.0));
        let ends = |stage| memory(&shape, &plan, stage).embeddings / 9.0;
        near(of_layers(&memory(&shape, &plan, 1)), states, 1e-12);
        assert_eq!([ends(0), ends(1)], [16_000.0 * 4096.0, 16_001.0 * 4096.0]);
    }

    #[test]
    fn embeddings_are_shared_on_one_stage_only() {
        let shape = ModelShape { learned_positions: true, ..gpt("gpt", 64, 8, 24, 128, 1000) };
        let of = |text: &str, stage| {
            let memory = memory(&shape, &plan(text, 4, 8, &shape), stage);
            (memory.embeddings / 18.0, memory.embedding_dropout, memory.logits)
        };
        let (token, loss) = (128.0 * 64.0, 4.0 * 128.0 * (64.0 + 1000.0));
        assert_eq!(of("zero=0", 0), (64.0 * 1130.0, token, loss));
        assert_eq!(of("zero=0,pp=4", 0), (64.0 * 1128.0, 4.0 * token, 0.0));
        assert_eq!(of("zero=0,pp=4", 1), (0.0, 0.0, 0.0));
        assert_eq!(of("zero=0,pp=4", 3), (64.0 * 1002.0, 0.0, loss));
        assert_eq!(of("zero=0,pp=4,schedule=dualpipe", 3), (64.0 * 1130.0, 4.0 * token, loss));
        assert_eq!(of("zero=0,pp=4,schedule=gpipe", 3).2, 8.0 * loss);
        // With tp = 4 the words of the output are divided; tokens only with sequence parallelism.
        assert_eq!(of("zero=0,tp=4,sp=no", 0).2, 4.0 * 128.0 * (64.0 + 250.0));
        assert_eq!(of("zero=0,tp=4", 0).2, loss / 4.0);
    }

    #[test]
    fn buffers_of_a_layer() {
        let shape = gpt("gpt", 64, 8, 24, 128, 1000);
        let of = |text: &str| memory(&shape, &plan(text, 4, 8, &shape), 0).buffers;
        let (tokens, parameters) = (128.0 * 64.0, 12.0 * 64.0 * 64.0 + 13.0 * 64.0);
        assert_eq!(of(""), 0.0);
        assert_eq!(of("recompute=full"), tokens * (34.0 - 2.0));
        assert_eq!(of("recompute=selective,flash=no"), tokens * 5.0 * 16.0);
        assert_eq!(of("zero=2"), 4.0 * parameters);
        assert_eq!(of("zero=3"), 4.0 * parameters + 2.0 * (2.0 * parameters + 1002.0 * 64.0));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let shape = preset("llama3-405b");
        let of = |text: &str, stage| memory(&shape, &plan(text, 1024, 1024, &shape), stage);
        let memory = of("tp=8,pp=16,recompute=full", 0);
        assert_eq!(memory.check(memory.total().ceil() as u64), Ok(()));
        assert!(memory.check(memory.total() as u64 - 1).is_err());
        let error = of("tp=8,pp=16,mb=8", 1).check(80 << 30).unwrap_err();
        assert_eq!(error.code, Code::NotApplicable);
        let message = "stage 1 takes 498.5 GiB a rank of 80.0 GiB, activations 476.2 GiB; recompute=full, zero=3 with pp=1, fewer";
        assert!(error.message.starts_with(message), "{error}");
        let states = of("tp=8,zero=0", 0).check(80 << 30).unwrap_err().message;
        assert!(states.ends_with("or at least zero=1 with more data ranks would help"), "{states}");
    }

    proptest! {
        #[test]
        fn in_flight_is_what_the_order_holds(kind in 0usize..5, pp in 1u32..9, v in 1u32..4, m in 1u64..40) {
            let schedule = PipelineKind::NAMES[kind];
            let v = if schedule == "1f1b" && pp > 1 { v } else { 1 };
            let shape = gpt("gpt", 64, 8, 24, 64, 1000);
            let plan = Parallelism::parse(&format!("pp={pp},v={v},schedule={schedule}"), pp, m, &shape);
            prop_assume!(plan.is_ok());
            let plan = plan.unwrap();
            let order = plan.pipeline_order().unwrap();
            prop_assert_eq!(plan.parts(), order.parts());
            for stage in 0..pp {
                let in_flight = plan.in_flight(stage);
                prop_assert_eq!(in_flight.iter().sum::<u32>(), order.in_flight(stage), "{}: stage {}", schedule, stage);
                let parts: Vec<u32> = (0..in_flight.len() as u32).map(|chunk| order.part(stage, chunk)).collect();
                prop_assert_eq!(plan.stage_parts(stage), parts);
            }
        }

        #[test]
        fn dual_pipe_has_parameters_twice(pp in 1u32..6, tp in 0u32..3) {
            let (pp, tp) = (2 * pp, 1 << tp);
            let shape = gpt("gpt", 64, 8, 2 * pp, 64, 1000);
            let of = |schedule: &str, stage| {
                memory(&shape, &plan(&format!("tp={tp},pp={pp},schedule={schedule}"), tp * pp, 64, &shape), stage)
            };
            for stage in 0..pp {
                let [once, twice] = ["zb-h1", "dualpipe"].map(|schedule| of(schedule, stage));
                near(of_layers(&twice), 2.0 * of_layers(&once), 1e-12);
                // p + 1 micro batches instead of p.
                near(twice.activations, once.activations * f64::from(pp + 1) / f64::from(pp), 1e-12);
            }
        }

        #[test]
        fn interleaving_keeps_more(pp in 2u32..9, v in 2u32..5, rounds in 2u32..5) {
            let shape = gpt("gpt", 64, 8, pp * v, 64, 1000);
            let plan = plan(&format!("pp={pp},v={v}"), pp, u64::from(pp * rounds), &shape);
            let layer = layer_activations(&shape, &plan, 0, Recompute::None);
            let (p, v, layers) = (f64::from(pp), f64::from(v), f64::from(pp * v));
            // Section 4.2.3 of arXiv 2205.05198.
            near(memory(&shape, &plan, 0).activations, layer * layers * (1.0 + (p - 1.0) / (p * v)), 1e-12);
        }
    }
}
