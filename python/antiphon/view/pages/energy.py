"""The section of a page about energy: a bar of parts for each run, and power over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from antiphon.plot import COLOURS
from antiphon.results import Energy
from antiphon.results.energy import PARTS
from antiphon.view.pages.page import time_axis
from antiphon.view.text import format_energy, format_power

WIDTH, HEIGHT = 880.0, 220.0
"""Of the chart of power, in pixels."""
BARS = 600.0
"""Length of the longest bar."""
LONGEST_SHOWN = 4
"""Power is drawn up to this multiple of the shortest time."""


class Spent(NamedTuple):
    """A run on the page: its name, how its line looks, and what it took."""

    name: str
    colour: str
    dash: str
    energy: Energy


def energy_section(runs: Sequence[Spent]) -> dict[str, Any] | None:
    """What ``templates/energy.html`` draws; None if energy is not known."""
    if not runs:
        return None
    most = max(run.energy.total_j for run in runs) or 1.0
    least = max((run.energy.lower_bound_j or 0.0 for run in runs), default=0.0)
    return {
        "rows": [_bar(run, BARS / most) for run in runs],
        "parts": [(part, COLOURS[number]) for number, part in enumerate((*PARTS, "static"))],
        "bound": (BARS / most * least, format_energy(least)) if least else None,
        "power": _power([run for run in runs if run.energy.power.height]),
        "unknown": runs[0].energy.unknown,
    }


def _bar(run: Spent, pixels_per_joule: float) -> dict[str, Any]:
    start, pieces = 0.0, []
    for number, part in enumerate((*PARTS, "static")):
        joules = getattr(run.energy, f"{part}_aj") * 1e-18
        if joules:
            text = f"{run.name}, {part}: {format_energy(joules)}"
            pieces.append({"x": start, "width": joules * pixels_per_joule, "colour": COLOURS[number], "text": text})
        start += joules * pixels_per_joule
    energy = run.energy
    powers = f"{format_power(energy.average_power_w)} mean, {format_power(energy.peak_power_w)} peak"
    return {"name": run.name, "pieces": pieces, "end": start, "text": f"{format_energy(energy.total_j)} · {powers}"}


def _power(runs: Sequence[Spent]) -> dict[str, Any] | None:
    """Power over time of every run as SVG path data."""
    if not runs:
        return None
    longest = max(run.energy.time_ns for run in runs)
    shown = max(min(longest, LONGEST_SHOWN * min(run.energy.time_ns for run in runs)), 1e-3)
    axis = time_axis(shown, WIDTH)
    highest = max(run.energy.peak_power_w for run in runs) or 1.0
    paths = []
    for run in runs:
        start, power = run.energy.power["start_ns"], run.energy.power["power_w"]
        ends = np.append(start[1:], run.energy.time_ns)
        xs = (start + np.maximum(ends, start)) / 2 * axis.pixels_per_unit
        ys = HEIGHT * (1 - power / highest)
        middle = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        last = run.energy.time_ns * axis.pixels_per_unit
        path = f"M{middle} {last:.1f},{HEIGHT:g}"
        paths.append({"name": run.name, "d": path, "colour": run.colour, "dash": run.dash})
    levels = [(HEIGHT * (1 - share), format_power(share * highest)) for share in (0, 0.25, 0.5, 0.75, 1)]
    return {
        "axis": axis,
        "width": WIDTH,
        "height": HEIGHT,
        "levels": levels,
        "paths": paths,
        "cut": shown < longest,
    }
