"""Networks: routers under synthetic traffic, dimensions under collectives, and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon import plot
from antiphon.results.base import Result
from antiphon.results.endpoint import EndpointUse
from antiphon.results.energy import Energy
from antiphon.results.record import APART, ASKED, Record, record, says
from antiphon.results.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@record
class Router(Record):
    """The virtual-channel routers of a flit-level network (docs/explanation/noc.md).

    >>> import antiphon
    >>> antiphon.noc("mesh:2x2", vcs=2, warm_up_cycles=50, cycles=50).router.vcs
    2

    Delays are in cycles, buffers in flits; `router_parameters` has the meanings. None: any number.
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


@record
class Latency(Record):
    """Latencies of packets in cycles, from creation to the arrival of the last flit.

    >>> import antiphon
    >>> latency = antiphon.noc("mesh:2x2", warm_up_cycles=50, cycles=500).packet_latency_cycles
    >>> latency.p50 <= latency.p99
    True
    """

    mean: float = says("mean of all packets.")
    half_width: float | None = says("half the width of the 95 % confidence interval of the mean; None if unknown.")
    p50: int = says("the median.")
    p99: int = says("the 99th percentile.")


@record
class NocResult(Result):
    """What a flit-level network did under synthetic traffic.

    >>> import antiphon
    >>> antiphon.noc("mesh:2x2", rate=0.1, warm_up_cycles=50, cycles=500).stable
    True

    Its table ``runs`` is one row, what ``to_dict`` has.
    """

    fabric: str = says("the fabric's name.")
    traffic: str = says("the pattern of destinations.")
    rate: float = says("flits offered per node and cycle.")
    packet_flits: int = says("flits of every packet.")
    router: Router = says("the routers.")
    routing: str = says("``xy``, ``yx`` or ``minimal``.")
    link_cycles: int = says("cycles that a link takes for one flit.")
    latency_cycles: int = says("cycles that a flit travels after that.")
    seed: int = says("seed of all random numbers.")
    packet_latency_cycles: Latency = says("from creation to the arrival of the last flit.")
    accepted_flits_per_node_cycle: float = says("flits that left the network, per rank and cycle.")
    hops_mean: float = says("routers passed, those at both ends included.")
    stable: bool = says(
        "the network kept up. If not, it is beyond saturation, and latencies are those of packets delivered,"
        " whatever is still queued."
    )
    packets: int = says("packets measured.")
    warm_up_cycles: int = says("cycles before the measurement.")
    cycles: int = says("cycles measured.")
    flit_hops: int = says("flits times links they crossed, in the whole run.")
    events: int = says("events the engine processed.")
    network_latency_mean_cycles: float = says(
        "from injection of the head to the arrival of the last flit.",
        "network_latency_cycles.mean=network_latency_mean_cycles",
    )
    energy: Energy | None = says("what the whole run took, if it was asked for.", ASKED, default=None)

    row = "runs"

    def __repr__(self) -> str:
        state = "" if self.stable else ", saturated"
        return (
            f"<NocResult {self.traffic} on {self.fabric}: rate {self.rate:.4g},"
            f" latency {self.packet_latency_cycles.mean:,.2f} cycles{state}>"
        )


