"""Options of functions, for type checkers, as the core declares them."""

from typing import Literal, SupportsIndex, TypedDict

# options: make tables

class TrainOptions(TypedDict, total=False):
    overlap: Literal["none", "layerwise", "ccube", "both"] | str
    bucket: str | SupportsIndex
    gradient_bytes: SupportsIndex
    activation_bytes: SupportsIndex
    model_parallel: SupportsIndex
    recompute: bool
    blocking: bool
    unroll: SupportsIndex
    contention: Literal["dynamic", "static"] | str
    memory_bound: float | None
    slow: str | SupportsIndex | None

class NocOptions(TypedDict, total=False):
    packet_flits: SupportsIndex
    routing: Literal["xy", "yx", "minimal"] | str | None
    link_cycles: SupportsIndex
    latency_cycles: SupportsIndex
    warm_up_cycles: SupportsIndex | None
    cycles: SupportsIndex | None
    seed: SupportsIndex
    vcs: SupportsIndex
    vc_depth: SupportsIndex
    switching: Literal["wormhole", "cut-through"] | str
    allocator: Literal["islip", "round-robin", "age"] | str
    iterations: SupportsIndex
    routing_cycles: SupportsIndex
    vc_allocation_cycles: SupportsIndex
    switch_allocation_cycles: SupportsIndex
    traversal_cycles: SupportsIndex
    credit_cycles: SupportsIndex
    input_speedup: SupportsIndex
    output_speedup: SupportsIndex
    internal_speedup: SupportsIndex
    output_queue_flits: SupportsIndex | float | str | None
    ejection: Literal["switched", "circuit"] | str

class RailsOptions(TypedDict, total=False):
    intra: Literal["fifo", "scf", "scf-before", "tail", "oldest"] | str | None
    chunks: str | SupportsIndex | None
    sharing: SupportsIndex
    offload: bool
    fixed_delay: bool
    threshold: SupportsIndex
    endpoint_loads: bool
    packets: str | SupportsIndex | None
    jitter_ns: float | None
    seed: SupportsIndex

# end of options
