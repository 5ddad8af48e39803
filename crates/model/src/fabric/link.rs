//! One directed link, and the ranges of its parameters.

use super::NodeId;
use super::import::rates::gb_per_s;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{PICOS_PER_NANO, Picos, Rate, clip, parse_decimal, parse_time};
use serde::{Deserialize, Serialize};

/// Largest link rate in units of 1e9 bytes per second: 1 PB/s.
pub const MAX_GB_PER_S: f64 = 1e6;
/// Largest link latency in nanoseconds: 1000 s.
pub const MAX_LATENCY_NS: f64 = 1e12;

/// Largest link energy in picojoules a bit.
pub const MAX_PJ_PER_BIT: f64 = 1e6;
/// Attojoules a byte in a picojoule a bit.
const ATTOJOULES_PER_BYTE: f64 = 8e6;
/// Longest link in millimetres: 1 km.
pub const MAX_LENGTH_MM: f64 = 1e6;

/// A directed link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Sending node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Own rate; the system's link rate if `None`.
    pub rate: Option<Rate>,
    /// Own propagation latency; the system's link latency if `None`.
    pub latency: Option<Picos>,
    /// The rate is multiplied by this many thousandths (1000 = full speed; less on a slowed link).
    pub speed_permille: u32,
    /// Dimension label, e.g. `x`.
    pub dimension: String,
    /// Own energy of a byte in attojoules; the system's if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<u64>,
    /// Length in micrometres, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_um: Option<u32>,
}

impl Link {
    /// A link with the system's rate and latency.
    pub fn new(from: NodeId, to: NodeId, dimension: impl Into<String>) -> Link {
        Link {
            from,
            to,
            rate: None,
            latency: None,
            speed_permille: 1000,
            dimension: dimension.into(),
            energy: None,
            length_um: None,
        }
    }

    /// Own energy in picojoules a bit.
    pub fn pj_per_bit(&self) -> Option<f64> {
        self.energy.map(|energy| energy as f64 / ATTOJOULES_PER_BYTE)
    }

    /// Length in millimetres.
    pub fn length_mm(&self) -> Option<f64> {
        self.length_um.map(|length| f64::from(length) / 1e3)
    }

    /// The same link in the other direction.
    pub fn reversed(&self) -> Link {
        Link { from: self.to, to: self.from, ..self.clone() }
    }
}

/// What `@RATE[/LATENCY[/ENERGY]]` gives of links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkParameters {
    /// Rate.
    pub rate: Option<Rate>,
    /// Latency.
    pub latency: Option<Picos>,
    /// Energy of a byte in attojoules.
    pub energy: Option<u64>,
}

impl LinkParameters {
    /// Reads a rate in GB/s, a latency and the energy of a bit, as in `100/20ns/0.3pJ`. All but one may be left out:
    /// `100`, `/20ns`, `//0.3pJ`.
    ///
    /// # Errors
    /// [`Code::BadSpec`] or [`Code::BadSize`] for anything else, and out of range.
    pub fn parse(text: &str) -> Result<LinkParameters> {
        let mut parts = text.splitn(3, '/');
        let (gb_per_s, ns, pj) = (parts.next().unwrap_or(""), parts.next(), parts.next());
        let gb_per_s = parse_decimal(gb_per_s).map(Some).or((gb_per_s.is_empty() && ns.is_some()).then_some(None));
        let gb_per_s = gb_per_s.ok_or_else(|| {
            let what = "is not @RATE[/LATENCY[/ENERGY]] with GB/s as a number; write for example @100/20ns/0.3pJ";
            Error::new(Code::BadSpec, format!("'@{}' {what}", clip(text)))
        })?;
        Ok(LinkParameters {
            latency: ns.filter(|ns| pj.is_none() || !ns.is_empty()).map(parse_time).transpose()?,
            energy: pj.map(parse_energy).transpose()?,
            rate: gb_per_s.map(rate).transpose()?,
        })
    }

    /// Those of a link.
    pub fn of(link: &Link) -> LinkParameters {
        LinkParameters { rate: link.rate, latency: link.latency, energy: link.energy }
    }

    /// These, and of `others` what they leave out.
    pub fn or(self, others: LinkParameters) -> LinkParameters {
        LinkParameters {
            rate: self.rate.or(others.rate),
            latency: self.latency.or(others.latency),
            energy: self.energy.or(others.energy),
        }
    }

    /// Gives a link these in place of its own.
    pub fn set(self, link: &mut Link) {
        (link.rate, link.latency, link.energy) = (self.rate, self.latency, self.energy);
    }
}

