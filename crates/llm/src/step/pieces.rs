//! What a pass through some equal layers computes and exchanges, in order.

use crate::compute::LayerSeconds;
use crate::constants::Constants;
use crate::parallel::{ContextKind, GroupKind, Parallelism, Recompute, TensorOverlap};
use crate::shape::ModelShape;
use antiphon_model::collective::Kind;

/// Exchanges of one group, one after another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Calls {
    pub kind: GroupKind,
    pub collective: Kind,
    /// Of one of them: the full buffer.
    pub bytes: f64,
    pub count: f64,
}

/// Something a rank does before it goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LayerPiece {
    /// It computes.
    Compute(f64),
    /// It exchanges.
    Exchange(Calls),
    /// It exchanges and computes at the same time.
    Both(Calls, f64),
}

impl LayerPiece {
    /// How many times as long the same piece computes elsewhere.
    pub fn slower(self, other: LayerPiece) -> f64 {
        match (self, other) {
            (
                LayerPiece::Compute(one) | LayerPiece::Both(_, one),
                LayerPiece::Compute(other) | LayerPiece::Both(_, other),
            ) if one > 0.0 => other / one,
            _ => 1.0,
        }
    }
}

/// One layer on one rank.
pub(crate) struct LayerCosts {
    seconds: LayerSeconds,
    host: [f64; 3],
    /// Times of the tensor group for each direction: those in attention, and those in a feed-forward network that is divided.
    tensor: Option<Calls>,
    tensor_overlap: TensorOverlap,
    tensor_ranks: f64,
    sequence_parallel: bool,
    context: Option<(ContextKind, Calls)>,
    /// Dispatch; combining takes as long.
    dispatch: Option<Calls>,
    combine: Option<Calls>,
    within_experts: Option<Calls>,
    expert_overlap: bool,
    recompute: Recompute,
}

impl LayerCosts {
    pub fn new(constants: &Constants, model: &ModelShape, layer: u32, plan: &Parallelism) -> Self {
        let [tensor, context] = [plan.tensor, plan.context].map(f64::from);
        let tokens = f64::from(plan.micro_batch) * model.sequence as f64 / context;
        let has_experts = model.experts.filter(|of| layer >= of.dense_layers);
        // Attention and a dense network. Routed experts are divided over groups of their own; with sequence parallelism shared
        // ones need their input whole, otherwise their output is reduced with that of the routed ones.
        let is_divided = has_experts.is_none_or(|of| of.shared > 0 && plan.sequence_parallel);
        let sides = if is_divided { 2.0 } else { 1.0 };
        let exchanges = (plan.tensor > 1).then(|| {
            let bytes = 2.0 * tokens * model.hidden as f64;
            let (collective, count) =
                if plan.sequence_parallel { (Kind::AllGather, 2.0 * sides) } else { (Kind::AllReduce, sides) };
            Calls { kind: GroupKind::Tensor, collective, bytes, count }
        });
        let context = (plan.context > 1).then(|| {
            let heads = (model.kv_heads as f64 / tensor).max(1.0);
            // Of a head of keys, which queries are as wide as, and of values.
            let [key, value] =
                model.latent.map_or([model.head_dim; 2], |of| [of.nope + of.rope, of.value]).map(|width| width as f64);
            let calls = match plan.context_kind {
                ContextKind::Ulysses => {
                    let queries = model.heads as f64 / tensor;
                    // Queries, keys, values and outputs.
                    let width = (queries + heads) * (key + value);
                    Calls {
                        kind: GroupKind::Context,
                        collective: Kind::AllToAll,
                        bytes: 2.0 * tokens * width,
                        count: 1.0,
                    }
                }
                _ => {
                    let bytes = 2.0 * tokens * context * heads * (key + value);
                    Calls { kind: GroupKind::Context, collective: Kind::AllGather, bytes, count: 1.0 }
                }
            };
            (plan.context_kind, calls)
        });
        let routed = has_experts.filter(|_| plan.expert > 1).map(|of| {
            let elements = of.per_token as f64 * tokens * model.hidden as f64 / tensor;
            let calls = |bytes| Calls { kind: GroupKind::Expert, collective: Kind::AllToAll, bytes, count: 1.0 };
            [if plan.fp8 { 1.0 } else { 2.0 }, 2.0].map(|element| calls(element * elements))
        });
        let within_experts = has_experts.filter(|_| plan.expert_tensor > 1).map(|of| {
            let parts = f64::from(plan.expert_tensor);
            let (collective, elements, count) = if plan.sequence_parallel {
                // What ranks of the group received, gathered before and reduced after the experts: tokens themselves where all
                // experts are here.
                let copies = if plan.expert > 1 { of.per_token as f64 } else { 1.0 };
                (Kind::AllGather, copies * tokens * parts / tensor, 2.0)
            } else {
                (Kind::AllReduce, tokens, 1.0)
            };
            let bytes = 2.0 * elements * model.hidden as f64;
            Calls { kind: GroupKind::ExpertTensor, collective, bytes, count }
        });
        LayerCosts {
            seconds: constants.layer(model, layer, plan),
            host: constants.host_s(),
            tensor: exchanges,
            tensor_overlap: plan.tensor_overlap,
            tensor_ranks: tensor,
            sequence_parallel: plan.sequence_parallel,
            context,
            dispatch: routed.map(|calls| calls[0]),
            combine: routed.map(|calls| calls[1]),
            within_experts,
            expert_overlap: plan.expert_overlap,
            recompute: plan.recompute,
        }
    }

