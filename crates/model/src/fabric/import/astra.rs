//! Networks of ASTRA-sim's analytical backend: lists of shapes, sizes, bandwidths and latencies of dimensions, the first fastest
//! (`examples/network/analytical` of github.com/astra-sim/astra-sim).

use super::yaml::YamlValue;
use super::{FabricDraft, has_key};
use crate::fabric::link;
use crate::fabric::product::{Dimension, DimensionShape};
use antiphon_base::error::{Error, Result};
use antiphon_base::units::clip;

const KEYS: [&str; 4] = ["topology", "npus_count", "bandwidth", "latency"];

/// Whether a text is of this format, by two of its keys.
pub fn recognises(text: &str) -> bool {
    has_key(text, "topology") && has_key(text, "npus_count")
}

/// Reads a text. O(dimensions).
pub fn read(text: &str) -> Result<FabricDraft> {
    let whole = YamlValue::parse(text)?;
    let [shapes, counts, rates, latencies] = KEYS.map(|key| whole.texts(key));
    let (shapes, counts, rates, latencies) = (shapes?, counts?, rates?, latencies?);
    let lengths = [shapes.len(), counts.len(), rates.len(), latencies.len()];
    if shapes.is_empty() || lengths.iter().any(|&length| length != shapes.len()) {
        let each: Vec<_> = KEYS.iter().zip(lengths).map(|(key, length)| format!("{key} {length}")).collect();
        return Err(whole.wrong(format!("there must be one of each for every dimension, not {}", each.join(", "))));
    }
    let mut draft = FabricDraft::default();
    for (number, &shape) in shapes.iter().enumerate() {
        let wrong = |key: usize, text: &str| whole.wrong(format!("{} '{}' is no number", KEYS[key], clip(text)));
        let size =
            counts[number].parse().ok().filter(|&size: &u64| size > 0).ok_or_else(|| wrong(1, counts[number]))?;
        let rate = rates[number].parse().map_err(|_| wrong(2, rates[number]))?;
        let latency = latencies[number].parse().map_err(|_| wrong(3, latencies[number]))?;
        let place = |error: Error| whole.wrong(error.message);
        let (rate, latency) = (link::rate(rate).map_err(place)?, link::latency(latency).map_err(place)?);
        // A message to a switch goes over two links.
        let (shape, hops) = match shape {
            "Ring" => (DimensionShape::Ring, 1),
            "FullyConnected" => (DimensionShape::Clique, 1),
            "Switch" => (DimensionShape::Switch, 2),
            other => {
                let known = "known: Ring, FullyConnected, Switch";
                return Err(whole.wrong(format!("topology '{}'; {known}", clip(other))));
            }
        };
        if size > 1 {
            let latency = Some(latency.saturating_mul(hops));
            draft.dimensions.push(Dimension { latency, ..Dimension::new(shape, size).with_link_rate(Some(rate)) });
        }
    }
    if draft.dimensions.is_empty() {
        return Err(whole.wrong("npus_count is 1 in all; a collective needs at least 2 ranks"));
    }
    draft.note(
        "bandwidths are taken as the file writes them, in GB/s of 1e9 bytes; ASTRA-sim counts 2^30 bytes, 7 % more",
    );
    let others: Vec<String> = whole.keys().filter(|key| !KEYS.contains(key)).take(8).map(clip).collect();
    if !others.is_empty() {
        draft.note(format!("not read: {}", others.join(", ")));
    }
    Ok(draft)
}
