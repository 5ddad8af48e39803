"""What the core returns: plain, frozen, picklable records; tables are dicts of numpy arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Column: TypeAlias = "np.ndarray[tuple[int], np.dtype[Any]]"
Table: TypeAlias = dict[str, Column]
"""Column name to array; all arrays of a table have the same length."""


class ByValue:
    """Equality over dataclass fields that copes with tables and NaN."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return all(_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _equal(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        import numpy as np

        return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    return a == b


@dataclass(frozen=True)
class Proof:
    """What was proven about a schedule.

    Attributes:
        complete: every rank that must ends complete; false only for schedules with known gaps.
        conflict_free: the schedule claims that no two messages share a link in a step, and does.
        lanes: number of lanes proven; every chunk of a lane goes the same way.
        transfers: number of transfers followed.
        gaps: for a schedule with known gaps, what is missing, in one line; empty otherwise.
    """

    complete: bool
    conflict_free: bool
    lanes: int
    transfers: int
    gaps: str


@dataclass(frozen=True)
class Bound:
    """Lower bounds on the time of a collective, in nanoseconds; each holds for every schedule.

    Attributes:
        time_ns: the largest of all.
        binding: name of the bound that is largest.
        volume_ns: least total traffic over total link rate.
        cut_ns: the most loaded cut between two groups of ranks.
        latency_ns: distance of the farthest ranks.
        strength_ns: AllReduce, the weakest partition into many groups of ranks; None for other collectives.
    """

    time_ns: float
    binding: str
    volume_ns: float
    cut_ns: float
    latency_ns: float
    strength_ns: float | None


@dataclass(frozen=True)
class Parameter:
    """What may be given by key: a parameter of systems or routers, an option of an algorithm or compute model.

    Attributes:
        key: as an argument of ``System.with_`` and ``noc``, or in ``name:key=value``.
        kind: ``bytes``, ``count``, ``number``, ``choice``, ``flag``, ``rank`` or ``specification``.
        values: what it takes, in words.
        unit: of its values; empty where there is none.
        least: smallest number it takes; None if it is no number.
        most: largest.
        choices: names to choose from, or a number outside of the range.
        default: what holds unless it is given, as text; in ``System.parameters`` the value of that system.
        meaning: in one line.
        source: paper or origin.
        json: its place in JSON, in the unit of its name there; empty for options of algorithms.
    """

    key: str
    kind: str
    values: str
    unit: str
    least: float | None
    most: float | None
    choices: list[str]
    default: str
    meaning: str
    source: str
    json: str


@dataclass(frozen=True)
class Algorithm:
    """One algorithm that is known.

    Attributes:
        name: as in specifications ``name[:key=value,...]``.
        summary: what it does, in one line.
        options: what may be given behind the name.
        source: paper or origin.
        collectives: names of the collectives it can do.
    """

    name: str
    summary: str
    options: list[Parameter]
    source: str
    collectives: list[str]


@dataclass(frozen=True, eq=False)
class Stats(ByValue):
    """Figures of a schedule that need no simulation.

    Attributes:
        phases: (name, steps) of each phase.
        steps: steps over all phases.
        transfers: transfers in the schedule.
        messages: transfers times chunks.
        used_links_percent: share of links in use in the steady state.
        lanes: per lane ``reduce_height``, ``copy_height``: most transfers that a contribution,
            or a result, goes through.
        links: per link ``bytes`` on the wire, without headers.
    """

    phases: list[tuple[str, int]]
    steps: int
    transfers: int
    messages: int
    used_links_percent: float
    lanes: Table
    links: Table