    /// The same exchanges with other computation.
    pub fn with_seconds(self, seconds: LayerSeconds) -> Self {
        LayerCosts { seconds, ..self }
    }

    /// A pass that computes `attention` (with `core` of it) and a network of `dense` and `routed` seconds, `beside` seconds of
    /// which need nothing that is exchanged.
    fn pass(&self, parts: &LayerSeconds, context_calls: f64, least: f64, hides_tensor: f64) -> Vec<LayerPiece> {
        let mut pieces = Vec::new();
        let total = parts.forward();
        // The host is slower: it waits in every part alike.
        let slower = if total > 0.0 { (least / total).max(1.0) } else { 1.0 };
        let attention = slower * (parts.projections + parts.traffic);
        let core = slower * (parts.core + parts.scores);
        let exchange =
            |calls: Option<Calls>, pieces: &mut Vec<LayerPiece>| pieces.extend(calls.map(LayerPiece::Exchange));
        match self.context {
            Some((ContextKind::Ring, calls)) => {
                pieces.push(LayerPiece::Compute(attention));
                pieces.push(LayerPiece::Both(Calls { count: calls.count * context_calls, ..calls }, core));
            }
            Some((_, calls)) => {
                pieces.push(LayerPiece::Compute(attention));
                exchange(Some(Calls { count: calls.count * context_calls, ..calls }), &mut pieces);
                pieces.push(LayerPiece::Compute(core));
            }
            None => pieces.push(LayerPiece::Compute(attention + core)),
        }
        let [dense, routed] = [parts.dense, parts.routed].map(|seconds| slower * seconds);
        match (self.dispatch, self.combine) {
            (Some(dispatch), Some(combine)) => {
                if self.expert_overlap && dense > 0.0 {
                    pieces.push(LayerPiece::Both(dispatch, dense));
                } else {
                    pieces.push(LayerPiece::Exchange(dispatch));
                    pieces.push(LayerPiece::Compute(dense));
                }
                pieces.push(LayerPiece::Compute(routed));
                pieces.push(LayerPiece::Exchange(combine));
            }
            _ => pieces.push(LayerPiece::Compute(dense + routed)),
        }
        exchange(self.within_experts, &mut pieces);
        if let Some(calls) = self.tensor {
            self.hide(calls, hides_tensor, &mut pieces);
        }
        merge(pieces)
    }

    /// Adds an exchange of the tensor group, as much of it as may behind `seconds` of what is computed already.
    fn hide(&self, calls: Calls, beside: f64, pieces: &mut Vec<LayerPiece>) {
        let hidden = match self.tensor_overlap {
            TensorOverlap::Tiles => 1.0 - 1.0 / self.tensor_ranks,
            TensorOverlap::Backward if beside > 0.0 => 1.0,
            _ => 0.0,
        };
        if hidden == 0.0 {
            return pieces.push(LayerPiece::Exchange(calls));
        }
        let mut of = beside;
        if self.tensor_overlap == TensorOverlap::Tiles {
            // Products are cut into tiles: what computes most goes on beside it.
            let longest = pieces.iter_mut().filter_map(|piece| match piece {
                LayerPiece::Compute(seconds) => Some(seconds),
                _ => None,
            });
            if let Some(seconds) = longest.max_by(|one, other| one.total_cmp(other)) {
                of += std::mem::take(seconds);
            }
        }
        pieces.push(LayerPiece::Both(Calls { count: calls.count * hidden, ..calls }, of));
        if hidden < 1.0 {
            pieces.push(LayerPiece::Exchange(Calls { count: calls.count * (1.0 - hidden), ..calls }));
        }
    }

