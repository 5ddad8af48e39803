"""Charts of a table as SVG, drawn by matplotlib (the extra ``plots``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from antiphon.plot import SETTINGS, require, svg
from antiphon.repro.data import Series
from antiphon.repro.table import Entry, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 9.6, 3.9
"""Inches of the whole width and of one row of charts."""
HEIGHT_OF_SPANS, HEIGHT_OF_TRACK = 1.4, 0.4
"""Inches of a row of charts of spans without its tracks, and of each track."""
LEGEND_CHARACTERS, LEGEND_MARK = 110, 8
"""In one line of the legend, and for each mark in it."""
FEW = 6
"""Marks on an axis that all have a text."""
PARTS = ((0.35, ""), (0.6, "////"), (1.0, ""))
"""Opacity and hatching of the parts of a bar, from below; the uppermost is solid, and so is a single one."""
DARK = "#1b2230"
HOLLOW: dict[str, Any] = {"linestyle": "", "fillstyle": "none", "markersize": 8}
"""Marks of what is published."""


class Line(NamedTuple):
    """Our points, joined, and the published ones, hollow."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    published: Sequence[tuple[float, float]] = ()
    marked: bool = True


class Bar(NamedTuple):
    """One stacked bar, its parts from below, and the published height."""

    label: str
    parts: Sequence[float]
    published: float | None


class Block(NamedTuple):
    """Something that happens for a while; ``label`` is its style."""

    track: str
    text: str
    label: str
    start: float
    length: float


@dataclass(frozen=True)
class Chart:
    """What is drawn: lines, or bars by group, or blocks by track, from above.

    Attributes:
        ticks: marks of the x axis, which is then logarithmic to base 2.
        log: whether the y axis is logarithmic.
        reference: of a horizontal line, with which the y axis need not begin at zero.
        parts: of bars, from below. Bars higher than ``y_max`` are cut, their height written above them.
    """

    title: str
    x_label: str = ""
    y_label: str = ""
    x_max: float | None = None
    y_max: float | None = None
    lines: Sequence[Line] = ()
    ticks: Sequence[tuple[float, str]] = ()
    log: bool = False
    reference: float | None = None
    bars: Mapping[str, Sequence[Bar]] = field(default_factory=dict)
    parts: Sequence[str] = ()
    tracks: Mapping[str, Sequence[Block]] = field(default_factory=dict)

    @property
    def all_bars(self) -> list[Bar]:
        """Of all groups."""
        return list(chain(*self.bars.values()))

    @property
    def labels(self) -> set[str]:
        """Of all that is drawn."""
        found: list[Line | Bar | Block] = [*self.lines, *self.all_bars, *chain(*self.tracks.values())]
        return {each.label for each in found}

    @property
    def textures(self) -> dict[str, tuple[float, str]]:
        """Opacity and hatching by the name of the part."""
        parts = self.parts
        return dict(zip(parts, (*PARTS[: len(parts) - 1], PARTS[-1]), strict=True)) if parts else {}


# --- from a table -------------------------------------------------------------------------------

Name = Callable[[Entry], object]
SERIES = itemgetter("series")
"""What a line or bar is, unless it is said."""


def lines_of(table: Table, x: str, y: str, label: Name = SERIES, known: str = "known") -> list[Line]:
    """A line for every label, of two columns; the mean where several entries are at one place. What is published is in
    the column ``known``."""
    found = []
    for name, of in table.grouped(lambda entry: str(label(entry))).items():
        places = sorted(of.by(x), key=lambda place: place[0])
        published = [(place, at[0][known]) for place, at in places if at[0].get(known) is not None]
        means = [fmean(at.column(y)) for _, at in places]
        found.append(Line(name, [place for place, _ in places], means, published))
    return found


