//! Dimensions, their presets and their specifications.

use crate::fabric::{Dimension, DimensionShape, ace};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{Picos, Rate, clip, parse_time};
use std::cmp::Reverse;

/// Most dimensions of a topology.
pub const MAX_DIMENSIONS: usize = 8;
/// Most NPUs of a topology.
pub const MAX_NPUS: u64 = 1 << 40;

/// Kinds of dimensions in specifications.
const KINDS: [(&str, DimensionShape); 3] =
    [("ring", DimensionShape::Ring), ("fc", DimensionShape::Clique), ("sw", DimensionShape::Switch)];

/// As a dimension of a topology: its NPUs run the ring algorithm on a ring, the direct one in a clique and
/// halving-doubling on a switch.
impl Dimension {
    /// Latencies that one ReduceScatter, AllGather or AllToAll pays one after another.
    pub fn steps(&self) -> u64 {
        match self.shape {
            DimensionShape::Line | DimensionShape::Ring => self.size - 1,
            DimensionShape::Clique => 1,
            DimensionShape::Switch => u64::from(self.size.ilog2()),
        }
    }

    /// Rate at which one NPU can send into it.
    ///
    /// # Panics
    /// If it has none of its own, which no dimension of a [`Topology`] is without.
    pub fn npu_rate(&self) -> Rate {
        self.rate.expect("a topology's dimensions have rates")
    }

    /// From NPU to NPU, for a message without length.
    ///
    /// # Panics
    /// If it has none of its own, which no dimension of a [`Topology`] is without.
    pub fn npu_latency(&self) -> Picos {
        self.latency.expect("a topology's dimensions have latencies")
    }

    /// What dimensions are sorted by, the nearest first: the fastest, of equally fast ones that with the least latency.
    pub fn nearness(&self) -> (Reverse<Rate>, Picos) {
        (Reverse(self.npu_rate()), self.npu_latency())
    }

    /// Kind and size, as in `sw8`.
    pub fn label(&self) -> String {
        let kind = KINDS.iter().find(|(_, shape)| *shape == self.shape).map_or(self.shape.name(), |(kind, _)| kind);
        format!("{kind}{}", self.size)
    }

    /// The specification that [`Topology::parse`] reads.
    pub fn spec(&self) -> String {
        let gb_per_s = self.npu_rate().0 as f64 * 8.0 / 1e9;
        format!("{}@{gb_per_s}/{}ns", self.label(), self.npu_latency() as f64 / 1e3)
    }
}

/// A product of dimensions with rates and latencies of their own, at the level of stages: rings, cliques and switches,
/// not expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Preset name or specification.
    pub name: String,
    /// Dimensions, the nearest first.
    pub dimensions: Vec<Dimension>,
}

/// Name, specification. Table 2 of the Themis paper, and the platform of its Fig. 4; rates in Gb/s.
pub const PRESETS: [(&str, &str); 7] = [
    ("2D-SW_SW", "sw16@1200/700ns,sw64@800/1700ns"),
    ("3D-SW_SW_SW_homo", "sw16@800/700ns,sw8@800/700ns,sw8@800/1700ns"),
    ("3D-SW_SW_SW_hetero", "sw16@1600/700ns,sw8@800/700ns,sw8@400/1700ns"),
    ("3D-FC_Ring_SW", "fc8@1400/700ns,ring16@800/700ns,sw8@400/1700ns"),
    ("4D-Ring_SW_SW_SW", "ring4@2000/20ns,sw4@1600/700ns,sw8@800/700ns,sw8@400/1700ns"),
    ("4D-Ring_FC_Ring_SW", "ring4@3000/20ns,fc8@1400/700ns,ring4@1200/700ns,sw8@800/1700ns"),
    ("2D-current", "sw16@1200/700ns,sw64@100/1700ns"),
];

impl Topology {
    /// A topology from a preset's name or `KIND SIZE@GBIT/LATENCY,...`, for example
    /// `ring4@1000/20ns,sw8@800/700ns`: rates in Gb/s of one NPU in one direction; or `ace:LxVxH`, the tori of
    /// [`ace`]. A `rails:` in front is allowed.
    ///
    /// # Errors
    /// [`Code::BadSpec`], [`Code::UnknownName`], [`Code::BadSize`] or [`Code::TooLarge`], naming the dimension.
    pub fn parse(spec: &str) -> Result<Topology> {
        let text = spec.strip_prefix("rails:").unwrap_or(spec);
        if let Some((name, dimensions)) = PRESETS.iter().find(|(name, _)| *name == text) {
            return Ok(Topology { name: (*name).into(), ..Topology::parse(dimensions)? });
        }
        if let Some(sizes) = text.strip_prefix("ace:") {
            return packages(text, sizes);
        }
        if !text.contains('@') {
            let names = PRESETS.map(|(name, _)| name);
            let hint = nearest(text, names);
            let what = format!(
                "no rails topology '{}'{hint}; known: {}; or write dimensions such as ring4@1000/20ns,sw8@800/700ns",
                clip(text),
                names.join(", ")
            );
            return Err(Error::new(Code::UnknownName, what));
        }
        let dimensions = text
            .split(',')
            .enumerate()
            .map(|(index, part)| dimension(part).map_err(|error| error.at(format_args!("dimension {}", index + 1))))
            .collect::<Result<Vec<_>>>()?;
        let topology = Topology { name: text.into(), dimensions };
        if topology.dimensions.len() > MAX_DIMENSIONS {
            let what = format!("{} dimensions; at most {MAX_DIMENSIONS}", topology.dimensions.len());
            return Err(Error::new(Code::TooLarge, what));
        }
        let npus = topology.dimensions.iter().try_fold(1u64, |product, dimension| product.checked_mul(dimension.size));
        if npus.is_none_or(|npus| npus > MAX_NPUS) {
            return Err(Error::new(Code::TooLarge, "more than 2^40 NPUs; use smaller dimensions"));
        }
        Ok(topology)
    }

