"""One run, and many runs side by side: build, prove, bound and time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from antiphon._core import Fabric, Schedule, System, cost
from antiphon.arguments import expect, shown
from antiphon.collective.contest import Candidate, Contest
from antiphon.collective.matrix import Amount, Matrix, amount, size_text
from antiphon.collective.result import ALL_RANKS, Comparison, Estimate, Modelled, Run
from antiphon.collective.schedules import Heartbeat, as_schedule, build, lower_bound, simulate
from antiphon.collective.specs import known_names, specs_of, split_fidelities
from antiphon.collective.timing import Progress
from antiphon.deadline import Deadline
from antiphon.errors import AntiphonError
from antiphon.given import as_collective, as_fabric, as_system
from antiphon.library.cluster import Cluster
from antiphon.library.measured import expected
from antiphon.names import Collective, Fidelity, Library
from antiphon.results import Bound


def run(
    fabric: str | Fabric,
    schedule: str | os.PathLike[str] | Schedule,
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    *,
    bound: Bound | None = None,
    progress: Callable[[float], object] | None = None,
    energy: bool = False,
    trace: str | os.PathLike[str] | None = None,
    jobs: int | None = 1,
    playback: bool = False,
) -> Run:
    """Proves and times a schedule and sets it against its lower bound.

    >>> schedule = build("ring:4", "ring", bytes="1MiB")
    >>> run("ring:4", schedule).bus_bandwidth_gb_per_s > run("ring:4", schedule).algorithm_bandwidth_gb_per_s
    True

    Args:
        fabric: specification or Fabric that the schedule is for.
        schedule: a Schedule, or a file ``*.json`` (docs/reference/schedule.md).
        system: preset, file or System.
        fidelity: in how much detail.
        bound: that of all ranks at this fidelity with shards of whole elements, if it is known.
        progress: called about ten times a second with the share done, 0 to 1; an exception it raises ends the run.
        energy: also what the run takes (docs/explanation/energy.md).
        trace: also a file ``*.json`` of what happened when, in Chrome's trace event format (docs/reference/formats.md).
        jobs: as for ``simulate``.
        playback: as for ``simulate``.

    Raises:
        AntiphonError: as ``simulate``.
    """
    fabric, system = as_fabric(fabric), as_system(system)
    schedule = as_schedule(schedule, fabric)
    recorded: dict[str, Any] = {"energy": energy, "trace": trace, "playback": playback}
    if bound is None or schedule.bound_of != ALL_RANKS or schedule.align > 4:
        bound = schedule.lower_bound(fabric, system, fidelity)
    return Run(
        fabric=fabric.name,
        group=fabric.members,
        algorithm=schedule.algorithm,
        file=None,
        collective=schedule.collective,
        root=schedule.root,
        bytes=schedule.bytes,
        matrix_bytes=schedule.matrix_bytes,
        system=system,
        ranks=fabric.ranks,
        excluded_ranks=schedule.excluded,
        bound=bound,
        bound_of=schedule.bound_of,
        result=simulate(fabric, schedule, system, fidelity, progress, **recorded, jobs=jobs),
        stats=schedule.stats(fabric),
        rounded_rates=system.rounded_rates(fabric),
        slowest_link_gb_per_s=system.slowest_rate(fabric),
    )


def bounded(
    fabric: Fabric,
    collective: str = "all-reduce",
    bytes: int | str | None = None,
    system: System | None = None,
    *,
    root: int = 0,
    matrix: Matrix | None = None,
    fidelity: str = "packet",
) -> tuple[Bound, dict[str, Any]]:
    """How fast anything could be at a fidelity, also as documented in docs/reference/json.md."""
    system, collective = System() if system is None else system, as_collective(collective)
    data = amount(bytes, matrix, fabric)
    lower = lower_bound(fabric, collective, system=system, root=root, fidelity=fidelity, **data.given)
    return lower, {
        "fabric": fabric.name,
        "group": fabric.members,
        "collective": collective,
        "bytes": data.bytes,
        "matrix_bytes": data.matrix_bytes,
        "system": system.name,
        "lower_bound_ns": lower.time_ns,
        "bound": lower.to_dict(),
    }


def compare(
    fabric: str | Fabric,
    collective: Collective | str = "all-reduce",
    bytes: int | str | None = None,
    algorithms: str | Iterable[str] | None = None,
    system: str | System = "generic",
    fidelity: Fidelity | str | Iterable[str] = "packet",
    *,
    root: int = 0,
    schedules: Iterable[str | os.PathLike[str] | Schedule] | Mapping[str, Schedule] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
    energy: bool = False,
    matrix: Matrix | None = None,
    time_limit_s: float | None = None,
    estimates: bool = True,
    library: Library | str | None = None,
    playback: bool = False,
) -> Comparison:
    """Runs algorithms (default: all that are known) on a fabric, each proven before it is timed.

    >>> comparison = compare("mesh:4x4", bytes="1MiB", algorithms=["tto", "multitree", "hierarchical"], system="tto")
    >>> [run.algorithm for run in comparison]
    ['hierarchical', 'multitree', 'tto']

    Args:
        fabric: specification or Fabric.
        collective: what to compute.
        bytes: full buffer size, a number of bytes or text; default: 64 MiB.
        algorithms: a sequence of specifications or ``Algorithm``, or text with commas.
        system: preset, file or System.
        fidelity: one fidelity or several, in a sequence or with commas; the most detailed decides the order.
        root: rank that a Broadcast starts from, or a Reduce ends at.
        schedules: others' schedules beside them, or files (JSON or of another tool), which do the same; or schedules by
            the files that they are from.
        jobs: algorithms that run at a time; default: as many as there are cores.
        progress: called with an algorithm and the share done of building or simulating it, 0 to 1.
        energy: also what each takes (docs/explanation/energy.md); the order stays that of times.
        matrix: for an all-to-all, instead of ``bytes``: what each rank, by row, has for each other one, by column:
            an array, rows of sizes, or a CSV file (docs/reference/cli.md).
        time_limit_s: seconds after which no algorithm is begun, and what is at work ends at its next report of
            progress; those are listed in ``refused`` with the code ``time-limit``.
        estimates: whether algorithms whose busiest link alone takes more than five times as long as the best are only
            estimated, unless they are asked for by name.
        library: also what this library's model says, on a preset of GPU boxes.
        playback: also what links carried over time, as pages play it; times are the same.

    Raises:
        AntiphonError: for mistakes in the arguments; an algorithm that does not fit the fabric,
            cannot be proven or is too large is listed in ``refused`` instead.
    """
    deadline = Deadline(time_limit_s)
    progress = deadline.watching(progress)
    fabric, system, collective = as_fabric(fabric), as_system(system), as_collective(collective)
    data = amount(bytes, matrix, fabric)
    given = data.given | {"collective": collective, "system": system, "root": root}
    specs = known_names() if algorithms is None else specs_of(algorithms)
    for spec in specs:
        if spec.partition(":")[0] not in known_names():
            build(fabric, spec, **given)  # raises, naming the nearest
    others = _schedules(schedules, fabric, data)
    for _, schedule in others:
        _expect_same(schedule, collective, data, root)
    chosen = split_fidelities(fidelity)
    candidates = [Candidate(spec) for spec in specs]
    candidates += [Candidate(schedule.algorithm, file, schedule) for file, schedule in others]

    beside = None if library is None else modelled(fabric, collective, data, library)
    bounds = {name: lower_bound(fabric, **given, fidelity=name) for name in chosen}
    bound = bounds[chosen[-1]]

    def time(schedule: Schedule, name: str, heartbeat: Heartbeat | None) -> Run:
        plays = playback and name == chosen[-1]
        limit = bounds[name]
        return run(fabric, schedule, system, name, bound=limit, progress=heartbeat, energy=energy, playback=plays)

    estimating = estimates and algorithms is None
    Contest(fabric, given, time, list(reversed(chosen)), progress, estimating, deadline).hold(candidates, jobs)
    done = [candidate for candidate in candidates if candidate.runs]
    refused = [refusal for candidate in candidates for refusal in candidate.refused]
    untimed = [
        Estimate(candidate.spec, candidate.least_ns, bound.time_ns / candidate.least_ns or None)
        for candidate in sorted(candidates, key=lambda each: each.least_ns)
        if candidate.hopeless
    ]
    rank = {name: place for place, name in enumerate(reversed(chosen))}
    # An algorithm that could not be timed in the greatest detail does not compete with those that were.
    done.sort(
        key=lambda candidate: (
            not candidate.runs[0].result.proof.complete,
            candidate.runs[0].bound_of != ALL_RANKS,
            rank[candidate.runs[0].result.fidelity],
            candidate.runs[0].time_ns,
        )
    )
    ladder, seconds = [candidate.runs for candidate in done], [candidate.seconds for candidate in done]
    size = (data.bytes, data.matrix_bytes)
    return Comparison(
        fabric.name,
        fabric.members,
        collective,
        *size,
        system,
        chosen,
        bound,
        ladder,
        untimed,
        seconds,
        refused,
        beside,
        cost(fabric, system),
    )


def modelled(fabric: Fabric, collective: str, data: Amount, library: str) -> Modelled:
    """What a library's model says of a collective."""
    expect("library", library, str)
    if library not in get_args(Library):
        raise AntiphonError(f"no library {shown(library)}; known: {', '.join(get_args(Library))}", "unknown-name")
    if data.matrix is not None:
        raise AntiphonError(f"{library} has no model of unequal sizes", "not-applicable")
    found = expected(Cluster.of(fabric), collective, data.bytes, library)
    own = found.choice
    assert own is not None
    return Modelled(library, own.algorithm, own.protocol, 1000 * own.time_us, 1000 * found.time_us)


