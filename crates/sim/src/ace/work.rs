//! What is done at a rank for a message, and for a chunk of an engine: which parts of the endpoint work, how fast, and how
//! often for every byte.

use antiphon_base::units::{Bytes, Picos, Rate};
use antiphon_model::collective::Kind;
use antiphon_model::system::{AceEndpoint, Endpoint};

/// A part of an endpoint that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointPart {
    /// Reads memory.
    Read,
    /// The bus from memory to the network.
    Bus,
    /// Adds.
    Add,
    /// Writes to memory.
    Write,
}

impl EndpointPart {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;
}

/// What a part does for every byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartWork {
    pub part: EndpointPart,
    pub rate: Rate,
    /// How often a byte passes.
    pub passes: u64,
}

impl PartWork {
    fn new(part: EndpointPart, rate: Rate, passes: u64) -> PartWork {
        PartWork { part, rate, passes }
    }

    /// Time for so many bytes.
    pub fn time_for(&self, bytes: Bytes) -> Picos {
        self.rate.time_for(self.passes * bytes)
    }

    /// Rate at which bytes are done, each with all its passes.
    pub fn byte_rate(&self) -> Rate {
        Rate((self.rate.0 / self.passes).max(1))
    }
}

/// How often a sender that reads what it sends reads a byte: what has come and what is there, to be added; else once
/// (section III: 1.5 on average in a ring).
pub(crate) fn reads(adds: bool) -> u64 {
    if adds { 2 } else { 1 }
}

/// What is done for a message before its link takes it, whose bytes are read so often: an accelerator reads it and brings it
/// over the bus.
pub(crate) fn before_link(endpoint: &Endpoint, reads: u64) -> Vec<PartWork> {
    match endpoint {
        Endpoint::Npu(npu) => vec![
            PartWork::new(EndpointPart::Read, npu.read_rate(), reads),
            PartWork::new(EndpointPart::Bus, npu.bus_rate, 1),
        ],
        Endpoint::System | Endpoint::Ideal(_) | Endpoint::Ace(_) => vec![],
    }
}

/// What is done for a message that is added, after it has come: an engine adds. Of an accelerator only reads count, as in
/// the paper.
pub(crate) fn after_link(endpoint: &Endpoint) -> Option<PartWork> {
    match endpoint {
        Endpoint::Ace(ace) => Some(PartWork::new(EndpointPart::Add, ace.add_rate(), 1)),
        Endpoint::System | Endpoint::Ideal(_) | Endpoint::Npu(_) => None,
    }
}

/// What is done for a chunk before an engine has it: TX DMA reads it, and it crosses the bus.
pub(crate) fn loading(ace: &AceEndpoint) -> [PartWork; 2] {
    [PartWork::new(EndpointPart::Read, ace.memory_rate, 1), PartWork::new(EndpointPart::Bus, ace.bus_rate, 1)]
}

/// What is done for a chunk at last: RX DMA writes it, by a path of its own.
pub(crate) fn storing(ace: &AceEndpoint) -> PartWork {
    PartWork::new(EndpointPart::Write, ace.memory_rate, 1)
}

/// What is passed on while the rest of it is still on its way.
pub(crate) fn forwarded_by(endpoint: &Endpoint) -> Bytes {
    match endpoint {
        Endpoint::System => 1,
        Endpoint::Ideal(ideal) => ideal.packet,
        Endpoint::Npu(npu) => npu.message,
        Endpoint::Ace(ace) => ace.packet,
    }
}

/// Accesses to memory and to SRAM for every byte of a message, at both of its ends: what is sent is read, what comes is
/// written, and what it is added to is read before.
pub fn accesses(endpoint: &Endpoint, adds: bool) -> [u128; 2] {
    let count = if adds { 3 } else { 2 };
    match endpoint {
        Endpoint::System | Endpoint::Ideal(_) => [0, 0],
        Endpoint::Npu(_) => [count, 0],
        Endpoint::Ace(_) => [0, count],
    }
}

/// The least that engines of so many ranks read from memory and write back in a collective of `bytes` at a rank: they read
/// what is added or sent, and write what they have received. `others` are the bytes of all ranks that are not their own
/// shards. 0 without engines.
pub fn loaded(endpoint: &Endpoint, kind: Kind, ranks: u128, bytes: u128, others: u128) -> u128 {
    match kind {
        _ if !matches!(endpoint, Endpoint::Ace(_)) => 0,
        Kind::AllReduce => 2 * ranks * bytes,
        Kind::ReduceScatter | Kind::Reduce => (ranks + 1) * bytes,
        Kind::AllGather => bytes + others,
        Kind::Broadcast => ranks * bytes,
        Kind::AllToAll => 2 * others,
    }
}
