"""Charts as data, and how ``figures.toml`` makes them of a table.

Each of a figure's ``charts`` is one of the entries that meet ``at``, or one for each group alike on the axes ``by``;
``title``, ``x_label`` and ``y_label`` may name what is found for the first of them.

* Lines: columns ``x`` and ``y``, for every ``label``, which is the series unless it is said; what is published is in
  ``known``. ``ticks`` is the text of a mark, of which ``every`` so many are shown. ``further`` lines differ from these
  as is said there. A column ``lines`` has them as they are.
* Bars: ``parts`` from below, or the ``columns`` that have them, in every ``group``; with ``over``, a series, as shares
  of its time.
* Spans: a column of ``tracks``, up to ``x_max``.
* ``marked``, ``log``, ``reference``, ``y_max``: as of the charts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from antiphon.repro.data import Spec
from antiphon.repro.table import Entry, Table, words


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
LIMITS = {"y_max", "reference", "log"}
"""Fields of lines and bars that are given as they are."""
FEW = 6
"""Marks on an axis that all have a text."""


def made_charts(table: Table, specs: Sequence[Spec]) -> list[Chart]:
    """All charts of a table."""
    return [_made(of, spec) for spec in specs for of in table.where(spec.get("at", "")).split(spec.get("by", ""))]


def _made(table: Table, spec: Spec) -> Chart:
    title, limits = words(spec["title"], table[0]), {name: spec[name] for name in LIMITS & set(spec)}
    if "parts" in spec:
        return Bars(title, spec["y_label"], spec["parts"], bars(table, spec), **limits)
    if "tracks" in spec:
        return Spans(title, spec["x_label"], table[0][spec["tracks"]], spec["x_max"])
    x_label, y_label = (words(spec[label], table[0]) for label in ("x_label", "y_label"))
    marks = [(entry[spec["x"]], words(spec["ticks"], entry)) for entry in table if "ticks" in spec]
    marks = sorted(dict.fromkeys(marks))
    marks = marks[:: spec.get("every", 1)] if len(marks) > FEW else marks
    drawn = [line for each in ({}, *spec.get("further", ())) for line in lines(table, {**spec, **each})]
    return Lines(title, x_label, y_label, drawn, marks, **limits)


def lines(table: Table, spec: Spec) -> list[Line]:
    """A line for every ``label``: a column over another, its mean where several entries are at one place, with
    published points where there are some. One entry may have a whole line, or several."""
    if "lines" in spec:
        return list(table[0][spec["lines"]])
    found, x, y, known = [], spec["x"], spec["y"], spec.get("known", "known")
    for label, of in table.grouped(lambda entry: _label(entry, spec)).items():
        if isinstance(of[0][x], list):
            found.append(Line(label, of[0][x], of[0][y], marked=spec.get("marked", True)))
            continue
        places = sorted(of.by(x), key=lambda place: place[0])
        published = [(place, at[0][known]) for place, at in places if at[0].get(known) is not None]
        means = [fmean(at.column(y)) for _, at in places]
        found.append(Line(label, [place for place, _ in places], means, published))
    return found


def bars(table: Table, spec: Spec) -> dict[str, list[Bar]]:
    """The bars of every group, one for every ``label``, of some columns from below; with ``over``, a series, as shares
    of its time."""
    over = table.where(series=spec["over"]) if "over" in spec else ()
    whole = {entry["what"]: entry["time"] for entry in over}

    columns: Sequence[str] = spec["columns"] if "columns" in spec else spec["parts"]

    def bar(entry: Entry) -> Bar:
        parts = [entry[column] / whole[entry["what"]] if over else entry[column] for column in columns]
        return Bar(_label(entry, spec), parts, entry[spec["known"]] if "known" in spec else None)

    groups = table.grouped(lambda entry: words(spec["group"], entry))
    return {group: [bar(entry) for entry in of] for group, of in groups.items()}


def _label(entry: Entry, spec: Spec) -> str:
    return words(spec.get("label", "{series}"), entry)
