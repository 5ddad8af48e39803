//! Shapes from JSON: a form of our own, and the `config.json` of Hugging Face's transformers.

use super::{Experts, LatentAttention, MOST, MOST_LAYERS, ModelShape};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{ByKey, clip, clip_error};
use serde_json::Value;

/// Keys of our own form.
const KEYS: [&str; 18] = [
    "name",
    "hidden",
    "layers",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "gated",
    "vocab",
    "tied_embeddings",
    "sequence",
    "experts",
    "latent",
    "biases",
    "qkv_biases",
    "query_key_norms",
    "learned_positions",
    "source",
];
/// Keys of `experts` in it.
const EXPERT_KEYS: [&str; 8] =
    ["count", "per_token", "shared", "ffn", "dense_layers", "router_biases", "shared_gate", "groups_per_token"];
/// Keys of `latent` in it.
const LATENT_KEYS: [&str; 5] = ["query", "key_value", "nope", "rope", "value"];

/// What makes a shape of a `config.json`.
type ConfigReader = fn(&JsonKeys) -> Result<ModelShape>;

/// Every `model_type` that is read, with its reader.
const MODEL_TYPES: [(&str, ConfigReader); 11] = [
    ("llama", llama),
    ("mistral", mistral),
    ("mixtral", mixtral),
    ("qwen2", qwen2),
    ("qwen2_moe", qwen2_moe),
    ("qwen3", qwen3),
    ("qwen3_moe", qwen3_moe),
    ("deepseek_v2", deepseek_v2),
    ("deepseek_v3", deepseek_v3),
    ("gpt2", gpt2),
    ("gpt_neox", gpt_neox),
];

impl ModelShape {
    /// A shape from JSON.
    ///
    /// Our own form has the fields of [`ModelShape`] as keys. `hidden`, `layers`, `heads`, `ffn`, `vocab` and
    /// `sequence` are needed. Left out, `kv_heads` is `heads`, `head_dim` is `hidden / heads` (with `latent`,
    /// `nope + rope`), and a flag is false. `experts` is an object with the fields of [`Experts`], of which `count`,
    /// `per_token` and `ffn` are needed; `latent` one with all fields of [`LatentAttention`]. `name` replaces the name
    /// given here; `source` may say where the numbers are from, and is not read.
    ///
    /// A text with `model_type` is a `config.json` of Hugging Face: `llama`, `mistral`, `mixtral`, `qwen2`,
    /// `qwen2_moe`, `qwen3`, `qwen3_moe`, `deepseek_v2`, `deepseek_v3`, `gpt2` or `gpt_neox`. `sequence` is the longest
    /// that it allows. Attention is counted as if there were no sliding window. Layers of multi-token prediction are
    /// left out. What would change the parameters in a way that is not known here is refused.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is no JSON object, a key that is missing, unknown or of another type;
    /// [`Code::UnknownName`] for another `model_type`; as [`ModelShape::check`].
    pub fn from_json(name: &str, text: &str) -> Result<ModelShape> {
        let keys = JsonKeys::new(format!("model '{}'", clip(name)), text)?;
        let mut shape = match keys.value("model_type") {
            None => own(&keys)?,
            Some(Value::String(given)) => {
                let Some((_, read)) = MODEL_TYPES.iter().find(|(known, _)| known == given) else {
                    let known = MODEL_TYPES.map(|(known, _)| known);
                    let (hint, list) = (nearest(given, known), known.join(", "));
                    let what = format!(
                        "no model_type '{}'{hint}; write its shape in our own keys; known: {list}",
                        clip(given)
                    );
                    return Err(Error::new(Code::UnknownName, what).at(&keys.place));
                };
                read(&keys)?
            }
            Some(_) => return Err(keys.bad("model_type", "must be a text")),
        };
        if shape.name.is_empty() {
            shape.name = name.into();
        }
        shape.check()?;
        Ok(shape)
    }
}

/// An object of JSON, and where it stands.
struct JsonKeys {
    place: String,
    values: ByKey<Value>,
}

