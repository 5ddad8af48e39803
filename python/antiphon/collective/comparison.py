"""One run, and many runs side by side: build, prove, bound and time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from antiphon._core import (
    Fabric,
    Schedule,
    System,
    build,
    bus_factor,
    format_bytes,
    lower_bound,
    parse_bytes,
    simulate,
)
from antiphon.arguments import expect
from antiphon.collective.specs import known_names, specs_of, split_fidelities
from antiphon.errors import AntiphonError
from antiphon.parallel import check, in_parallel
from antiphon.results import Bound, SimulationResult, Stats, Table

Progress = Callable[[str, float], object]
"""Called with an algorithm's name and the share done, 0 to 1, of its simulation or, named so, of building it."""
REFUSALS = ("not-applicable", "not-proven", "stalled", "too-large")
"""Error codes that leave an algorithm out of a comparison; all others end it."""
ALL_RANKS = "all-ranks"
"""``Schedule.bound_of`` of a schedule that serves all ranks where the fabric has them."""


@dataclass(frozen=True)
class Run:
    """One proven, bounded and timed schedule.

    ``group`` has the ranks of the whole fabric that take part, None if all do.
    ``bound`` is that of the ranks that take part, where the schedule has them; ``bound_of`` is as in ``Schedule``.
    """

    fabric: str
    group: list[int] | None
    algorithm: str
    collective: str
    root: int | None
    bytes: int
    system: System
    ranks: int
    excluded_ranks: list[int]
    bound: Bound
    bound_of: str
    stats: Stats
    result: SimulationResult
    rounded_rates: list[tuple[float, float]]

    @property
    def fidelity(self) -> str:
        """Fidelity of the simulation."""
        return self.result.fidelity

    @property
    def time_ns(self) -> float:
        """From the start to the last rank's finish; at least a picosecond, the resolution."""
        return max(self.result.time_ns, 1e-3)

    @property
    def chunks(self) -> Table:
        """When each chunk was complete, as in ``SimulationResult``."""
        return self.result.chunks

    @property
    def efficiency(self) -> float | None:
        """Lower bound over time; 1 is optimal. None if the bound is 0: all ranks that take part share a node."""
        return self.bound.time_ns / self.time_ns or None

    @property
    def algorithm_bandwidth_gb_per_s(self) -> float:
        """Buffer size over time (a byte per nanosecond is a GB/s)."""
        return self.bytes / self.time_ns

    @property
    def bus_bandwidth_gb_per_s(self) -> float:
        """Algorithm bandwidth times the share of the buffer each rank must send."""
        participants = self.ranks - len(self.excluded_ranks)
        return self.algorithm_bandwidth_gb_per_s * bus_factor(self.collective, participants)

    @property
    def rounding(self) -> str:
        """What the clock of the system makes of the rates of links, in a sentence; empty if it changes none."""
        if not self.rounded_rates:
            return ""
        rates = ", ".join(f"{rate:.6g} GB/s carry {effective:.4g}" for rate, effective in self.rounded_rates[:4])
        more = "" if len(self.rounded_rates) <= 4 else ", ..."
        return f"System {self.system.name} sends a flit in whole clock cycles: links of {rates}{more}."

    def to_dict(self) -> dict[str, Any]:
        """The run as documented in docs/json.md, without its tables."""
        result, bound = self.result, self.bound
        return {
            "fabric": self.fabric,
            "group": self.group,
            "algorithm": self.algorithm,
            "collective": self.collective,
            "root": self.root,
            "bytes": self.bytes,
            "system": self.system.name,
            "rounded_rates": [
                {"rate_gb_per_s": rate, "effective_gb_per_s": effective} for rate, effective in self.rounded_rates
            ],
            "fidelity": result.fidelity,
            "ranks": self.ranks,
            "excluded_ranks": self.excluded_ranks,
            "verified": result.proof.complete,
            "known_gaps": result.proof.gaps,
            "time_ns": self.time_ns,
            "lower_bound_ns": bound.time_ns,
            "lower_bound_of": self.bound_of,
            "efficiency": self.efficiency,
            "algorithm_bandwidth_gb_per_s": self.algorithm_bandwidth_gb_per_s,
            "algorithm_bandwidth_gib_per_s": self.algorithm_bandwidth_gb_per_s * 1e9 / 2**30,
            "bus_bandwidth_gb_per_s": self.bus_bandwidth_gb_per_s,
            "link_utilization_mean": result.link_utilization_mean,
            "link_utilization_max": float(result.links["utilization"].max()),
            "first_chunk_ns": result.first_chunk_ns,
            "last_chunk_ns": result.last_chunk_ns,
            "steps": self.stats.steps,
            "packet_hops": result.packet_hops,
            "flit_hops": result.flit_hops,
            "events": result.events,
            "bound": bound_dict(bound),
        }