@record
class RailsRun(Result):
    """A collective on a multi-dimensional network, timed stage by stage.

    >>> import antiphon
    >>> antiphon.rails("2D-SW_SW", chunks=4, scheduler="baseline").orders[0]
    ([1, 2], [2, 1])
    """

    topology: str = says("preset name or specification.")
    npus: int = says("NPUs of the topology.")
    collective: str = says("what was done.")
    bytes: int = says("full buffer size.")
    scheduler: str = says("``baseline``, ``themis``, ``search`` or ``phased``.")
    intra: str = says("queue policy of a dimension: ``fifo``, ``scf``, ``scf-before``, ``tail`` or ``oldest``.")
    chunks: int = says("equal parts of the buffer that are scheduled one by one.")
    endpoint: str = says("what stands between memory and links.")
    time_ns: float = says("completion of the last chunk.")
    jittered_time_ns: float | None = says("the same with every NPU by itself and jitter; None without jitter.")
    utilization: float = says("mean over dimensions, weighted by their rates, 0 to 1.")
    utilization_bound: float | None = says(
        "no scheduler reaches more in an AllReduce, latency apart; None for other collectives and where switches"
        " reduce."
    )
    header_share: float = says("headers' share of all bytes that an NPU sends, 0 without ``packets``.")
    proof: str | None = says(
        "what was proven of the plan's messages, by symmetry, and what that rests on; None where they are too many"
        " or switches reduce."
    )
    dimensions: Table = says("``name``, ``spec``, ``utilization``, ``bytes`` an NPU sends, ``busy_ns``.")
    orders: list[tuple[list[int], list[int]]] = says(
        "per chunk, dimensions (from 1) before the AllGather, and of the AllGather.",
        "orders[first,gather]",
    )
    timeline: Table = says(
        "equal windows, ``start_ns`` and for ``dim1``, ``dim2``, ... the share in which the dimension had a chunk.",
        APART,
    )
    stages: Table = says(
        "every stage of every chunk: ``dimension`` (from 1), ``chunk`` and ``stage`` (from 0), ``ready_ns`` when it"
        " began to wait, ``start_ns`` and ``finish_ns`` of its service.",
        APART,
    )
    energy: Energy | None = says(
        "what it took, if it was asked for; its ``links`` are dimensions.",
        ASKED,
        default=None,
    )
    endpoint_use: EndpointUse | None = says(
        "what the parts of the endpoint did, and what limits; None at ``system``.",
        "endpoint_use?",
        default=None,
    )

    headline = (
        "RailsRun {0.scheduler} ({0.intra}) on {0.topology}: {0.time_ns:,.1f} ns, utilization {0.utilization:.1%}"
    )

    def plot(self) -> Figure:
        """In which share of the time each dimension had a chunk, over time (extra ``plots``)."""
        starts = self.timeline["start_ns"].tolist()
        of = {name: (starts, share.tolist()) for name, share in self.timeline.items() if name != "start_ns"}
        return plot.lines(f"{self.scheduler} on {self.topology}", of, "time", "share of time with a chunk")


@record
class RailsFlights(Result):
    """Several collectives in flight on a multi-dimensional network.

    >>> import antiphon
    >>> antiphon.rails_flights("2D-SW_SW", [antiphon.RailsFlight("1MB")], scheduler="baseline").flights.height
    1
    """

    topology: str = says("preset name or specification.")
    npus: int = says("NPUs of the topology.")
    scheduler: str = says("who ordered the chunks of each.")
    intra: str = says("queue policy of a dimension.")
    endpoint: str = says("what stands between memory and links.")
    shared_loads: bool = says("Themis counted what dimensions still had to do of others.")
    time_ns: float = says("completion of the last flight.")
    utilization: float = says("mean over dimensions, weighted by their rates, 0 to 1.")
    dimensions: Table = says("``name``, ``spec``, ``utilization``.")
    flights: Table = says("``name``, ``collective``, ``bytes``, ``chunks``, ``start_ns``, ``finish_ns``.")
    orders: list[list[tuple[list[int], list[int]]]] = says("of each flight as in ``RailsRun``.", APART)

    headline = "RailsFlights {0.flights.height:,} on {0.topology} by {0.scheduler} ({0.intra}): {0.time_ns:,.1f} ns"

    def plot(self) -> Figure:
        """When each is under way (extra ``plots``)."""
        rows = self.flights.rows()
        tracks = {
            row["name"] or f"flight {number}": [
                (row["start_ns"], row["finish_ns"] - row["start_ns"], row["collective"])
            ]
            for number, row in enumerate(rows)
        }
        return plot.spans(f"{len(rows):,} flights on {self.topology}", tracks)


