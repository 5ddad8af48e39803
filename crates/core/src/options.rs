//! Options behind a name, as in `tto:chunk=96KiB,barrier=no`: `key=value,key=value`.

use crate::error::{Code, Error, Result, nearest};
use crate::units::{Bytes, clip, parse_bytes};

/// Parsed options, each key known and given once.
pub struct Options<'a> {
    name: &'static str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Parses `text` against the keys that `name` declares.
    ///
    /// # Errors
    /// [`Code::BadSpec`] and [`Code::UnknownName`], naming what is wrong.
    pub fn parse(name: &'static str, text: &'a str, known: &[(&'static str, &'static str)]) -> Result<Self> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for item in text.split(',').filter(|_| !text.is_empty()) {
            let Some((key, value)) = item.split_once('=') else {
                let what = format!("{}: option '{}' is not of the form key=value", name, clip(item));
                return Err(Error::new(Code::BadSpec, what));
            };
            let keys = || known.iter().map(|(key, _)| *key);
            if !keys().any(|other| other == key) {
                let list = keys().collect::<Vec<_>>().join(", ");
                let known = if list.is_empty() { "it has none".into() } else { format!("known: {list}") };
                let hint = nearest(key, keys());
                let what = format!("{} has no option '{}'{hint}; {known}", name, clip(key));
                return Err(Error::new(Code::UnknownName, what));
            }
            if pairs.iter().any(|(other, _)| *other == key) {
                return Err(Error::new(Code::BadSpec, format!("{}: option '{key}' is given twice", name)));
            }
            pairs.push((key, value));
        }
        Ok(Options { name, pairs })
    }

    /// The text of an option.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(other, _)| *other == key).map(|(_, value)| *value)
    }

    /// One of `choices`; the first if not given.
    pub fn choice(&self, key: &str, choices: &[&'static str]) -> Result<&'static str> {
        let Some(text) = self.get(key) else {
            return Ok(choices[0]);
        };
        choices.iter().copied().find(|&choice| choice == text).ok_or_else(|| {
            let hint = nearest(text, choices.iter().copied());
            let what = format!("{}: {key}={}{hint}; expected {}", self.name, clip(text), choices.join(" or "));
            Error::new(Code::BadSpec, what)
        })
    }

    /// A data size.
    pub fn bytes(&self, key: &str, default: Bytes) -> Result<Bytes> {
        self.get(key).map_or(Ok(default), |text| parse_bytes(text).map_err(|e| e.at(format!("{}: {key}", self.name))))
    }

    /// A whole number from 1 to `most`.
    pub fn count(&self, key: &str, default: u32, most: u32) -> Result<u32> {
        let Some(text) = self.get(key) else { return Ok(default) };
        text.parse().ok().filter(|count| (1..=most).contains(count)).ok_or_else(|| {
            let what = format!("{}: {key}={}: expected a whole number from 1 to {most}", self.name, clip(text));
            Error::new(Code::BadSpec, what)
        })
    }

    /// A number from `least` to `most`.
    pub fn number(&self, key: &str, default: f64, least: f64, most: f64) -> Result<f64> {
        let Some(text) = self.get(key) else { return Ok(default) };
        text.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let what = format!("{}: {key}={}: expected a number from {least} to {most}", self.name, clip(text));
            Error::new(Code::BadSpec, what)
        })
    }

    /// A rank below `ranks`.
    pub fn rank(&self, key: &str, ranks: u32) -> Result<Option<u32>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse::<u32>() {
            Ok(rank) if rank < ranks => Ok(Some(rank)),
            _ => {
                let what = format!("{}: {key}={} is no rank; ranks are 0 to {}", self.name, clip(text), ranks - 1);
                Err(Error::new(Code::BadSpec, what))
            }
        }
    }
}
