"""What limits a collective at every size: each thing made twice as good in turn."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from functools import partial

from antiphon._core import Fabric, Schedule, System, build, format_bytes, relieved_times
from antiphon.collective.comparison import run
from antiphon.collective.limited import Limits, Relieved, SizeLimits
from antiphon.collective.schedules import as_schedule
from antiphon.collective.timing import Progress
from antiphon.collective.tuning import tune
from antiphon.deadline import Deadline, OverTime
from antiphon.errors import AntiphonError
from antiphon.given import as_fabric, as_system
from antiphon.names import Collective, Fidelity
from antiphon.parallel import cores_of

SIZES = [1 << exponent for exponent in range(10, 31, 2)]
"""1KiB to 1GiB, each four times the one before."""


def limits(
    fabric: str | Fabric,
    collective: Collective | str = "all-reduce",
    sizes: str | Iterable[int | str] | None = None,
    algorithms: str | Iterable[str] | None = None,
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    *,
    schedule: str | os.PathLike[str] | Schedule | None = None,
    all_ranks: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    time_limit_s: float | None = None,
) -> Limits:
    """Says what limits a collective at every size: rates, latency, endpoints or additions.

    >>> found = limits("mesh:4x4", sizes="1KiB,64MiB", algorithms="ring,ring-bi", fidelity="alpha-beta")
    >>> [(format_bytes(size.bytes), size.limit.name) for size in found]
    [('1KiB', 'latency'), ('64MiB', 'rates')]

    The best algorithm at each size, as ``tune`` finds it, is simulated again with rates of links twice as high; with
    latencies and hand-offs half as long; with endpoints twice as good; and with additions twice as fast. The messages
    stay the same. What saves most time is the limit.

    Args:
        fabric: specification or Fabric.
        collective: what to compute.
        sizes: full buffer sizes, as of ``tune``; default 1KiB to 1GiB, each four times the one before.
        algorithms: names or specifications, a sequence or text with commas; default: all.
        system: preset name or System.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        schedule: a Schedule or its file: what limits this one, in place of collective, sizes and algorithms.
        all_ranks: leave out algorithms that exclude ranks.
        jobs: algorithms that are tuned at a time; default: as many as there are cores.
        progress: called before everything that is timed, with what it is and the share of the work that is done.
        time_limit_s: seconds after which nothing more is timed: sizes that are not done by then are in ``left_out``.

    Raises:
        AntiphonError: for mistakes in the arguments; ``not-applicable`` if no algorithm can; ``not-proven`` for the
            schedule; ``time-limit`` if there was no time for any size.
    """
    deadline = Deadline(time_limit_s)
    fabric, system = as_fabric(fabric), as_system(system)
    watched = deadline.watching(progress)
    if schedule is not None:
        if sizes is not None or algorithms is not None:
            message = "a schedule has its size and its algorithm: leave out sizes and algorithms, or give no schedule"
            raise AntiphonError(message, "bad-spec")
        given = as_schedule(schedule, fabric)
        heartbeat = None if watched is None else partial(watched, given.algorithm)
        done = run(fabric, given, system, fidelity, progress=heartbeat, jobs=jobs)
        only = SizeLimits(
            done.bytes,
            done.algorithm,
            done.excluded_ranks,
            done.time_ns,
            done.bound,
            _relieved(fabric, given, system, fidelity, done.time_ns, heartbeat, jobs),
        )
        return Limits(fabric.name, given.collective, system, str(fidelity), [only], [], [])
    tuning = tune(
        fabric,
        collective,
        SIZES if sizes is None else sizes,
        algorithms,
        system,
        fidelity,
        all_ranks=all_ranks,
        jobs=jobs,
        progress=progress,
        time_limit_s=time_limit_s,
    )
    found: list[SizeLimits] = []
    for choice in tuning:
        best = choice.best
        heartbeat = None if watched is None else partial(watched, f"limits at {format_bytes(choice.bytes)}")
        try:
            # Plans of ``tune`` are not kept; the same call makes the same.
            own = build(fabric, best.algorithm, tuning.collective, choice.bytes, system)
            relieved = _relieved(fabric, own, system, fidelity, best.time_ns, heartbeat, jobs)
        except OverTime:
            if not found:
                raise
            break
        found.append(
            SizeLimits(choice.bytes, best.algorithm, best.excluded_ranks, choice.time_ns, choice.bound, relieved)
        )
    late = [choice.bytes for choice in tuning.choices[len(found) :]] + tuning.left_out
    changes = [
        (high.bytes, low.limit.name, high.limit.name)
        for low, high in itertools.pairwise(found)
        if low.limit.name != high.limit.name
    ]
    return Limits(fabric.name, tuning.collective, system, tuning.fidelity, found, changes, late)


def _relieved(
    fabric: Fabric,
    schedule: Schedule,
    system: System,
    fidelity: Fidelity | str,
    time_ns: float,
    heartbeat: partial[object] | None,
    jobs: int | None,
) -> list[Relieved]:
    """Each thing that may limit a schedule, what saves most time first."""
    times = relieved_times(fabric, schedule, system, fidelity, heartbeat, cores_of(jobs))
    each = [Relieved(name, ns, 1 - ns / time_ns if time_ns else 0.0) for name, ns in times]
    return sorted(each, key=lambda one: -one.saved)
