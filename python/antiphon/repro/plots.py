"""Charts as SVG, drawn by matplotlib (the extra ``plots``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.plot import SETTINGS, require, svg
from antiphon.repro.charts import Bars, Chart, Lines, Spans
from antiphon.repro.data import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 9.6, 3.9
"""Inches of the whole width and of one row of charts."""
HEIGHT_OF_SPANS, HEIGHT_OF_TRACK = 1.4, 0.4
"""Inches of a row of charts of spans without its tracks, and of each track."""
LEGEND_CHARACTERS = 110
"""In one line of the legend, with ``LEGEND_MARK`` for each mark."""
LEGEND_MARK = 8
PARTS = ((0.35, ""), (0.6, "////"), (1.0, ""))
"""Opacity and hatching of the parts of a bar, from below; the uppermost is solid, and so is a single one."""
PUBLISHED = "published"


def draw(charts: Sequence[Chart], styles: Mapping[str, Series], columns: int) -> str:
    """All charts of an experiment with one legend, as SVG."""
    require()
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(columns, len(charts))
    rows = math.ceil(len(charts) / columns)
    drawn = {label for chart in charts for label in _labels(chart)}
    labels = [label for label in styles if label in drawn]
    with matplotlib.rc_context(SETTINGS):
        tracks = [len(chart.tracks) for chart in charts if isinstance(chart, Spans)]
        height = HEIGHT_OF_SPANS + HEIGHT_OF_TRACK * max(tracks) if len(tracks) == len(charts) else HEIGHT
        figure = Figure(figsize=(WIDTH, height * rows + 0.55), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for chart, place in zip(charts, axes, strict=False):
            place.set_title(chart.title, loc="left")
            if isinstance(chart, Lines):
                _draw_lines(place, chart, styles)
            elif isinstance(chart, Bars):
                _draw_bars(place, chart, styles, labels)
            else:
                _draw_spans(place, chart, styles)
        for place in axes[len(charts) :]:
            place.remove()
        handles = _handles(charts, labels, styles)
        fits = sum(len(handle.get_label()) + LEGEND_MARK for handle in handles) <= LEGEND_CHARACTERS
        in_a_row = len(handles) if fits else min(len(handles), 4)
        figure.legend(handles=handles, loc="outside upper center", ncols=in_a_row)
    return svg(figure)


def _labels(chart: Chart) -> Iterable[str]:
    if isinstance(chart, Lines):
        return (line.label for line in chart.lines)
    if isinstance(chart, Spans):
        return (block.label for blocks in chart.tracks.values() for block in blocks)
    return (bar.label for bars in chart.groups.values() for bar in bars)


def _handles(charts: Sequence[Chart], labels: Sequence[str], styles: Mapping[str, Series]) -> list[Any]:
    """The legend: algorithms, parts of bars, and what the hollow marks are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bars = [chart for chart in charts if isinstance(chart, Bars)]
    lines = [line for chart in charts if isinstance(chart, Lines) for line in chart.lines]
    look: dict[str, Any] = {"markersize": 4.5}
    handles: list[Any] = []
    for label in labels:
        style = styles[label]
        if bars or not lines:
            handles.append(Patch(facecolor=style.colour, label=label))
        else:
            look |= {"linestyle": _dashes(style), "marker": style.marker if any(line.marked for line in lines) else ""}
            handles.append(Line2D([], [], color=style.colour, label=label, **look))
    textures = {part: look for chart in bars if len(chart.parts) > 1 for part, look in _textures(chart).items()}
    for part, (opacity, hatch) in textures.items():
        handles.append(Patch(facecolor="#404854", edgecolor="white", alpha=opacity, hatch=hatch, label=part))
    published = any(bar.published is not None for chart in bars for of in chart.groups.values() for bar in of)
    if published or any(line.published for line in lines):
        look = {"marker": "_" if bars else "o", "linestyle": "", "fillstyle": "none", "markersize": 8}
        handles.append(Line2D([], [], color="#1b2230", label=PUBLISHED, **look))
    return handles


def _dashes(style: Series) -> str:
    return "--" if style.dashed else "-"