    /// Number of NPUs.
    pub fn npus(&self) -> u64 {
        self.dimensions.iter().map(|dimension| dimension.size).product()
    }

    /// Rates of all dimensions together, in bytes per second.
    pub fn total_rate(&self) -> u128 {
        self.dimensions.iter().map(|dimension| u128::from(dimension.npu_rate().0)).sum()
    }
}

/// The torus `LxVxH` of [`ace`], without dimensions of one.
fn packages(name: &str, sizes: &str) -> Result<Topology> {
    let wrong = || {
        let what = format!("'{}': write ace:LxVxH, for example ace:4x4x4, with more than one NPU", clip(name));
        Error::new(Code::BadSpec, what)
    };
    let sizes: Vec<u32> =
        sizes.split('x').map(str::parse).collect::<std::result::Result<_, _>>().map_err(|_| wrong())?;
    let sizes: [u32; 3] = sizes.try_into().map_err(|_| wrong())?;
    let dimensions: Vec<_> = ace::dimensions(sizes).into_iter().filter(|dimension| dimension.size != 1).collect();
    if dimensions.is_empty() || sizes.contains(&0) {
        return Err(wrong());
    }
    Ok(Topology { name: name.into(), dimensions })
}

fn dimension(text: &str) -> Result<Dimension> {
    let bad = |code, what: String| Err(Error::new(code, format!("'{}': {what}", clip(text))));
    let kind_end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (kind, rest) = text.split_at(kind_end);
    let Some(&(_, shape)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let names = KINDS.map(|(name, _)| name);
        let hint = nearest(kind, names);
        let what = format!("no kind of dimension '{}'{hint}; known: {}", clip(kind), names.join(", "));
        return Err(Error::new(Code::UnknownName, what));
    };
    let Some((size, rest)) = rest.split_once('@') else {
        return bad(Code::BadSpec, "write KIND SIZE@GBIT/LATENCY, for example sw8@800/700ns".into());
    };
    let Some((rate, latency)) = rest.split_once('/') else {
        return bad(Code::BadSpec, "no latency; write it after the rate, for example sw8@800/700ns".into());
    };
    let size: u64 = match size.parse() {
        Ok(size @ 2..=0xffff_ffff) => size,
        Ok(0) => return bad(Code::BadSize, "0 NPUs; a dimension has at least 2".into()),
        _ => return bad(Code::BadSize, format!("size '{}' is not a whole number from 2 to 2^32 - 1", clip(size))),
    };
    if shape == DimensionShape::Switch && !size.is_power_of_two() {
        let what = format!("halving-doubling on a switch needs a power of two of NPUs, not {size}; use fc or ring");
        return bad(Code::NotApplicable, what);
    }
    let gbit = match rate.parse::<f64>() {
        Ok(gbit) if (1e-3..=1e9).contains(&gbit) => gbit,
        _ => return bad(Code::BadSize, format!("rate '{}' is not a number from 0.001 to 1e9 Gb/s", clip(rate))),
    };
    let rate = Rate((gbit * 1e9 / 8.0).round() as u64);
    Ok(Dimension { rate: Some(rate), latency: Some(parse_time(latency)?), ..Dimension::new(shape, size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_1024_npus() {
        for (name, spec) in PRESETS {
            let topology = Topology::parse(name).unwrap();
            assert_eq!(topology.npus(), 1024);
            assert_eq!(topology.dimensions, Topology::parse(spec).unwrap().dimensions);
            let printed: Vec<_> = topology.dimensions.iter().map(Dimension::spec).collect();
            assert_eq!(printed.join(","), spec);
        }
    }

    #[test]
    fn mistakes_name_the_dimension() {
        let message = |spec| Topology::parse(spec).unwrap_err().message;
        assert!(message("sw4@1/1ns,sw0@1/1ns").starts_with("dimension 2: 'sw0@1/1ns': 0 NPUs"));
        assert!(message("sw6@1/1ns").contains("power of two"));
        assert!(message("rig4@1/1ns").contains("did you mean 'ring'"));
        assert!(message("sw4@x/1ns").contains("rate 'x'"));
        assert!(message("sw4@1").contains("no latency"));
        assert!(message("sw4@1/1").contains("dimension 1"));
        assert!(message("2D-SW_SV").contains("did you mean '2D-SW_SW'"));
        assert!(message("fc4294967295@1/1ns,fc4294967295@1/1ns,fc4294967295@1/1ns").contains("2^40"));
        assert!(message(&["ring2@1/1ns"; 9].join(",")).contains("9 dimensions"));
    }
}
