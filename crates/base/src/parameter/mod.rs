//! Parameters that users give: each is declared once, and reading, checks, lists and documentation follow.

mod choice;
mod field;

pub use crate::{parameters, request};
pub use choice::Choice;
pub use field::{Field, Stored};

use crate::error::{Code, Error, Result, nearest};
use crate::units::{Bytes, clip, format_bytes, parse_bytes};
use std::fmt;

/// What may be given under a key.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// As it is written in Python and on the command line.
    pub key: &'static str,
    /// The values it takes.
    pub domain: Domain,
    /// What it is, in one line.
    pub meaning: &'static str,
}

/// A parameter as lists show it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Key, values and meaning.
    pub parameter: Parameter,
    /// What holds unless it is given.
    pub default: String,
    /// Where it is from.
    pub source: &'static str,
    /// Its place in JSON, in the unit of its name there; empty if it has none.
    pub json: &'static str,
}

/// The values of a parameter; limits are included.
#[derive(Debug, Clone, Copy)]
pub enum Domain {
    /// A data size.
    Bytes {
        /// Smallest.
        least: Bytes,
        /// Largest.
        most: Bytes,
    },
    /// A whole number.
    Count {
        /// Smallest.
        least: u64,
        /// Largest.
        most: u64,
        /// What is counted; empty if the meaning says it.
        unit: &'static str,
    },
    /// A number.
    Number {
        /// Smallest.
        least: f64,
        /// Largest.
        most: f64,
        /// Unit of the limits and of what is given.
        unit: &'static str,
        /// How it is stored.
        scale: StoredScale,
    },
    /// One of a few names.
    Choice(&'static [&'static str]),
    /// Yes or no.
    Flag,
    /// A rank; which there are, the fabric says.
    Rank,
    /// A specification.
    Spec {
        /// How it is written.
        form: &'static str,
        /// Refuses what does not parse.
        check: fn(&str) -> Result<()>,
    },
    /// A number outside of the other values, stored as `None`.
    Or(f64, &'static Domain),
    /// [`Domain::UNKNOWN`], stored as `None`, beside the other values.
    OrUnknown(&'static Domain),
    /// The other values; not given, it is stored as `None`, and what then holds is this, in words.
    Unless(&'static str, &'static Domain),
}

/// How a number is stored as a whole one, to the nearest.
#[derive(Debug, Clone, Copy)]
pub enum StoredScale {
    /// So many times itself.
    Times(f64),
    /// So much divided by it, such as the period in picoseconds of a clock in GHz.
    Per(f64),
}

impl StoredScale {
    fn stored(self, number: f64) -> u64 {
        match self {
            StoredScale::Times(factor) => (number * factor).round() as u64,
            StoredScale::Per(factor) => (factor / number).round() as u64,
        }
    }

    fn shown(self, stored: u64) -> f64 {
        match self {
            StoredScale::Times(factor) => stored as f64 / factor,
            StoredScale::Per(factor) => factor / stored as f64,
        }
    }
}

/// A value that was given, in the unit of its parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A size, a count or a rank.
    Whole(u64),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// A name or a specification.
    Text(String),
}

impl Value {
    /// The size, count or rank.
    ///
    /// # Panics
    /// As the others, for a value of another kind: what is declared and what is asked for disagree.
    pub fn whole(&self) -> u64 {
        match self {
            Value::Whole(count) => *count,
            _ => panic!("{self:?} is no whole number"),
        }
    }

    /// The number.
    pub fn number(&self) -> f64 {
        match self {
            Value::Number(number) => *number,
            _ => panic!("{self:?} is no number"),
        }
    }

    /// Whether it is yes.
    pub fn flag(&self) -> bool {
        match self {
            Value::Flag(flag) => *flag,
            _ => panic!("{self:?} is no flag"),
        }
    }

