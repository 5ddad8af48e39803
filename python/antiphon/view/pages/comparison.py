"""The HTML report of a comparison: one file that needs nothing else, drawn as inline SVG.

This module computes figures, ``view.drawing`` the geometry; the page is ``templates/comparison.html``.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from antiphon._core import Fabric
from antiphon.collective.matrix import size_text
from antiphon.collective.result import ALL_RANKS, Comparison, Run
from antiphon.errors import AntiphonError
from antiphon.view.drawing import Drawing, draw
from antiphon.view.pages.energy import energy_section
from antiphon.view.pages.page import FILTERS, Course, look, over_time, page_template, time_axis
from antiphon.view.pages.player import played
from antiphon.view.text import format_energy, format_time, platform, without_ranks

LONGEST_NAME = 20
"""Longer names of nodes are cut where space is scarce."""
LONGEST_NOTE = 32
"""Longer notes are cut beside a bar."""
BESIDE, LETTER = 770.0, 7.4
"""Pixels from the beginning of the bars to the edge of their picture, and of a letter."""
SLOWER = 1.01
"""The best is set against the first that is slower by this factor."""
MOST_FIGURES = 15_000
"""Of links times runs; beyond, a page has no bytes and energies of links, so that it stays small."""
LEVELS = 10
"""Steps of the colour scale, besides idle."""


def render(fabric: Fabric, comparison: Comparison, more: str = "") -> str:
    """The page as text; ``more`` are sections, elements, before the parameters.

    Raises:
        AntiphonError: ``not-applicable`` if the comparison has no runs.
    """
    if not comparison.runs:
        raise AntiphonError("a report needs at least one run", "not-applicable")
    drawing = draw(fabric, comparison.bound)
    ranking = comparison.ranking
    best = ranking[0]
    alike = [run for run in ranking if _note(run) == _note(best)]
    runs = [_entry(index, run, fabric) for index, run in enumerate(ranking)]
    return page_template("comparison.html").render(
        comparison=comparison,
        more=more,
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
        drawing=drawing,
        player=played(fabric, ranking),
        figures=_figures(comparison, brief=drawing.heat),
        levels=LEVELS,
        links=_LinkData(fabric, drawing, ranking),
        platform=platform(comparison.system),
        system=json.loads(comparison.system.to_json()),
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


def _figures(comparison: Comparison, brief: bool) -> dict[str, Any]:
    """The figures of the page, to be saved; if ``brief``, without a number for each link of each bound."""
    found = comparison.to_dict()
    if brief:
        for each in (found, *found["runs"]):
            each["bound"]["limit"] = {"text": each["bound"]["limit"]["text"]}
    return found


class _LinkData:
    """What links, or the nodes of a heat map, do in each run: of the first for the page, of all for its script."""

    def __init__(self, fabric: Fabric, drawing: Drawing, runs: list[Run]) -> None:
        self.names = [shape.name for shape in (drawing.nodes if drawing.heat else drawing.links)]
        whole = len(self.names) * len(runs) <= MOST_FIGURES
        self.runs = [_heat_of(fabric, run) if drawing.heat else _links_of(run, whole) for run in runs]
        self.excluded = [run.excluded_ranks for run in runs]

    @property
    def classes(self) -> list[str]:
        """The step of the colour scale of each in the first run: 0 is idle, 1 is up to 10 %, 10 is over 90 %."""
        return [f"u{min(LEVELS, math.ceil(permille * LEVELS / 1000))}" for permille in self.runs[0]["permille"]]


def _links_of(run: Run, whole: bool) -> dict[str, Any]:
    """Per link: utilization in thousandths, where it is used at least one; also bytes and energy if ``whole``."""
    table = run.result.links
    permille = np.maximum(np.rint(table["utilization"] * 1000), table["bytes"] > 0).astype(int).tolist()
    if not whole:
        return {"permille": permille}
    energy = [format_energy(each) for each in run.energy.links["energy_j"]] if run.energy else None
    return {"permille": permille, "bytes": table["bytes"].tolist(), "energy": energy}


def _heat_of(fabric: Fabric, run: Run) -> dict[str, Any]:
    """Per node: thousandths of the mean utilization of the links that leave it."""
    count, out = len(fabric.nodes["rank"]), np.asarray(fabric.links["from"])
    total = np.bincount(out, run.result.links["utilization"], count)
    mean = total / np.maximum(np.bincount(out, minlength=count), 1)
    return {"permille": np.rint(mean * 1000).astype(int).tolist()}


# --- charts -------------------------------------------------------------------------------------


def _bars(comparison: Comparison) -> dict[str, Any]:
    """Horizontal bars, best first, and where the line of the bound is. They leave room for the texts beside them."""
    runs = comparison.ranking
    texts = [[format_time(run.time_ns), FILTERS["share"](run.efficiency), _short(_note(run))] for run in runs]
    longest = max(run.time_ns for run in runs)
    room = [BESIDE - LETTER * len(" · ".join(filter(None, text))) for text in texts]
    width = min(600.0, *(left * longest / run.time_ns for left, run in zip(room, runs, strict=True)))
    axis = time_axis(longest, width)
    return {
        "axis": axis,
        "width": width,
        "bound": comparison.bound.time_ns * axis.pixels_per_unit,
        "lengths": [run.time_ns * axis.pixels_per_unit for run in runs],
        "texts": [(text[0], " · ".join(filter(None, text[1:]))) for text in texts],
    }


def _short(note: str) -> str:
    return note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…"


def _lines(comparison: Comparison) -> dict[str, Any]:
    """Utilization over time of every run as SVG path data."""
    runs = comparison.ranking
    tables = [(run.result.timeline, run.time_ns) for run in runs]
    courses = [Course(table["start_ns"], table["utilization"], time_ns) for table, time_ns in tables]
    chart = over_time(courses, runs[0].time_ns, 260.0, "M0,260 L")
    return chart | {"percent": [(chart["height"] * (1 - tick / 100), f"{tick} %") for tick in (0, 25, 50, 75, 100)]}
