"""The HTML report of a comparison: one file that needs nothing else, drawn as inline SVG.

This module computes figures and geometry; the page is ``templates/comparison.html``.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon._core import Fabric
from antiphon.collective.matrix import size_text
from antiphon.collective.result import ALL_RANKS, Comparison, Run
from antiphon.errors import AntiphonError
from antiphon.results import Bound
from antiphon.view.pages.energy import energy_section
from antiphon.view.pages.page import Course, look, over_time, page_template, time_axis
from antiphon.view.text import format_energy, platform, without_ranks

Points = NDArray[np.float64]
"""Positions, shape (count, 2)."""

MAX_DRAWN_NODES = 1024
"""Larger fabrics are not drawn: single links would be thinner than a pixel."""
MAX_DRAWN_LINKS = 8192
"""Denser fabrics are not drawn either: the page would be slow and the links one blot."""
MAX_LABELLED_NODES = 256
FLATTEST = 0.3
"""Fabrics that are flatter are stretched to this ratio of height to width."""
SPARSEST = 4
"""Fabrics whose extent is more than so many times the spacing per node are drawn on a circle instead."""
LONGEST_NAME = 20
"""Longer names of nodes are cut where space is scarce."""
SLOWER = 1.01
"""The best is set against the first that is slower by this factor."""
LEVELS = 10
"""Steps of the colour scale, besides idle."""


def render(fabric: Fabric, comparison: Comparison) -> str:
    """The page as text.

    Raises:
        AntiphonError: ``not-applicable`` if the comparison has no runs.
    """
    if not comparison.runs:
        raise AntiphonError("a report needs at least one run", "not-applicable")
    picture = _picture(fabric, comparison.bound)
    ranking = comparison.ranking
    best = ranking[0]
    alike = [run for run in ranking if _note(run) == _note(best)]
    runs = [_entry(index, run, fabric) for index, run in enumerate(ranking)]
    return page_template("comparison.html").render(
        comparison=comparison,
        size=size_text(comparison.bytes, comparison.matrix_bytes),
        best=best,
        ranking=ranking,
        apart=len(alike) < len(ranking),
        slower=next((run for run in alike if run.time_ns >= SLOWER * best.time_ns), None),
        fabric=fabric,
        runs=runs,
        bars=_bars(comparison),
        energy=energy_section([(run.label, look(index), run.energy) for index, run in enumerate(ranking)]),
        lines=_lines(comparison),
        picture=picture,
        drawable=f"{MAX_DRAWN_NODES:,} nodes and {MAX_DRAWN_LINKS:,} links",
        levels=LEVELS,
        platform=platform(comparison.system),
        system=json.loads(comparison.system.to_json()),
        data=_data(ranking) if picture else [],
    )


def _entry(index: int, run: Run, fabric: Fabric) -> dict[str, Any]:
    """What the template says about one run, next to its own figures."""
    links = run.result.links
    names = [_cut(str(name)) for name in fabric.nodes["name"]]
    busiest = int(links["busy_ns"].argmax())
    return {
        "run": run,
        "note": _note(run),
        "name": run.label,
        **look(index),
        "busiest": f"{names[links['from'][busiest]]} → {names[links['to'][busiest]]}",
        "busiest_utilization": float(links["utilization"][busiest]),
        "idle": int((links["bytes"] == 0).sum()),
    }


def _note(run: Run) -> str:
    """What the run does not do; nothing if it serves all ranks where the fabric has them."""
    if not run.result.proof.complete:
        return "incomplete"
    if run.excluded_ranks or run.bound_of == ALL_RANKS:
        return without_ranks(run.excluded_ranks)
    return "ranks on other nodes"


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _data(runs: list[Run]) -> list[dict[str, Any]]:
    """Per run and link: colour level, utilization in thousandths, bytes; for the page's script."""
    return [
        {
            "levels": _levels(run).tolist(),
            "permille": np.rint(run.result.links["utilization"] * 1000).astype(int).tolist(),
            "bytes": run.result.links["bytes"].tolist(),
            "energy": [format_energy(each) for each in run.energy.links["energy_j"]] if run.energy else None,
        }
        for run in runs
    ]


