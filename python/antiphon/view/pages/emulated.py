"""The HTML page of an emulated fabric: every algorithm, measured beside predicted."""

from __future__ import annotations

from antiphon.execution.result import Emulated
from antiphon.plot import COLOURS
from antiphon.view.pages.page import page_template, time_axis

WIDTH = 720.0
ROW, BAR = 44.0, 15.0
"""Height of an algorithm's two bars with the space between algorithms, and of one bar."""


def render(found: Emulated) -> str:
    """The page as text."""
    rows = sorted(found.runs.rows(), key=lambda row: row["measured_ns"])
    axis = time_axis(max(max(row["most_ns"], row["predicted_ns"]) for row in rows), WIDTH)
    template = page_template("emulated.html")
    size = {"width": WIDTH, "row": ROW, "bar": BAR}
    return template.render(found=found, rows=rows, axis=axis, colours=COLOURS, **size)
