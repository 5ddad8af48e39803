"""Charts of all pages: lines over an axis and bars, which ``templates/plots.html`` draws as inline SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from antiphon.view.pages.page import look, size_axis, time_axis
from antiphon.view.text import digits, format_time

WIDTH, HEIGHT = 620.0, 280.0
"""Of what lies between the axes of a chart of lines, in pixels."""
BARS = 420.0
"""Length of the longest bar, in pixels."""
MOST_LABELS = 9
"""Labels along an axis."""
ZEROS = re.compile(r"\.0+(?=\D*$)")
"""What labels of round numbers go without."""
MOST_POINTS = 600
"""Points of a line; more are thinned."""


@dataclass(frozen=True)
class Scale:
    """Where values lie along an axis, from ``low`` at 0 to ``high`` at ``pixels``; ``ticks`` are (pixels, label)."""

    title: str
    low: float
    high: float
    pixels: float
    log: bool
    ticks: list[tuple[float, str]]

    def place(self, value: float) -> float:
        """The pixels of a value; one outside lies at the nearer end."""
        return _place(min(max(value, self.low), self.high), self.low, self.high, self.pixels, self.log)


def _place(value: float, low: float, high: float, pixels: float, log: bool) -> float:
    if log:
        return pixels * math.log(value / low) / math.log(high / low)
    return pixels * (value - low) / (high - low)


def linear(
    title: str, values: Iterable[float], pixels: float, text: Callable[[float], str] = "{:,.6g}".format
) -> Scale:
    """From zero to the largest value or a little more, with round ticks."""
    high = max(values, default=0.0) or 1.0
    rough = high / 5
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
    count = math.ceil(high / step - 1e-9)
    ticks = [(pixels * place / count, text(step * place)) for place in range(count + 1)]
    return Scale(title, 0.0, step * count, pixels, False, ticks)


def times(title: str, values: Iterable[float], pixels: float) -> Scale:
    """From zero to the largest time in nanoseconds, which the title gets the unit of."""
    longest = max(values, default=0.0) or 1.0
    axis = time_axis(longest, pixels)
    return Scale(f"{title} in {axis.unit}", 0.0, longest, pixels, False, axis.ticks)


def decades(title: str, values: Iterable[float], pixels: float, text: Callable[[float], str] = digits) -> Scale:
    """Logarithmic, from the power of ten below the least value to that above the largest."""
    above = [value for value in values if value > 0] or [1.0]
    low, high = 10.0 ** math.floor(math.log10(min(above))), 10.0 ** math.ceil(math.log10(max(above)))
    high = max(high, 10 * low)
    count = round(math.log10(high / low))
    every = -(-count // MOST_LABELS)
    powers = [low * 10.0**place for place in range(0, count + 1, every)]
    ticks = [(_place(each, low, high, pixels, True), ZEROS.sub("", text(each))) for each in powers]
    return Scale(title, low, high, pixels, True, ticks)


def sizes(title: str, values: Iterable[int], pixels: float) -> Scale:
    """Logarithmic, for numbers of bytes: ticks are powers of two, with binary units."""
    known = [max(value, 1) for value in values] or [1]
    axis = size_axis(min(known), max(known), pixels)
    high = axis.smallest_bytes * 2 ** (pixels / axis.pixels_per_doubling)
    return Scale(title, axis.smallest_bytes, high, pixels, True, axis.ticks)


@dataclass(frozen=True)
class Line:
    """One line: ``points`` are (pixels, pixels, what is shown at the pointer); ``strong`` ones are what matters.

    ``corners`` are where the line bends, if those are not the points; at ``open_ends`` it goes on above the chart.
    """

    name: str
    colour: str
    dash: str
    points: list[tuple[float, float, str]]
    strong: bool = True
    marked: bool = True
    corners: list[tuple[float, float]] = field(default_factory=list)
    open_ends: list[tuple[float, float, str]] = field(default_factory=list)

    @property
    def path(self) -> str:
        """As the points of a polyline."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.corners or [point[:2] for point in self.points])


