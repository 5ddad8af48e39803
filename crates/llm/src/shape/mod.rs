//! Shapes of transformers: parameters and operations of every layer.

mod count;
mod json;
mod presets;

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;

/// Largest size in a shape.
const MOST: u64 = 1 << 32;
/// Most layers of a shape.
const MOST_LAYERS: u32 = 1 << 16;
/// Most parameters of a shape: all sums of them stay exact.
const MOST_PARAMETERS: u64 = 1 << 60;

/// A decoder-only transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelShape {
    /// Its name.
    pub name: String,
    /// Width between layers.
    pub hidden: u64,
    /// Layers.
    pub layers: u32,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads; fewer than `heads` with grouped queries.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Width of a dense feed-forward network.
    pub ffn: u64,
    /// Whether feed-forward networks, experts too, have three matrices (gated) or two.
    pub gated: bool,
    /// Words.
    pub vocab: u64,
    /// Whether input and output share one embedding.
    pub tied_embeddings: bool,
    /// Tokens of a sequence, unless said otherwise.
    pub sequence: u64,
    /// Experts, of a mixture.
    pub experts: Option<Experts>,
    /// Latent attention (DeepSeek-V2, arXiv 2405.04434).
    pub latent: Option<LatentAttention>,
    /// Whether projections, feed-forward networks and norms have biases (GPT).
    pub biases: bool,
    /// Whether projections to queries, keys and values have biases where nothing else has (Qwen2, arXiv 2407.10671).
    pub qkv_biases: bool,
    /// Whether queries and keys are normalised, with a weight for each element of a head (Qwen3, arXiv 2505.09388).
    pub query_key_norms: bool,
    /// Whether positions are learned: `sequence` more embeddings.
    pub learned_positions: bool,
}

/// Experts of the layers that are not dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// Routed experts of a layer.
    pub count: u64,
    /// Routed experts of a token.
    pub per_token: u64,
    /// Experts of every token.
    pub shared: u64,
    /// Width of one.
    pub ffn: u64,
    /// Layers before the first with experts.
    pub dense_layers: u32,
    /// Whether the router has a bias for each expert, for balance (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
    pub router_biases: bool,
    /// Whether a gate weighs the shared experts, one row beside the router's (Qwen2-MoE, arXiv 2407.10671).
    pub shared_gate: bool,
    /// Groups that a token's experts come from at most, each on one box (DeepSeek-V3, arXiv 2412.19437, section 2.1.2); 0 for
    /// any.
    pub groups_per_token: u64,
}

/// Ranks of latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentAttention {
    /// Of the compressed queries; 0: they are not compressed.
    pub query: u64,
    /// Of the compressed keys and values.
    pub key_value: u64,
    /// Width of a head's part without positions.
    pub nope: u64,
    /// Width of its part with positions, shared by keys.
    pub rope: u64,
    /// Width of a head's values.
    pub value: u64,
}

/// Parameters of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerParameters {
    /// Of attention.
    pub attention: u64,
    /// Of a dense feed-forward network, or of shared experts.
    pub dense: u64,
    /// Of all routed experts.
    pub routed: u64,
    /// Of the router and the shared experts' gate; on every rank of a tensor group.
    pub router: u64,
    /// Of norms; on every rank of a tensor group.
    pub norms: u64,
}

/// Operations (two a multiply-add) of a forward pass through a layer, on all ranks together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayerFlops {
    /// Products with weights of attention.
    pub projections: f64,
    /// Scores and their products with values.
    pub core: f64,
    /// A dense feed-forward network, or shared experts.
    pub dense: f64,
    /// Routed experts.
    pub routed: f64,
    /// The router, and the shared experts' gate.
    pub router: f64,
}

impl ModelShape {
    /// A GPT: as many key heads as query heads, a feed-forward network of four times the width, biases, one embedding
    /// for input and output; positions have no parameters.
    ///
    /// # Errors
    /// [`Code::BadSize`] for a width that heads do not divide, and as [`ModelShape::check`].
    pub fn gpt(name: &str, hidden: u64, heads: u64, layers: u32, sequence: u64, vocab: u64) -> Result<ModelShape> {
        if heads == 0 || !hidden.is_multiple_of(heads) {
            let what = format!("model '{}': a width of {hidden} is not divisible by {heads} heads", clip(name));
            return Err(Error::new(Code::BadSize, what));
        }
        let shape = ModelShape {
            name: name.into(),
            hidden,
            layers,
            heads,
            kv_heads: heads,
            head_dim: hidden / heads,
            ffn: hidden.saturating_mul(4),
            gated: false,
            vocab,
            tied_embeddings: true,
            sequence,
            experts: None,
            latent: None,
            biases: true,
            qkv_biases: false,
            query_key_norms: false,
            learned_positions: false,
        };
        shape.check()?;
        Ok(shape)
    }

