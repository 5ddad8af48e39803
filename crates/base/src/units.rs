//! Bytes, integer picoseconds and rates. Every size a user gives passes through here.

use crate::error::{Code, Error, Result};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Time in integer picoseconds.
pub type Picos = u64;
/// Millionths of a whole.
pub type Millionths = u32;
/// A number of bytes.
pub type Bytes = u64;

/// Picoseconds in a nanosecond.
pub const PICOS_PER_NANO: Picos = 1_000;
/// The largest data size accepted anywhere: 1 PiB. Larger figures are typing mistakes, and the
/// limit keeps every product of sizes and times inside 128-bit arithmetic.
pub const MAX_BYTES: Bytes = 1 << 50;

/// A data rate in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

impl Rate {
    /// A rate of `gb` * 1e9 bytes per second.
    pub const fn gb_per_s(gb: u64) -> Rate {
        Rate(gb * 1_000_000_000)
    }

    /// Time to move `bytes` at this rate, rounded up to a picosecond.
    pub fn time_for(self, bytes: Bytes) -> Picos {
        let picos = (bytes as u128 * 1_000_000_000_000).div_ceil(self.0.max(1) as u128);
        u64::try_from(picos).unwrap_or(u64::MAX)
    }

    /// The rate in units of 1e9 bytes per second.
    pub fn as_gb_per_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// Parses a data size: an integer or decimal with an optional unit, `64MiB`, `375kB`, `1.5GB`, `4096`.
///
/// # Errors
/// [`Code::BadSize`] for anything that is not a whole, positive number of bytes up to 1 PiB.
pub fn parse_bytes(text: &str) -> Result<Bytes> {
    let bad = |why: &str| {
        Err(Error::new(Code::BadSize, format!("size '{}': {why}; write for example 4096, 375kB or 64MiB", clip(text))))
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let scale: u128 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        "p" | "pb" => 1_000_000_000_000_000,
        "pi" | "pib" => 1 << 50,
        _ if trimmed.starts_with('-') => return bad("must be positive"),
        _ => return bad("not a size"),
    };
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return bad("not a size");
    }
    if whole.len() > 18 || fraction.len() > 15 {
        return bad("too large or too precise (at most 1 PiB)");
    }
    let digits: u128 = format!("0{whole}{fraction}").parse().unwrap_or(0);
    let divisor = 10u128.pow(fraction.len() as u32);
    let scaled = digits * scale;
    if !scaled.is_multiple_of(divisor) {
        return bad("not a whole number of bytes");
    }
    match scaled / divisor {
        0 => bad("must be positive"),
        bytes if bytes > MAX_BYTES as u128 => bad("larger than 1 PiB"),
        bytes => Ok(bytes as Bytes),
    }
}

/// Parses a time: a decimal with unit `ps`, `ns`, `us`, `ms` or `s`.
///
/// # Errors
/// [`Code::BadSize`] if it is not a time up to 1000 s.
pub fn parse_time(text: &str) -> Result<Picos> {
    let refuse = |why: &str| {
        Error::new(Code::BadSize, format!("time '{}' is {why}; write for example 20ns or 1.5us", clip(text)))
    };
    let bad = || refuse("not a time");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
    let (number, unit) = trimmed.split_at(split);
    let scale = match unit {
        "ps" => 1.0,
        "ns" => 1e3,
        "us" => 1e6,
        "ms" => 1e9,
        "s" => 1e12,
        _ => return Err(bad()),
    };
    let picos = parse_decimal(number).ok_or_else(bad)? * scale;
    if picos > 1e15 { Err(refuse("longer than 1000 s")) } else { Ok(picos.round() as Picos) }
}