@dataclass(frozen=True)
class Chart:
    """Lines between two axes.

    Attributes:
        label: what a screen reader says.
        bands: above the lines, (from, to, colour, text), in pixels.
        limits: dashed lines upright, (pixels, text).
    """

    label: str
    x: Scale
    y: Scale
    lines: list[Line]
    bands: list[tuple[float, float, str, str]] = field(default_factory=list)
    limits: list[tuple[float, str]] = field(default_factory=list)
    kind: str = "lines"

    @property
    def legend(self) -> list[Line]:
        """Lines that have a name."""
        return [line for line in self.lines if line.name]


def line(
    place: int,
    name: str,
    x: Scale,
    y: Scale,
    values: Iterable[tuple[float, float, str]],
    *,
    strong: bool = True,
    marked: bool = True,
) -> Line:
    """The ``place``-th of several lines, of (x, y, text). Values above the y axis are cut off where the axis ends."""
    given = list(values)
    given = given[:: -(-len(given) // MOST_POINTS) or 1]
    points: list[tuple[float, float, str]] = []
    corners: list[tuple[float, float]] = []
    ends: list[tuple[float, float, str]] = []
    last: tuple[float, float, bool] | None = None
    for at, value, text in given:
        across, above = x.place(at), value > y.high * (1 + 1e-9)
        up = _place(max(value, y.low), y.low, y.high, y.pixels, y.log)
        crossing = across
        if last is not None and above != last[2]:
            crossing = last[0] + (across - last[0]) * (y.pixels - last[1]) / (up - last[1])
            corners.append((crossing, 0.0))
        if not above:
            points.append((across, y.pixels - up, text))
            corners.append((across, y.pixels - up))
        elif last is None or not last[2]:
            ends.append((crossing, 0.0, text))
        last = across, up, above
    return Line(name, **look(place), points=points, strong=strong, marked=marked, corners=corners, open_ends=ends)


@dataclass(frozen=True)
class Bar:
    """A bar: its name, its length and what is written beside it. ``parts`` from its left have a length, a colour and
    what is shown at the pointer."""

    name: str
    value: float
    text: str
    colour: str = "var(--bar)"
    parts: Sequence[tuple[float, str, str]] = ()

    @property
    def blocks(self) -> list[tuple[float, float, str, str]]:
        """Where each part begins, its length, its colour and its text; of a bar without parts, itself."""
        blocks, start = [], 0.0
        for length, colour, text in self.parts or [(self.value, self.colour, f"{self.name}: {self.text}")]:
            blocks.append((start, length, colour, text))
            start += length
        return blocks


@dataclass(frozen=True)
class Bars:
    """Bars from the left; the dashed line at ``bound`` is what they are held against, such as the least there can be.
    ``legend`` has the name and the colour of what bars are made of."""

    label: str
    bars: Sequence[Bar]
    bound: tuple[float, str] | None = None
    legend: Sequence[tuple[str, str]] = ()
    kind: str = "bars"

    @property
    def pixels(self) -> float:
        """Of a unit."""
        bound = [] if self.bound is None else [self.bound[0]]
        return BARS / (max([*(bar.value for bar in self.bars), *bound], default=0.0) or 1.0)

    @property
    def margin(self) -> float:
        """What names take on the left."""
        return min(260.0, 24 + 7.6 * max((len(bar.name) for bar in self.bars), default=0))

    @property
    def width(self) -> float:
        """Of all, with the texts behind the bars; short ones leave charts alike."""
        ends = (bar.value * self.pixels + 7.6 * len(bar.text) for bar in self.bars)
        return self.margin + max(670.0, 24 + max(ends, default=0.0))


def time_bars(label: str, named: Sequence[tuple[str, float, str]], bound_ns: float | None = None) -> Bars:
    """Times in nanoseconds, each with a name and a remark; the first is the best."""
    bars = [
        Bar(
            name,
            ns,
            " · ".join(filter(None, (format_time(ns), remark))),
            "var(--accent)" if not place else "var(--bar)",
        )
        for place, (name, ns, remark) in enumerate(named)
    ]
    return Bars(label, bars, None if bound_ns is None else (bound_ns, f"lower bound {format_time(bound_ns)}"))
