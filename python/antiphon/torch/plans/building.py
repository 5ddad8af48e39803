"""Schedules by specification, the quick choice that every rank makes itself, and the long search of one rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from antiphon._core import Fabric, Schedule, System, algorithms, build, simulate
from antiphon.collective.result import REFUSALS
from antiphon.errors import AntiphonError
from antiphon.torch.plans import doubling

Key = tuple[str, int, int]
"""Collective, bytes of the full buffer, root."""

QUICK = {
    "all-reduce": (doubling.NAME, "forest", "ring-bi", "multitree", "direct"),
    "all-gather": ("multitree", "ring-bi", "direct"),
    "reduce-scatter": ("multitree", "ring-bi", "direct"),
    "broadcast": ("multitree", "direct"),
    "reduce": ("multitree", "direct"),
    "all-to-all": ("exchange", "direct"),
}
"""Algorithms that are built in a few milliseconds, those first that are taken where two are equally fast."""
COMPARED_BYTES = 1 << 20
"""Quick choices compare times of no more bytes: larger buffers take the same algorithm, and longer to simulate."""
QUICK_RANKS = 16
"""Groups of more ranks take their quick plan without simulating."""
SMALL_BYTES = 64 << 10
"""Such groups double recursively up to this size."""
TUNED = ("chunk", "piece")
"""Options that are sizes worth trying."""
HOPELESS = 1.5
"""An algorithm this many times slower than the best is not tried with other sizes of chunks."""


@dataclass(frozen=True)
class Built:
    """A schedule and what is known of it.

    Attributes:
        spec: that builds it.
        schedule: proven by its simulation.
        time_ns: simulated.
        build_s: seconds that building took here.
    """

    spec: str
    schedule: Schedule
    time_ns: float
    build_s: float


def schedule_of(
    fabric: Fabric, spec: str, key: Key, system: System, watch: Callable[[float], object] | None = None
) -> Schedule:
    """The schedule of an algorithm, in which all ranks take part.

    Raises:
        AntiphonError: ``not-applicable`` and others of ``REFUSALS``.
    """
    collective, bytes, root = key
    if spec == doubling.NAME:
        if collective != "all-reduce":
            raise AntiphonError(f"{spec} does no {collective}", "not-applicable")
        return doubling.recursive_doubling(fabric, bytes)
    schedule = build(fabric, spec, collective, bytes, system, root, watch)
    if schedule.excluded:
        raise AntiphonError(f"{spec} leaves out ranks", "not-applicable")
    return schedule


def timed(
    fabric: Fabric, spec: str, key: Key, system: System, watch: Callable[[float], object] | None = None
) -> Built | None:
    """A schedule, proven and timed; None where the algorithm does not apply."""
    try:
        began = time.perf_counter()
        schedule = schedule_of(fabric, spec, key, system, watch)
        build_s = time.perf_counter() - began
        result = simulate(fabric, schedule, system, "packet", watch)
    except AntiphonError as error:
        if error.code not in REFUSALS:
            raise
        return None
    return Built(spec, schedule, result.time_ns, build_s)


def quick_spec(fabric: Fabric, key: Key, system: System) -> str:
    """The best of the algorithms that are built at once. No clock decides, so that all ranks choose the same.

    Raises:
        AntiphonError: ``unknown-name`` for the collective, ``not-applicable`` where ranks are not joined.
    """
    collective, bytes, root = key
    names = QUICK.get(collective)
    if names is None:
        raise AntiphonError(f"no collective '{collective}' is planned; known: {', '.join(QUICK)}", "unknown-name")
    if fabric.ranks > QUICK_RANKS:
        small = collective == "all-reduce" and bytes <= SMALL_BYTES
        for name in (doubling.NAME,) * small + names[collective == "all-reduce" :]:
            with suppress(AntiphonError):
                schedule_of(fabric, name, (collective, SMALL_BYTES, root), system)
                return name
    compared = (collective, min(bytes, COMPARED_BYTES), root)
    found: list[Built] = []
    for name in names:
        # Where trees or rings can sum, sending all to all is no faster, and takes longest to simulate.
        if name == "direct" and collective == "all-reduce" and len(found) > 1:
            continue
        built = timed(fabric, name, compared, system)
        if built is not None:
            found.append(built)
    if not found:
        raise AntiphonError(f"no algorithm could do {collective} of {bytes} B on {fabric.name}", "not-applicable")
    return min(found, key=lambda built: built.time_ns).spec


def search(fabric: Fabric, key: Key, system: System, watch: Callable[[float], object]) -> Iterator[Built]:
    """Better and better schedules: every algorithm, then the best ones with other sizes of chunks."""
    collective, bytes, _ = key
    known = [each for each in algorithms() if collective in each.collectives]
    # Those that take long come last, so that there is something good before.
    slow = ("optimal", "hierarchical")
    names = [*QUICK.get(collective, ()), *(each.name for each in known if each.name not in slow), *slow]
    best: Built | None = None
    found: list[Built] = []
    for name in dict.fromkeys(names):
        built = timed(fabric, name, key, system, watch)
        if built is None:
            continue
        found.append(built)
        if best is None or built.time_ns < best.time_ns:
            best = built
            yield best
    options = {each.name: next((o.key for o in each.options if o.key in TUNED), None) for each in known}
    for built in sorted(found, key=lambda built: built.time_ns):
        option = options.get(built.spec)
        if best is None or option is None or built.time_ns > HOPELESS * best.time_ns:
            continue
        for exponent in range(15, 24):
            if 1 << exponent > bytes:
                break
            other = timed(fabric, f"{built.spec}:{option}={1 << exponent}", key, system, watch)
            if other is not None and other.time_ns < best.time_ns:
                best = other
                yield best