/// A link rate from units of 1e9 bytes per second.
pub(super) fn rate(gb_per_s: f64) -> Result<Rate> {
    let rate = Rate((gb_per_s * 1e9).round() as u64);
    if rate.0 == 0 || gb_per_s.is_nan() || gb_per_s > MAX_GB_PER_S {
        return Err(Error::new(
            Code::BadSize,
            format!("link rate {} GB/s is not between 1e-9 and {MAX_GB_PER_S}", clip(&gb_per_s.to_string())),
        ));
    }
    Ok(rate)
}

/// A rate from text with its unit, such as `100GB/s` or `400Gbps`.
///
/// # Errors
/// [`Code::BadSize`] for what is none, and out of range.
pub(super) fn parse_rate(text: &str) -> Result<Rate> {
    let gb_per_s = gb_per_s(text).ok_or_else(|| {
        Error::new(Code::BadSize, format!("rate '{}' is not a rate; write for example 100GB/s or 400Gbps", clip(text)))
    })?;
    rate(gb_per_s)
}

/// A link latency from nanoseconds.
pub(super) fn latency(ns: f64) -> Result<Picos> {
    if !(0.0..=MAX_LATENCY_NS).contains(&ns) {
        return Err(Error::new(
            Code::BadSize,
            format!("link latency {} ns is not between 0 and {MAX_LATENCY_NS}", clip(&ns.to_string())),
        ));
    }
    Ok((ns * PICOS_PER_NANO as f64).round() as Picos)
}

/// A link's energy in attojoules a byte, from picojoules a bit.
pub(super) fn energy(pj_per_bit: f64) -> Result<u64> {
    let energy = (pj_per_bit * ATTOJOULES_PER_BYTE).round();
    if !(0.0..=MAX_PJ_PER_BIT).contains(&pj_per_bit) || (energy == 0.0 && pj_per_bit > 0.0) {
        let given = clip(&pj_per_bit.to_string());
        let what = format!("link energy {given} pJ/bit is not 0 nor between 1e-7 and {MAX_PJ_PER_BIT}");
        return Err(Error::new(Code::BadSize, what));
    }
    Ok(energy as u64)
}

/// A link's energy in attojoules a byte, from that of a bit with its unit, such as `0.3pJ`.
fn parse_energy(text: &str) -> Result<u64> {
    let pj_per_bit = text.strip_suffix("pJ").and_then(parse_decimal).ok_or_else(|| {
        Error::new(Code::BadSize, format!("energy '{}' is not that of a bit; write for example 0.3pJ", clip(text)))
    })?;
    energy(pj_per_bit)
}

/// A link's length in micrometres, from millimetres.
pub(super) fn length(mm: f64) -> Result<u32> {
    let length = (mm * 1e3).round();
    if !(0.0..=MAX_LENGTH_MM).contains(&mm) || (length == 0.0 && mm > 0.0) {
        let given = clip(&mm.to_string());
        return Err(Error::new(
            Code::BadSize,
            format!("link length {given} mm is not 0 nor between 0.001 and {MAX_LENGTH_MM}"),
        ));
    }
    Ok(length as u32)
}

/// A link speed in thousandths from a factor.
pub(super) fn permille(factor: f64) -> Result<u32> {
    let permille = (factor * 1000.0).round();
    if !(1.0..=1000.0).contains(&permille) || (factor * 1000.0 - permille).abs() > 1e-9 {
        return Err(Error::new(
            Code::BadSize,
            format!("speed factor {} is not a multiple of 0.001 above 0 and at most 1", clip(&factor.to_string())),
        ));
    }
    Ok(permille as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(rate(12.5), Ok(Rate(12_500_000_000)));
        assert_eq!((parse_rate("400Gbps"), parse_rate("0.1TB/s")), (Ok(Rate::gb_per_s(50)), Ok(Rate::gb_per_s(100))));
        assert!(["", "100", "GB/s", "0GB/s", "-1GB/s", "9999999TB/s"].into_iter().all(|bad| parse_rate(bad).is_err()));
        assert_eq!(latency(0.5), Ok(500));
        assert_eq!((permille(0.07), permille(1.0)), (Ok(70), Ok(1000)));
        for bad in [0.0, -1.0, 1e-10, 2e6, f64::NAN, f64::INFINITY] {
            assert_eq!(rate(bad).unwrap_err().code, Code::BadSize, "{bad}");
            assert!(permille(bad).is_err(), "{bad}");
        }
        assert!(latency(-1.0).is_err() && latency(f64::NAN).is_err() && latency(1e13).is_err());
        assert_eq!((energy(1.17), length(2.5)), (Ok(9_360_000), Ok(2_500)));
        assert!(energy(1e-9).is_err() && length(1e-9).is_err());
        assert!(energy(-1.0).is_err() && energy(f64::NAN).is_err() && length(-0.1).is_err() && length(2e6).is_err());
        assert!(permille(0.1234).is_err() && permille(1.001).is_err());
    }
}
