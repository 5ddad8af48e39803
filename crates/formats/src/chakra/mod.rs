//! Chakra execution traces (MLCommons; et_def.proto of mlcommons/chakra): a file for each rank, `PREFIX.RANK.et`, of
//! messages in Protocol Buffers behind their lengths: metadata, then nodes that compute, exchange or move memory, each
//! after others. ASTRA-sim 2.0 runs them (Won et al., ISPASS 2023), and so does [`antiphon_jobs::replay`].

mod frames;
mod join;
mod lower;
mod model;
mod read;
mod write;

pub use lower::{lower, write_schedule};
pub use read::{ChakraTrace, MAX_MESSAGE_BYTES, TraceReader, parse_groups};
pub use write::{groups, write};