@record
class RailsAdvice(Result):
    """What the rates of a multi-dimensional network are good for (Themis paper, section 6.3).

    >>> import antiphon
    >>> antiphon.advise_rails("2D-SW_SW").pairs["provision"].tolist()
    ['over-provisioned']
    """

    topology: str = says("preset name or specification.")
    npus: int = says("NPUs of the topology.")
    utilization_bound: float = says(
        "largest mean utilization that any scheduler reaches in an AllReduce, latency apart."
    )
    baseline_utilization: float = says("mean utilization of the fixed order.")
    dimensions: Table = says(
        "``name``, ``gbit_per_s``, ``balanced_gbit_per_s`` (the same total, so that the fixed order keeps all"
        " busy), ``binding`` (too slow for what must go over them)."
    )
    pairs: Table = says(
        "``near`` and ``far`` dimension (from 1), ``ratio`` of the far one's rate to what is just enough,"
        " ``provision``: ``just enough``, ``over-provisioned`` or ``under-provisioned``."
    )

    headline = "RailsAdvice {0.topology}: at most {0.utilization_bound:.1%} of the rates"


@record
class TreesAdvice(Result):
    """Ring, tree and overlapped tree by a closed-form cost model (C-Cube paper, sections II-C and III-C).

    >>> import antiphon
    >>> antiphon.advise_trees(16, "1MiB").ways["name"][0]
    np.str_('ring')
    """

    ranks: int = says("ranks of the AllReduce.")
    bytes: int = says("full buffer size.")
    latency_ns: float = says("latency of one step.")
    bandwidth_gb_per_s: float = says("rate of one link in one direction.")
    height: int = says("edges from the root of the binary tree to the farthest leaf.")
    ways: Table = says(
        "``name``; ``trees`` the data is divided among, 0 for the ring; ``chunks`` of each; ``steps``; ``time_ns``"
        " of these steps; ``formula_ns``, by the paper's equation; ``first_chunk_ns`` until the first chunk is"
        " complete everywhere; ``ring_faster_from_bytes`` and ``ring_faster_to_bytes``, the sizes between which the"
        " ring is faster by the equations (both 0: at no size)."
    )

    headline = "TreesAdvice {0.ranks:,} ranks, {0.bytes:,} bytes: {0.ways.height} ways"

    def plot(self) -> Figure:
        """The time of each way (extra ``plots``)."""
        times = dict(zip(self.ways["name"].tolist(), self.ways["time_ns"].tolist(), strict=True))
        return plot.bars(f"AllReduce on {self.ranks:,} ranks", times)


@record
class EngineAdvice(Result):
    """How large a collectives engine must be (ACE, ISCA 2021): ``advise_ace``.

    >>> import antiphon
    >>> antiphon.advise_ace("ace:4x2x2", "1MiB", share=0.5).parts["part"].tolist()
    ['alus', 'control', 'sram', 'switch']
    """

    topology: str = says("preset name or specification.")
    collective: str = says("what is done.")
    bytes: int = says("full buffer size.")
    share: float = says("share of the speed with an ideal endpoint that was asked for.")
    reached: float = says("what the engine reaches.")
    ideal_ns: float = says("the time with an ideal endpoint.")
    endpoint: str = says("the engine, as ``--endpoint`` takes it.")
    sram_bytes: int = says("its SRAM.")
    fsms: int = says("its state machines.")
    memory_gb_per_s: float = says("memory bandwidth set aside for it.")
    bus_gb_per_s: float = says("rate of its bus from memory.")
    alus: int = says("its adders.")
    paper_reached: float = says("what the paper's engine reaches, with these chunks.")
    limit: str | None = says(
        "the part of that one of which plenty helps most, as in ``alone``; None if it reaches the share.",
        "limit area_um2 power_mw",
    )
    alone: Table = says("the least of each, ``part`` and ``least``, with plenty of the others.")
    parts: Table = says(
        "``part``, ``area_um2`` and ``power_mw`` of the engine in 28 nm, scaled from the paper's Table IV."
    )

    headline = "EngineAdvice {0.topology}: {0.endpoint}, {0.reached:.1%} of ideal"

    @property
    def area_um2(self) -> float:
        """Area of all parts."""
        return float(self.parts["area_um2"].sum())

    @property
    def power_mw(self) -> float:
        """Power of all parts."""
        return float(self.parts["power_mw"].sum())