def _textures(chart: Bars) -> dict[str, tuple[float, str]]:
    """Opacity and hatching by the name of the part."""
    return dict(zip(chart.parts, (*PARTS[: len(chart.parts) - 1], PARTS[-1]), strict=True))


def _draw_lines(place: Axes, chart: Lines, styles: Mapping[str, Series]) -> None:
    hollow: dict[str, Any] = {"linestyle": "", "fillstyle": "none", "markersize": 8, "alpha": 0.9}
    for line in chart.lines:
        style = styles[line.label]
        look: dict[str, Any] = {"marker": style.marker if line.marked else "", "linestyle": _dashes(style)}
        look |= {"linewidth": 1.3, "markersize": 6 if len(line.xs) == 1 else 3}
        place.plot(line.xs, line.ys, color=style.colour, **look)
        xs, ys = [x for x, _ in line.published], [y for _, y in line.published]
        place.plot(xs, ys, color=style.colour, marker=style.marker, **hollow)
    if chart.ticks:
        place.set_xscale("log", base=2)
        place.set_xticks([x for x, _ in chart.ticks], [label for _, label in chart.ticks])
        place.minorticks_off()
    if not any(line.marked for line in chart.lines):
        place.margins(x=0)
    place.set_xlabel(chart.x_label)
    place.set_ylabel(chart.y_label)
    if chart.reference is not None:
        place.axhline(chart.reference, color="#1b2230", linewidth=1)
    if chart.log:
        place.set_yscale("log")
        place.yaxis.set_major_formatter("{x:g}")
    elif chart.reference is None:
        place.set_ylim(0, chart.y_max)


def _draw_bars(place: Axes, chart: Bars, styles: Mapping[str, Series], labels: Sequence[str]) -> None:
    textures = _textures(chart)
    width = min(0.3, 0.86 / max(len(bars) for bars in chart.groups.values()))
    for group, unordered in enumerate(chart.groups.values()):
        bars = sorted(unordered, key=lambda bar: labels.index(bar.label))
        for place_in_group, bar in enumerate(bars):
            x = group + (place_in_group - (len(bars) - 1) / 2) * width
            bottom = 0.0
            for part, height in zip(chart.parts, bar.parts, strict=True):
                opacity, hatch = textures[part]
                look: dict[str, Any] = {"alpha": opacity, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
                place.bar(x, height, width * 0.9, bottom, color=styles[bar.label].colour, **look)
                bottom += height
            if chart.y_max is not None and bottom > chart.y_max:
                text: dict[str, Any] = {"ha": "center", "va": "top", "rotation": 90, "color": "white", "fontsize": 7}
                place.text(x, 0.985 * chart.y_max, f"{bottom:.1f} ↑", **text)
            elif bar.published is not None:
                place.plot([x - width / 2, x + width / 2], [bar.published] * 2, color="#1b2230", linewidth=1.2)
    place.set_xticks(range(len(chart.groups)), list(chart.groups))
    place.tick_params(axis="x", length=0)
    place.grid(visible=False, axis="x")
    place.set_xlim(-0.5, len(chart.groups) - 0.5)
    place.set_ylabel(chart.y_label)
    place.set_ylim(0, chart.y_max)


def _draw_spans(place: Axes, chart: Spans, styles: Mapping[str, Series]) -> None:
    for track, blocks in enumerate(chart.tracks.values()):
        for block in blocks:
            place.barh(track, block.length, 0.7, block.start, color=styles[block.label].colour, edgecolor="white")
            turned = 90 if block.length < 0.05 * chart.x_max else 0
            text: dict[str, Any] = {"ha": "center", "va": "center", "color": "white", "fontsize": 8, "rotation": turned}
            place.text(block.start + block.length / 2, track, block.text, **text)
    place.set_yticks(range(len(chart.tracks)), list(chart.tracks))
    place.set_ylim(len(chart.tracks) - 0.5, -0.5)
    place.tick_params(axis="y", length=0)
    place.grid(visible=False, axis="y")
    place.set_xlim(0, chart.x_max)
    place.set_xlabel(chart.x_label)