@dataclass(frozen=True, eq=False)
class SimulationResult(ByValue):
    """The outcome of one simulated collective, or of several in flight; times in nanoseconds.

    Attributes:
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        proof: the proof made before the schedule was timed.
        time_ns: from the start to the last rank's finish.
        first_chunk_ns: completion of the first complete chunk.
        last_chunk_ns: completion of the last chunk.
        link_utilization_mean: share of link time in use over the whole run, 0 to 1.
        packet_hops: packets times links they crossed.
        flit_hops: flits, headers included, times links they crossed.
        events: events the engine processed.
        links: row ``i`` is link ``i`` of the fabric: ``from``, ``to`` (nodes), ``busy_ns``,
            ``utilization`` (0 to 1), ``bytes`` (without headers), ``packets``.
        ranks: row ``i`` is rank ``i``: ``finish_ns``, ``sent_bytes``, ``received_bytes``,
            ``reduce_ns`` (time spent adding).
        chunks: ``lane``, ``chunk``, ``complete_ns``; lanes of all flights are numbered through.
        flights: row ``i`` is flight ``i``, a collective by itself the only one: ``start_ns``, ``finish_ns``.
        timeline: mean utilization of all links in equal windows: ``start_ns``, ``utilization``.
    """

    fidelity: str
    proof: Proof
    time_ns: float
    first_chunk_ns: float
    last_chunk_ns: float
    link_utilization_mean: float
    packet_hops: int
    flit_hops: int
    events: int
    links: Table
    ranks: Table
    chunks: Table
    flights: Table
    timeline: Table

    def __repr__(self) -> str:
        return (
            f"<SimulationResult {self.fidelity}: {self.time_ns:.1f} ns,"
            f" {self.link_utilization_mean:.1%} mean link utilization>"
        )

    def links_frame(self) -> pd.DataFrame:
        """The table of links as a DataFrame (needs pandas)."""
        return _frame(self.links, "link")

    def ranks_frame(self) -> pd.DataFrame:
        """The table of ranks as a DataFrame (needs pandas)."""
        return _frame(self.ranks, "rank")

    def chunks_frame(self) -> pd.DataFrame:
        """The table of chunks as a DataFrame (needs pandas)."""
        return _frame(self.chunks, None)

    def timeline_frame(self) -> pd.DataFrame:
        """Utilization over time as a DataFrame (needs pandas)."""
        return _frame(self.timeline, None)


@dataclass(frozen=True)
class Router:
    """The virtual-channel routers of a flit-level network (docs/noc.md).

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
    # end of fields


@dataclass(frozen=True)
class Latency:
    """Latencies of packets in cycles, from creation to the arrival of the last flit.

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
class NocResult:
    """What a flit-level network did under synthetic traffic.

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
        network_latency_mean_cycles: from injection of the head to the arrival of the last flit.
        accepted_flits_per_node_cycle: flits that left the network.
        hops_mean: routers passed, those at both ends included.
        stable: the network kept up. If not, it is beyond saturation, and latencies are those of
            packets delivered, whatever is still queued.
        packets: packets measured.
        warm_up_cycles: cycles before the measurement.
        cycles: cycles measured.
        flit_hops: flits times links they crossed, in the whole run.
        events: events the engine processed.
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
    network_latency_mean_cycles: float
    accepted_flits_per_node_cycle: float
    hops_mean: float
    stable: bool
    packets: int
    warm_up_cycles: int
    cycles: int
    flit_hops: int
    events: int

    def to_dict(self) -> dict[str, Any]:
        """The result as documented in docs/json.md."""
        document = asdict(self)
        mean = document.pop("network_latency_mean_cycles")
        return document | {"network_latency_cycles": {"mean": mean}}


@dataclass(frozen=True, eq=False)
class Iteration(ByValue):
    """One iteration of training; times in nanoseconds.

    Attributes:
        time_ns: all of it.
        forward_ns: the forward pass.
        backward_ns: input and weight gradients.
        aggregation_ns: adding up the gradients of a rank's PEs.
        communication_ns: sum of all exchanges.
        exposed_communication_ns: time in which nothing is computed: ``exposed_model_ns`` between layers,
            ``exposed_data_ns`` for gradients.
        turnaround_ns: with overlap ``ccube`` or ``both``, the part of it until the first layer has its gradients.
        bubbles_ns: with overlap ``ccube`` or ``both``, the part of it in which later layers wait for theirs.
        exchanges: per collective ``kind``, ``bytes``, ``pass`` it follows, ``first_layer`` and
            ``last_layer`` it is for, ``ready_ns``, ``start_ns``, ``finish_ns``.
        computations: in their order, ``layer`` (its number), ``pass`` (0 forward, 1 input gradient, 2 weight
            gradient), ``ready_ns`` (all exchanges it waits for are there), ``start_ns``, ``finish_ns``.
    """

    time_ns: float
    forward_ns: float
    backward_ns: float
    aggregation_ns: float
    communication_ns: float
    exposed_communication_ns: float
    exposed_model_ns: float
    exposed_data_ns: float
    turnaround_ns: float
    bubbles_ns: float
    exchanges: Table
    computations: Table

    @property
    def forward(self) -> Table:
        """The forward passes of ``computations``, each layer's first."""
        rows = (self.computations["pass"] == 0).nonzero()[0]
        rows = rows[: int(self.computations["layer"].max()) + 1]
        return {name: column[rows] for name, column in self.computations.items() if name != "pass"}

    @property
    def compute_ns(self) -> float:
        """Time spent computing."""
        return self.forward_ns + self.backward_ns + self.aggregation_ns


