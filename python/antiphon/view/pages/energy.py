"""The section of a page about energy: a bar of parts for each run, and power over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.plot import COLOURS
from antiphon.results import Energy
from antiphon.results.energy import PARTS
from antiphon.view.pages.page import Course, over_time
from antiphon.view.text import filled, format_energy, format_power

BARS = 600.0
"""Length of the longest bar, in pixels."""


def energy_section(runs: Sequence[tuple[str, dict[str, str], Energy | None]]) -> dict[str, Any] | None:
    """What ``templates/energy.html`` draws of runs, each with its name and look; None if energy is not known."""
    known = [(name, look, energy) for name, look, energy in runs if energy is not None]
    if not known:
        return None
    most = max(energy.total_j for *_, energy in known) or 1.0
    least = max(energy.lower_bound_j or 0.0 for *_, energy in known)
    drawn = [(name, look, energy) for name, look, energy in known if energy.power.height]
    return {
        "rows": [_bar(name, energy, BARS / most) for name, _, energy in known],
        "parts": [(part, COLOURS[number]) for number, part in enumerate((*PARTS, "static"))],
        "bound": (BARS / most * least, format_energy(least)) if least else None,
        "power": _power([energy for *_, energy in drawn]) if drawn else None,
        "lines": [{"name": name, **look} for name, look, _ in drawn],
        "unknown": known[0][2].unknown,
    }


def _bar(name: str, energy: Energy, pixels_per_joule: float) -> dict[str, Any]:
    start, pieces = 0.0, []
    for number, part in enumerate((*PARTS, "static")):
        joules = getattr(energy, f"{part}_aj") * 1e-18
        if joules:
            text = f"{name}, {part}: {format_energy(joules)}"
            pieces.append({"x": start, "width": joules * pixels_per_joule, "colour": COLOURS[number], "text": text})
        start += joules * pixels_per_joule
    text = filled("{total_j} · {average_power_w} mean, {peak_power_w} peak", energy)
    return {"name": name, "pieces": pieces, "end": start, "text": text}


def _power(runs: Sequence[Energy]) -> dict[str, Any]:
    """Power over time of every run."""
    highest = max(run.peak_power_w for run in runs) or 1.0
    courses = [Course(run.power["start_ns"], run.power["power_w"] / highest, run.time_ns) for run in runs]
    chart = over_time(courses, min(run.time_ns for run in runs), 220.0, "M")
    shares = (0, 0.25, 0.5, 0.75, 1)
    return chart | {"levels": [(chart["height"] * (1 - share), format_power(share * highest)) for share in shares]}
