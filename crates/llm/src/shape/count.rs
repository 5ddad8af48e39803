//! What a shape has and does: parameters, and operations of a pass.
//!
//! Operations of GPT: Korthikanti et al. (arXiv 2205.05198), appendix A. Latent attention: DeepSeek-V2 (arXiv
//! 2405.04434), section 2.1. A vocabulary is counted as it is, without padding.

use super::{LayerFlops, LayerParameters, ModelShape};

/// The product, or the largest number if it is larger: only [`ModelShape::check`] meets that.
fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product, &factor| product.saturating_mul(factor))
}

/// The sum, or the largest number if it is larger.
fn sum(terms: &[u64]) -> u64 {
    terms.iter().fold(0, |sum, &term| sum.saturating_add(term))
}

impl LayerParameters {
    /// All of them.
    pub fn total(&self) -> u64 {
        sum(&[self.attention, self.dense, self.routed, self.router, self.norms])
    }
}

impl LayerFlops {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.projections + self.core + self.dense + self.routed + self.router
    }
}

impl ModelShape {
    /// Layers with a dense feed-forward network: the first ones, or all.
    pub fn dense_layers(&self) -> u32 {
        self.experts.map_or(self.layers, |experts| experts.dense_layers.min(self.layers))
    }

    /// Parameters of a layer, numbered from 0.
    pub fn layer_parameters(&self, layer: u32) -> LayerParameters {
        let width_of_norm = if self.biases { 2 } else { 1 };
        let mut norms = product(&[2, width_of_norm, self.hidden]);
        if self.query_key_norms {
            norms = sum(&[norms, product(&[2, self.head_dim])]);
        }
        if let Some(latent) = self.latent {
            norms = sum(&[norms, latent.query, latent.key_value]);
        }
        let mut attention = self.projection_weights();
        if self.biases || self.qkv_biases {
            let heads = sum(&[self.heads, self.kv_heads, self.kv_heads]);
            attention = sum(&[attention, product(&[self.head_dim, heads])]);
        }
        if self.biases {
            attention = sum(&[attention, self.hidden]);
        }
        match self.experts {
            Some(experts) if layer >= self.dense_layers() => {
                let expert = self.feed_forward_parameters(experts.ffn);
                let router_biases = if experts.router_biases { experts.count } else { 0 };
                LayerParameters {
                    attention,
                    dense: product(&[experts.shared, expert]),
                    routed: product(&[experts.count, expert]),
                    router: sum(&[self.router_weights(), router_biases]),
                    norms,
                }
            }
            _ => {
                let dense = self.feed_forward_parameters(self.ffn);
                LayerParameters { attention, dense, norms, ..LayerParameters::default() }
            }
        }
    }

    /// Parameters of the embedding: once for input and output if they share it, or twice; learned positions, too.
    pub fn embedding_parameters(&self) -> u64 {
        let copies = if self.tied_embeddings { 1 } else { 2 };
        let positions = if self.learned_positions { self.sequence } else { 0 };
        sum(&[product(&[copies, self.vocab, self.hidden]), product(&[positions, self.hidden])])
    }

    /// Parameters of the norm after the last layer.
    pub fn final_norm_parameters(&self) -> u64 {
        product(&[if self.biases { 2 } else { 1 }, self.hidden])
    }

    /// All parameters.
    pub fn parameters(&self) -> u64 {
        let dense = u64::from(self.dense_layers());
        sum(&[
            self.embedding_parameters(),
            product(&[dense, self.layer_parameters(0).total()]),
            product(&[u64::from(self.layers) - dense, self.layer_parameters(self.layers).total()]),
            self.final_norm_parameters(),
        ])
    }

    /// Parameters that a token meets: all but those of routed experts that others take. Embeddings count in full.
    pub fn active_parameters(&self) -> u64 {
        let Some(experts) = self.experts else { return self.parameters() };
        let idle = experts.count.saturating_sub(experts.per_token);
        let layers = u64::from(self.layers - self.dense_layers());
        self.parameters().saturating_sub(product(&[layers, idle, self.feed_forward_parameters(experts.ffn)]))
    }

