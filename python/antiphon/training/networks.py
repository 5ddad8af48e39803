"""What carries the exchanges of an iteration: a fabric, one by one or in flight together, or rails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Protocol

from antiphon._core import (
    Fabric,
    Schedule,
    System,
    TrainingPlan,
    advise_rails,
    algorithms,
    build,
    simulate_flights,
)
from antiphon.collective.timing import CollectiveTime, Progress, Timed, Timer
from antiphon.errors import AntiphonError
from antiphon.results import Energy, Iteration

MOST_TIMED = 4096
"""Collectives of different sizes that are simulated for one iteration."""
Key = tuple[str, str, int, bool]
"""Of an exchange: algorithm, collective, bytes, and whether it is of gradients."""


class Network(Protocol):
    """What carries the exchanges of an iteration."""

    name: str
    fidelity: str
    ranks: int
    excluded_ranks: list[int]
    """Known after ``run``."""

    def replicas(self) -> int:
        """Copies of the model that train."""
        ...

    def relays(self, plan: TrainingPlan, model: str) -> list[int]:
        """For every rank, the most streams that it passes on during one exchange.

        Raises:
            AntiphonError: ``not-applicable`` where there are no routes.
        """
        ...

    def run(self, plan: TrainingPlan, model: str) -> Iteration:
        """The iteration."""
        ...

    def energies(self) -> tuple[list[Energy], float]:
        """After ``run``: what each exchange takes, whenever it is under way, and watts of static power."""
        ...


class OnFabric(ABC):
    """A fabric, on which every exchange runs in groups of ranks at once: those that a layer is divided over, or, for
    gradients, those that hold the same part of it."""

    def __init__(
        self, fabric: Fabric, algorithm: str, exchange: str, fidelity: str, system: System, model_parallel: int
    ) -> None:
        if fabric.ranks % model_parallel or model_parallel == fabric.ranks:
            message = f"{fabric.name}: layers cannot be divided over {model_parallel:,} of {fabric.ranks:,} ranks"
            raise AntiphonError(f"{message}; use a proper divisor", "not-applicable")
        self.name, self.fidelity, self.ranks = fabric.name, fidelity, fabric.ranks
        self.excluded_ranks: list[int] = []
        self._fabric, self._algorithm, self._exchange = fabric, algorithm, exchange
        self._system, self._divided = system, model_parallel
        self._keys: list[Key] = []

    def replicas(self) -> int:
        # Whether the algorithm leaves out ranks is known once it is built.
        excluded = build(self._fabric, self._algorithm, "all-reduce", 1 << 20, self._system).excluded
        return (self.ranks - len(excluded)) // self._divided

    def relays(self, plan: TrainingPlan, model: str) -> list[int]:
        most = [0] * self.ranks
        for key in dict.fromkeys(self._keys_of(plan, model)):
            # Groups exchange at the same time.
            streams = map(sum, zip(*(each.relays(self._fabric) for each in self._schedules(key)), strict=True))
            most = list(map(max, most, streams))
        return most

    def run(self, plan: TrainingPlan, model: str) -> Iteration:
        self._keys = self._keys_of(plan, model)
        return self._timed(plan, self._keys, model)

    def _keys_of(self, plan: TrainingPlan, model: str) -> list[Key]:
        """The exchanges.

        Raises:
            AntiphonError: ``too-large`` for too many of different sizes.
        """
        kinds = collectives_of(self._algorithm)
        keys: list[Key] = [
            (self._algorithm if kind in kinds else self._exchange, kind, size, gradients)
            for (kind, size), gradients in zip(plan.exchanges, plan.gradients, strict=True)
        ]
        distinct = len(set(keys))
        if distinct > MOST_TIMED:
            message = f"{model}: {distinct:,} collectives of different sizes; larger buckets need fewer"
            raise AntiphonError(f"{message} (at most {MOST_TIMED:,})", "too-large")
        return keys

    def energies(self) -> tuple[list[Energy], float]:
        of = {key: self._energy(key) for key in dict.fromkeys(self._keys)}
        return [of[key] for key in self._keys], self._system.static_power_w(self._fabric)

    def _energy(self, key: Key) -> Energy:
        parts = [schedule.dynamic_energy(self._fabric, self._system) for schedule in self._schedules(key)]
        return sum(parts[1:], parts[0])

    @abstractmethod
    def _timed(self, plan: TrainingPlan, keys: list[Key], model: str) -> Iteration:
        """The iteration with these exchanges."""

    def _schedules(self, key: Key) -> list[Schedule]:
        """Those of an exchange, one for each group."""
        algorithm, collective, size, gradients = key
        if self._divided == 1:
            return [build(self._fabric, algorithm, collective, size, self._system)]
        count, ranks = self._divided, range(self.ranks)
        if gradients:
            groups = [ranks[part::count] for part in range(count)]
        else:
            groups = [ranks[first : first + count] for first in ranks[::count]]
        schedules = [
            build(self._fabric.group(list(group)), algorithm, collective, size, self._system) for group in groups
        ]
        for schedule in schedules:
            if schedule.excluded:
                message = f"{algorithm} leaves out ranks, which layers divided over ranks cannot"
                raise AntiphonError(message, "not-applicable")
        return schedules


class OnFabricSerially(OnFabric):
    """One exchange after another, each proven and simulated by itself."""

    timer: Timer

    def _timed(self, plan: TrainingPlan, keys: list[Key], model: str) -> Iteration:
        timed = {key: self._time(key) for key in dict.fromkeys(keys)}
        self.excluded_ranks = sorted({rank for each in timed.values() for rank in each.excluded_ranks})
        chained = zip(keys, plan.parts, strict=True)
        chunks = [getattr(timed[key], "chunks", None) if parts else None for key, parts in chained]
        iteration = plan.run([timed[key].time_ns for key in keys], chunks)
        buffers = [getattr(each, "buffer_bytes", None) for each in timed.values()]
        most = None if None in buffers else max(filter(None, buffers), default=0)
        return replace(iteration, buffer_bytes=most)

    def _time(self, key: Key) -> Timed:
        if self._divided == 1:
            return _checked(self.timer(self._fabric, *key[:3]))
        nothing: list[int] = []
        flights = [(schedule, 0.0, nothing, 0) for schedule in self._schedules(key)]
        result, _ = simulate_flights(self._fabric, flights, self._system, self.fidelity)
        return CollectiveTime(result.time_ns, [], result.chunks, buffer_bytes=result.buffer_bytes)


class OnFabricShared(OnFabric):
    """Exchanges that are ready share the links."""

    progress: Progress | None
    order: str

    def _timed(self, plan: TrainingPlan, keys: list[Key], model: str) -> Iteration:
        schedules = {key: self._schedules(key) for key in dict.fromkeys(keys)}
        self.excluded_ranks = sorted({rank for of in schedules.values() for each in of for rank in each.excluded})
        heartbeat = None if self.progress is None else partial(self.progress, f"{model} on {self.name}")
        each = [schedules[key] for key in keys]
        return plan.run_shared(self._fabric, each, self._system, self.fidelity, heartbeat, self.order)


THEMIS = ("fixed-delay", "shared-loads")
"""What may be said of Themis behind a queue policy, ``themis:scf+shared-loads``: loads start at the latency, or with
what dimensions still have to do."""


class OnRails:
    """A multi-dimensional network: collectives in flight share its dimensions."""

    fidelity = "stage"

    def __init__(
        self, name: str, algorithm: str, chunks: int | None, model_parallel: int, order: str, platform: System | None
    ) -> None:
        self.name, self.excluded_ranks = name, list[int]()
        self.ranks = advise_rails(name).npus
        self._scheduler, _colon, more = algorithm.partition(":")
        intra, *self._flags = more.split("+")
        for flag in self._flags:
            if flag not in THEMIS:
                message = f"'{flag[:40]}' is nothing that Themis minds; known: {', '.join(THEMIS)}"
                raise AntiphonError(f"{algorithm[:80]}: {message}", "unknown-name")
        self._intra, self._chunks, self._model_parallel, self._order = intra or None, chunks, model_parallel, order
        self._platform = platform
        self._energies: tuple[list[Energy], float] = ([], 0.0)

    def replicas(self) -> int:
        return max(self.ranks // max(self._model_parallel, 1), 1)

    def relays(self, plan: TrainingPlan, model: str) -> list[int]:
        message = f"{self.name}: rails have no routes through other NPUs; relay_processors is for fabrics"
        raise AntiphonError(message, "not-applicable")

    def run(self, plan: TrainingPlan, model: str) -> Iteration:
        how = (self.name, self._scheduler, self._intra, self._chunks)
        iteration, energies, static_w = plan.run_on_rails(
            *how,
            order=self._order,
            platform=self._platform,
            fixed_delay="fixed-delay" in self._flags,
            shared_loads="shared-loads" in self._flags,
        )
        self._energies = energies, static_w
        return iteration

    def energies(self) -> tuple[list[Energy], float]:
        return self._energies


def _checked(timed: Timed) -> Timed:
    """What a timer gave, if it has what is asked of all.

    Raises:
        TypeError: naming what it lacks.
    """
    for name in ("time_ns", "excluded_ranks"):
        if not hasattr(timed, name):
            message = f"collectives gave {type(timed).__name__} without {name}; give antiphon.Run or what has the same"
            raise TypeError(message)
    return timed


def collectives_of(algorithm: str) -> list[str]:
    """Collectives that an algorithm does; all if it is not known, so that building it says so."""
    name = algorithm.partition(":")[0]
    return next((known.collectives for known in algorithms() if known.name == name), ["all-reduce", "all-to-all"])
