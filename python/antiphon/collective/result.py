"""One run, and many side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from antiphon import plot
from antiphon._core import System, bus_factor
from antiphon.errors import AntiphonError
from antiphon.results import Bound, Energy, FabricCost, Result, SimulationResult, Stats, Table
from antiphon.results.record import APART, PLATFORM, Part, Record, record, says

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL_RANKS = "all-ranks"
"""``Schedule.bound_of`` of a schedule that serves all ranks where the fabric has them."""

REFUSALS = ("not-applicable", "not-proven", "stalled", "too-large")
"""Error codes that leave an algorithm out of a comparison; all others end it."""


@record
class Run(Result):
    """One proven, bounded and timed schedule.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:4", "ring", bytes="1MiB")
    >>> antiphon.run("ring:4", schedule).efficiency <= 1
    True
    """

    fabric: str = says("its specification or name.")
    group: list[int] | None = says("ranks of the whole fabric that take part, in the group's order; None if all do.")
    algorithm: str = says("what made the schedule, with options.")
    file: str | None = says("in a comparison, the file that the schedule is from; None if it is from none.")
    collective: str = says("what it does.")
    root: int | None = says("rank that a Broadcast starts from, or a Reduce ends at; else None.")
    bytes: int = says("full buffer size: with a matrix, the most that a rank sends.")
    matrix_bytes: int | None = says("sum of the matrix; None without.")
    system: System = says("the platform.", PLATFORM)
    rounded_rates: list[tuple[float, float]] = says(
        "GB/s of links, as given and as the system's clock makes of them, where that differs.",
        "rounded_rates[rate_gb_per_s,effective_gb_per_s]",
    )
    slowest_link_gb_per_s: float | None = says(
        "rate at which the slowest link carries flits; None without links.",
        "slowest_link_gb_per_s fidelity protocol?=result.protocol",
    )
    ranks: int = says("how many the fabric has.")
    excluded_ranks: list[int] = says("ranks that contribute nothing and need no result.")
    bound_of: str = says(
        "ranks that the bound is about: ``all-ranks`` of the fabric; ``placement``, all on the nodes where the schedule"
        " has them; ``participants``, those that are not excluded.",
        APART,
    )
    result: SimulationResult = says(
        "what the simulation gave.",
        "verified=result.proof.complete known_gaps=result.proof.gaps share_of_optimum=result.proof.share_of_optimum"
        " reached_share_of_optimum time_ns lower_bound_ns=bound.time_ns lower_bound_of=bound_of efficiency"
        " algorithm_bandwidth_gb_per_s algorithm_bandwidth_gib_per_s bus_bandwidth_gb_per_s"
        " link_utilization_mean=result.link_utilization_mean link_utilization_max"
        " first_chunk_ns=result.first_chunk_ns last_chunk_ns=result.last_chunk_ns buffer_bytes",
    )
    stats: Stats = says(
        "figures of the schedule that need no simulation.",
        "steps=stats.steps packet_hops=result.packet_hops flit_hops=result.flit_hops events=result.events"
        " endpoint_use?=result.endpoint_use",
    )
    bound: Bound = says("lower bound of the ranks that take part, where the schedule has them.", "bound energy?")

    row = "runs"

    def __repr__(self) -> str:
        share = "" if self.efficiency is None else f", {self.efficiency:.1%} of the bound"
        return f"<Run {self.algorithm} on {self.fabric} ({self.fidelity}): {self.time_ns:,.1f} ns{share}>"

    @property
    def tables(self) -> dict[str, Table]:
        """``runs``: one row, what ``to_dict`` has; then ``links``, ``ranks``, ``chunks``, ``flights``, ``timeline``."""
        return super().tables | self.result.tables

    def plot(self) -> Figure:
        """How busy the links are over time (extra ``plots``)."""
        return _utilization(f"{self.algorithm} on {self.fabric}", [self])

    @property
    def label(self) -> str:
        """The algorithm, and the file that the schedule is from: two runs of a comparison may be of one algorithm."""
        return self.algorithm if self.file is None else f"{self.algorithm} ({self.file})"

    fidelity = Part(str, "result", "Fidelity of the simulation.")

    @property
    def chunks(self) -> Table:
        """When each chunk was complete, as in ``SimulationResult``."""
        return self.result.chunks

    @property
    def buffer_bytes(self) -> int | None:
        """What the receive buffers of a rank hold, of that which holds most; None if it is not known."""
        return self.result.buffer_bytes

    @property
    def time_ns(self) -> float:
        """From the start to the last rank's finish; at least a picosecond, the resolution."""
        return max(self.result.time_ns, 1e-3)

    @property
    def energy(self) -> Energy | None:
        """What it takes, if that was asked for."""
        return self.result.energy

    @property
    def efficiency(self) -> float | None:
        """Lower bound over time; 1 is optimal. None if the bound is 0: all ranks that take part share a node."""
        return self.bound.time_ns / self.time_ns or None

    @property
    def reached_share_of_optimum(self) -> float | None:
        """The least time that the schedule's certificate proves over this run's; None without a certificate."""
        least = self.result.proof.certified_ns
        return None if least is None else least / self.time_ns

    @property
    def algorithm_bandwidth_gb_per_s(self) -> float:
        """Buffer size over time (a byte per nanosecond is a GB/s)."""
        return self.bytes / self.time_ns

    @property
    def algorithm_bandwidth_gib_per_s(self) -> float:
        """The same in 2^30 bytes per second."""
        return self.algorithm_bandwidth_gb_per_s * 1e9 / 2**30

    @property
    def link_utilization_max(self) -> float:
        """Share of the time in which the busiest link transmits."""
        return float(self.result.links["utilization"].max())

    @property
    def bus_bandwidth_gb_per_s(self) -> float:
        """Algorithm bandwidth times the share of the buffer that each rank must send, as in the NCCL tests; with a
        matrix, algorithm bandwidth."""
        if self.matrix_bytes is not None:
            return self.algorithm_bandwidth_gb_per_s
        participants = self.ranks - len(self.excluded_ranks)
        return self.algorithm_bandwidth_gb_per_s * bus_factor(self.collective, participants)

    @property
    def replaced(self) -> str:
        """What of the system the endpoint stands in for, in a sentence; empty if it is the system's own."""
        name = self.system.endpoint.partition(":")[0]
        if name == "system":
            return ""
        return f"Endpoint {name} stands in for the system's network interfaces and reduction rate; its hand-off stays."

    @property
    def rounding(self) -> str:
        """What the clock of the system makes of the rates of links, in a sentence; empty if it changes none."""
        if not self.rounded_rates:
            return ""
        rates = ", ".join(f"{rate:.6g} GB/s carry {effective:.4g}" for rate, effective in self.rounded_rates[:4])
        more = "" if len(self.rounded_rates) <= 4 else ", ..."
        how = f"System {self.system.name} sends a flit in whole clock cycles"
        return f"{how}: links of {rates}{more}; --set clock_ns=0 sends it in any time."