    /// Forward.
    pub fn forward(&self) -> Vec<LayerPiece> {
        self.pass(&self.seconds, 1.0, self.host[0], 0.0)
    }

    /// Backward: what is computed again, gradients of inputs, and those of weights unless they come later.
    pub fn backward(&self, with_weights: bool) -> Vec<LayerPiece> {
        let mut pieces = Vec::new();
        let again = match self.recompute {
            Recompute::Full => {
                pieces = self.pass(&self.seconds, 1.0, 0.0, 0.0);
                self.seconds.forward()
            }
            Recompute::Selective => {
                let again = self.seconds.again(Recompute::Selective);
                pieces.push(LayerPiece::Compute(again));
                again
            }
            Recompute::None => 0.0,
        };
        let twice = LayerSeconds {
            core: 2.0 * self.seconds.core,
            traffic: 2.0 * self.seconds.traffic,
            scores: 2.0 * self.seconds.scores,
            ..self.seconds
        };
        let weights = if with_weights { self.seconds.weight_gradient() } else { 0.0 };
        let least = self.host[1] + if with_weights { self.host[2] } else { 0.0 };
        let hides = self.tensor_overlap == TensorOverlap::Backward && with_weights;
        // Keys and values are gathered again, and their gradients reduced; heads are exchanged as they were forward.
        let context_calls = if matches!(self.context, Some((ContextKind::Ulysses, _))) { 1.0 } else { 2.0 };
        let gradients =
            self.pass(&twice, context_calls, (least - again - weights).max(0.0), if hides { weights } else { 0.0 });
        pieces.extend(gradients);
        if with_weights {
            self.gather_again(&mut pieces);
        }
        if !hides || self.tensor.is_none() {
            pieces.push(LayerPiece::Compute(weights));
        }
        merge(pieces)
    }

    /// Inputs that are divided are gathered again for gradients of weights, behind gradients of inputs (Korthikanti et al.,
    /// arXiv 2205.05198, section 4.2.2).
    fn gather_again(&self, pieces: &mut [LayerPiece]) {
        let Some(calls) = self.tensor.filter(|_| self.sequence_parallel) else { return };
        let again = calls.count / 2.0;
        // Behind what computes longest, unless another group's exchange is there already.
        let seconds = |piece: &LayerPiece| match piece {
            LayerPiece::Compute(seconds) => *seconds,
            LayerPiece::Both(of, seconds) if of.kind == GroupKind::Tensor => *seconds,
            _ => 0.0,
        };
        match pieces.iter_mut().max_by(|one, other| seconds(one).total_cmp(&seconds(other))) {
            Some(LayerPiece::Both(of, _)) if of.kind == GroupKind::Tensor => of.count += again,
            Some(piece @ LayerPiece::Compute(_)) => {
                *piece = LayerPiece::Both(Calls { count: again, ..calls }, seconds(piece))
            }
            _ => {}
        }
    }

    /// Gradients of weights, where they come later.
    pub fn weights(&self) -> Vec<LayerPiece> {
        let seconds = self.seconds.weight_gradient().max(self.host[2]);
        // Inputs that are divided are gathered again.
        match self.tensor.filter(|_| self.sequence_parallel) {
            Some(calls) => vec![LayerPiece::Both(Calls { count: calls.count / 2.0, ..calls }, seconds)],
            None => vec![LayerPiece::Compute(seconds)],
        }
    }
}

/// Computations in a row are one.
fn merge(pieces: Vec<LayerPiece>) -> Vec<LayerPiece> {
    let mut merged: Vec<LayerPiece> = Vec::new();
    for piece in pieces {
        match (merged.last_mut(), piece) {
            (_, LayerPiece::Compute(0.0)) => {}
            (Some(LayerPiece::Compute(before)), LayerPiece::Compute(seconds)) => *before += seconds,
            _ => merged.push(piece),
        }
    }
    merged
}

/// The same for `layers` layers in a row.
pub(crate) fn times(pieces: &[LayerPiece], layers: f64) -> Vec<LayerPiece> {
    let more = |calls: Calls| Calls { count: calls.count * layers, ..calls };
    let each = |piece: &LayerPiece| match *piece {
        LayerPiece::Compute(seconds) => LayerPiece::Compute(seconds * layers),
        LayerPiece::Exchange(calls) => LayerPiece::Exchange(more(calls)),
        LayerPiece::Both(calls, seconds) => LayerPiece::Both(more(calls), seconds * layers),
    };
    pieces.iter().map(each).collect()
}
