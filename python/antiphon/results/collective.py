"""What was proven of a schedule, how fast anything could be, and how fast it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon import plot
from antiphon.results.base import Result
from antiphon.results.endpoint import EndpointUse
from antiphon.results.energy import Energy
from antiphon.results.playback import Playback
from antiphon.results.record import APART, Record, record, says
from antiphon.results.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


BY_RATES = ("strength", "cut", "prices", "volume")
"""Lower bounds that follow from rates of links."""


@record
class Proof(Record):
    """What was proven about a schedule.

    >>> import antiphon
    >>> antiphon.verify("ring:4", antiphon.build("ring:4", "ring", bytes=4096)).lanes
    4
    """

    complete: bool = says("every rank that must ends complete; false only for ``Schedule.assumed``.")
    conflict_free: bool = says("the schedule claims that no two messages share a link in a step, and does.")
    lanes: int = says("number of lanes proven; every chunk of a lane goes the same way.")
    transfers: int = says("number of transfers followed.")
    gaps: str = says("for an assumed schedule, what keeps it from being proven, in one line; empty otherwise.")
    share_of_optimum: float | None = says(
        "by the rates of links: the least time of any schedule, as its certificate proves, over the time for which its"
        " busiest link is busy; None without a certificate.",
        default=None,
    )
    certified_ns: float | None = says(
        "the least time of any schedule that its certificate proves; None without.", default=None
    )


@record
class Limit(Record):
    """The links that a lower bound by rates rests on.

    >>> import antiphon
    >>> antiphon.lower_bound("ring:4", "all-gather", "1MiB").limit.part_of
    (1, 0, 0, 0)
    """

    text: str = says("what that is, in one line.")
    links: tuple[int, ...] = says("indices of the links.")
    prices: tuple[int, ...] = says(
        "what each counts, in any unit: at these prices the cheapest plan of the collective costs so much that the"
        " links, each selling its rate, need the time of the bound."
    )
    part_of: tuple[int, ...] = says(
        "the part of every rank, where the links join parts of the ranks; of a cut, 0 is where they start. Else empty."
    )


@record
class Bound(Record):
    """Lower bounds on the time of a collective, in nanoseconds; each holds for every schedule.

    >>> import antiphon
    >>> bound = antiphon.lower_bound("ring:4", bytes="1MiB")
    >>> bound.time_ns == max(bound.volume_ns, bound.cut_ns, bound.latency_ns, bound.strength_ns)
    True
    >>> bound.limit.text
    '8 links of 25 GB/s that leave single ranks: 0>3, 0>1, 1>0, ...'
    """

    time_ns: float = says("no schedule is faster: the largest of all bounds.", APART)
    binding: str = says("name of the bound that is largest.")
    volume_ns: float = says(
        "least total traffic over total link rate; of an AllToAll, bytes times the links between ranks."
    )
    cut_ns: float = says("the most loaded cut between two groups of ranks.")
    latency_ns: float = says("the launch, a packet on its way between the farthest ranks, and a hand-off.")
    strength_ns: float | None = says(
        "AllReduce: the weakest partition into any number of groups of ranks; None for other collectives."
    )
    prices_ns: float | None = says(
        "from prices of links: of an AllToAll the optimum by rates; of an AllReduce where links are not equally fast"
        " both ways. None otherwise, with a matrix, and on irregular fabrics of more than some 64 ranks."
    )
    endpoint_ns: float = says("what some rank must read, bring over its bus or write; 0 where endpoints do none of it.")
    computation_ns: float = says("additions that must be made, at the rates of all that add; 0 where these are free.")
    fidelity: str | None = says("the one at which packets go on as ``latency_ns`` says; None: it holds at any.")
    limit: Limit = says("what the largest by rates of links rests on.", repr=False)

    @property
    def by_rates(self) -> tuple[str, float]:
        """The largest by rates of links, and its name."""
        times = {name: getattr(self, f"{name}_ns") or 0.0 for name in BY_RATES}
        return max(times.items(), key=lambda each: each[1])

    @property
    def binds(self) -> str:
        """What binds: ``rates`` of links, ``latency``, ``endpoint`` or ``computation``."""
        return "rates" if self.binding in BY_RATES else self.binding


@record
class Stats(Result):
    """Figures of a schedule that need no simulation.

    >>> import antiphon
    >>> fabric = antiphon.Fabric("ring:4")
    >>> antiphon.build(fabric, "ring", bytes=4096).stats(fabric).phases
    [('reduce-scatter', 3), ('all-gather', 3)]
    """

    phases: list[tuple[str, int]] = says("(name, steps) of each phase.")
    steps: int = says("steps over all phases; of a schedule by a timetable, its slots.")
    transfers: int = says("transfers in the schedule.")
    messages: int = says("transfers times chunks.")
    used_links_percent: float = says("share of links in use in the steady state.")
    lanes: Table = says(
        "per lane ``reduce_height``, ``copy_height``: most transfers that a contribution, or a result, goes through."
    )
    links: Table = says("per link ``bytes`` on the wire, without headers.")

    headline = "Stats: {0.steps:,} steps, {0.transfers:,} transfers, {0.messages:,} messages"


@record
class SimulationResult(Result):
    """The outcome of one simulated collective, or of several in flight; times in nanoseconds.

    >>> import antiphon
    >>> result = antiphon.simulate("ring:4", antiphon.build("ring:4", "ring", bytes="1MiB"))
    >>> list(result.tables)
    ['links', 'ranks', 'chunks', 'flights', 'timeline']
    """

    fidelity: str = says("``alpha-beta``, ``packet`` or ``flit``.")
    proof: Proof = says("the proof made before the schedule was timed.")
    time_ns: float = says("from the start to the last rank's finish.")
    first_chunk_ns: float = says("completion of the first complete chunk.")
    last_chunk_ns: float = says("completion of the last chunk.")
    link_utilization_mean: float = says("share of link time in use over the whole run, 0 to 1.")
    packet_hops: int = says("packets times links they crossed.")
    flit_hops: int = says("flits, headers included, times links they crossed.")
    events: int = says(
        "events the simulator processed, without those of skipped periods; a few more if several cores share the run."
    )
    links: Table = says(
        "row ``i`` is link ``i`` of the fabric: ``from``, ``to`` (nodes), ``busy_ns``, ``utilization`` (0 to 1),"
        " ``bytes`` (without headers), ``packets``."
    )
    ranks: Table = says(
        "row ``i`` is rank ``i``: ``finish_ns``, ``sent_bytes``, ``received_bytes``, ``reduce_ns`` (time spent adding),"
        " ``buffer_bytes`` (the most at a time that was to be added and had been sent to it: what its receive buffers"
        " hold; NaN if the run was divided among cores)."
    )
    chunks: Table = says("``lane``, ``chunk``, ``complete_ns``; lanes of all flights are numbered through.")
    flights: Table = says(
        "row ``i`` is flight ``i``, a collective by itself the only one: ``start_ns``, ``finish_ns``."
    )
    timeline: Table = says("mean utilization of all links in equal windows: ``start_ns``, ``utilization``.")
    protocol: str | None = says("the fastest of the system's protocols, which it is with; None without.", default=None)
    energy: Energy | None = says("what the run took, if it was asked for.", default=None)
    playback: Playback | None = says(
        "what links carried over time, for a page that plays it, if it was asked for.", APART, default=None, repr=False
    )
    endpoint_use: EndpointUse | None = says(
        "what the parts of the endpoint did on the rank where each was busiest, and what limits; None at ``system``.",
        default=None,
    )

    headline = "SimulationResult {0.fidelity}: {0.time_ns:.1f} ns, {0.link_utilization_mean:.1%} mean link utilization"

    @property
    def buffer_bytes(self) -> int | None:
        """What the receive buffers of the rank that holds most must hold: messages that are to be added, from when they
        are sent until they are added; None if the run was divided among cores."""
        most = float(self.ranks["buffer_bytes"].max())
        return None if most != most else int(most)

    def plot(self) -> Figure:
        """How busy the links are over time (extra ``plots``)."""
        points = (self.timeline["start_ns"].tolist(), self.timeline["utilization"].tolist())
        return plot.lines(self.fidelity, {"links": points}, "time", "mean utilization of links")

    def links_frame(self) -> pd.DataFrame:
        """The table of links as a DataFrame (needs pandas)."""
        return self.links.to_frame().rename_axis(index="link")

    def ranks_frame(self) -> pd.DataFrame:
        """The table of ranks as a DataFrame (needs pandas)."""
        return self.ranks.to_frame().rename_axis(index="rank")

    def chunks_frame(self) -> pd.DataFrame:
        """The table of chunks as a DataFrame (needs pandas)."""
        return self.chunks.to_frame()

    def timeline_frame(self) -> pd.DataFrame:
        """Utilization over time as a DataFrame (needs pandas)."""
        return self.timeline.to_frame()
