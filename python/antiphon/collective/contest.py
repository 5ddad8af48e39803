"""Algorithms timed beside each other: what is hopeless is only estimated, what sends the same is timed once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

from antiphon._core import Fabric, Schedule, algorithm_scales, busiest_link_ns
from antiphon.collective.result import ALL_RANKS, REFUSALS, Refusal, Run
from antiphon.collective.schedules import Heartbeat, build, verify
from antiphon.collective.specs import known_names
from antiphon.collective.timing import Progress
from antiphon.deadline import Deadline, OverTime
from antiphon.errors import AntiphonError
from antiphon.parallel import free_memory, in_parallel

HOPELESS = 5
"""An algorithm whose busiest link alone takes so many times as long as the best is not timed."""

_SCALES = ("large", "usual", "short")
"""The scales of algorithms, in the order in which they are timed."""
_BYTES_PER_PAIR = 512
"""Memory of a schedule with a message or two for every pair of ranks, and of building it."""
_RUN_OVER_SCHEDULE = 3
"""Memory of a proof and a simulation, over that of the schedule."""


@dataclass(eq=False)
class Candidate:
    """An algorithm, or a schedule of somebody's own, and what has come of it."""

    spec: str
    file: str | None = None
    schedule: Schedule | None = None
    least_ns: float = 0.0
    """For so long its busiest link is at work; 0 for what is timed in any case."""
    bytes: int = 0
    """Memory of its schedule, once that was built."""
    hopeless: bool = False
    seconds: float = 0.0
    runs: list[Run] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