/// Parses a length in micrometres: a decimal with unit `um`, `mm`, `cm` or `m`.
///
/// # Errors
/// [`Code::BadSize`] if it is not a length from 1 um to 1 km.
pub fn parse_length(text: &str) -> Result<u32> {
    let refuse = |why: &str| {
        Error::new(Code::BadSize, format!("length '{}' is {why}; write for example 2mm or 50um", clip(text)))
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let scales = [("um", 1.0), ("mm", 1e3), ("cm", 1e4), ("m", 1e6)];
    let scale = scales.iter().find(|(name, _)| *name == unit).ok_or_else(|| refuse("not a length"))?.1;
    let micrometres = parse_decimal(number).ok_or_else(|| refuse("not a length"))? * scale;
    if (1.0..=1e9).contains(&micrometres) {
        Ok(micrometres.round() as u32)
    } else {
        Err(refuse("not from 1 um to 1 km"))
    }
}

/// A non-negative finite decimal without exponent, sign or special names; `None` otherwise.
pub fn parse_decimal(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.len() <= 24 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse::<f64>().ok().filter(|x| plain && x.is_finite())
}

/// `bytes` with a binary unit where it is exact, for people: `64MiB`, `96KiB`, `1000B`.
pub fn format_bytes(bytes: Bytes) -> String {
    for (shift, unit) in [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// At most 40 characters of user text, for quoting in messages.
pub fn clip(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// What JSON says by key, where no key is there twice.
pub struct ByKey<V>(pub BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for ByKey<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = ByKey<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<ByKey<V>, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, V>()? {
                    if entries.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("'{}' is there twice", clip(&key))));
                    }
                    entries.insert(key, value);
                }
                Ok(ByKey(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// What a parser says of a text, of which it may quote much: the beginning, and the end, where the place is.
pub fn clip_error(error: &impl ToString) -> String {
    let (what, starts) = (error.to_string(), 200);
    let rest = what.chars().count().saturating_sub(starts + 80);
    match rest {
        0 => what,
        _ => what.chars().take(starts).chain("...".chars()).chain(what.chars().skip(starts + rest)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_keep_their_beginning_and_their_place() {
        assert_eq!(clip_error(&"short"), "short");
        let long = clip_error(&format!("unknown field `{}` at line 1 column 2", "é".repeat(9999)));
        assert_eq!(long.chars().count(), 283);
        assert!(long.starts_with("unknown field `é") && long.ends_with("é` at line 1 column 2"), "{long}");
    }

    #[test]
    fn keys_are_there_once() {
        let read = |text| serde_json::from_str::<ByKey<u32>>(text).map(|ByKey(entries)| entries.len());
        assert_eq!(read("{\"a\": 1, \"b\": 1}").unwrap(), 2);
        assert!(read("{\"a\": 1, \"b\": 1, \"a\": 1}").unwrap_err().to_string().contains("'a' is there twice"));
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1", 1),
            ("64MiB", 64 << 20),
            ("375kB", 375_000),
            ("1.5GB", 1_500_000_000),
            (" 4 KiB ", 4096),
            ("0.5KiB", 512),
            ("1_000", 1000),
            ("1024TiB", MAX_BYTES),
            ("1PiB", MAX_BYTES),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "-1",
            "1.5",
            "0.0001kB",
            "1e9",
            "nan",
            "inf",
            "MiB",
            "1..2",
            "9999999999999999999999",
            "1025TiB",
            "1 2",
            "٣",
        ] {
            assert_eq!(parse_bytes(text).unwrap_err().code, Code::BadSize, "{text}");
        }
    }

    #[test]
    fn times_and_rates() {
        assert_eq!(parse_time("20ns"), Ok(20_000));
        assert_eq!(parse_time("1.5us"), Ok(1_500_000));
        assert!(parse_time("20").is_err() && parse_time("-1ns").is_err() && parse_time("nanns").is_err());
        assert_eq!(parse_time("1000s"), Ok(1_000_000_000_000_000));
        assert_eq!(
            parse_time("2000s").unwrap_err().message,
            "time '2000s' is longer than 1000 s; write for example 20ns or 1.5us"
        );
        assert_eq!(Rate::gb_per_s(25).time_for(512), 20_480);
        assert_eq!(Rate(3).time_for(1), 333_333_333_334);
    }

    #[test]
    fn lengths() {
        for (text, micrometres) in [("2mm", 2_000), ("50um", 50), ("0.5cm", 5_000), (" 1.5m", 1_500_000)] {
            assert_eq!(parse_length(text), Ok(micrometres), "{text}");
        }
        for text in ["2", "mm", "-2mm", "2km", "0mm", "0.4um", "1001m", "2 m m", ""] {
            assert_eq!(parse_length(text).unwrap_err().code, Code::BadSize, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsers_never_panic(text in ".{0,60}") {
            let _ = parse_length(&text);
            let _ = parse_bytes(&text);
            let _ = parse_time(&text);
        }

        #[test]
        fn formatted_sizes_parse_back(bytes in 1..=MAX_BYTES) {
            prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
        }
    }
}
