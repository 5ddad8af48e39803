"""What would move the front: parameters that are twice as good, one at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from antiphon._core import Fabric, System
from antiphon.collective.timing import Progress
from antiphon.deadline import OVER_TIME, OverTime
from antiphon.errors import AntiphonError
from antiphon.exploration.front import compared
from antiphon.exploration.sites import NEAR, Place, Survey
from antiphon.exploration.space import IO, QUANTITY, RATE, Design
from antiphon.platforms import UNITS
from antiphon.results.table import Table
from antiphon.studies.commands import SETTING
from antiphon.studies.jobs import Job, Record, refusal_of

TOGETHER = 4
"""Designs that are run together for each of time and energy."""
LINK_RATE = "link rate"
OF_LINKS: dict[str, tuple[float, tuple[str, ...]]] = {
    LINK_RATE: (2.0, ("link_rate_gb_per_s",)),
    "link latency": (0.5, ("link_latency_ns", "wire_latency_ps_per_mm")),
    "wire energy": (0.5, ("energy_link_pj_per_bit", "energy_wire_pj_per_bit_mm")),
}
"""What is twice as good of links: a factor, and parameters of the system, those of a wire last."""
OWN = {"link latency": "latency_ns", "wire energy": "energy_pj_per_bit"}
"""Where a link has its own, which the system's does not change."""
UNKNOWN = ("unknown", "inf")
"""Values of parameters that have no multiple."""
FACTORS = (2.0, 0.5)
"""Of an axis; which of the two is better is not known, so both are tried."""


class Runs(Protocol):
    """What makes runs."""

    def records(self, points: Sequence[Job], /) -> list[Record]:
        """Their records."""
        ...


class Standing(Protocol):
    """A design of the front and where it runs."""

    @property
    def design(self) -> Design: ...

    @property
    def place(self) -> Place: ...

    @property
    def times_ns(self) -> Sequence[float]: ...

    @property
    def energy_j(self) -> float: ...


@dataclass(frozen=True)
class Move:
    """A design with a parameter changed, and what a run of it is not below."""

    design: Design
    least_ns: float
    least_j: float


