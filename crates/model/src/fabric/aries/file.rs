//! Configurations in files: JSON, schema `antiphon-configuration/1` (described in `docs/reference/fabric.md`).

use super::{Aries, Items};
use crate::fabric::file::read_text;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{ByKey, PICOS_PER_NANO, clip, clip_error};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Value of the `schema` key.
pub const SCHEMA: &str = "antiphon-configuration/1";
/// Most bytes in a file.
const MAX_BYTES: u64 = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigurationFile {
    schema: String,
    /// The fabric that it is for, as it is without a configuration.
    fabric: String,
    #[serde(default)]
    switch_ns: f64,
    /// Lists of pairs by line, and `off`, as in a specification.
    configurations: Vec<ByKey<Vec<String>>>,
}

/// The configurations in a file, and how long a change takes.
///
/// # Errors
/// Those of reading files; [`Code::BadFile`] for one of another schema or fabric, or with what is no segment.
pub fn read(aries: &Aries, path: &Path) -> Result<Items<'static>> {
    let text = read_text(path, MAX_BYTES)?;
    let file: ConfigurationFile = serde_json::from_str(&text).map_err(|error| bad(clip_error(&error)))?;
    if file.schema != SCHEMA {
        return Err(bad(format!("schema '{}' is not '{SCHEMA}'", clip(&file.schema))));
    }
    let made_for = file.fabric.strip_prefix("aries:").map_or(Ok(None), Aries::parse)?;
    if made_for.as_ref().map(|other| other.sizes) != Some(aries.sizes) {
        return Err(bad(format!("it is made for {}, not for {aries}", clip(&file.fabric))));
    }
    if !(0.0..=1e12).contains(&file.switch_ns) {
        return Err(bad(format!("switch_ns {} is not between 0 and 1e12", file.switch_ns)));
    }
    let mut configurations = Vec::new();
    for (number, ByKey(lines)) in file.configurations.iter().enumerate() {
        let place = |error: Error| Error { code: Code::BadFile, ..error }.at(format_args!("configurations[{number}]"));
        let items: Vec<String> = lines.iter().map(|(key, pairs)| format!("{key}={}", pairs.join("+"))).collect();
        let read = Items::parse(aries, items.iter().map(String::as_str)).map_err(place)?;
        match (&read.others[..], lines.keys().find(|key| ["then", "switch", "config"].contains(&key.as_str()))) {
            ([], None) => configurations.extend(read.configurations),
            (_, Some(key)) => return Err(place(bad(format!("'{key}' does not belong here")))),
            ([other, ..], _) => {
                let what = format!("'{}' is no line; write x0 for row 0, y0 for column 0, or off", clip(other));
                return Err(place(bad(what)));
            }
        }
    }
    if configurations.is_empty() {
        return Err(bad("it has no configuration"));
    }
    let switching_ps = (file.switch_ns * PICOS_PER_NANO as f64).round() as u64;
    Ok(Items { configurations, switching_ps, others: vec![] })
}

impl super::Configured {
    /// The configurations as JSON with schema `SCHEMA`, a line each.
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"schema\": \"{SCHEMA}\", \"fabric\": \"{}\"", self.aries);
        if self.switching_ps > 0 {
            let _ = write!(text, ", \"switch_ns\": {}", self.switching_ps as f64 / PICOS_PER_NANO as f64);
        }
        let lists = self.configurations.iter().map(|configuration| {
            let items = configuration.to_string();
            let lines: BTreeMap<&str, Vec<&str>> = items
                .split(',')
                .filter_map(|item| item.split_once('='))
                .map(|(key, pairs)| (key, pairs.split('+').collect()))
                .collect();
            serde_json::to_string(&lines).expect("plain maps serialise")
        });
        let _ = write!(text, ", \"configurations\": [\n{}\n]}}\n", lists.collect::<Vec<_>>().join(",\n"));
        text
    }
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadFile, why)
}
