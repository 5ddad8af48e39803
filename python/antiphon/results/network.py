"""Networks: routers under synthetic traffic, dimensions under collectives, and advice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from antiphon import plot
from antiphon.results.base import Result
from antiphon.results.energy import Energy
from antiphon.results.record import APART, ASKED, Record, says
from antiphon.results.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Router(Record):
    """The virtual-channel routers of a flit-level network (docs/noc.md).

    >>> import antiphon
    >>> antiphon.noc("mesh:2x2", vcs=2, warm_up_cycles=50, cycles=50).router.vcs
    2

    Delays are in cycles, buffers in flits; docs/parameters.md has the meanings. None: any number.
    """

    # fields: make tables
    vcs: int
    vc_depth: int
    switching: str
    allocator: str
    iterations: int
    routing_cycles: int
    vc_allocation_cycles: int
    switch_allocation_cycles: int
    traversal_cycles: int
    credit_cycles: int
    input_speedup: int
    output_speedup: int
    internal_speedup: int
    output_queue_flits: int | None
    ejection: str
    # end of fields


@dataclass(frozen=True)
class Latency(Record):
    """Latencies of packets in cycles, from creation to the arrival of the last flit.

    >>> import antiphon
    >>> latency = antiphon.noc("mesh:2x2", warm_up_cycles=50, cycles=500).packet_latency_cycles
    >>> latency.p50 <= latency.p99
    True

    Attributes:
        mean: their mean.
        half_width: half the width of the 95 % confidence interval of the mean; None if unknown.
        p50: the median.
        p99: the 99th percentile.
    """

    mean: float
    half_width: float | None
    p50: int
    p99: int


@dataclass(frozen=True)
class NocResult(Result):
    """What a flit-level network did under synthetic traffic.

    >>> import antiphon
    >>> antiphon.noc("mesh:2x2", rate=0.1, warm_up_cycles=50, cycles=500).stable
    True

    Attributes:
        fabric: the fabric's name.
        traffic: the pattern of destinations.
        rate: flits offered per node and cycle.
        packet_flits: flits of every packet.
        router: the routers.
        routing: ``xy``, ``yx`` or ``minimal``.
        link_cycles: cycles that a link takes for one flit.
        latency_cycles: cycles that a flit travels after that.
        seed: seed of all random numbers.
        packet_latency_cycles: from creation to the arrival of the last flit.
        accepted_flits_per_node_cycle: flits that left the network.
        hops_mean: routers passed, those at both ends included.
        stable: the network kept up. If not, it is beyond saturation, and latencies are those of
            packets delivered, whatever is still queued.
        packets: packets measured.
        warm_up_cycles: cycles before the measurement.
        cycles: cycles measured.
        flit_hops: flits times links they crossed, in the whole run.
        events: events the engine processed.
        network_latency_mean_cycles: from injection of the head to the arrival of the last flit.
        energy: what the whole run took, if it was asked for.

    Its table ``runs`` is one row, what ``to_dict`` has.
    """

    fabric: str
    traffic: str
    rate: float
    packet_flits: int
    router: Router
    routing: str
    link_cycles: int
    latency_cycles: int
    seed: int
    packet_latency_cycles: Latency
    accepted_flits_per_node_cycle: float
    hops_mean: float
    stable: bool
    packets: int
    warm_up_cycles: int
    cycles: int
    flit_hops: int
    events: int
    network_latency_mean_cycles: float = field(metadata=says("network_latency_cycles.mean=network_latency_mean_cycles"))
    energy: Energy | None = field(default=None, metadata=ASKED)

    shown: ClassVar[tuple[str, ...]] = ("rate", "accepted_flits_per_node_cycle", "packet_latency_cycles.mean", "stable")

    row = "runs"

    def __repr__(self) -> str:
        state = "" if self.stable else ", saturated"
        return (
            f"<NocResult {self.traffic} on {self.fabric}: rate {self.rate:.4g},"
            f" latency {self.packet_latency_cycles.mean:,.2f} cycles{state}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class RailsRun(Result):
    """A collective on a multi-dimensional network, timed stage by stage.

    >>> import antiphon
    >>> antiphon.rails("2D-SW_SW", chunks=4, scheduler="baseline").orders[0]
    ([1, 2], [2, 1])

    Attributes:
        topology: preset name or specification.
        npus: NPUs of the topology.
        collective: what was done.
        bytes: full buffer size.
        scheduler: ``baseline``, ``themis``, ``search`` or ``phased``.
        intra: queue policy of a dimension: ``fifo``, ``scf``, ``scf-before``, ``tail`` or ``oldest``.
        chunks: equal parts of the buffer that are scheduled one by one.
        endpoint: what stands between memory and links.
        time_ns: completion of the last chunk.
        jittered_time_ns: the same with every NPU by itself and jitter; None without jitter.
        utilization: mean over dimensions, weighted by their rates, 0 to 1.
        utilization_bound: no scheduler reaches more in an AllReduce, latency apart; None for other
            collectives and where switches reduce.
        proof: what was proven of the plan's messages, by symmetry, and what that rests on; None where
            they are too many or switches reduce.
        dimensions: ``name``, ``spec``, ``utilization``, ``bytes`` an NPU sends, ``busy_ns``.
        orders: per chunk, dimensions (from 1) before the AllGather, and of the AllGather.
        timeline: equal windows, ``start_ns`` and for ``dim1``, ``dim2``, ... the share in which the
            dimension had a chunk.
        stages: every stage of every chunk: ``dimension`` (from 1), ``chunk`` and ``stage`` (from 0),
            ``ready_ns`` when it began to wait, ``start_ns`` and ``finish_ns`` of its service.
        energy: what it took, if it was asked for; its ``links`` are dimensions.
    """

    topology: str
    npus: int
    collective: str
    bytes: int
    scheduler: str
    intra: str
    chunks: int
    endpoint: str
    time_ns: float
    jittered_time_ns: float | None
    utilization: float
    utilization_bound: float | None
    proof: str | None
    dimensions: Table
    orders: list[tuple[list[int], list[int]]] = field(metadata=says("orders[first,gather]"))
    timeline: Table = field(metadata=APART)
    stages: Table = field(metadata=APART)
    energy: Energy | None = field(default=None, metadata=ASKED)

    headline = (
        "RailsRun {0.scheduler} ({0.intra}) on {0.topology}: {0.time_ns:,.1f} ns, utilization {0.utilization:.1%}"
    )

    def plot(self) -> Figure:
        """In which share of the time each dimension had a chunk, over time (extra ``plots``)."""
        starts = self.timeline["start_ns"].tolist()
        of = {name: (starts, share.tolist()) for name, share in self.timeline.items() if name != "start_ns"}
        return plot.lines(f"{self.scheduler} on {self.topology}", of, "time", "share of time with a chunk")


@dataclass(frozen=True, eq=False, repr=False)
class RailsAdvice(Result):
    """What the rates of a multi-dimensional network are good for (Themis paper, section 6.3).

    >>> import antiphon
    >>> antiphon.advise_rails("2D-SW_SW").pairs["provision"].tolist()
    ['over-provisioned']

    Attributes:
        topology: preset name or specification.
        npus: NPUs of the topology.
        utilization_bound: largest mean utilization that any scheduler reaches in an AllReduce,
            latency apart.
        baseline_utilization: that of the fixed order.
        dimensions: ``name``, ``gbit_per_s``, ``balanced_gbit_per_s`` (the same total, so that the
            fixed order keeps all busy), ``binding`` (too slow for what must go over them).
        pairs: ``near`` and ``far`` dimension (from 1), ``ratio`` of the far one's rate to what is
            just enough, ``provision`` in a word.
    """

    topology: str
    npus: int
    utilization_bound: float
    baseline_utilization: float
    dimensions: Table
    pairs: Table

    headline = "RailsAdvice {0.topology}: at most {0.utilization_bound:.1%} of the rates"


@dataclass(frozen=True, eq=False, repr=False)
class TreesAdvice(Result):
    """Ring, tree and overlapped tree by a closed-form cost model (C-Cube paper, sections II-C and III-C).

    >>> import antiphon
    >>> antiphon.advise_trees(16, "1MiB").ways["name"][0]
    np.str_('ring')

    Attributes:
        ranks: ranks of the AllReduce.
        bytes: full buffer size.
        latency_ns: of one step.
        bandwidth_gb_per_s: of one link in one direction.
        height: edges from the root of the binary tree to the farthest leaf.
        ways: ``name``; ``trees`` the data is divided among, 0 for the ring; ``chunks`` of each; ``steps``;
            ``time_ns`` of these steps; ``formula_ns``, by the paper's equation; ``first_chunk_ns`` until the
            first chunk is complete everywhere; ``ring_faster_from_bytes`` and ``ring_faster_to_bytes``,
            the sizes between which the ring is faster by the equations (both 0: at no size).
    """

    ranks: int
    bytes: int
    latency_ns: float
    bandwidth_gb_per_s: float
    height: int
    ways: Table

    headline = "TreesAdvice {0.ranks:,} ranks, {0.bytes:,} bytes: {0.ways.height} ways"

    def plot(self) -> Figure:
        """The time of each way (extra ``plots``)."""
        times = dict(zip(self.ways["name"].tolist(), self.ways["time_ns"].tolist(), strict=True))
        return plot.bars(f"AllReduce on {self.ranks:,} ranks", times)


@dataclass(frozen=True, eq=False, repr=False)
class EngineAdvice(Result):
    """How large a collectives engine must be (ACE, ISCA 2021): ``advise_ace``.

    >>> import antiphon
    >>> antiphon.advise_ace("ace:4x2x2", "1MiB", share=0.5).parts["part"].tolist()
    ['alus', 'control', 'sram', 'switch']

    Attributes:
        topology: preset name or specification.
        collective: what is done.
        bytes: full buffer size.
        share: of the speed with an ideal endpoint that was asked for.
        reached: what the engine reaches.
        ideal_ns: the time with an ideal endpoint.
        endpoint: the engine, as ``--endpoint`` takes it.
        sram_bytes: its SRAM.
        fsms: its state machines.
        memory_gb_per_s: memory bandwidth set aside for it.
        bus_gb_per_s: rate of its bus from memory.
        alus: its adders.
        paper_reached: what the paper's engine reaches, with these chunks.
        limit: the part of that one of which plenty helps most, as in ``alone``; None if it reaches the share.
        alone: the least of each, ``part`` and ``least``, with plenty of the others.
        parts: ``part``, ``area_um2`` and ``power_mw`` of the engine in 28 nm, scaled from the paper's Table IV.
    """

    topology: str
    collective: str
    bytes: int
    share: float
    reached: float
    ideal_ns: float
    endpoint: str
    sram_bytes: int
    fsms: int
    memory_gb_per_s: float
    bus_gb_per_s: float
    alus: int
    paper_reached: float
    limit: str | None = field(metadata=says("limit area_um2 power_mw"))
    alone: Table
    parts: Table

    headline = "EngineAdvice {0.topology}: {0.endpoint}, {0.reached:.1%} of ideal"

    @property
    def area_um2(self) -> float:
        """Area of all parts."""
        return float(self.parts["area_um2"].sum())

    @property
    def power_mw(self) -> float:
        """Power of all parts."""
        return float(self.parts["power_mw"].sum())