    /// The name or specification.
    pub fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            _ => panic!("{self:?} is no text"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(count) => write!(f, "{count}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// A limit, with an exponent where that is much shorter.
fn plain(limit: f64) -> String {
    let (plain, exponent) = (format!("{limit}"), format!("{limit:e}"));
    if plain.len() > exponent.len() + 2 { exponent } else { plain }
}

impl Domain {
    /// Times in nanoseconds from `least` to 1 s, stored in picoseconds.
    pub const fn ns(least: f64) -> Domain {
        Domain::Number { least, most: 1e9, unit: "ns", scale: StoredScale::Times(1e3) }
    }

    /// Rates in GB/s from 1 byte/s to 1e9 GB/s, stored in bytes per second.
    pub const GB_PER_S: Domain =
        Domain::Number { least: 1e-9, most: 1e9, unit: "GB/s", scale: StoredScale::Times(1e9) };

    /// Shares of a whole, 0 to 1, stored as so many `parts` of it.
    pub const fn share(parts: f64) -> Domain {
        Domain::Number { least: 0.0, most: 1.0, unit: "", scale: StoredScale::Times(parts) }
    }

    /// The word for a value that nobody has published.
    pub const UNKNOWN: &'static str = "unknown";

    /// Counts of `unit`.
    pub const fn count(least: u64, most: u64, unit: &'static str) -> Domain {
        Domain::Count { least, most, unit }
    }

    /// What the values are: `bytes`, `count`, `number`, `choice`, `flag`, `rank` or `specification`.
    pub fn kind(&self) -> &'static str {
        match self {
            Domain::Bytes { .. } => "bytes",
            Domain::Count { .. } => "count",
            Domain::Number { .. } => "number",
            Domain::Choice(_) => "choice",
            Domain::Flag => "flag",
            Domain::Rank => "rank",
            Domain::Spec { .. } => "specification",
            Domain::Or(_, other) | Domain::OrUnknown(other) | Domain::Unless(_, other) => other.kind(),
        }
    }

    /// Unit of the values; empty where there is none.
    pub fn unit(&self) -> &'static str {
        match self {
            Domain::Bytes { .. } => "bytes",
            Domain::Count { unit, .. } | Domain::Number { unit, .. } => unit,
            Domain::Or(_, other) | Domain::OrUnknown(other) | Domain::Unless(_, other) => other.unit(),
            Domain::Choice(_) | Domain::Flag | Domain::Rank | Domain::Spec { .. } => "",
        }
    }

    /// Smallest and largest number; `None` for what is no number.
    pub fn range(&self) -> Option<(Value, Value)> {
        match self {
            Domain::Bytes { least, most } | Domain::Count { least, most, .. } => {
                Some((Value::Whole(*least), Value::Whole(*most)))
            }
            Domain::Number { least, most, .. } => Some((Value::Number(*least), Value::Number(*most))),
            Domain::Or(_, other) | Domain::OrUnknown(other) | Domain::Unless(_, other) => other.range(),
            Domain::Choice(_) | Domain::Flag | Domain::Rank | Domain::Spec { .. } => None,
        }
    }

    /// The names to choose from, or a number outside of the range.
    pub fn choices(&self) -> Vec<Value> {
        match self {
            Domain::Choice(names) => names.iter().map(|&name| Value::Text(name.into())).collect(),
            Domain::Flag => vec![Value::Flag(true), Value::Flag(false)],
            Domain::Or(number, other) => [other.choices(), vec![Value::Number(*number)]].concat(),
            Domain::OrUnknown(other) => [other.choices(), vec![Value::Text(Domain::UNKNOWN.into())]].concat(),
            Domain::Unless(_, other) => other.choices(),
            _ => vec![],
        }
    }

    /// The values that may be given where it need not be.
    fn given(self) -> Domain {
        if let Domain::Unless(_, other) = self { *other } else { self }
    }

    fn contains(&self, value: &Value) -> bool {
        match (self, value) {
            (Domain::Bytes { least, most } | Domain::Count { least, most, .. }, Value::Whole(count)) => {
                (least..=most).contains(&count)
            }
            (Domain::Number { least, most, scale, .. }, Value::Number(number)) => {
                // What is less than is kept is not nothing.
                (least..=most).contains(&number) && (*number == 0.0 || scale.stored(*number) > 0)
            }
            (Domain::Choice(names), Value::Text(name)) => names.contains(&name.as_str()),
            (Domain::Flag, Value::Flag(_)) => true,
            (Domain::Rank, Value::Whole(rank)) => u32::try_from(*rank).is_ok(),
            (Domain::Spec { .. }, Value::Text(_)) => true,
            (Domain::Or(number, _), Value::Number(given)) if given == number => true,
            (Domain::OrUnknown(_), Value::Text(word)) if word == Domain::UNKNOWN => true,
            (Domain::Or(_, other) | Domain::OrUnknown(other) | Domain::Unless(_, other), _) => other.contains(value),
            _ => false,
        }
    }

    /// The value that `text` writes, whatever its range.
    fn read(&self, text: &str) -> Result<Option<Value>> {
        Ok(match self {
            Domain::Bytes { .. } => Some(Value::Whole(parse_bytes(text)?)),
            Domain::Count { .. } | Domain::Rank => text.parse().ok().map(Value::Whole),
            Domain::Number { .. } => text.parse().ok().map(Value::Number),
            Domain::Choice(_) | Domain::Spec { .. } => Some(Value::Text(text.into())),
            Domain::Flag => ["no", "yes"].iter().position(|name| *name == text).map(|at| Value::Flag(at == 1)),
            Domain::Or(number, _) if text.parse() == Ok(*number) => Some(Value::Number(*number)),
            Domain::OrUnknown(_) if text == Domain::UNKNOWN => Some(Value::Text(text.into())),
            Domain::Or(_, other) | Domain::OrUnknown(other) | Domain::Unless(_, other) => other.read(text)?,
        })
    }

    /// A value as text that reads back.
    pub fn write(&self, value: &Value) -> String {
        match (self, value) {
            (Domain::Bytes { .. }, Value::Whole(bytes)) => format_bytes(*bytes),
            _ => value.to_string(),
        }
    }
}

impl fmt::Display for Domain {
    /// What is expected: `a whole number from 1 to 256 flits`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.unit().is_empty() { String::new() } else { format!(" {}", self.unit()) };
        match self {
            Domain::Bytes { least, most } => write!(f, "a size from {least} B to {}", format_bytes(*most)),
            Domain::Count { least, most, .. } => write!(f, "a whole number from {least} to {most}{unit}"),
            Domain::Number { least, most, .. } => {
                write!(f, "a number from {} to {}{unit}", plain(*least), plain(*most))
            }
            Domain::Choice(names) => f.write_str(&names.join(" or ")),
            Domain::Flag => f.write_str("yes or no"),
            Domain::Rank => f.write_str("a rank"),
            Domain::Spec { form, .. } => f.write_str(form),
            Domain::Or(number, other) => write!(f, "{other}, or {}", plain(*number)),
            Domain::OrUnknown(other) => write!(f, "{other}, or {}", Domain::UNKNOWN),
            Domain::Unless(_, other) => other.fmt(f),
        }
    }
}