@dataclass(frozen=True)
class Refusal:
    """An algorithm that was left out of a comparison, or of one fidelity of it, and why."""

    algorithm: str
    reason: str
    code: str
    fidelity: str | None = None


@dataclass(frozen=True)
class Comparison:
    """Runs by time, best first, and the algorithms that were left out.

    Runs that leave ranks out, or place them elsewhere, do not do the same: they come after all others, and after
    them incomplete ones. ``bound`` is that of all ranks.

    ``ladder`` has the runs of every algorithm, one a fidelity, the most detailed first; it decides
    the order.
    """

    fabric: str
    group: list[int] | None
    collective: str
    bytes: int
    system: System
    fidelities: list[str]
    bound: Bound
    ladder: list[list[Run]]
    refused: list[Refusal]

    @property
    def fidelity(self) -> str:
        """All fidelities, cheapest first, with commas."""
        return ",".join(self.fidelities)

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for runs in self.ladder for run in runs]

    @property
    def ranking(self) -> list[Run]:
        """The most detailed run of every algorithm, best first."""
        return [runs[0] for runs in self.ladder]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as documented in docs/json.md."""
        return {
            "fabric": self.fabric,
            "group": self.group,
            "collective": self.collective,
            "bytes": self.bytes,
            "system": self.system.name,
            "fidelity": self.fidelity,
            "fidelities": self.fidelities,
            "lower_bound_ns": self.bound.time_ns,
            "bound": bound_dict(self.bound),
            "runs": [run.to_dict() for run in self.runs],
            "refused": [asdict(refusal) for refusal in self.refused],
        }


def bound_dict(bound: Bound) -> dict[str, Any]:
    """A bound as documented in docs/json.md."""
    return {
        "binding": bound.binding,
        "volume_ns": bound.volume_ns,
        "cut_ns": bound.cut_ns,
        "latency_ns": bound.latency_ns,
        "strength_ns": bound.strength_ns,
    }


def run(
    fabric: Fabric,
    schedule: Schedule,
    system: str | System = "generic",
    fidelity: str = "packet",
    *,
    bound: Bound | None = None,
    progress: Callable[[float], object] | None = None,
) -> Run:
    """Proves and times a schedule and sets it against its lower bound.

    ``bound`` is that of all ranks, if it is known.

    Raises:
        AntiphonError: as ``simulate``.
    """
    expect("fabric", fabric, Fabric)
    expect("schedule", schedule, Schedule)
    expect("system", system, str, System)
    system = System(system) if isinstance(system, str) else system
    if bound is None or schedule.bound_of != ALL_RANKS:
        bound = schedule.lower_bound(fabric, system)
    return Run(
        fabric=fabric.name,
        group=fabric.members,
        algorithm=schedule.algorithm,
        collective=schedule.collective,
        root=schedule.root,
        bytes=schedule.bytes,
        system=system,
        ranks=fabric.ranks,
        excluded_ranks=schedule.excluded,
        bound=bound,
        bound_of=schedule.bound_of,
        result=simulate(fabric, schedule, system, fidelity, progress),
        stats=schedule.stats(fabric),
        rounded_rates=system.rounded_rates(fabric),
    )


def compare(
    fabric: Fabric,
    collective: str = "all-reduce",
    bytes: int | str = "64MiB",
    algorithms: str | Iterable[str] | None = None,
    system: str | System = "generic",
    fidelity: str | Iterable[str] = "packet",
    *,
    root: int = 0,
    schedules: Sequence[Schedule] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Runs algorithms (default: all that are known) on a fabric, each proven before it is timed.

    ``algorithms`` is a sequence of specifications, or text with commas as on the command line;
    ``fidelity`` is one fidelity or several, in a sequence or with commas; ``jobs`` algorithms run at a time, by
    default as many as there are cores. ``schedules`` are others' beside them, which do the same.

    Raises:
        AntiphonError: for mistakes in the arguments; an algorithm that does not fit the fabric,
            cannot be proven or is too large is listed in ``refused`` instead.
    """
    system = System(system) if isinstance(system, str) else system
    size = parse_bytes(bytes)
    bound = lower_bound(fabric, collective, size, system, root)
    specs = known_names() if algorithms is None else specs_of(algorithms)
    for spec in specs:
        if spec.partition(":")[0] not in known_names():
            build(fabric, spec, collective, size, system, root)  # raises, naming the nearest
    for schedule in schedules:
        _expect_same(schedule, collective, size, root)
    chosen = split_fidelities(fidelity)

    def time(way: str | Schedule) -> tuple[list[Run], list[Refusal]]:
        spec = way if isinstance(way, str) else way.algorithm
        try:
            building = _heartbeat(progress, f"{spec} (building)")
            schedule = (
                way if isinstance(way, Schedule) else build(fabric, way, collective, size, system, root, building)
            )
        except AntiphonError as error:
            return [], [_refusal(spec, fabric, error)]
        runs: list[Run] = []
        refused: list[Refusal] = []
        for name in reversed(chosen):
            heartbeat = _heartbeat(progress, spec if len(chosen) == 1 else f"{spec} ({name})")
            try:
                runs.append(run(fabric, schedule, system, name, bound=bound, progress=heartbeat))
            except AntiphonError as error:
                refused.append(_refusal(spec, fabric, error, name if len(chosen) > 1 else None))
        return runs, refused

    ways: list[str | Schedule] = [*specs, *schedules]
    timed = in_parallel(time, ways, jobs)
    ladder = [runs for runs, _ in timed if runs]
    refused = [refusal for _, refusals in timed for refusal in refusals]
    rank = {name: place for place, name in enumerate(reversed(chosen))}
    # An algorithm that could not be timed in the greatest detail does not compete with those that were.
    ladder.sort(
        key=lambda runs: (
            not runs[0].result.proof.complete,
            runs[0].bound_of != ALL_RANKS,
            rank[runs[0].result.fidelity],
            runs[0].time_ns,
        )
    )
    return Comparison(fabric.name, fabric.members, collective, size, system, chosen, bound, ladder, refused)


def _expect_same(schedule: Schedule, collective: str, size: int, root: int) -> None:
    """Refuses a schedule that does something else."""
    expect("schedules", schedule, Schedule)
    asked = (collective, size, root if schedule.root is not None else None)
    if (schedule.collective, schedule.bytes, schedule.root) != asked:
        what = f"{schedule.algorithm} does {schedule.collective} of {format_bytes(schedule.bytes)}"
        where = "" if schedule.root is None else f" with root {schedule.root}"
        raise AntiphonError(f"{what}{where}: compare it with others that do the same", "bad-spec")


def _heartbeat(progress: Progress | None, name: str) -> Callable[[float], object]:
    """``progress`` of one piece of work, begun."""

    def tell(share: float) -> None:
        check()
        if progress is not None:
            progress(name, share)

    tell(0.0)
    return tell


def _refusal(algorithm: str, fabric: Fabric, error: AntiphonError, fidelity: str | None = None) -> Refusal:
    if error.code not in REFUSALS:
        raise error
    reason = error.message.removeprefix(f"{algorithm} does not apply to {fabric.name}: ")
    return Refusal(algorithm, reason, error.code, fidelity)