def line_chart(
    title: str,
    table: Table,
    x: str,
    x_label: str,
    y: str,
    y_label: str,
    *,
    label: Name = SERIES,
    known: str = "known",
    ticks: Callable[[Any], str] | None = None,
    every: int = 1,
    **axes: Any,
) -> Chart:
    """As ``lines_of``; ``ticks`` gives the text of a mark, of which ``every`` so many are shown unless they are few."""
    marks = [(value, ticks(value)) for value in sorted(set(table.column(x)))] if ticks else []
    marks = marks[::every] if len(marks) > FEW else marks
    return Chart(title, x_label, y_label, lines=lines_of(table, x, y, label, known), ticks=marks, **axes)


def bar_chart(
    title: str,
    y_label: str,
    table: Table,
    group: Name,
    parts: Mapping[str, str],
    *,
    label: Name = SERIES,
    known: str = "",
    over: object = None,
    y_max: float | None = None,
) -> Chart:
    """A bar for every label in every group, of ``parts`` by name, each a column; with ``over``, a series, as shares of
    its time. What is published is in the column ``known``."""
    whole = {entry["what"]: entry["time"] for entry in table.where(series=over)} if over else {}

    def bar(entry: Entry) -> Bar:
        of = whole[entry["what"]] if whole else 1
        return Bar(str(label(entry)), [entry[part] / of for part in parts.values()], entry[known] if known else None)

    groups = table.grouped(lambda entry: str(group(entry)))
    bars = {name: list(map(bar, of)) for name, of in groups.items()}
    return Chart(title, y_label=y_label, bars=bars, parts=list(parts), y_max=y_max)


def span_chart(title: str, x_label: str, x_max: float, tracks: Sequence[str], blocks: Sequence[Block]) -> Chart:
    """Blocks on their tracks, from above."""
    on = {track: [each for each in blocks if each.track == track] for track in tracks}
    return Chart(title, x_label, x_max=x_max, tracks=on)


# --- drawing ------------------------------------------------------------------------------------


def draw(charts: Sequence[Chart], styles: Mapping[str, Series], columns: int) -> str:
    """All charts of an experiment with one legend, as SVG."""
    require()
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(columns, len(charts))
    rows = math.ceil(len(charts) / columns)
    labels = [label for label in styles if any(label in chart.labels for chart in charts)]
    spans = all(chart.tracks for chart in charts)
    height = HEIGHT_OF_SPANS + HEIGHT_OF_TRACK * max(len(chart.tracks) for chart in charts) if spans else HEIGHT
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, height * rows + 0.55), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for chart, place in zip(charts, axes, strict=False):
            place.set_title(chart.title, loc="left")
            if chart.bars:
                _draw_bars(place, chart, styles, labels)
            elif chart.tracks:
                _draw_spans(place, chart, styles)
            else:
                _draw_lines(place, chart, styles)
        for place in axes[len(charts) :]:
            place.remove()
        handles = _handles(charts, labels, styles)
        fits = sum(len(handle.get_label()) + LEGEND_MARK for handle in handles) <= LEGEND_CHARACTERS
        in_a_row = len(handles) if fits else min(len(handles), 4)
        figure.legend(handles=handles, loc="outside upper center", ncols=in_a_row)
    return svg(figure)