@dataclass
class Contest:
    """Times candidates for the same collective. All it decides rests on estimates and simulated times, so that the same
    candidates give the same runs on any number of cores.

    Attributes:
        fabric: where they run.
        given: ``collective``, ``bytes``, ``system``, ``root`` and ``matrix``, as for ``build``.
        time: proves and times a schedule at a fidelity.
        fidelities: the most detailed first.
        progress: called with a name and the share done.
        estimating: whether hopeless candidates are only estimated.
        deadline: after which no candidate is begun.
    """

    fabric: Fabric
    given: dict[str, Any]
    time: Callable[[Schedule, str, Heartbeat | None], Run]
    fidelities: Sequence[str]
    progress: Progress | None
    estimating: bool
    deadline: Deadline

    def hold(self, candidates: Sequence[Candidate], jobs: int | None) -> None:
        """Builds all, and times all but the hopeless ones."""
        self._keep, self._lock = free_memory() // 4, threading.Lock()
        names, scale_of = known_names(), algorithm_scales()

        def turn(candidate: Candidate) -> tuple[int, int]:
            # What takes long goes first, of algorithms the last known: so no core has much left when others are done.
            name = candidate.spec.partition(":")[0]
            known = name in names and candidate.schedule is None
            return _SCALES.index(scale_of[name]) if known else 0, -names.index(name) if known else -len(names)

        def building(candidate: Candidate) -> int:
            large = scale_of.get(candidate.spec.partition(":")[0]) == "large"
            return self.fabric.ranks**2 * _BYTES_PER_PAIR if large and candidate.schedule is None else 0

        order = sorted(candidates, key=turn)
        in_parallel(self._build, order, jobs, [building(each) for each in order])
        left = [candidate for candidate in order if not candidate.refused]
        twins = self._twins(left)
        left = [candidate for candidate in left if candidate not in twins]
        # No best time is below the least estimate, so what is near that must be timed.
        near = HOPELESS * min((candidate.least_ns for candidate in left if candidate.least_ns), default=0.0)
        for chosen in (lambda candidate: candidate.least_ns <= near), (lambda candidate: True):
            now = [candidate for candidate in left if chosen(candidate)]
            in_parallel(self._time, now, jobs, [each.bytes * _RUN_OVER_SCHEDULE for each in now])
            left = [candidate for candidate in left if candidate not in now]
            if (best := _best(candidates)) is not None and self.estimating:
                for candidate in left:
                    candidate.hopeless = candidate.least_ns > HOPELESS * best
                left = [candidate for candidate in left if not candidate.hopeless]
        for twin, other in twins.items():
            self._copy(twin, other)

    def _build(self, candidate: Candidate) -> None:
        """Builds it, unless an estimate is known sooner; keeps what there is memory for."""
        began = perf_counter()
        try:
            self.deadline.check()
            estimating = self.estimating and candidate.schedule is None
            if estimating:
                candidate.least_ns = busiest_link_ns(self.fabric, candidate.spec, **self.given) or 0.0
            if not candidate.least_ns:
                schedule = self._schedule(candidate)
                if estimating:
                    candidate.least_ns = schedule.busiest_link_ns(self.fabric, self.given["system"])
                candidate.bytes = schedule.memory_bytes
                with self._lock:
                    self._keep -= candidate.bytes
                    candidate.schedule = schedule if self._keep >= 0 else None
        except AntiphonError as error:
            self._refuse(candidate, error)
        candidate.seconds = perf_counter() - began

    def _schedule(self, candidate: Candidate) -> Schedule:
        if candidate.schedule is not None:
            return candidate.schedule
        heartbeat = self._heartbeat(f"{candidate.spec} (building)")
        return build(self.fabric, candidate.spec, progress=heartbeat, **self.given)

    def _time(self, candidate: Candidate) -> None:
        """Proves and times it at all fidelities."""
        began, runs = perf_counter(), []
        try:
            self.deadline.check()
            schedule = self._schedule(candidate)
        except AntiphonError as error:
            return self._refuse(candidate, error)
        several = len(self.fidelities) > 1
        for name in self.fidelities:
            heartbeat = self._heartbeat(f"{candidate.spec} ({name})" if several else candidate.spec)
            try:
                runs.append(replace(self.time(schedule, name, heartbeat), file=candidate.file))
            except AntiphonError as error:
                self._refuse(candidate, error, name if several else None)
        candidate.seconds += perf_counter() - began
        candidate.runs = runs

    def _twins(self, candidates: Sequence[Candidate]) -> dict[Candidate, Candidate]:
        """Those whose schedules send the same as one that is timed before them, with that one."""
        twins: dict[Candidate, Candidate] = {}
        alone: list[tuple[Candidate, Schedule]] = []
        for candidate in candidates:
            if (schedule := candidate.schedule) is None:
                continue
            same = next((other for other, its in alone if its.sends_the_same(schedule)), None)
            if same is None:
                alone.append((candidate, schedule))
            else:
                twins[candidate] = same
        return twins

    def _copy(self, twin: Candidate, other: Candidate) -> None:
        """What is known of a candidate from another one that sends the same; only its own claims are left to prove."""
        twin.hopeless = other.hopeless
        twin.refused = [replace(refusal, algorithm=twin.spec) for refusal in other.refused]
        if not other.runs or twin.schedule is None:
            return
        try:
            proof = verify(self.fabric, twin.schedule, system=self.given["system"])
        except AntiphonError as error:
            return self._refuse(twin, error)
        stats = twin.schedule.stats(self.fabric)
        own = partial(replace, algorithm=twin.schedule.algorithm, file=twin.file, stats=stats)
        twin.runs = [own(run, result=replace(run.result, proof=proof)) for run in other.runs]

    def _refuse(self, candidate: Candidate, error: AntiphonError, fidelity: str | None = None) -> None:
        if error.code not in REFUSALS and not isinstance(error, OverTime):
            raise error
        reason = error.message.removeprefix(f"{candidate.spec} does not apply to {self.fabric.name}: ")
        candidate.refused.append(Refusal(candidate.spec, reason, error.code, fidelity))

    def _heartbeat(self, name: str) -> Heartbeat | None:
        """``progress`` of one piece of work, begun."""
        if self.progress is None:
            return None
        self.progress(name, 0.0)
        return partial(self.progress, name)


def _best(candidates: Sequence[Candidate]) -> float | None:
    """The best time of a run that does all that was asked."""
    whole = (candidate.runs[0] for candidate in candidates if candidate.runs)
    times = [run.time_ns for run in whole if run.result.proof.complete and run.bound_of == ALL_RANKS]
    return min(times, default=None)
