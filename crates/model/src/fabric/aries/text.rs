//! Configurations in a specification: `x0=0-3+3>5`, `y2=1-4`, `off=3-4`, `then`, `switch=50ns`, `config=FILE`.

use super::file;
use super::{Aries, Configuration, OPTIONS, Segment};
use crate::fabric::NodeId;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Picos, clip, parse_time};
use std::fmt;
use std::mem::take;
use std::path::Path;

/// What the items of a specification say of a configurable fabric.
pub struct Items<'a> {
    /// Configurations in turns; at least one.
    pub configurations: Vec<Configuration>,
    /// How long a change takes.
    pub switching_ps: Picos,
    /// Items that are none of a configuration.
    pub others: Vec<&'a str>,
}

impl<'a> Items<'a> {
    /// Reads the items after the first comma.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for an item that cannot be read, those of reading files.
    pub fn parse(aries: &Aries, items: impl Iterator<Item = &'a str>) -> Result<Items<'a>> {
        let (mut configurations, mut others) = (vec![], vec![]);
        let (mut segments, mut detached) = (vec![], vec![]);
        let (mut file, mut switch, mut own) = (None, None, false);
        for item in items {
            let place = |error: Error| error.at(format_args!("'{}'", clip(item)));
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            match key {
                "then" if value.is_empty() => {
                    configurations.push(Configuration::new(take(&mut segments), take(&mut detached)));
                }
                "switch" if switch.is_some() => return Err(place(bad("it is given twice"))),
                "switch" => switch = Some(parse_time(value).map_err(place)?),
                "config" if file.is_some() => return Err(place(bad("it is given twice"))),
                "config" => file = Some(file::read(aries, Path::new(value)).map_err(place)?),
                "off" => detached.extend(links(value).map_err(place)?),
                _ if OPTIONS.iter().any(|option| option.parameter.key == key) => {
                    let what = format!("it stands before the first comma, as in {aries}:{}", clip(item));
                    return Err(place(bad(what)));
                }
                _ => match line(key) {
                    Some((dimension, line)) => segments.extend(parts(dimension, line, value).map_err(place)?),
                    None => {
                        others.push(item);
                        continue;
                    }
                },
            }
            own |= key != "config";
        }
        match file {
            Some(_) if own => {
                Err(bad("'config=' comes without other items of a configuration; put them into the file"))
            }
            Some(file) => Ok(Items { others, ..file }),
            None => {
                configurations.push(Configuration::new(segments, detached));
                if switch.is_some() && configurations.len() == 1 {
                    return Err(bad(
                        "'switch=' is the time of a change, but there is none; join configurations by then",
                    ));
                }
                Ok(Items { configurations, switching_ps: switch.unwrap_or(0), others })
            }
        }
    }
}

/// The dimension and number of a line such as `x3`.
fn line(key: &str) -> Option<(usize, u32)> {
    let (label, number) = key.split_at_checked(1)?;
    let dimension = super::LABELS.iter().position(|&known| known == label)?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| Some((dimension, number.parse().ok()?)))?
}

/// Pairs of numbers joined by `-`, both ways, or `>`, one way, and listed with `+`.
fn pairs(text: &str) -> impl Iterator<Item = Result<(u32, u32, bool)>> {
    text.split('+').map(|pair| {
        let (ends, both) =
            (pair.split_once('-').map(|ends| (ends, true)), pair.split_once('>').map(|ends| (ends, false)));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let read = ends.or(both).and_then(|((from, to), both)| Some((number(from)?, number(to)?, both)));
        read.ok_or_else(|| bad(format!("'{}' is no pair; write 0-3 for both directions or 0>3 for one", clip(pair))))
    })
}

fn parts(dimension: usize, line: u32, text: &str) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for pair in pairs(text) {
        let (from, to, both) = pair?;
        let segment = Segment { dimension, line, from, to };
        segments.push(segment);
        segments.extend(both.then(|| segment.reversed()));
    }
    Ok(segments)
}

fn links(text: &str) -> Result<Vec<(NodeId, NodeId)>> {
    let mut detached = Vec::new();
    for pair in pairs(text) {
        let (from, to, both) = pair?;
        detached.push((from, to));
        detached.extend(both.then_some((to, from)));
    }
    Ok(detached)
}

/// Pairs of which the other direction is there as often as `a-b`, others as `a>b`.
fn listed<T: Copy + Ord>(pairs: &[T], ends: impl Fn(T) -> (u32, u32), reversed: impl Fn(T) -> T) -> String {
    let count = |pair: T| pairs.iter().filter(|other| **other == pair).count();
    let both = |pair: T| count(pair) == count(reversed(pair));
    let shown = pairs.iter().filter(|&&pair| !both(pair) || ends(pair).0 < ends(pair).1).map(|&pair| {
        let (from, to) = ends(pair);
        format!("{from}{}{to}", if both(pair) { '-' } else { '>' })
    });
    shown.collect::<Vec<_>>().join("+")
}

/// As [`Items::parse`] reads it.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.segments.chunk_by(|a, b| (a.dimension, a.line) == (b.dimension, b.line));
        let mut items: Vec<String> = lines
            .map(|line| format!("{}={}", line[0].name(), listed(line, |s| (s.from, s.to), Segment::reversed)))
            .collect();
        if !self.detached.is_empty() {
            items.push(format!("off={}", listed(&self.detached, |ends| ends, |(from, to)| (to, from))));
        }
        f.write_str(&items.join(","))
    }
}

/// As [`Aries::parse`] reads it.
impl fmt::Display for Aries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.sizes;
        write!(f, "aries:{rows}x{columns}")?;
        if self.wires != 1 {
            write!(f, ":wires={}", self.wires)?;
        }
        match self.ports {
            super::BypassPorts::Any => {}
            super::BypassPorts::Facing => f.write_str(":ports=facing")?,
            super::BypassPorts::Own => f.write_str(":ports=own")?,
        }
        self.pitch_um.map_or(Ok(()), |pitch| write!(f, ":pitch_um={pitch}"))
    }
}

fn bad(why: impl AsRef<str>) -> Error {
    Error::new(Code::BadSpec, why)
}