impl JsonKeys {
    fn new(place: String, text: &str) -> Result<JsonKeys> {
        match serde_json::from_str(text) {
            Ok(values) => Ok(JsonKeys { place, values }),
            Err(error) => Err(Error::new(Code::BadFile, clip_error(&error)).at(place)),
        }
    }

    fn bad(&self, key: &str, what: impl AsRef<str>) -> Error {
        Error::new(Code::BadFile, format!("{key} {}", what.as_ref())).at(&self.place)
    }

    /// The value of a key; null is none.
    fn value(&self, key: &str) -> Option<&Value> {
        self.values.0.get(key).filter(|value| !value.is_null())
    }

    /// A whole number that may be left out, 0 included.
    fn count(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_u64() {
            Some(number) if number <= MOST => Ok(Some(number)),
            _ => {
                let what = format!("is {}; it must be a whole number up to {MOST}", clip(&value.to_string()));
                Err(self.bad(key, what))
            }
        }
    }

    /// A whole number from 1 that may be left out.
    fn optional(&self, key: &str) -> Result<Option<u64>> {
        match self.count(key)? {
            Some(0) => Err(self.bad(key, "is 0; it must be at least 1")),
            number => Ok(number),
        }
    }

    /// A whole number from 1.
    fn size(&self, key: &str) -> Result<u64> {
        self.optional(key)?.ok_or_else(|| self.bad(key, "is missing; it must be a whole number"))
    }

    /// A number of layers.
    fn layers(&self, key: &str) -> Result<u32> {
        match u32::try_from(self.size(key)?) {
            Ok(layers) if layers <= MOST_LAYERS => Ok(layers),
            _ => Err(self.bad(key, format!("must be at most {MOST_LAYERS}"))),
        }
    }

    /// A flag; `otherwise` if it is left out.
    fn flag(&self, key: &str, otherwise: bool) -> Result<bool> {
        match self.value(key) {
            None => Ok(otherwise),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => {
                let what = format!("is {}; it must be true or false", clip(&value.to_string()));
                Err(self.bad(key, what))
            }
        }
    }

    /// Refuses a flag, which is `otherwise` if it is left out, that changes the parameters.
    fn expect(&self, key: &str, wanted: bool, otherwise: bool) -> Result<()> {
        match self.flag(key, otherwise)? {
            flag if flag == wanted => Ok(()),
            flag => Err(self.bad(key, format!("is {flag}; parameters are known only for {wanted}"))),
        }
    }

    /// Width of a head: under its key, or the model's width divided by its heads.
    fn head_dim(&self, key: &str, hidden: u64, heads: u64) -> Result<u64> {
        match self.optional(key)? {
            Some(width) => Ok(width),
            None if hidden.is_multiple_of(heads) => Ok(hidden / heads),
            None => Err(self.bad(key, format!("is missing, and {heads} heads do not divide a width of {hidden}"))),
        }
    }

    /// An object inside this one.
    fn inner(&self, key: &str) -> Result<Option<JsonKeys>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Object(values)) => {
                let values = ByKey(values.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
                Ok(Some(JsonKeys { place: format!("{}: {key}", self.place), values }))
            }
            Some(_) => Err(self.bad(key, "must be an object")),
        }
    }

    /// Refuses keys other than these.
    fn only(&self, known: &[&str]) -> Result<()> {
        let Some(key) = self.values.0.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let hint = nearest(key, known.iter().copied());
        let what = format!("no key '{}'{hint}; known: {}", clip(key), known.join(", "));
        Err(Error::new(Code::BadFile, what).at(&self.place))
    }
}