def _levels(run: Run) -> NDArray[np.int64]:
    """Step of the colour scale of every link: 0 is idle, 1 is up to 10 %, 10 is over 90 %."""
    utilization = np.asarray(run.result.links["utilization"], dtype=np.float64)
    return np.clip(np.ceil(utilization * LEVELS), 0, LEVELS).astype(np.int64)


# --- charts -------------------------------------------------------------------------------------


def _bars(comparison: Comparison) -> dict[str, Any]:
    """Horizontal bars, best first, and where the line of the bound is."""
    width = 600.0
    axis = time_axis(max(run.time_ns for run in comparison.ranking), width)
    return {
        "axis": axis,
        "width": width,
        "bound": comparison.bound.time_ns * axis.pixels_per_unit,
        "lengths": [run.time_ns * axis.pixels_per_unit for run in comparison.ranking],
    }


def _lines(comparison: Comparison) -> dict[str, Any]:
    """Utilization over time of every run as SVG path data."""
    runs = comparison.ranking
    tables = [(run.result.timeline, run.time_ns) for run in runs]
    courses = [Course(table["start_ns"], table["utilization"], time_ns) for table, time_ns in tables]
    chart = over_time(courses, runs[0].time_ns, 260.0, "M0,260 L")
    return chart | {"percent": [(chart["height"] * (1 - tick / 100), f"{tick} %") for tick in (0, 25, 50, 75, 100)]}


# --- the fabric ---------------------------------------------------------------------------------


def _picture(fabric: Fabric, bound: Bound) -> dict[str, Any] | None:
    """Nodes and links in pixels, or None if the fabric is too large to draw."""
    nodes, links = fabric.nodes, fabric.links
    count = len(nodes["rank"])
    if count > MAX_DRAWN_NODES or len(links["from"]) > MAX_DRAWN_LINKS:
        return None
    unit, on_grid = _positions(fabric)
    extent = unit.max(axis=0)
    scale = float(np.clip(min(820 / max(extent[0], 1), 560 / max(extent[1], 1)), 12, 92))
    labelled = count <= MAX_LABELLED_NODES
    radius = min(15.0, (0.27 if labelled else 0.18) * scale)
    margin = radius + 0.5 * scale
    points = unit * scale + margin
    # Where all links are the limit there is nothing to point out.
    limit = set(bound.limit.links) if len(bound.limit.links) < len(links["from"]) else set()
    bypasses = [str(dimension).endswith("-bypass") for dimension in links["dimension"]]
    seen: dict[tuple[int, int], int] = {}
    paths = []
    for start, end in zip(links["from"].tolist(), links["to"].tolist(), strict=True):
        copy = seen[start, end] = seen.get((start, end), -1) + 1
        bend = on_grid and _something_between(points, points[start], points[end], 1.2 * radius)
        paths.append(_arrow(points[start], points[end], radius, scale, copy, bend))
    return {
        "width": float(extent[0] * scale + 2 * margin),
        "height": float(extent[1] * scale + 2 * margin),
        "radius": radius,
        "labels": labelled,
        "stroke": max(1.2, min(3.2, scale / 22)),
        "nodes": [
            {"x": float(x), "y": float(y), "name": str(name), "rank": int(rank)}
            for (x, y), name, rank in zip(points, nodes["name"], nodes["rank"], strict=True)
        ],
        "links": [
            {
                "path": path,
                "name": f"{nodes['name'][a]} → {nodes['name'][b]}" + (", bypass" if bypass else ""),
                "bypass": bypass,
                "limit": link in limit,
            }
            for link, (path, a, b, bypass) in enumerate(zip(paths, links["from"], links["to"], bypasses, strict=True))
        ],
    }


