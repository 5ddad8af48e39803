"""Where designs run: fabrics whose rates are solved for what is equal, their cost, and their bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon._core import Fabric, System
from antiphon.collective.result import REFUSALS
from antiphon.errors import AntiphonError
from antiphon.exploration.bounds import Least
from antiphon.exploration.space import AREA, EQUAL, IO, RATE, Design, Space, Variant, quantity
from antiphon.network.cost import cost
from antiphon.results import FabricCost

NEAR = 1e-6
"""What is equal may differ by this share, as rates are rounded."""
TRIED_GB_PER_S = (8.0, 16.0)
"""Rates of links at which a cost is known; it is linear in the rate where all links have it."""
LEAST_GB_PER_S, MOST_GB_PER_S = 1e-9, 1e6
"""Rates that links can have."""
HALVINGS = 60


@dataclass(frozen=True)
class Place:
    """A fabric and parameters of the system, on which all algorithms of a variant run.

    Attributes:
        rate_gb_per_s: what stands for ``{rate}``; None without this place.
        cost: None if it is refused.
        refused: why there is no design here: reason and code.
        over: the constraint that its cost misses.
        least: by workload, what nothing can be better than; empty if it is refused or misses a constraint.
    """

    variant: Variant
    rate_gb_per_s: float | None
    fabric: str
    cost: FabricCost | None = None
    refused: tuple[str, str] | None = None
    over: str | None = None
    least: Sequence[Least] = ()

    @property
    def area_mm2(self) -> float:
        """As it is compared: rates are rounded, so areas that are to be equal are nearly so."""
        equal = self.variant.equal
        if equal is not None and equal[0] == AREA:
            return equal[1]
        assert self.cost is not None
        return self.cost.area_mm2

    def designs(self) -> list[Design]:
        """A design for each algorithm."""
        values, settings = (tuple(sorted(each.items())) for each in (self.variant.values, self.variant.settings))
        name = self.variant.template.name
        return [Design(name, values, self.fabric, settings, algorithm) for algorithm in self.variant.algorithms]


class Survey:
    """Finds the place of every variant of a space; what several share is found once."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._costs: dict[Any, FabricCost] = {}
        self._least: dict[Any, list[Least]] = {}

    def place(self, variant: Variant) -> Place:
        """That of a variant, with its cost; what cannot be built is refused.

        Raises:
            AntiphonError: for mistakes in the description.
        """
        template = variant.template
        spec = template.text
        try:
            rate = self._rate(variant)
            spec = template.filled(variant.values, rate)
            found = self.cost(spec, variant.settings)
            if variant.equal is not None and RATE not in template.places:
                self._check_equal(variant, found)
            over = self._over(found)
        except AntiphonError as error:
            return Place(variant, None, spec, refused=(error.message, error.code))
        return Place(variant, rate, spec, found, over=over)

    def bounded(self, place: Place) -> Place:
        """The same with its bounds."""
        if place.refused or place.over:
            return place
        try:
            least = self.least(place.fabric, place.variant.settings)
        except AntiphonError as error:
            if error.code not in REFUSALS:
                raise
            return replace(place, refused=(error.message, error.code))
        totals = {"time_ns": [each.time_ns for each in least], "energy_j": [each.energy_j for each in least]}
        over = next((key for key, each in totals.items() if self.exceeds(key, self.space.sum(each))), None)
        return replace(place, least=least, over=over)

    def least(self, spec: str, settings: Mapping[str, Any]) -> list[Least]:
        """What nothing on a fabric can be better than, by workload."""
        key = (spec, tuple(sorted(settings.items())))
        if key not in self._least:
            fabric, system = Fabric(spec), self.space.system_of(settings)
            self._least[key] = [
                Least.of(fabric, kind, size, system, self.space.fidelity) for kind, size, _ in self.space.workloads
            ]
        return self._least[key]

    def exceeds(self, key: str, value: float) -> bool:
        """Whether a figure is above the most that it may be."""
        return value > self.space.constraints.get(key, float("inf")) * (1 + NEAR)

    def cost(self, spec: str, settings: Mapping[str, Any]) -> FabricCost:
        """That of a fabric."""
        key = (spec, tuple(sorted(settings.items())))
        if key not in self._costs:
            system: System = self.space.system_of(settings)
            self._costs[key] = cost(spec, system)
        return self._costs[key]

    def _rate(self, variant: Variant) -> float | None:
        """The rate of links, of an axis or at which a figure is what it is to be; None without a place for it."""
        template = variant.template
        if RATE not in template.places:
            return None
        if variant.equal is None:
            return quantity(variant.values[RATE], EQUAL[IO][1], RATE)
        key, wanted = variant.equal
        figure = EQUAL[key][0]

        def at(rate: float) -> float:
            return float(getattr(self.cost(template.filled(variant.values, rate), variant.settings), figure))

        low, high = TRIED_GB_PER_S
        slope = (at(high) - at(low)) / (high - low)
        at_none = at(low) - slope * low
        if slope > 0 and wanted > at_none:
            rate = (wanted - at_none) / slope
            if rate <= MOST_GB_PER_S and abs(at(rate) - wanted) <= NEAR * wanted:
                return rate
        # Where other links have rates of their own, it grows in pieces.
        low, high = LEAST_GB_PER_S, MOST_GB_PER_S
        if not at(low) < wanted <= at(high):
            message = f"no rate of links gives {figure} {wanted:g}: it is {at(low):.6g} to {at(high):.6g}"
            raise AntiphonError(message, "not-applicable")
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if at(middle) < wanted else (low, middle)
        return round(high, 9)

    def _check_equal(self, variant: Variant, found: FabricCost) -> None:
        """Refuses a fabric without a place for the rate whose figure is another."""
        assert variant.equal is not None
        key, wanted = variant.equal
        value = getattr(found, EQUAL[key][0])
        if abs(value - wanted) > NEAR * wanted:
            message = f"its {EQUAL[key][0]} is {value:.6g}, not {wanted:g}; write @{{rate}} in its specification"
            raise AntiphonError(message, "not-applicable")

    def _over(self, found: FabricCost) -> str | None:
        """The first constraint that a cost misses.

        Raises:
            AntiphonError: ``not-applicable`` for one whose figure is not known.
        """
        for key in self.space.constraints:
            if not hasattr(found, key):  # of a run
                continue
            value = getattr(found, key)
            if value is None:
                raise AntiphonError(f"its {key} is not known, and has a constraint", "not-applicable")
            if self.exceeds(key, value):
                return key
        return None