/// Our own form.
fn own(keys: &JsonKeys) -> Result<ModelShape> {
    if keys.value("hidden").is_none() {
        return Err(keys.bad("hidden", "is missing, and model_type, too: it is no shape and no config.json"));
    }
    keys.only(&KEYS)?;
    let (hidden, heads) = (keys.size("hidden")?, keys.size("heads")?);
    let latent = keys.inner("latent")?.map(|inner| own_latent(&inner)).transpose()?;
    let head_dim = match (latent, keys.optional("head_dim")?) {
        (Some(latent), None) => latent.nope + latent.rope,
        _ => keys.head_dim("head_dim", hidden, heads)?,
    };
    let name = match keys.value("name") {
        None => String::new(),
        Some(Value::String(name)) => name.clone(),
        Some(_) => return Err(keys.bad("name", "must be a text")),
    };
    Ok(ModelShape {
        name,
        hidden,
        layers: keys.layers("layers")?,
        heads,
        kv_heads: keys.optional("kv_heads")?.unwrap_or(heads),
        head_dim,
        ffn: keys.size("ffn")?,
        gated: keys.flag("gated", false)?,
        vocab: keys.size("vocab")?,
        tied_embeddings: keys.flag("tied_embeddings", false)?,
        sequence: keys.size("sequence")?,
        experts: keys.inner("experts")?.map(|inner| own_experts(&inner)).transpose()?,
        latent,
        biases: keys.flag("biases", false)?,
        qkv_biases: keys.flag("qkv_biases", false)?,
        query_key_norms: keys.flag("query_key_norms", false)?,
        learned_positions: keys.flag("learned_positions", false)?,
    })
}

fn own_experts(keys: &JsonKeys) -> Result<Experts> {
    keys.only(&EXPERT_KEYS)?;
    Ok(Experts {
        count: keys.size("count")?,
        per_token: keys.size("per_token")?,
        shared: keys.count("shared")?.unwrap_or(0),
        ffn: keys.size("ffn")?,
        dense_layers: dense_layers(keys, "dense_layers")?,
        router_biases: keys.flag("router_biases", false)?,
        shared_gate: keys.flag("shared_gate", false)?,
        groups_per_token: keys.count("groups_per_token")?.unwrap_or(0),
    })
}

fn own_latent(keys: &JsonKeys) -> Result<LatentAttention> {
    keys.only(&LATENT_KEYS)?;
    let query = keys.count("query")?.ok_or_else(|| keys.bad("query", "is missing; 0 says: not compressed"))?;
    Ok(LatentAttention {
        query,
        key_value: keys.size("key_value")?,
        nope: keys.size("nope")?,
        rope: keys.size("rope")?,
        value: keys.size("value")?,
    })
}

/// Layers before the first with experts; none, if left out.
fn dense_layers(keys: &JsonKeys, key: &str) -> Result<u32> {
    match keys.count(key)? {
        Some(0) | None => Ok(0),
        Some(_) => keys.layers(key),
    }
}

