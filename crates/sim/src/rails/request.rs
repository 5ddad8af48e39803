//! What users may say about the chunks of a collective on a multi-dimensional network.

use super::packets::RailsPackets;
use super::scheduler::Themis;
use super::stage_loop::{MAX_SHARING, QueuePolicy};
use super::task::Chunks;
use antiphon_base::parameter::{Choice, Domain, request};
use antiphon_base::units::Picos;

request! {
    /// How chunks are cut, queued and served.
    pub struct RailsRequest {
        /// Queue policy of a dimension.
        #[input(Domain::Unless("by scheduler", &Domain::Choice(QueuePolicy::NAMES)), "A search without one chooses that too.")]
        pub intra: Option<QueuePolicy> = None,
        /// Equal parts of the buffer: a number, or `best`, the fewest that are about as fast as any.
        #[input(Domain::Unless("64, or of the size of the endpoint's chunks", &Domain::Spec {
            form: "a whole number, or best",
            check: |text| Chunks::parse(text).map(drop),
        }))]
        pub chunks: Option<Chunks> = None,
        /// Chunks that a dimension serves at once.
        #[input(Domain::count(1, MAX_SHARING as u64, ""))]
        pub sharing: u32 = 1,
        /// Switches reduce and multicast by themselves.
        #[input(Domain::Flag)]
        pub offload: bool = false,
        /// Themis counts a dimension's latency as load from the start.
        #[input(Domain::Flag)]
        pub fixed_delay: bool = false,
        /// Themis takes loads for equal that differ by less than one part of so many of a chunk; 0: none are.
        #[input(Domain::count(0, u32::MAX as u64, ""))]
        pub threshold: u32 = Themis::DEFAULT.threshold,
        /// Themis counts as load what a chunk takes of link, memory, bus or adders, whichever is longest.
        #[input(Domain::Flag)]
        pub endpoint_loads: bool = false,
        /// Messages are cut into packets of so many bytes of data and of header, of each dimension with commas.
        #[input(Domain::Unless("no headers", &Domain::Spec {
            form: "PAYLOAD+HEADER such as 4096+26",
            check: |text| RailsPackets::parse(text).map(drop),
        }))]
        pub packets: Option<RailsPackets> = None,
        /// Also time every NPU by itself, each noticing chunks up to so many ns late.
        #[input(Domain::Unless("not timed", &Domain::ns(0.0)))]
        pub jitter_ns: Option<Picos> = None,
        /// Seed of the search and the jitter.
        #[input(Domain::count(0, u64::MAX, ""))]
        pub seed: u64 = 1,
    }
}
