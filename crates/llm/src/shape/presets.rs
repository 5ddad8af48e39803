//! Known models: the table `data/llm/models.csv`, compiled in.

use super::{Experts, LatentAttention, ModelShape};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::clip;
use serde::Deserialize;

/// A row a model, with its source, and the parameters that were counted apart from this code.
pub(super) const MODELS: &str = include_str!("../../../../data/llm/models.csv");

/// What is read of a row.
#[derive(Deserialize)]
struct ModelRow {
    name: String,
    hidden: u64,
    layers: u32,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    ffn: u64,
    gated: u8,
    vocab: u64,
    tied_embeddings: u8,
    sequence: u64,
    experts: u64,
    topk: u64,
    shared_experts: u64,
    expert_ffn: u64,
    dense_ffn_layers: u32,
    router_biases: u8,
    groups_per_token: u64,
    mla_q_kv_nope_rope_v: String,
    biases: u8,
    learned_positions: u8,
    source: String,
}

impl From<ModelRow> for ModelShape {
    fn from(row: ModelRow) -> ModelShape {
        let ranks: Vec<u64> = row.mla_q_kv_nope_rope_v.split('/').filter_map(|rank| rank.parse().ok()).collect();
        let latent = match ranks[..] {
            [query, key_value, nope, rope, value] => Some(LatentAttention { query, key_value, nope, rope, value }),
            _ => None,
        };
        let experts = Experts {
            count: row.experts,
            per_token: row.topk,
            shared: row.shared_experts,
            ffn: row.expert_ffn,
            dense_layers: row.dense_ffn_layers,
            router_biases: row.router_biases == 1,
            shared_gate: false,
            groups_per_token: row.groups_per_token,
        };
        ModelShape {
            name: row.name,
            hidden: row.hidden,
            layers: row.layers,
            heads: row.heads,
            kv_heads: row.kv_heads,
            head_dim: row.head_dim,
            ffn: row.ffn,
            gated: row.gated == 1,
            vocab: row.vocab,
            tied_embeddings: row.tied_embeddings == 1,
            sequence: row.sequence,
            experts: (row.experts > 0).then_some(experts),
            latent,
            biases: row.biases == 1,
            qkv_biases: false,
            query_key_norms: false,
            learned_positions: row.learned_positions == 1,
        }
    }
}

fn rows() -> Vec<ModelRow> {
    let mut reader = csv::Reader::from_reader(MODELS.as_bytes());
    reader.deserialize().map(|row| row.expect("tests read this table")).collect()
}

impl ModelShape {
    /// All models that are known by name, in the order of documentation.
    pub fn presets() -> Vec<ModelShape> {
        rows().into_iter().map(ModelShape::from).collect()
    }

    /// Their names, each with where its numbers were published.
    pub fn sources() -> Vec<(String, String)> {
        rows().into_iter().map(|row| (row.name, row.source)).collect()
    }

    /// A model by name.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    pub fn preset(name: &str) -> Result<ModelShape> {
        let mut presets = ModelShape::presets();
        if let Some(place) = presets.iter().position(|shape| shape.name == name) {
            return Ok(presets.swap_remove(place));
        }
        let names: Vec<&str> = presets.iter().map(|shape| &*shape.name).collect();
        let (hint, list) = (nearest(name, names.iter().copied()), names.join(", "));
        let what = format!("no model '{}'{hint}; a shape of your own ends in .json; known: {list}", clip(name));
        Err(Error::new(Code::UnknownName, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_shapes() {
        for shape in ModelShape::presets() {
            shape.check().unwrap();
            assert_eq!(ModelShape::preset(&shape.name).unwrap(), shape);
        }
    }

    #[test]
    fn what_rows_say() {
        let shape = ModelShape::preset("deepseek-v3").unwrap();
        let latent = LatentAttention { query: 1536, key_value: 512, nope: 128, rope: 64, value: 128 };
        assert_eq!(shape.latent, Some(latent));
        assert_eq!((shape.experts.unwrap().per_token, shape.dense_layers()), (8, 3));
        let shape = ModelShape::preset("gpt3-175b").unwrap();
        assert!(shape.learned_positions && shape.biases && shape.tied_embeddings && !shape.gated);
        assert_eq!((shape.experts, shape.latent), (None, None));
    }

    #[test]
    fn unknown_names_bring_the_nearest() {
        let error = ModelShape::preset("llama3-8B").unwrap_err();
        assert_eq!(error.code, Code::UnknownName);
        assert!(error.message.contains("did you mean 'llama3-8b'?"), "{error}");
        assert!(error.message.ends_with("mixtral-8x7b, mixtral-8x22b, deepseek-v3"), "{error}");
    }
}