@record
class Estimate(Record):
    """An algorithm that a comparison did not time, since its busiest link alone is far behind the best.

    >>> import antiphon
    >>> antiphon.compare("mesh:8x8", bytes="16MiB").estimates[0].algorithm
    'direct'
    """

    algorithm: str = says("its specification.")
    least_time_ns: float = says("for so long its busiest link is at work: no run is shorter.")
    most_efficiency: float | None = says("share of the lower bound that it reaches at most; None if the bound is 0.")


@record
class Refusal(Record):
    """An algorithm that was left out of a comparison, or of one fidelity of it, and why.

    >>> import antiphon
    >>> antiphon.compare("ring:4", bytes="1MiB", algorithms="tto,ring").refused[0].code
    'not-applicable'
    """

    algorithm: str = says("its specification.")
    reason: str = says("why, in one line.")
    code: str = says("of the error: ``not-applicable``, ``not-proven``, ``stalled``, ``too-large`` or ``time-limit``.")
    fidelity: str | None = says("the one it was left out of; None: all.", default=None)


@record
class Modelled(Record):
    """What a library's model says: no schedule, and nothing proven.

    >>> import antiphon
    >>> comparison = antiphon.compare("dgx-a100:1", bytes="1MiB", algorithms="ring", library="nccl")
    >>> comparison.library.algorithm, comparison.library.protocol, round(comparison.library.time_ns, -2)
    ('ring', 'LL', 35900.0)
    """

    library: str = says("``nccl`` or ``rccl``.")
    algorithm: str = says("what it would choose.")
    protocol: str = says("how it would send: ``LL``, ``LL128`` or ``Simple``.")
    time_ns: float = says("how long it takes by the library's own cost model.")
    expected_ns: float = says(
        "how long a run should take by what was measured of the library (docs/explanation/library.md)."
    )