def _schedules(
    given: Iterable[str | os.PathLike[str] | Schedule] | Mapping[str, Schedule], fabric: Fabric, data: Amount
) -> list[tuple[str | None, Schedule]]:
    """Schedules with the files they are from. Files of other tools are of any size: that of the rest."""
    if isinstance(given, Mapping):
        return [(str(file), as_schedule(each, fabric, "schedules")) for file, each in given.items()]
    found: list[tuple[str | None, Schedule]] = []
    for each in given:
        schedule = as_schedule(each, fabric, "schedules", data.bytes)
        found.append((None if isinstance(each, Schedule) else os.fspath(each), schedule))
    return found


def _expect_same(schedule: Schedule, collective: str, data: Amount, root: int) -> None:
    """Refuses a schedule that does something else."""
    asked = (collective, data.bytes, root if schedule.root is not None else None)
    matrix = schedule.matrix
    same = (matrix is None) == (data.matrix is None) and (matrix is None or bool((matrix == data.matrix).all()))
    if (schedule.collective, schedule.bytes, schedule.root) != asked or not same:
        what = f"{schedule.algorithm} does {schedule.collective} of {size_text(schedule.bytes, schedule.matrix_bytes)}"
        where = "" if schedule.root is None else f" with root {schedule.root}"
        raise AntiphonError(f"{what}{where}: compare it with others that do the same", "bad-spec")