    /// Operations of a forward pass of `tokens` tokens through a layer, on all ranks together; two a multiply-add.
    /// Every token attends to `sequence` tokens, or, with `causal`, to half of them. Norms, biases and other
    /// element-wise work are not counted.
    pub fn layer_flops(&self, layer: u32, tokens: f64, sequence: f64, causal: bool) -> LayerFlops {
        let multiply_adds = |weights: u64| 2.0 * tokens * weights as f64;
        let key_and_value = self.head_dim as f64 + self.latent.map_or(self.head_dim, |latent| latent.value) as f64;
        let seen = if causal { 0.5 * sequence } else { sequence };
        let mut flops = LayerFlops {
            projections: multiply_adds(self.projection_weights()),
            core: 2.0 * tokens * seen * self.heads as f64 * key_and_value,
            ..LayerFlops::default()
        };
        match self.experts {
            Some(experts) if layer >= self.dense_layers() => {
                let expert = multiply_adds(self.feed_forward_weights(experts.ffn));
                flops.dense = experts.shared as f64 * expert;
                flops.routed = experts.per_token as f64 * expert;
                flops.router = multiply_adds(self.router_weights());
            }
            _ => flops.dense = multiply_adds(self.feed_forward_weights(self.ffn)),
        }
        flops
    }

    /// Operations that turn the outputs of `tokens` tokens into logits.
    pub fn logits_flops(&self, tokens: f64) -> f64 {
        2.0 * tokens * self.hidden as f64 * self.vocab as f64
    }

    /// The model's operations of forward and backward pass, of which MFU (model FLOPs utilization) is a share; backward
    /// takes twice the forward pass, and nothing is computed again. `tokens` are all of a step, in sequences of
    /// `sequence`; with `causal`, attention counts half.
    pub fn step_flops(&self, tokens: f64, sequence: f64, causal: bool) -> f64 {
        let flops = |layer| self.layer_flops(layer, tokens, sequence, causal).total();
        let dense = f64::from(self.dense_layers());
        let layers = dense * flops(0) + (f64::from(self.layers) - dense) * flops(self.layers);
        3.0 * (layers + self.logits_flops(tokens))
    }

    /// Weights of attention's projections.
    fn projection_weights(&self) -> u64 {
        let Some(latent) = self.latent else {
            let heads = sum(&[self.heads, self.heads, self.kv_heads, self.kv_heads]);
            return product(&[self.hidden, self.head_dim, heads]);
        };
        let queries = product(&[self.heads, self.head_dim]);
        let query = match latent.query {
            0 => product(&[self.hidden, queries]),
            rank => product(&[rank, sum(&[self.hidden, queries])]),
        };
        sum(&[
            query,
            product(&[self.hidden, sum(&[latent.key_value, latent.rope])]),
            product(&[latent.key_value, self.heads, sum(&[latent.nope, latent.value])]),
            product(&[self.heads, latent.value, self.hidden]),
        ])
    }

    /// Matrices of a feed-forward network.
    fn matrices(&self) -> u64 {
        if self.gated { 3 } else { 2 }
    }

    /// Weights of a feed-forward network of some width.
    fn feed_forward_weights(&self, width: u64) -> u64 {
        product(&[self.matrices(), self.hidden, width])
    }

    /// Its weights and biases.
    fn feed_forward_parameters(&self, width: u64) -> u64 {
        let biases = if self.biases { sum(&[product(&[self.matrices() - 1, width]), self.hidden]) } else { 0 };
        sum(&[self.feed_forward_weights(width), biases])
    }