impl Parameter {
    /// The value that `text` writes.
    ///
    /// # Errors
    /// With key, text and what is expected: [`Code::BadSize`] for numbers, [`Code::UnknownName`] for names,
    /// [`Code::BadSpec`] else; for a specification what it is refused with.
    pub fn read(&self, text: &str) -> Result<Value> {
        let value = self.domain.read(text).map_err(|error| error.at(self.key))?;
        match (value, self.domain.given()) {
            (Some(value), Domain::Spec { .. }) => self.check(&value).map(|()| value),
            (Some(value), domain) if domain.contains(&value) => Ok(value),
            _ => Err(self.refuse(text)),
        }
    }

    /// Refuses a value outside of the domain.
    ///
    /// # Errors
    /// As [`Parameter::read`].
    pub fn check(&self, value: &Value) -> Result<()> {
        match (self.domain.given(), value) {
            (Domain::Spec { check, .. }, Value::Text(spec)) => check(spec).map_err(|error| error.at(self.key)),
            (domain, _) if domain.contains(value) => Ok(()),
            _ => Err(self.refuse(&value.to_string())),
        }
    }

    /// The error for `text` in place of a value.
    pub fn refuse(&self, text: &str) -> Error {
        let (code, hint) = match self.domain.given() {
            Domain::Choice(names) => (Code::UnknownName, nearest(text, names.iter().copied())),
            Domain::Flag | Domain::Spec { .. } => (Code::BadSpec, String::new()),
            _ => (Code::BadSize, String::new()),
        };
        Error::new(code, format!("{}={}{hint}; expected {}", self.key, clip(text), self.domain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COUNT: Domain = Domain::count(1, 256, "flits");
    const DOMAINS: [Domain; 10] = [
        COUNT,
        Domain::Bytes { least: 4, most: 1 << 20 },
        Domain::GB_PER_S,
        Domain::Choice(&["corner", "centre"]),
        Domain::Flag,
        Domain::Rank,
        Domain::Or(f64::INFINITY, &COUNT),
        Domain::Or(0.0, &Domain::ns(0.001)),
        Domain::OrUnknown(&COUNT),
        Domain::Unless("by size", &COUNT),
    ];

    fn read(domain: Domain, text: &str) -> Result<Value> {
        Parameter { key: "key", domain, meaning: "" }.read(text)
    }

    #[test]
    fn values_are_read_and_refused() {
        for (domain, text, value) in [
            (DOMAINS[0], "256", Value::Whole(256)),
            (DOMAINS[1], "4KiB", Value::Whole(4096)),
            (DOMAINS[2], "1e9", Value::Number(1e9)),
            (DOMAINS[3], "centre", Value::Text("centre".into())),
            (DOMAINS[4], "no", Value::Flag(false)),
            (DOMAINS[6], "inf", Value::Number(f64::INFINITY)),
            (DOMAINS[6], "3", Value::Whole(3)),
            (DOMAINS[7], "0", Value::Number(0.0)),
            (DOMAINS[8], "unknown", Value::Text("unknown".into())),
            (DOMAINS[8], "3", Value::Whole(3)),
            (DOMAINS[9], "3", Value::Whole(3)),
        ] {
            assert_eq!(read(domain, text), Ok(value), "{text}");
        }
        for (domain, text, expected) in [
            (DOMAINS[0], "257", "key=257; expected a whole number from 1 to 256 flits"),
            (DOMAINS[0], "1.5", "key=1.5; expected a whole"),
            (DOMAINS[1], "3", "key=3; expected a size from 4 B to 1MiB"),
            (DOMAINS[1], "x", "key: size 'x'"),
            (DOMAINS[2], "nan", "key=nan; expected a number from 1e-9 to 1e9 GB/s"),
            (DOMAINS[3], "center", "key=center; did you mean 'centre'?; expected corner or centre"),
            (DOMAINS[4], "true", "key=true; expected yes or no"),
            (DOMAINS[5], "-1", "key=-1; expected a rank"),
            (DOMAINS[6], "0", "from 1 to 256 flits, or inf"),
            (DOMAINS[7], "0.0001", "a number from 0.001 to 1e9 ns, or 0"),
            (DOMAINS[8], "none", "from 1 to 256 flits, or unknown"),
            (DOMAINS[9], "by size", "key=by size; expected a whole number from 1 to 256 flits"),
        ] {
            let message = read(domain, text).unwrap_err().message;
            assert!(message.contains(expected), "{message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(text in "[0-9a-zA-Z.+-]{0,12}", at in 0..DOMAINS.len()) {
            let domain = DOMAINS[at];
            if let Ok(value) = read(domain, &text) {
                prop_assert_eq!(read(domain, &domain.write(&value)), Ok(value));
            }
        }
    }
}
