"""What pages share: templates, colours, axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from antiphon.view.text import time_unit


def page_template(name: str, **filters: Callable[..., str]) -> Template:
    """A template of a page, with filters for its figures."""
    environment = Environment(
        loader=PackageLoader("antiphon.view.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


@dataclass(frozen=True)
class Axis:
    """A linear axis from zero: ``ticks`` are (position in pixels, label)."""

    pixels_per_unit: float
    ticks: list[tuple[float, str]]
    unit: str


def time_axis(longest_ns: float, pixels: float) -> Axis:
    """An axis of ``pixels`` for times in nanoseconds, with about six round ticks."""
    unit, length = time_unit(longest_ns)
    rough = longest_ns / length / 6
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
    count = math.floor(longest_ns / length / step) + 1
    scale = pixels / longest_ns
    return Axis(scale, [(index * step * length * scale, f"{index * step:g}") for index in range(count)], unit)