    /// Refuses a shape that is none, or that is too large to count.
    ///
    /// # Errors
    /// [`Code::BadSize`] with the size that is wrong; [`Code::TooLarge`] for more than 2^60 parameters.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::new(Code::BadSize, format!("model '{}': {what}", clip(&self.name))));
        let mut sizes = vec![
            ("hidden", self.hidden, 1),
            ("layers", self.layers.into(), 1),
            ("heads", self.heads, 1),
            ("kv_heads", self.kv_heads, 1),
            ("head_dim", self.head_dim, 1),
            ("ffn", self.ffn, 1),
            ("vocab", self.vocab, 1),
            ("sequence", self.sequence, 1),
        ];
        if let Some(experts) = self.experts {
            sizes.extend([
                ("experts.count", experts.count, 1),
                ("experts.per_token", experts.per_token, 1),
                ("experts.shared", experts.shared, 0),
                ("experts.ffn", experts.ffn, 1),
            ]);
        }
        if let Some(latent) = self.latent {
            sizes.extend([
                ("latent.query", latent.query, 0),
                ("latent.key_value", latent.key_value, 1),
                ("latent.nope", latent.nope, 1),
                ("latent.rope", latent.rope, 1),
                ("latent.value", latent.value, 1),
            ]);
        }
        for (key, size, least) in sizes {
            if !(least..=MOST).contains(&size) {
                return bad(format!("{key} is {size}; it must be between {least} and {MOST}"));
            }
        }
        if self.layers > MOST_LAYERS {
            return bad(format!("layers is {}; it must be between 1 and {MOST_LAYERS}", self.layers));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return bad(format!("{} heads are not divisible by {} kv_heads", self.heads, self.kv_heads));
        }
        if let Some(experts) = self.experts {
            if experts.per_token > experts.count {
                return bad(format!("a token has {} experts of only {}", experts.per_token, experts.count));
            }
            if experts.dense_layers > self.layers {
                return bad(format!("{} dense layers of only {}", experts.dense_layers, self.layers));
            }
            if experts.shared_gate && experts.shared == 0 {
                return bad("shared_gate needs shared experts".into());
            }
        }
        if let Some(latent) = self.latent {
            if self.head_dim != latent.nope + latent.rope {
                let sum = latent.nope + latent.rope;
                return bad(format!("head_dim is {}; latent attention has nope + rope, {sum}", self.head_dim));
            }
            if self.kv_heads != self.heads {
                return bad(format!("latent attention needs as many kv_heads as heads, {}", self.heads));
            }
            if self.biases || self.qkv_biases || self.query_key_norms {
                return bad("latent attention has no biases and no query_key_norms here".into());
            }
        }
        let parameters = self.parameters();
        if parameters > MOST_PARAMETERS {
            let what = format!("model '{}' has more than 2^60 parameters; take smaller sizes", clip(&self.name));
            return Err(Error::new(Code::TooLarge, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpt_is_one() {
        let shape = ModelShape::gpt("megatron-22b", 6144, 64, 48, 2048, 51_200).unwrap();
        assert_eq!(ModelShape { learned_positions: true, ..shape }, ModelShape::preset("megatron-22b").unwrap());
    }

    #[test]
    fn what_is_no_shape_is_refused() {
        let refuse = |change: fn(&mut ModelShape), name: &str| {
            let mut shape = ModelShape::preset(name).unwrap();
            change(&mut shape);
            shape.check().unwrap_err().to_string()
        };
        for (change, name, part) in [
            ((|s| s.hidden = 0) as fn(&mut ModelShape), "llama3-8b", "hidden is 0; it must be between 1"),
            (|s| s.layers = 0, "llama3-8b", "layers is 0"),
            (|s| s.layers = 65_537, "llama3-8b", "between 1 and 65536"),
            (|s| s.vocab = MOST + 1, "llama3-8b", "vocab is 4294967297"),
            (|s| s.kv_heads = 7, "llama3-8b", "32 heads are not divisible by 7 kv_heads"),
            (|s| s.head_dim = 128, "deepseek-v3", "head_dim is 128; latent attention has nope + rope, 192"),
            (|s| s.kv_heads = 8, "deepseek-v3", "as many kv_heads as heads, 128"),
            (|s| s.biases = true, "deepseek-v3", "no biases"),
            (|s| s.experts.as_mut().unwrap().per_token = 300, "deepseek-v3", "300 experts of only 256"),
            (|s| s.experts.as_mut().unwrap().dense_layers = 62, "deepseek-v3", "62 dense layers of only 61"),
            (|s| s.experts.as_mut().unwrap().count = 0, "deepseek-v3", "experts.count is 0"),
            (|s| s.experts.as_mut().unwrap().shared_gate = true, "mixtral-8x7b", "needs shared experts"),
            (|s| (s.hidden, s.ffn) = (MOST, MOST), "llama3-8b", "more than 2^60 parameters"),
        ] {
            let error = refuse(change, name);
            assert!(error.contains(part), "{error}");
        }
        let error = ModelShape::gpt("x", 100, 7, 1, 1, 1).unwrap_err().to_string();
        assert_eq!(error, "model 'x': a width of 100 is not divisible by 7 heads [bad-size]");
        assert!(ModelShape::gpt("x", 100, 0, 1, 1, 1).is_err());
        assert!(ModelShape::gpt("x", u64::MAX, 1, 1, 1, 1).is_err());
    }
}