@dataclass(frozen=True)
class Sensitivity:
    """Runs designs of a front again, as few as tell the least time and energy."""

    survey: Survey
    front: Sequence[Standing]
    runs: Runs
    told: Progress

    def table(self) -> Table:
        """A row for each parameter, the better of both factors; none where a run took longer than the time limit."""
        names = self._parameters()
        rows = []
        for done, name in enumerate(names):
            self.told("sensitivity", done / len(names))
            factors = (OF_LINKS[name][0],) if name in OF_LINKS else FACTORS
            try:
                found = [row for factor in factors if (row := self._row(name, factor)) is not None]
            except OverTime:  # what it would move is not known
                continue
            if found:
                rows.append(min(found, key=lambda row: compared((row["time_ns"], row["energy_j"]))))
        return Table.of_rows(rows)

    def _parameters(self) -> list[str]:
        """Links first, then axes that have quantities; whole numbers in specifications are sizes."""
        space = self.survey.space
        axes = [
            key
            for key, values in space.axes.items()
            if key != RATE and any(_scaled(value, 2.0, key.startswith(SETTING)) is not None for value in values)
        ]
        return [*OF_LINKS, *axes]

    def _row(self, name: str, factor: float) -> dict[str, Any] | None:
        """The least time and energy of the front with a parameter changed, where designs have it; None if none has."""
        space, moves, others = self.survey.space, [], []
        for standing in self.front:
            move = self._move(standing, name, factor)
            others.append(standing) if move is None else moves.append(move)
        if not moves:
            return None
        left = list(moves)
        best: dict[str, tuple[float, Design | None]] = {"time_ns": (math.inf, None), "energy_j": (math.inf, None)}
        for standing in others:
            for key, value in (("time_ns", space.sum(standing.times_ns)), ("energy_j", standing.energy_j)):
                if value < best[key][0]:
                    best[key] = (value, standing.design)
        while True:
            faster = sorted((e for e in left if e.least_ns < best["time_ns"][0]), key=lambda e: e.least_ns)[:TOGETHER]
            lower = sorted((e for e in left if e.least_j < best["energy_j"][0]), key=lambda e: e.least_j)[:TOGETHER]
            chosen = list(dict.fromkeys([*faster, *lower]))
            if not chosen:
                break
            left = [move for move in left if move not in chosen]
            records = iter(self.runs.records([point for move in chosen for point in space.points(move.design)]))
            for move in chosen:
                found = [next(records) for _ in space.workloads]
                if whys := [why for record in found if (why := refusal_of(record)) is not None]:
                    if any(why["code"] == OVER_TIME for why in whys):
                        raise OverTime(whys[0]["reason"], OVER_TIME)
                    continue
                time_ns = space.sum([record["time_ns"] for record in found])
                energy_j = space.sum([record["energy"]["total_j"] for record in found])
                for key, value in (("time_ns", time_ns), ("energy_j", energy_j)):
                    if value < best[key][0]:
                        best[key] = (value, move.design)
        time_ns, fastest = best["time_ns"]
        if fastest is None:
            return None
        row = {"parameter": name, "factor": factor, "time_ns": time_ns, "fabric": fastest.fabric}
        return row | {"algorithm": fastest.algorithm, "energy_j": best["energy_j"][0]}

    def _move(self, standing: Standing, name: str, factor: float) -> Move | None:
        """A design of the front with a parameter changed; None if it does not have it."""
        space, design, place = self.survey.space, standing.design, standing.place
        settings = dict(design.settings)
        spec = design.fabric
        if name == LINK_RATE:
            found = self._faster(place, settings, factor)
            if found is None:
                return None
            spec, settings = found
        elif name in OF_LINKS:
            links, keys = Fabric(spec).links, OF_LINKS[name][1]
            if not np.isnan(links[OWN[name]]).all():
                keys = keys[1:]  # of the wire
                if np.isnan(links["length_mm"]).all():
                    return None
            settings = _changed(space.system_of(settings), settings, keys, factor)
        elif name.startswith(SETTING):
            value = _scaled(settings[name], factor, True) if name in settings else None
            if value is None:
                return None
            settings[name] = value
        else:
            value = _scaled(place.variant.values[name], factor, False) if name in place.variant.values else None
            if value is None:
                return None
            spec = place.variant.template.filled(place.variant.values | {name: value}, place.rate_gb_per_s)
        try:
            least = self.survey.least(spec, settings)
        except AntiphonError:  # a value that the parameter does not take
            return None
        changed = Design(design.name, design.values, spec, tuple(sorted(settings.items())), design.algorithm)
        sums = (space.sum([each.time_ns for each in least]), space.sum([each.energy_j for each in least]))
        return Move(changed, *compared(sums))

    def _faster(self, place: Place, settings: Mapping[str, Any], factor: float) -> tuple[str, dict[str, Any]] | None:
        """A fabric and settings with another rate of links; None where no parameter changes it."""
        template, values, rate = place.variant.template, place.variant.values, place.rate_gb_per_s
        if rate is not None:
            return template.filled(values, rate * factor), dict(settings)
        if IO in template.places:
            return template.filled(values | {IO: _scaled(values[IO], factor, False)}), dict(settings)
        changed = _changed(self.survey.space.system_of(settings), settings, OF_LINKS[LINK_RATE][1], factor)
        before, after = (self.survey.cost(place.fabric, each).link_gb_per_s for each in (settings, changed))
        return (place.fabric, changed) if abs(after - factor * before) <= NEAR * after else None


def _changed(system: System, settings: Mapping[str, Any], keys: Sequence[str], factor: float) -> dict[str, Any]:
    """Settings in which parameters of the system, those that are known, are scaled."""
    changed = dict(settings)
    for parameter in system.parameters():
        if parameter.key not in keys or parameter.default in UNKNOWN:
            continue
        for unit in ("", *UNITS):  # a value with a unit has a key without
            changed.pop(SETTING + parameter.key.removesuffix(unit), None)
        changed[SETTING + parameter.key] = float(parameter.default) * factor
    return changed


def _scaled(value: Any, factor: float, whole: bool) -> Any:
    """A value times a factor: a quantity with a unit, or a number; a whole one stays whole, or is None. Where not
    ``whole``, whole numbers are sizes and are not scaled."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        scaled = value * factor
        return int(scaled) if whole and scaled.is_integer() else None
    if isinstance(value, float):
        return value * factor
    match = QUANTITY.fullmatch(value)
    return None if match is None else f"{float(match[1]) * factor:g}{match[2]}"
