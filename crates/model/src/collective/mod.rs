//! Collective operations: what every rank holds before and after.

mod align;
mod matrix;

pub use align::Align;
pub use matrix::{Data, MAX_MATRIX_RANKS, Matrix};

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::clip;
use serde::{Deserialize, Serialize};

/// The kind of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Every rank ends with the sum of all ranks' buffers.
    AllReduce,
    /// Rank `i` ends with shard `i` of the sum of all ranks' buffers.
    ReduceScatter,
    /// Rank `i` starts with shard `i`; every rank ends with all shards.
    AllGather,
    /// Every rank ends with the root's buffer.
    Broadcast,
    /// The root ends with the sum of all ranks' buffers.
    Reduce,
    /// Rank `j` ends with shard `j` of every rank's buffer.
    AllToAll,
}

impl Kind {
    /// All kinds, in documentation order.
    pub const ALL: [Kind; 6] =
        [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast, Kind::Reduce, Kind::AllToAll];

    /// The command-line name, e.g. `all-reduce`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllReduce => "all-reduce",
            Kind::ReduceScatter => "reduce-scatter",
            Kind::AllGather => "all-gather",
            Kind::Broadcast => "broadcast",
            Kind::Reduce => "reduce",
            Kind::AllToAll => "all-to-all",
        }
    }

    /// The kind with a command-line name, whose words may be joined by `_` or by nothing: `all_reduce`, `AllReduce`.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    pub fn parse(text: &str) -> Result<Kind> {
        let letters = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
        Kind::ALL.into_iter().find(|kind| letters(kind.name()) == letters(text)).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name);
            Error::new(
                Code::UnknownName,
                format!("no collective '{}'{}; known: {}", clip(text), nearest(text, names), names.join(", ")),
            )
        })
    }

    /// Whether the collective adds ranks' data together.
    pub fn reduces(self) -> bool {
        matches!(self, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce)
    }

    /// Whether the collective has a root rank.
    pub fn rooted(self) -> bool {
        matches!(self, Kind::Broadcast | Kind::Reduce)
    }

    /// Factor from algorithm bandwidth (bytes / time) to bus bandwidth on `ranks` ranks, as in the
    /// NCCL tests: the share of the buffer each rank must send.
    pub fn bus_factor(self, ranks: usize) -> f64 {
        let n = ranks.max(1) as f64;
        match self {
            Kind::AllReduce => 2.0 * (n - 1.0) / n,
            Kind::ReduceScatter | Kind::AllGather | Kind::AllToAll => (n - 1.0) / n,
            Kind::Broadcast | Kind::Reduce => 1.0,
        }
    }
}

/// A collective: its kind and, where it has one, the root rank.
///
/// The data size `bytes` that accompanies a collective everywhere is the size of the *full* buffer:
/// the input of AllReduce, ReduceScatter, Reduce, Broadcast and AllToAll on one rank, and the
/// output of AllGather. Shard `i` of it is [`Align::shard`]`(bytes, ranks, i)`. An AllToAll may have a [`Matrix`] instead; then
/// `bytes` is the most that a rank sends ([`Data`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// What is computed.
    pub kind: Kind,
    /// Root rank of Broadcast and Reduce; 0 otherwise.
    #[serde(default)]
    pub root: u32,
}

impl Collective {
    /// A collective without a root (or with root 0).
    pub fn new(kind: Kind) -> Self {
        Collective { kind, root: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for kind in Kind::ALL {
            for name in [kind.name(), &kind.name().replace('-', "_"), &kind.name().replace('-', "")] {
                assert_eq!(Kind::parse(name), Ok(kind));
            }
        }
        let error = Kind::parse("allredcue").unwrap_err();
        assert!(error.message.contains("did you mean 'all-reduce'"), "{error}");
    }

    #[test]
    fn bus_factors() {
        assert_eq!(Kind::AllReduce.bus_factor(4), 1.5);
        assert_eq!(Kind::AllGather.bus_factor(4), 0.75);
        assert_eq!(Kind::Broadcast.bus_factor(4), 1.0);
    }
}