@dataclass(frozen=True, eq=False)
class RailsRun(ByValue):
    """A collective on a multi-dimensional network, timed stage by stage.

    Attributes:
        topology: preset name or specification.
        npus: NPUs of the topology.
        collective: what was done.
        bytes: full buffer size.
        scheduler: ``baseline``, ``themis`` or ``search``.
        intra: queue policy of a dimension: ``fifo``, ``scf``, ``scf-before`` or ``tail``.
        chunks: equal parts of the buffer that are scheduled one by one.
        time_ns: completion of the last chunk.
        jittered_time_ns: the same with every NPU by itself and jitter; None without jitter.
        utilization: mean over dimensions, weighted by their rates, 0 to 1.
        utilization_bound: no scheduler reaches more in an AllReduce, latency apart; None for other
            collectives and where switches reduce.
        dimensions: ``name``, ``spec``, ``utilization``, ``bytes`` an NPU sends, ``busy_ns``.
        orders: per chunk, dimensions (from 1) before the AllGather, and of the AllGather.
        proof: what was proven of the plan's messages, by symmetry, and what that rests on; None where
            they are too many or switches reduce.
        timeline: equal windows, ``start_ns`` and for ``dim1``, ``dim2``, ... the share in which the
            dimension had a chunk.
        stages: every stage of every chunk: ``dimension`` (from 1), ``chunk`` and ``stage`` (from 0),
            ``ready_ns`` when it began to wait, ``start_ns`` and ``finish_ns`` of its service.
    """

    topology: str
    npus: int
    collective: str
    bytes: int
    scheduler: str
    intra: str
    chunks: int
    time_ns: float
    jittered_time_ns: float | None
    utilization: float
    utilization_bound: float | None
    dimensions: Table
    orders: list[tuple[list[int], list[int]]]
    proof: str | None
    timeline: Table
    stages: Table

    def to_dict(self) -> dict[str, Any]:
        """The run as documented in docs/json.md, without its timeline and stages."""
        return {
            "topology": self.topology,
            "npus": self.npus,
            "collective": self.collective,
            "bytes": self.bytes,
            "scheduler": self.scheduler,
            "intra": self.intra,
            "chunks": self.chunks,
            "time_ns": self.time_ns,
            "jittered_time_ns": self.jittered_time_ns,
            "utilization": self.utilization,
            "utilization_bound": self.utilization_bound,
            "proof": self.proof,
            "dimensions": rows_of(self.dimensions),
            "orders": [{"first": list(first), "gather": list(gather)} for first, gather in self.orders],
        }


@dataclass(frozen=True, eq=False)
class RailsAdvice(ByValue):
    """What the rates of a multi-dimensional network are good for (Themis paper, section 6.3).

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

    def to_dict(self) -> dict[str, Any]:
        """The advice as documented in docs/json.md."""
        return {
            "topology": self.topology,
            "npus": self.npus,
            "utilization_bound": self.utilization_bound,
            "baseline_utilization": self.baseline_utilization,
            "dimensions": rows_of(self.dimensions),
            "pairs": rows_of(self.pairs),
        }


@dataclass(frozen=True, eq=False)
class TreesAdvice(ByValue):
    """Ring, tree and overlapped tree by a closed-form cost model (C-Cube paper, sections II-C and III-C).

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

    def to_dict(self) -> dict[str, Any]:
        """The advice as documented in docs/json.md."""
        return {
            "ranks": self.ranks,
            "bytes": self.bytes,
            "latency_ns": self.latency_ns,
            "bandwidth_gb_per_s": self.bandwidth_gb_per_s,
            "height": self.height,
            "ways": rows_of(self.ways),
        }


def rows_of(table: Table) -> list[dict[str, Any]]:
    """A table of arrays as a list of rows."""
    columns = {name: column.tolist() for name, column in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _frame(table: Table, index: str | None) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        message = "tables as DataFrames need pandas; install it, or use the dict of numpy arrays"
        raise AntiphonError(message, "not-applicable") from None
    frame: pd.DataFrame = pd.DataFrame(table)
    frame.index.name = index
    return frame
