//! Small topologies in formats of other tools, of machines that do not exist: examples/topologies.

/// NCCL: two processors, a PCI switch with two GPUs and a NIC of two ports below one, a GPU below the
/// other. Ranks are not in the order of the file.
pub const NCCL: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/topologies/nccl.xml"));

/// lstopo: two packages; below one a PCI switch with two GPUs, one behind a port of its own, and a card; below the other a GPU of
/// unknown speed. A console's display is no rank. The GPUs are joined by an NVSwitch and, two of them, directly.
pub const LSTOPO: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/topologies/lstopo.xml"));

/// InfraGraph: two servers of two accelerators and a composed card each, joined by a switch.
pub const INFRAGRAPH: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/topologies/infragraph.yaml"));
