"""Explores a space: the most promising designs first, and none whose bounds a simulated one beats."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from antiphon._core import format_bytes
from antiphon.collective.result import ALL_RANKS
from antiphon.collective.timing import Progress
from antiphon.errors import AntiphonError
from antiphon.exploration.bounds import Least, LeastPoint, serving_some
from antiphon.exploration.front import Figures, compared, dominated, undominated
from antiphon.exploration.moves import Sensitivity
from antiphon.exploration.result import Exploration, Refused
from antiphon.exploration.sites import Place, Survey
from antiphon.exploration.space import Design, Space
from antiphon.parallel import in_parallel
from antiphon.results.table import Table
from antiphon.studies.commands import SETTING
from antiphon.studies.jobs import Job, Record, refusal_of
from antiphon.studies.study import Runner, runner, runs_beside

BATCH = 32
"""Designs that are looked at together; their number does not depend on cores, so that no result does."""
PLANNERS = ("optimal",)
"""Algorithms whose schedules take longer to find than to simulate: they have no bound of their own."""
DOES_NOT_APPLY = re.compile(r"^\S+ does not apply to [^ ]+: ")
"""How a reason begins, which a table of designs says by its columns."""
COST = (
    "ports",
    "links",
    "link_gb_per_s",
    "io_gb_per_s",
    "bisection_gb_per_s",
    "wire_mm",
    "longest_link_mm",
    "beachfront_mm",
)
"""Figures of a cost that tables have beside the area."""


@dataclass(eq=False)
class Candidate:
    """A design, and what is known of it.

    Attributes:
        state: ``open``, and then ``simulated``, ``pruned``, ``over`` or ``refused``.
        least: by workload, what a run of it is not below.
        is_own: whether these are bounds of its own schedule.
        why: the constraint that it misses, or the reason and code of a refusal.
        figures: as ``Search.figures`` says, once they are known.
    """

    design: Design
    place: Place
    state: str = "open"
    least: Sequence[Least] = ()
    is_own: bool = False
    why: tuple[str, ...] = ()
    times_ns: Sequence[float] = ()
    energy_j: float = math.nan
    on_front: bool = False
    figures: Figures | None = None

    @property
    def is_planned(self) -> bool:
        """Whether its schedule takes longer to find than to simulate."""
        return self.design.algorithm.partition(":")[0] in PLANNERS

    def end(self, state: str, *why: str) -> None:
        """How it ended."""
        self.state, self.why = state, why


@dataclass
class Search:
    """The candidates of a space, settled one by one.

    Attributes:
        tell: called with the share that is settled.
    """

    space: Space
    candidates: Sequence[Candidate]
    runner: Runner
    prune: bool
    tell: Callable[[float], object]
    _found: list[Figures] = field(default_factory=list)

    def settle(self) -> None:
        """Settles all candidates."""
        while chosen := self._chosen():
            bounding = [each for each in chosen if self.prune and not each.is_own and not each.is_planned]
            timing = [each for each in chosen if each not in bounding]
            groups: list[Sequence[Job]] = [self._least_points(each) for each in bounding]
            groups += [self.space.points(each.design) for each in timing]
            records = iter(self.runner.records([point for group in groups for point in group]))
            for candidate, group in zip([*bounding, *timing], groups, strict=True):
                found = [next(records) for _ in group]
                (self._bound if candidate in bounding else self._time)(candidate, found)
        ended = [each for each in self.candidates if each.state == "simulated"]
        for candidate, on_front in zip(ended, undominated([self.figures(each) for each in ended]), strict=True):
            candidate.on_front = bool(on_front)

    def figures(self, candidate: Candidate) -> Figures:
        """Time, energy and area, as they are compared: of its run, or bounds before that."""
        if candidate.figures is None:
            times, energy = candidate.times_ns, candidate.energy_j
            if not times:
                times = [each.time_ns for each in candidate.least]
                energy = self.space.sum([each.energy_j for each in candidate.least])
            candidate.figures = compared((self.space.sum(times), energy, candidate.place.area_mm2))
        return candidate.figures

    def _chosen(self) -> list[Candidate]:
        """What is looked at next: of the candidates whose bounds no others dominate, those with the least product."""
        if self.prune:
            left = self._open()
            for place in np.flatnonzero(dominated([self.figures(each) for each in left], self._found)):
                left[place].end("pruned")
        left = self._open()
        self.tell(1 - len(left) / max(len(self.candidates), 1))
        if not self.prune:
            return left
        figures = [self.figures(candidate) for candidate in left]
        promising = np.flatnonzero(undominated(figures)).tolist()
        promising.sort(key=lambda place: math.prod(max(figure, 1e-30) for figure in figures[place]))
        return [left[place] for place in promising[:BATCH]]

    def _open(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.state == "open"]

    def _least_points(self, candidate: Candidate) -> list[LeastPoint]:
        design = candidate.design
        changes = tuple((key.removeprefix(SETTING), value) for key, value in design.settings)
        return [
            LeastPoint(design.fabric, design.algorithm, kind, size, self.space.system, changes, self.space.fidelity)
            for kind, size, _weight in self.space.workloads
        ]

    def _bound(self, candidate: Candidate, found: Sequence[Record]) -> None:
        if not self._refused(candidate, found):
            pairs = zip(candidate.least, found, strict=True)
            candidate.least, candidate.is_own = [least.of_schedule(record) for least, record in pairs], True
            candidate.figures = None

    def _time(self, candidate: Candidate, found: Sequence[Record]) -> None:
        if self._refused(candidate, found):
            return
        apart = [serving_some(each["lower_bound_of"]) for each in found if each["lower_bound_of"] != ALL_RANKS]
        if self._refused(candidate, apart):
            return
        candidate.times_ns = [record["time_ns"] for record in found]
        candidate.energy_j = self.space.sum([record["energy"]["total_j"] for record in found])
        candidate.figures = None
        candidate.end("simulated")
        time_ns, energy_j, _area = self.figures(candidate)
        total = {"time_ns": time_ns, "energy_j": energy_j, "power_w": energy_j / time_ns * 1e9}
        for key, value in total.items():
            if value > self.space.constraints.get(key, math.inf):
                return candidate.end("over", key)
        self._found.append(self.figures(candidate))

    def _refused(self, candidate: Candidate, found: Sequence[Record]) -> bool:
        """Ends a candidate of which one run is refused."""
        for record in found:
            if (why := refusal_of(record)) is not None:
                candidate.end("refused", DOES_NOT_APPLY.sub("", why["reason"]), why["code"])
                return True
        return False


def explore(
    space: str | os.PathLike[str] | Mapping[str, Any],
    store: str | os.PathLike[str] | None = None,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    prune: bool = True,
    sensitivity: bool = True,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> Exploration:
    """Finds the designs of a space that no other beats in time, energy and area.

    The most promising are simulated first. One whose bounds a simulated one beats, in one figure at least and in none
    the other way, is never simulated: it cannot be on the front.

    >>> found = explore({
    ...     "fabrics": {"mesh": "mesh:{side}x{side}", "torus": "torus:{side}x{side}"},
    ...     "axes": {"side": [4]}, "algorithms": ["combs", "ring"], "bytes": "1MiB",
    ... })
    >>> sorted({point["algorithm"] for point in found.front})
    ['combs']

    Args:
        space: a file or description (docs/how-to/explore.md).
        store: folder of runs, which other processes may use at the same time; default: with a file, ``FILE.runs``
            beside it; else runs are not kept.
        executor: any of ``concurrent.futures``; default: threads, as the core computes without Python's lock.
        jobs: runs at a time; default: as many as the executor has workers, or as this machine has cores.
        prune: whether designs whose bounds are beaten are left out; the front is the same without.
        sensitivity: whether it is also found what would move the front.
        time_limit_s: of one run; a design with one that takes longer has no result.
        progress: called with what is done and its share, 0 to 1.

    Raises:
        AntiphonError: for a space that means nothing, before anything is run; ``bad-file`` for a store that cannot be
            used; ``not-applicable`` if no design has a result.
    """
    if isinstance(space, str | os.PathLike):
        read = Space.read(space)
        store = runs_beside(space) if store is None else store
    elif isinstance(space, Mapping):
        read = Space.of(space)
    else:
        raise TypeError(f"argument 'space': expected a file or a description, not {type(space).__name__}")
    opening = runner(store, executor, jobs, time_limit_s)
    told = progress or (lambda _what, _share: None)
    survey = Survey(read)
    candidates = _candidates(survey, jobs, told)
    with opening as runs:
        search = Search(read, candidates, runs, prune, lambda share: told("designs", share))
        search.settle()
        moved = Table()
        if sensitivity:
            moved = Sensitivity(survey, [each for each in candidates if each.on_front], runs, told).table()
        return _exploration(read, candidates, search, runs.made, moved)


def _candidates(survey: Survey, jobs: int | None, told: Progress) -> list[Candidate]:
    """Those of a space, with their bounds; each once, however often axes give it."""
    variants = list(survey.space.variants())
    places = [survey.place(variant) for variant in variants]
    for template in survey.space.templates:
        own = [place for place in places if place.variant.template is template]
        if all(place.refused and place.refused[1] != "not-applicable" for place in own) and own and own[0].refused:
            reason, code = own[0].refused
            raise AntiphonError(f"{survey.space.name}: fabrics.{template.name}: {reason}", code)
    done = 0

    def bound(place: Place) -> Place:
        nonlocal done
        found = survey.bounded(place)
        done += 1
        told("bounds", done / len(places))
        return found

    candidates: dict[Any, Candidate] = {}
    for place in in_parallel(bound, places, jobs):
        for design in place.designs():
            values = design.values if place.cost is None else None
            what = (design.name, design.fabric, design.settings, design.algorithm, values)
            if what in candidates:
                continue
            candidate = candidates[what] = Candidate(design, place, least=place.least)
            if place.refused is not None:
                candidate.end("refused", *place.refused)
            elif place.over is not None:
                candidate.end("over", place.over)
    return list(candidates.values())


def _exploration(
    space: Space, candidates: Sequence[Candidate], search: Search, made: int, sensitivity: Table
) -> Exploration:
    timed = [candidate for candidate in candidates if candidate.times_ns]
    timed.sort(key=lambda each: (not each.on_front, search.figures(each)))
    states = [candidate.state for candidate in candidates]
    return Exploration(
        name=space.name,
        collectives=list(dict.fromkeys(kind for kind, *_ in space.workloads)),
        sizes=list(dict.fromkeys(size for _, size, _ in space.workloads)),
        system=space.system,
        fidelity=space.fidelity,
        designs=len(candidates),
        repeated=space.count - len(candidates),
        simulated=len(timed),
        pruned=states.count("pruned"),
        over=states.count("over"),
        refused=states.count("refused"),
        runs=made,
        front_columns=space.columns,
        points=Table.of_rows([_row(space, each) for each in timed]),
        sensitivity=sensitivity,
        refusals=_refusals(candidates),
        every=Table.of_rows([_ending(space, each) for each in candidates]),
    )


def _head(space: Space, candidate: Candidate) -> dict[str, Any]:
    """What a design is."""
    design = candidate.design
    own = dict(design.settings) | dict(design.values)
    values = {key: own.get(key) for key in space.columns}
    return {"name": design.name, "fabric": design.fabric, "algorithm": design.algorithm} | values


def _row(space: Space, candidate: Candidate) -> dict[str, Any]:
    cost = candidate.place.cost
    time_ns = space.sum(candidate.times_ns)
    figures = {"time_ns": time_ns, "energy_j": candidate.energy_j, "area_mm2": cost.area_mm2 if cost else None}
    several = len(space.workloads) > 1
    names = [f"times_ns.{kind} {format_bytes(size)}" for kind, size, _ in space.workloads]
    return (
        _head(space, candidate)
        | figures
        | {"on_front": candidate.on_front, "power_w": candidate.energy_j / time_ns * 1e9}
        | {key: getattr(cost, key) for key in COST}
        | {"misses": " ".join(candidate.why)}
        | (dict(zip(names, candidate.times_ns, strict=True)) if several else {})
    )


def _ending(space: Space, candidate: Candidate) -> dict[str, Any]:
    least = candidate.least
    return (
        _head(space, candidate)
        | {"state": candidate.state, "on_front": candidate.on_front}
        | {"time_ns": space.sum(candidate.times_ns) if candidate.times_ns else None, "energy_j": candidate.energy_j}
        | {"area_mm2": candidate.place.cost.area_mm2 if candidate.place.cost else None}
        | {"least_time_ns": space.sum([each.time_ns for each in least]) if least else None}
        | {"least_energy_j": space.sum([each.energy_j for each in least]) if least else None}
        | {"why": candidate.why[0] if candidate.why else ""}
    )


def _refusals(candidates: Sequence[Candidate]) -> list[Refused]:
    counts: dict[tuple[str, ...], list[Any]] = {}
    for candidate in candidates:
        if candidate.state == "refused":
            algorithm = "" if candidate.place.refused else candidate.design.algorithm
            reason, code = candidate.why
            found = counts.setdefault((candidate.design.name, algorithm, reason, code), [candidate.design.fabric, 0])
            found[1] += 1
    return [
        Refused(name, fabric, algorithm, reason, code, count)
        for (name, algorithm, reason, code), (fabric, count) in counts.items()
    ]
