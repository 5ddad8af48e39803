"""Times of collectives, each proven and simulated once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from antiphon._core import Fabric, Schedule, System, build, simulate
from antiphon.results import Energy, Table

if TYPE_CHECKING:
    from antiphon.collective.result import Run

Progress = Callable[[str, float], object]
"""Called with what is simulated and the share of it that is done, 0 to 1."""


@dataclass(frozen=True)
class CollectiveTime:
    """The time of one proven collective.

    Attributes:
        time_ns: from the start to the last rank's finish.
        excluded_ranks: ranks that take no part.
        chunks: when each chunk was complete, as in ``SimulationResult``; None if that is not known.
        bound_of: what its lower bound is about, as in ``Schedule.bound_of``.
        energy: what it takes; None if nobody asked.
        buffer_bytes: as in ``SimulationResult``.
    """

    time_ns: float
    excluded_ranks: list[int]
    chunks: Table | None = None
    bound_of: str = "all-ranks"
    energy: Energy | None = None
    buffer_bytes: int | None = None


Timed: TypeAlias = "CollectiveTime | Run"
"""What is known of one collective."""
Timer = Callable[[Fabric, str, str, int], Timed]
"""Times a collective: fabric, algorithm, collective, bytes."""


def simulator(
    system: System,
    fidelity: str,
    progress: Progress | None = None,
    *,
    keep_chunks: bool = False,
    energy: bool = False,
    schedules: Callable[[Fabric, str, str, int, System], Schedule] = build,
) -> Timer:
    """A timer that builds, proves and simulates every collective it is asked for, each once; it knows their chunks
    only if told to keep them, since they may be many."""
    known: dict[tuple[int, str, str, int], CollectiveTime] = {}
    # Fabrics have no hash, and what they are called says little: two from JSON are both "json".
    fabrics: list[Fabric] = []
    numbering = threading.Lock()

    def number_of(fabric: Fabric) -> int:
        for number, other in enumerate(fabrics):
            if other is fabric or other == fabric:
                return number
        fabrics.append(fabric)
        return len(fabrics) - 1

    def time(fabric: Fabric, algorithm: str, collective: str, bytes: int) -> CollectiveTime:
        with numbering:
            key = (number_of(fabric), algorithm, collective, bytes)
        if key not in known:
            schedule = schedules(fabric, algorithm, collective, bytes, system)
            heartbeat = None if progress is None else partial(progress, f"{algorithm} on {fabric.name}")
            result = simulate(fabric, schedule, system, fidelity, heartbeat, energy)
            chunks = result.chunks if keep_chunks else None
            spent = None if result.energy is None else result.energy.without_tables()
            known[key] = CollectiveTime(
                result.time_ns, schedule.excluded, chunks, schedule.bound_of, spent, result.buffer_bytes
            )
        return known[key]

    return time