def _positions(fabric: Fabric) -> tuple[Points, bool]:
    """Where nodes are drawn, nearest neighbours about 1 apart, from (0, 0); and whether on a grid.

    The last coordinate runs along x and the one before along y; further ones lay slices out side
    by side. Without usable coordinates, nodes are on a circle.
    """
    nodes, links = fabric.nodes, fabric.links
    coords = [nodes[name] for name in sorted(nodes, key=lambda name: (len(name), name)) if name.startswith("coord_")]
    coords = [column - column.min() for column in coords]
    while len(coords) > 1 and not coords[0].any():
        coords.pop(0)
    points = np.zeros((len(nodes["rank"]), 2))
    size = [1.0, 1.0]
    for place, column in enumerate(reversed(coords)):
        axis = place % 2
        points[:, axis] += column * size[axis]
        size[axis] *= float(column.max()) + 1.7
    lengths = np.hypot(*(points[links["from"]] - points[links["to"]]).T)
    flat = np.ptp(points, axis=0).min() == 0
    distinct = len(np.unique(points, axis=0)) == len(points)
    if not np.isfinite(points).all() or not distinct or (flat and lengths.max() > 1.01 * lengths.min()):
        return _circle(len(points)), False
    points /= max(_spacing(points), 1e-9)
    if points.max() > SPARSEST * len(points):
        return _circle(len(points)), False
    if 0 < np.ptp(points[:, 1]) < FLATTEST * np.ptp(points[:, 0]):
        points[:, 1] *= min(3.0, FLATTEST * np.ptp(points[:, 0]) / np.ptp(points[:, 1]))
    return points, True


def _something_between(points: Points, start: Points, end: Points, distance: float) -> bool:
    """Whether a third point lies within a distance of the line between two points."""
    along = end - start
    share = np.clip((points - start) @ along / (along @ along), 0, 1)
    off = points - start - share[:, None] * along
    return int((np.hypot(off[:, 0], off[:, 1]) < distance).sum()) > 2


def _spacing(points: Points) -> float:
    """The smallest distance between two points."""
    gaps = np.hypot(points[:, None, 0] - points[None, :, 0], points[:, None, 1] - points[None, :, 1])
    np.fill_diagonal(gaps, np.inf)
    return float(gaps.min())


def _circle(count: int) -> Points:
    angle = np.arange(count) * (2 * np.pi / count)
    radius = max(1.0, 0.5 / math.sin(math.pi / max(count, 3)))
    points = radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    return np.asarray(points - points.min(axis=0))


def _arrow(start: Points, end: Points, radius: float, scale: float, copy: int, bend: bool) -> str:
    """A half arrow on the right of the line between two nodes, so that both directions fit.

    Links past other nodes bend, the more the longer they are; parallel links lie side by side.
    """
    along = end - start
    length = float(np.hypot(*along))
    along = along / length
    right = np.array([-along[1], along[0]])
    gap = min(4.5, 0.085 * scale) * (1 + 1.6 * copy)
    sag = scale * min(0.4, 0.16 + 0.04 * length / scale) if bend else 0.0
    control = (start + end) / 2 + right * (gap + 2 * sag)
    tail = start + _unit(control - start) * radius + right * gap * (sag == 0)
    tip = end + _unit(control - end) * (radius + 1.5) + right * gap * (sag == 0)
    if sag == 0:
        tail = start + along * radius + right * gap
        tip = end - along * (radius + 1.5) + right * gap
    heading = along if sag == 0 else _unit(tip - control)
    side = np.array([-heading[1], heading[0]])
    barb = tip - heading * min(7.0, 0.13 * scale) + side * min(4.5, 0.08 * scale)
    curve = f"Q{control[0]:.1f},{control[1]:.1f} " if sag else "L"
    return f"M{tail[0]:.1f},{tail[1]:.1f} {curve}{tip[0]:.1f},{tip[1]:.1f} L{barb[0]:.1f},{barb[1]:.1f}"


def _unit(vector: Points) -> Points:
    return np.asarray(vector / np.hypot(*vector))
