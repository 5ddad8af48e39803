"""Charts as data, and how they are made of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.repro.table import Table


@dataclass(frozen=True)
class Line:
    """Our points, joined, and the published ones, hollow."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    published: Sequence[tuple[float, float]] = ()
    marked: bool = True


@dataclass(frozen=True)
class Lines:
    """A chart of lines; with ``ticks`` (position, label) the x axis is logarithmic to base 2."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    ticks: Sequence[tuple[float, str]] = ()
    y_max: float | None = None
    reference: float | None = None
    """A horizontal line; the y axis then need not begin at zero."""
    log: bool = False
    """Whether the y axis is logarithmic."""


@dataclass(frozen=True)
class Block:
    """Something that happens for a while; ``label`` is its style."""

    text: str
    label: str
    start: float
    length: float


@dataclass(frozen=True)
class Spans:
    """A chart of what happens when; ``tracks`` are from above."""

    title: str
    x_label: str
    tracks: Mapping[str, Sequence[Block]]
    x_max: float


@dataclass(frozen=True)
class Bar:
    """One stacked bar, its parts from below, and the published height."""

    label: str
    parts: Sequence[float]
    published: float | None = None


@dataclass(frozen=True)
class Bars:
    """A chart of groups of stacked bars; ``parts`` names the parts from below."""

    title: str
    y_label: str
    parts: Sequence[str]
    groups: Mapping[str, Sequence[Bar]]
    y_max: float | None = None
    """Where the axis ends; higher bars are cut, their height written above them."""


Chart = Lines | Bars | Spans


def lines(table: Table, x: str, y: str, known: str = "known", *, marked: bool = True) -> list[Line]:
    """A line for every series: a column over another, with its published points where there are some."""
    return [
        Line(
            str(series),
            of.column(x),
            of.column(y),
            [(entry[x], entry[known]) for entry in of if entry.get(known) is not None],
            marked,
        )
        for series, of in table.by("series")
    ]


def ticks(values: Sequence[float], text: Callable[[Any], str] = str, step: int = 1) -> list[tuple[float, str]]:
    """Marks on an axis, each with its text."""
    return [(value, text(value)) for value in values[::step]]


def bars(table: Table, group: str, parts: Sequence[str], known: str = "") -> dict[str, list[Bar]]:
    """The bars of every group, one a series, of some columns from below."""
    return {
        str(name): [
            Bar(str(entry["series"]), [entry[part] for part in parts], entry[known] if known else None) for entry in of
        ]
        for name, of in table.by(group)
    }
