"""What pages share: templates, filters for figures, axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from numpy.typing import NDArray

from antiphon._core import __version__
from antiphon.plot import COLOURS
from antiphon.view import text
from antiphon.view.text import time_unit

DASHES = ("", "7 3", "2 3")
"""Line styles; with the colours they tell 21 lines apart."""
LONGEST_SHOWN = 4
"""What happens over time is drawn up to this multiple of the best time."""
FILTERS = {name.removeprefix("format_"): each for name, each in vars(text).items() if callable(each)} | {
    "share": lambda share: "–" if share is None else f"{text.digits(share * 100)} %"
}
"""Of all pages: what puts figures into words, such as ``time``."""


def page_template(name: str, **filters: Callable[..., str]) -> Template:
    """A template of a page, with filters for its figures beside those of all pages."""
    environment = Environment(
        loader=PackageLoader("antiphon.view.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS | filters
    environment.globals |= {"version": __version__, "colours": COLOURS}
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


@dataclass(frozen=True)
class SizeAxis:
    """A logarithmic axis of sizes in bytes: ``ticks`` are (position in pixels, label in KiB, MiB, ...)."""

    smallest_bytes: float
    pixels_per_doubling: float
    ticks: list[tuple[float, str]]

    def at(self, size_bytes: float) -> float:
        """Where a size is, in pixels."""
        return self.pixels_per_doubling * math.log2(max(size_bytes, 1e-9) / self.smallest_bytes)


def size_axis(smallest_bytes: float, largest_bytes: float, pixels: float) -> SizeAxis:
    """An axis of ``pixels`` for sizes, with at most nine ticks at powers of two.

    >>> [label for _, label in size_axis(1024, 1 << 20, 500).ticks]
    ['1 KiB', '4 KiB', '16 KiB', '64 KiB', '256 KiB', '1 MiB']
    """
    first, last = math.log2(smallest_bytes), math.log2(max(largest_bytes, 2 * smallest_bytes))
    step = max(1, math.ceil((last - first) / 8))
    axis = SizeAxis(smallest_bytes, pixels / (last - first), [])
    powers = range(math.ceil(first), math.floor(last) + 1, step)
    axis.ticks.extend((axis.at(2**power), _binary(power)) for power in powers)
    return axis


def _binary(power: int) -> str:
    """Two to a power of bytes."""
    unit = max(0, min(power // 10, 5))
    return f"{2 ** (power - 10 * unit):g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit]}"


def look(place: int) -> dict[str, str]:
    """Colour and dashes of one of several lines."""
    return {"colour": COLOURS[place % len(COLOURS)], "dash": DASHES[place // len(COLOURS) % len(DASHES)]}


class Course(NamedTuple):
    """Shares of something at times, in nanoseconds, until the end."""

    start_ns: NDArray[np.float64]
    share: NDArray[np.float64]
    end_ns: float


def over_time(courses: Sequence[Course], best_ns: float, height: float, begin: str) -> dict[str, Any]:
    """Lines over time as SVG path data, the height of a share of 1; ``begin`` is before their first point."""
    width = 880.0
    longest = max(course.end_ns for course in courses)
    shown = max(min(longest, LONGEST_SHOWN * best_ns), 1e-3)
    axis = time_axis(shown, width)
    paths = []
    for start, share, end in courses:
        xs = (start + np.maximum(np.append(start[1:], end), start)) / 2 * axis.pixels_per_unit
        middle = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, height * (1 - share), strict=True))
        paths.append(f"{begin}{middle} {end * axis.pixels_per_unit:.1f},{height:g}")
    return {"axis": axis, "width": width, "height": height, "paths": paths, "cut": shown < longest}