    /// Weights of the router and the gate of shared experts; 0 without experts.
    fn router_weights(&self) -> u64 {
        self.experts.map_or(0, |experts| product(&[self.hidden, sum(&[experts.count, experts.shared_gate.into()])]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Experts;
    use proptest::prelude::*;

    #[test]
    fn parameters_of_all_presets_to_the_last_digit() {
        let mut reader = csv::Reader::from_reader(super::super::presets::MODELS.as_bytes());
        let header = reader.headers().unwrap().clone();
        let column = |name| header.iter().position(|field| field == name).unwrap();
        let (parameters, active) = (column("parameters"), column("active_parameters"));
        let mut rows = 0;
        for record in reader.records() {
            let record = record.unwrap();
            let shape = ModelShape::preset(&record[0]).unwrap();
            assert_eq!(shape.parameters().to_string(), record[parameters], "{}", shape.name);
            assert_eq!(shape.active_parameters().to_string(), record[active], "{}", shape.name);
            rows += 1;
        }
        assert_eq!(rows, 13);
    }

    #[test]
    fn parts_of_a_layer() {
        let layer = ModelShape::preset("deepseek-v3").unwrap().layer_parameters(3);
        let expert = 3 * 7168 * 2048;
        assert_eq!(layer.dense, expert);
        assert_eq!(layer.routed, 256 * expert);
        assert_eq!(layer.router, 256 * 7168 + 256);
        assert_eq!(layer.norms, 2 * 7168 + 1536 + 512);
        let layer = ModelShape::gpt("x", 8, 2, 1, 4, 10).unwrap().layer_parameters(0);
        assert_eq!((layer.attention, layer.dense, layer.norms), (4 * 64 + 4 * 8, 8 * 64 + 32 + 8, 32));
        assert_eq!((layer.routed, layer.router), (0, 0));
    }

    #[test]
    fn operations_of_a_layer() {
        let llama = ModelShape::preset("llama3-8b").unwrap();
        let flops = llama.layer_flops(0, 3.0, 100.0, false);
        assert_eq!(flops.projections, 2.0 * 3.0 * 4096.0 * 128.0 * (64.0 + 16.0));
        assert_eq!(flops.core, 4.0 * 3.0 * 100.0 * 32.0 * 128.0);
        assert_eq!(flops.dense, 6.0 * 3.0 * 4096.0 * 14336.0);
        assert_eq!((flops.routed, flops.router), (0.0, 0.0));
        assert_eq!(llama.layer_flops(0, 3.0, 100.0, true).core, flops.core / 2.0);
        assert_eq!(llama.logits_flops(3.0), 2.0 * 3.0 * 4096.0 * 128_256.0);

        let deepseek = ModelShape::preset("deepseek-v3").unwrap();
        let flops = deepseek.layer_flops(3, 3.0, 100.0, false);
        assert_eq!(flops.core, 2.0 * 3.0 * 100.0 * 128.0 * (192.0 + 128.0));
        assert_eq!(flops.dense, 6.0 * 3.0 * 7168.0 * 2048.0);
        assert_eq!(flops.routed, 8.0 * flops.dense);
        assert_eq!(flops.router, 2.0 * 3.0 * 7168.0 * 256.0);
        let norms_and_bias = 2 * 7168 + 1536 + 512 + 256;
        let active = deepseek.layer_parameters(3).total() - 248 * 3 * 7168 * 2048 - norms_and_bias;
        assert_eq!(flops.total() - flops.core, 2.0 * 3.0 * active as f64);
        assert_eq!(deepseek.layer_flops(2, 3.0, 100.0, false).dense, 6.0 * 3.0 * 7168.0 * 18432.0);
    }

    /// Korthikanti et al. (arXiv 2205.05198), appendix A: model FLOPs of an iteration.
    #[test]
    fn operations_of_a_step_of_gpt() {
        for (name, batch) in
            [("gpt3-175b", 64.0), ("megatron-22b", 4.0), ("megatron-530b", 280.0), ("megatron-1t", 512.0)]
        {
            let shape = ModelShape::preset(name).unwrap();
            let (h, layers, vocab) = (shape.hidden as f64, f64::from(shape.layers), shape.vocab as f64);
            let s = shape.sequence as f64;
            let expected = 72.0 * batch * layers * s * h * h * (1.0 + s / (6.0 * h) + vocab / (12.0 * h * layers));
            let flops = shape.step_flops(batch * s, s, false);
            assert!((flops / expected - 1.0).abs() < 1e-12, "{name}: {flops} {expected}");
        }
    }

    proptest! {
        #[test]
        fn the_whole_is_the_sum_of_layers(
            (heads, groups, head_dim) in (1u64..9, 1u64..5, 1u64..65),
            hidden in 1u64..5000,
            layers in 1u32..9,
            (count, per_token, shared, dense_layers) in (1u64..20, 1u64..20, 0u64..3, 0u32..9),
            (mixture, gated, biases, qkv_biases, query_key_norms) in any::<(bool, bool, bool, bool, bool)>(),
            tied_embeddings: bool,
        ) {
            let experts = Experts {
                count,
                per_token: per_token.min(count),
                shared,
                ffn: 7,
                dense_layers: dense_layers.min(layers),
                router_biases: biases,
                shared_gate: gated && shared > 0,
                groups_per_token: 0,
            };
            let shape = ModelShape {
                heads: heads * groups,
                kv_heads: heads,
                head_dim,
                gated,
                qkv_biases,
                query_key_norms,
                tied_embeddings,
                experts: mixture.then_some(experts),
                biases,
                ..ModelShape::gpt("x", hidden, 1, layers, 8, 11).unwrap()
            };
            shape.check().unwrap();
            let all: u64 = (0..layers).map(|layer| shape.layer_parameters(layer).total()).sum();
            let rest = shape.embedding_parameters() + shape.final_norm_parameters();
            prop_assert_eq!(shape.parameters(), all + rest);
            // With all experts taken, nothing is idle.
            let full = Experts { per_token: count, ..experts };
            let busy = ModelShape { experts: mixture.then_some(full), ..shape.clone() };
            prop_assert_eq!(busy.active_parameters(), busy.parameters());
            prop_assert!(shape.active_parameters() <= shape.parameters());
            let flops: f64 = (0..layers).map(|layer| shape.layer_flops(layer, 16.0, 8.0, true).total()).sum();
            prop_assert_eq!(shape.step_flops(16.0, 8.0, true), 3.0 * (flops + shape.logits_flops(16.0)));
        }
    }
}