/// What most configurations share: gated, without biases, as many key heads as query heads.
fn common(keys: &JsonKeys) -> Result<ModelShape> {
    let (hidden, heads) = (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
    Ok(ModelShape {
        name: String::new(),
        hidden,
        layers: keys.layers("num_hidden_layers")?,
        heads,
        kv_heads: heads,
        head_dim: 0,
        ffn: keys.size("intermediate_size")?,
        gated: true,
        vocab: keys.size("vocab_size")?,
        tied_embeddings: keys.flag("tie_word_embeddings", false)?,
        sequence: keys.size("max_position_embeddings")?,
        experts: None,
        latent: None,
        biases: false,
        qkv_biases: false,
        query_key_norms: false,
        learned_positions: false,
    })
}

/// Llama: key heads are query heads if they are left out.
fn llama(keys: &JsonKeys) -> Result<ModelShape> {
    keys.expect("attention_bias", false, false)?;
    keys.expect("mlp_bias", false, false)?;
    let mut shape = common(keys)?;
    shape.kv_heads = keys.optional("num_key_value_heads")?.unwrap_or(shape.heads);
    shape.head_dim = keys.head_dim("head_dim", shape.hidden, shape.heads)?;
    Ok(shape)
}

/// Mistral: as Llama, but key heads must be said.
fn mistral(keys: &JsonKeys) -> Result<ModelShape> {
    keys.size("num_key_value_heads")?;
    llama(keys)
}

/// Mixtral: experts as wide as `intermediate_size`, in all layers.
fn mixtral(keys: &JsonKeys) -> Result<ModelShape> {
    let shape = mistral(keys)?;
    let experts = Experts {
        count: keys.size("num_local_experts")?,
        per_token: keys.size("num_experts_per_tok")?,
        shared: 0,
        ffn: shape.ffn,
        dense_layers: 0,
        router_biases: false,
        shared_gate: false,
        groups_per_token: 0,
    };
    Ok(ModelShape { experts: Some(experts), ..shape })
}

/// Qwen2: biases of queries, keys and values.
fn qwen2(keys: &JsonKeys) -> Result<ModelShape> {
    Ok(ModelShape { qkv_biases: true, ..mistral(keys)? })
}

/// Qwen3: norms of queries and keys; the width of a head must be said.
fn qwen3(keys: &JsonKeys) -> Result<ModelShape> {
    keys.size("head_dim")?;
    Ok(ModelShape { query_key_norms: true, ..mistral(keys)? })
}

fn qwen2_moe(keys: &JsonKeys) -> Result<ModelShape> {
    let mut experts = qwen_experts(keys)?;
    let width = keys.size("shared_expert_intermediate_size")?;
    if !width.is_multiple_of(experts.ffn) {
        let what = format!("is {width}; it must be a multiple of moe_intermediate_size, {}", experts.ffn);
        return Err(keys.bad("shared_expert_intermediate_size", what));
    }
    (experts.shared, experts.shared_gate) = (width / experts.ffn, true);
    Ok(ModelShape { experts: Some(experts), qkv_biases: keys.flag("qkv_bias", true)?, ..mistral(keys)? })
}

fn qwen3_moe(keys: &JsonKeys) -> Result<ModelShape> {
    Ok(ModelShape { experts: Some(qwen_experts(keys)?), ..qwen3(keys)? })
}

/// Routed experts of Qwen's mixtures.
fn qwen_experts(keys: &JsonKeys) -> Result<Experts> {
    if keys.optional("decoder_sparse_step")?.is_some_and(|step| step != 1) {
        return Err(keys.bad("decoder_sparse_step", "must be 1: experts in all layers after the dense ones"));
    }
    let dense_layers = match keys.value("mlp_only_layers") {
        None => 0,
        Some(Value::Array(layers)) if layers.iter().zip(0u64..).all(|(layer, place)| layer.as_u64() == Some(place)) => {
            u32::try_from(layers.len()).unwrap_or(u32::MAX)
        }
        Some(_) => return Err(keys.bad("mlp_only_layers", "must be a list of the first layers: 0, 1, ...")),
    };
    Ok(Experts {
        count: keys.size("num_experts")?,
        per_token: keys.size("num_experts_per_tok")?,
        shared: 0,
        ffn: keys.size("moe_intermediate_size")?,
        dense_layers,
        router_biases: false,
        shared_gate: false,
        groups_per_token: 0,
    })
}

/// DeepSeek-V2: latent attention, shared experts, dense first layers.
fn deepseek_v2(keys: &JsonKeys) -> Result<ModelShape> {
    keys.expect("attention_bias", false, false)?;
    if keys.optional("moe_layer_freq")?.is_some_and(|step| step != 1) {
        return Err(keys.bad("moe_layer_freq", "must be 1: experts in all layers after the dense ones"));
    }
    let latent = LatentAttention {
        query: keys.optional("q_lora_rank")?.unwrap_or(0),
        key_value: keys.size("kv_lora_rank")?,
        nope: keys.size("qk_nope_head_dim")?,
        rope: keys.size("qk_rope_head_dim")?,
        value: keys.size("v_head_dim")?,
    };
    let experts = Experts {
        count: keys.size("n_routed_experts")?,
        per_token: keys.size("num_experts_per_tok")?,
        shared: keys.count("n_shared_experts")?.unwrap_or(0),
        ffn: keys.size("moe_intermediate_size")?,
        dense_layers: dense_layers(keys, "first_k_dense_replace")?,
        router_biases: false,
        shared_gate: false,
        groups_per_token: keys.count("topk_group")?.unwrap_or(0),
    };
    let head_dim = latent.nope + latent.rope;
    Ok(ModelShape { head_dim, latent: Some(latent), experts: Some(experts), ..common(keys)? })
}

/// DeepSeek-V3: as V2, with biases that balance the experts.
fn deepseek_v3(keys: &JsonKeys) -> Result<ModelShape> {
    let mut shape = deepseek_v2(keys)?;
    if let Some(experts) = &mut shape.experts {
        experts.router_biases = true;
    }
    Ok(shape)
}

fn gpt2(keys: &JsonKeys) -> Result<ModelShape> {
    keys.expect("add_cross_attention", false, false)?;
    let (hidden, heads) = (keys.size("n_embd")?, keys.size("n_head")?);
    let (layers, vocab) = (keys.layers("n_layer")?, keys.size("vocab_size")?);
    let shape = ModelShape::gpt("", hidden, heads, layers, keys.size("n_positions")?, vocab)
        .map_err(|error| error.at(&keys.place))?;
    Ok(ModelShape {
        ffn: keys.optional("n_inner")?.unwrap_or(shape.ffn),
        tied_embeddings: keys.flag("tie_word_embeddings", true)?,
        learned_positions: true,
        ..shape
    })
}

/// GPT-NeoX: positions have no parameters; attention and feed-forward network side by side have two norms all the same.
fn gpt_neox(keys: &JsonKeys) -> Result<ModelShape> {
    keys.expect("attention_bias", true, true)?;
    let shape = common(keys)?;
    let head_dim = keys.head_dim("head_dim", shape.hidden, shape.heads)?;
    Ok(ModelShape { head_dim, gated: false, biases: true, ..shape })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LLAMA3_8B: &str = r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu",
        "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
        "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256}"#;
    const MIXTRAL_8X7B: &str = r#"{"architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
        "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "num_local_experts": 8, "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000}"#;
    const DEEPSEEK_V3: &str = r#"{"attention_bias": false, "first_k_dense_replace": 3, "hidden_size": 7168,
        "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 4096, "model_type": "deepseek_v3",
        "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1, "topk_group": 4,
        "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
        "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 129280}"#;
    const DEEPSEEK_V2_LITE: &str = r#"{"first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 10944,
        "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v2",
        "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
        "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 102400}"#;
    const QWEN2_7B: &str = r#"{"hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 131072,
        "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
        "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064}"#;
    const QWEN15_MOE_A27B: &str = r#"{"decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632,
        "max_position_embeddings": 8192, "model_type": "qwen2_moe", "moe_intermediate_size": 1408,
        "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
        "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632, "tie_word_embeddings": false,
        "vocab_size": 151936}"#;
    const QWEN3_8B: &str = r#"{"attention_bias": false, "head_dim": 128, "hidden_size": 4096,
        "intermediate_size": 12288, "max_position_embeddings": 40960, "model_type": "qwen3",
        "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "tie_word_embeddings": false,
        "vocab_size": 151936}"#;
    const QWEN3_30B_A3B: &str = r#"{"attention_bias": false, "decoder_sparse_step": 1, "head_dim": 128,
        "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960, "mlp_only_layers": [],
        "model_type": "qwen3_moe", "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128,
        "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "tie_word_embeddings": false,
        "vocab_size": 151936}"#;
    const GPT2: &str = r#"{"activation_function": "gelu_new", "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
        "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}"#;
    const PYTHIA_69B: &str = r#"{"hidden_size": 4096, "intermediate_size": 16384, "max_position_embeddings": 2048,
        "model_type": "gpt_neox", "num_attention_heads": 32, "num_hidden_layers": 32, "rotary_pct": 0.25,
        "tie_word_embeddings": false, "use_parallel_residual": true, "vocab_size": 50432}"#;
    const MISTRAL_7B: &str = r#"{"hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
        "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000}"#;
    const OWN: &str = r#"{"hidden": 64, "layers": 2, "heads": 4, "ffn": 256, "vocab": 100, "sequence": 32}"#;

    /// The sums over the tensors that are published on Hugging Face; of DeepSeek-V3 without its layer of multi-token
    /// prediction, with the biases of its routers.
    #[test]
    fn parameters_are_the_published_ones() {
        for (name, text, parameters) in [
            ("llama3-8b", LLAMA3_8B, 8_030_261_248),
            ("mistral-7b", MISTRAL_7B, 7_241_732_096),
            ("mixtral-8x7b", MIXTRAL_8X7B, 46_702_792_704),
            ("deepseek-v2-lite", DEEPSEEK_V2_LITE, 15_706_484_224),
            ("deepseek-v3", DEEPSEEK_V3, 671_026_419_200),
            ("qwen2-7b", QWEN2_7B, 7_615_616_512),
            ("qwen1.5-moe-a2.7b", QWEN15_MOE_A27B, 14_315_784_192),
            ("qwen3-8b", QWEN3_8B, 8_190_735_360),
            ("qwen3-30b-a3b", QWEN3_30B_A3B, 30_532_122_624),
            ("gpt2", GPT2, 124_439_808),
            ("pythia-6.9b", PYTHIA_69B, 6_857_302_016),
        ] {
            let shape = ModelShape::from_json(name, text).unwrap();
            assert_eq!(shape.parameters(), parameters, "{name}");
        }
    }

    #[test]
    fn configurations_are_the_presets() {
        for (name, text) in [("llama3-8b", LLAMA3_8B), ("mixtral-8x7b", MIXTRAL_8X7B), ("deepseek-v3", DEEPSEEK_V3)] {
            assert_eq!(ModelShape::from_json(name, text), ModelShape::preset(name));
        }
    }

    #[test]
    fn our_own_form() {
        let shape = ModelShape::from_json("mine", OWN).unwrap();
        let gpt = ModelShape::gpt("mine", 64, 4, 2, 32, 100).unwrap();
        assert_eq!(shape, ModelShape { biases: false, tied_embeddings: false, ..gpt });
        let text = r#"{"name": "deepseek-v3", "source": "arXiv 2412.19437", "hidden": 7168, "layers": 61, "heads": 128,
            "ffn": 18432, "gated": true, "vocab": 129280, "sequence": 4096,
            "experts": {"count": 256, "per_token": 8, "shared": 1, "ffn": 2048, "dense_layers": 3,
                "router_biases": true, "groups_per_token": 4},
            "latent": {"query": 1536, "key_value": 512, "nope": 128, "rope": 64, "value": 128}}"#;
        assert_eq!(ModelShape::from_json("other", text), ModelShape::preset("deepseek-v3"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        let with = |text: &str, key: &str, value: &str| {
            let mut object: Value = serde_json::from_str(text).unwrap();
            object[key] = serde_json::from_str(value).unwrap();
            object.to_string()
        };
        for (text, wanted) in [
            (with(OWN, "vocab", "0"), "model 'm': vocab is 0; it must be at least 1 [bad-file]"),
            (with(OWN, "vocab", "1.5"), "vocab is 1.5; it must be a whole number up to 4294967296 [bad-file]"),
            (with(OWN, "vocab", "4294967297"), "vocab is 4294967297; it must be a whole number up to"),
            (with(OWN, "vocab", "-1"), "vocab is -1; it must be"),
            (with(OWN, "vocab", "null"), "vocab is missing"),
            (with(OWN, "hidden", "null"), "hidden is missing, and model_type, too"),
            (with(OWN, "hidden", "63"), "head_dim is missing, and 4 heads do not divide a width of 63"),
            (with(OWN, "kv_heads", "3"), "4 heads are not divisible by 3 kv_heads [bad-size]"),
            (with(OWN, "layers", "70000"), "layers must be at most 65536"),
            (with(OWN, "gated", "1"), "gated is 1; it must be true or false"),
            (with(OWN, "gatd", "true"), "no key 'gatd'; did you mean 'gated'?; known: name, hidden"),
            (with(OWN, "name", "1"), "name must be a text"),
            (with(OWN, "experts", "8"), "experts must be an object"),
            (with(OWN, "experts", r#"{"count": 8}"#), "model 'm': experts: per_token is missing"),
            (with(OWN, "experts", r#"{"topk": 8}"#), "model 'm': experts: no key 'topk'"),
            (with(OWN, "latent", r#"{"nope": 8}"#), "model 'm': latent: query is missing; 0 says: not compressed"),
            (with(OWN, "model_type", "3"), "model_type must be a text"),
            (with(OWN, "model_type", r#""lama""#), "no model_type 'lama'; did you mean 'llama'?; write its shape"),
            (with(LLAMA3_8B, "num_attention_heads", "null"), "num_attention_heads is missing"),
            (with(LLAMA3_8B, "attention_bias", "true"), "attention_bias is true; parameters are known only for false"),
            (with(MISTRAL_7B, "num_key_value_heads", "null"), "num_key_value_heads is missing"),
            (
                with(PYTHIA_69B, "attention_bias", "false"),
                "attention_bias is false; parameters are known only for true",
            ),
            (with(DEEPSEEK_V3, "moe_layer_freq", "2"), "moe_layer_freq must be 1"),
            (with(QWEN3_30B_A3B, "decoder_sparse_step", "2"), "decoder_sparse_step must be 1"),
            (with(QWEN3_30B_A3B, "mlp_only_layers", "[1]"), "mlp_only_layers must be a list of the first layers"),
            (with(QWEN15_MOE_A27B, "shared_expert_intermediate_size", "5633"), "must be a multiple of"),
            (with(GPT2, "n_head", "5"), "a width of 768 is not divisible by 5 heads"),
            (r#"{"hidden": 1, "hidden": 2}"#.into(), "model 'm': 'hidden' is there twice"),
            ("[]".into(), "expected an object"),
            ("".into(), "model 'm': EOF"),
        ] {
            let error = ModelShape::from_json("m", &text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn what_is_optional_counts() {
        let with = |text: &str, key: &str, value: Value| {
            let mut object: Value = serde_json::from_str(text).unwrap();
            object[key] = value;
            ModelShape::from_json("m", &object.to_string()).unwrap()
        };
        let shape = with(QWEN3_30B_A3B, "mlp_only_layers", vec![0, 1].into());
        assert_eq!(shape.dense_layers(), 2);
        let shape = with(LLAMA3_8B, "num_key_value_heads", Value::Null);
        assert_eq!((shape.kv_heads, shape.head_dim), (32, 128));
        assert_eq!(with(LLAMA3_8B, "head_dim", 64.into()).head_dim, 64);
        assert_eq!(with(GPT2, "n_inner", 1000.into()).ffn, 1000);
        assert!(!with(QWEN15_MOE_A27B, "qkv_bias", false.into()).qkv_biases);
    }

    proptest! {
        #[test]
        fn any_numbers_make_a_shape_or_an_error(
            text in proptest::sample::select(vec![
                LLAMA3_8B, MIXTRAL_8X7B, DEEPSEEK_V3, QWEN2_7B, QWEN15_MOE_A27B, QWEN3_30B_A3B, GPT2, PYTHIA_69B, OWN,
            ]),
            places in prop::collection::vec(0usize..40, 1..4),
            number in prop_oneof![0u64..3, Just(MOST), Just(u64::MAX), any::<u64>()],
        ) {
            let Value::Object(mut object) = serde_json::from_str(text).unwrap() else { unreachable!() };
            let length = object.len();
            for place in places {
                *object.values_mut().nth(place % length).unwrap() = number.into();
            }
            if let Ok(shape) = ModelShape::from_json("m", &Value::Object(object).to_string()) {
                prop_assert!(shape.parameters() <= 1 << 60);
                prop_assert!(shape.step_flops(1e9, 1e6, true).is_finite());
            }
        }
    }
}