@record
class Comparison(Result):
    """Runs by time, best first, and the algorithms that were left out.

    >>> import antiphon
    >>> comparison = antiphon.compare("ring:4", bytes="1MiB", algorithms="ring,direct")
    >>> comparison.best.algorithm, comparison["direct"].time_ns > comparison["ring"].time_ns
    ('ring', True)

    Runs that leave ranks out, or place them elsewhere, do not do the same: they come after all others, and after
    them incomplete ones.
    """

    fabric: str = says("its specification or name.")
    group: list[int] | None = says("ranks of the whole fabric that take part; None if all do.")
    collective: str = says("what was compared.")
    bytes: int = says("full buffer size: with a matrix, the most that a rank sends.")
    matrix_bytes: int | None = says("sum of the matrix; None without.")
    system: System = says("the platform.", PLATFORM)
    fidelities: list[str] = says("those asked for, cheapest first.", "fidelity fidelities")
    bound: Bound = says("lower bound of all ranks.", "lower_bound_ns=bound.time_ns bound")
    ladder: list[list[Run]] = says(
        "the runs of every algorithm, one a fidelity, the most detailed first; it decides the order.", "runs"
    )
    estimates: list[Estimate] = says("algorithms that were not timed, since an estimate puts them far behind the best.")
    seconds: list[float] = says(
        "how long it took here to build, prove and time each algorithm, at all fidelities: the only figures that differ"
        " from call to call; comparisons are equal whatever they are.",
        "seconds[algorithm,seconds]=_seconds",
        compare=False,
    )
    refused: list[Refusal] = says("algorithms that were left out, and why.")
    library: Modelled | None = says("what a library would do, if that was asked for.", "library?", default=None)
    cost: FabricCost | None = says("what the fabric costs to build; None for runs alone.", "cost?", default=None)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.ranking)

    def __len__(self) -> int:
        return len(self.ladder)

    def __getitem__(self, algorithm: str) -> Run:
        """The most detailed run of an algorithm: its label, or its specification or name if that is of one run only.

        Raises:
            AntiphonError: ``unknown-name``, saying why it was left out or what there is.
        """
        labels = {run.label: run for run in self.ranking}
        if algorithm in labels:
            return labels[algorithm]
        named = [run for run in labels.values() if algorithm in (run.algorithm, run.algorithm.partition(":")[0])]
        if len(named) == 1:
            return named[0]
        left_out = [refusal.reason for refusal in self.refused if refusal.algorithm == algorithm]
        left_out += ["an estimate puts it far behind" for each in self.estimates if each.algorithm == algorithm]
        why = f"was left out: {left_out[0]}" if left_out else f"has no run; there are: {', '.join(labels)}"
        raise AntiphonError(f"{algorithm!s:.40} {why}", "unknown-name")

    def __repr__(self) -> str:
        what = f"<Comparison {self.collective} of {self.bytes:,} bytes on {self.fabric}: {len(self)} algorithms"
        best = f", best {self.best.label} in {self.best.time_ns:,.1f} ns" if self.ladder else ""
        return f"{what}{best}, {len(self.refused)} left out>"

    @property
    def best(self) -> Run:
        """The first of the ranking.

        Raises:
            AntiphonError: ``not-applicable`` if there are no runs.
        """
        if not self.ladder:
            raise AntiphonError(f"no algorithm could do {self.collective} on {self.fabric}", "not-applicable")
        return self.ladder[0][0]

    @property
    def tables(self) -> dict[str, Table]:
        """``runs``, a row for each, ``estimates`` and ``refused``."""
        return {
            "runs": Table.of_rows([run.to_dict() for run in self.runs]),
            "estimates": Table.of_rows([estimate.to_dict() for estimate in self.estimates]),
            "refused": Table.of_rows([refusal.to_dict() for refusal in self.refused]),
        }

    def plot(self, kind: Literal["times", "utilization"] = "times") -> Figure:
        """``times`` against the lower bound, or ``utilization`` of the links over time (extra ``plots``)."""
        title = f"{self.collective} on {self.fabric}"
        if kind == "utilization":
            return _utilization(title, self.ranking)
        return plot.bars(title, {run.label: run.time_ns for run in self}, self.bound.time_ns)

    @property
    def fidelity(self) -> str:
        """All fidelities, cheapest first, with commas."""
        return ",".join(self.fidelities)

    @property
    def runs(self) -> list[Run]:
        """All runs, the fastest algorithm first."""
        return [run for runs in self.ladder for run in runs]

    @property
    def ranking(self) -> list[Run]:
        """The most detailed run of every algorithm, best first."""
        return [runs[0] for runs in self.ladder]

    @property
    def _seconds(self) -> list[tuple[str, float]]:
        return [(run.label, seconds) for run, seconds in zip(self.ranking, self.seconds, strict=True)]


def _utilization(title: str, runs: Sequence[Run]) -> Figure:
    """Mean utilization of the links over time."""
    of = {
        run.label: (run.result.timeline["start_ns"].tolist(), run.result.timeline["utilization"].tolist())
        for run in runs
    }
    return plot.lines(title, of, "time", "mean utilization of links")