def _handles(charts: Sequence[Chart], labels: Sequence[str], styles: Mapping[str, Series]) -> list[Any]:
    """The legend: algorithms, parts of bars, and what the hollow marks are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bars = [bar for chart in charts for bar in chart.all_bars]
    lines = [line for chart in charts for line in chart.lines]
    marked = any(line.marked for line in lines)
    handles: list[Any] = []
    for style in (styles[label] for label in labels):
        if bars or not lines:
            handles.append(Patch(facecolor=style.colour, label=style.name))
        else:
            handles.append(Line2D([], [], color=style.colour, label=style.name, markersize=4.5, **_look(style, marked)))
    textures = {part: look for chart in charts if len(chart.textures) > 1 for part, look in chart.textures.items()}
    for part, (opacity, hatch) in textures.items():
        handles.append(Patch(facecolor="#404854", edgecolor="white", alpha=opacity, hatch=hatch, label=part))
    if any(bar.published is not None for bar in bars) or any(line.published for line in lines):
        handles.append(Line2D([], [], color=DARK, label="published", marker="_" if bars else "o", **HOLLOW))
    return handles


def _look(style: Series, marked: bool) -> dict[str, Any]:
    return {"linestyle": "--" if style.dashed else "-", "marker": style.marker if marked else ""}


def _draw_lines(place: Axes, chart: Chart, styles: Mapping[str, Series]) -> None:
    for line in chart.lines:
        style = styles[line.label]
        size = 6 if len(line.xs) == 1 else 3
        look = _look(style, line.marked) | {"linewidth": 1.3, "markersize": size, "color": style.colour}
        place.plot(line.xs, line.ys, **look)
        xs, ys = [x for x, _ in line.published], [y for _, y in line.published]
        place.plot(xs, ys, color=style.colour, marker=style.marker, alpha=0.9, **HOLLOW)
    if chart.ticks:
        place.set_xscale("log", base=2)
        place.set_xticks([x for x, _ in chart.ticks], [label for _, label in chart.ticks])
        place.minorticks_off()
    if not any(line.marked for line in chart.lines):
        place.margins(x=0)
    place.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if chart.reference is not None:
        place.axhline(chart.reference, color=DARK, linewidth=1)
    if chart.log:
        place.set_yscale("log")
        place.yaxis.set_major_formatter("{x:g}")
    elif chart.reference is None:
        place.set_ylim(0, chart.y_max)


def _draw_bars(place: Axes, chart: Chart, styles: Mapping[str, Series], labels: Sequence[str]) -> None:
    width, y_max = min(0.3, 0.86 / max(map(len, chart.bars.values()))), chart.y_max
    for group, unordered in enumerate(chart.bars.values()):
        bars = sorted(unordered, key=lambda bar: labels.index(bar.label))
        for place_in_group, bar in enumerate(bars):
            x = group + (place_in_group - (len(bars) - 1) / 2) * width
            bottom = 0.0
            for (opacity, hatch), height in zip(chart.textures.values(), bar.parts, strict=True):
                look: dict[str, Any] = {"alpha": opacity, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
                place.bar(x, height, width * 0.9, bottom, color=styles[bar.label].colour, **look)
                bottom += height
            if y_max is not None and bottom > y_max:
                text: dict[str, Any] = {"ha": "center", "va": "top", "rotation": 90, "color": "white", "fontsize": 7}
                place.text(x, 0.985 * y_max, f"{bottom:.1f} ↑", **text)
            elif bar.published is not None:
                place.plot([x - width / 2, x + width / 2], [bar.published] * 2, color=DARK, linewidth=1.2)
    place.set_xticks(range(len(chart.bars)), list(chart.bars))
    place.tick_params(axis="x", length=0)
    place.grid(visible=False, axis="x")
    place.set(xlim=(-0.5, len(chart.bars) - 0.5), ylim=(0, y_max), ylabel=chart.y_label)


def _draw_spans(place: Axes, chart: Chart, styles: Mapping[str, Series]) -> None:
    x_max = chart.x_max
    assert x_max is not None
    text: dict[str, Any] = {"ha": "center", "va": "center", "color": "white", "fontsize": 8}
    for track, blocks in enumerate(chart.tracks.values()):
        for block in blocks:
            place.barh(track, block.length, 0.7, block.start, color=styles[block.label].colour, edgecolor="white")
            turned = 90 if block.length < 0.05 * x_max else 0
            place.text(block.start + block.length / 2, track, block.text, rotation=turned, **text)
    place.set_yticks(range(len(chart.tracks)), list(chart.tracks))
    place.tick_params(axis="y", length=0)
    place.grid(visible=False, axis="y")
    place.set(xlim=(0, x_max), ylim=(len(chart.tracks) - 0.5, -0.5), xlabel=chart.x_label)
