"""The HTML page of ``expect``: bus bandwidth over sizes, what is measured beside what is expected and the bound."""

from __future__ import annotations

import math
from dataclasses import replace

from antiphon._core import format_bytes
from antiphon.expectation.result import VERDICTS, Expectation
from antiphon.plot import COLOURS
from antiphon.view.document import Document, Table
from antiphon.view.documents.expected import sizes_table, summary
from antiphon.view.html import html
from antiphon.view.pages.page import page_template

WIDTH, HEIGHT = 860.0, 320.0
HEADROOM = 2.5
"""A bound above this multiple of what is expected and measured is not drawn."""
MOST_LABELS = 12
OF_VERDICTS = dict(zip(VERDICTS, (COLOURS[5], COLOURS[1], COLOURS[2], COLOURS[3]), strict=True))

FULL_NAMES = {"its busbw:": "Bus bandwidth, expected:", "of it busbw:": "Bus bandwidth, measured:"}
"""Of columns that are short on terminals."""


def render(found: Expectation) -> str:
    """The page as text."""
    rows = sorted(found.rows.rows(), key=lambda row: row["bytes"])
    factor = found.bus_factor / 1e3
    series = {
        name: [
            (row["bytes"], factor * row["bytes"] / row[f"{name}_us"], row["verdict"])
            for row in rows
            if row[f"{name}_us"] > 0
        ]
        for name in ("bound", "expected", "measured")
    }
    highest = HEADROOM * max(rate for name in ("expected", "measured") for _, rate, _ in series[name])
    most = 1.1 * max(rate for each in series.values() for _, rate, _ in each if rate <= highest)
    first, last = (math.log2(rows[place]["bytes"]) for place in (0, -1))
    scale = WIDTH / max(last - first, 1.0)

    def points(name: str) -> list[tuple[float, float, str, str]]:
        return [
            (
                scale * (math.log2(size) - first),
                HEIGHT * (1 - rate / most),
                verdict,
                f"{format_bytes(size)}: {rate:.1f} GB/s",
            )
            for size, rate, verdict in series[name]
            if rate <= most
        ]

    step = 10.0 ** math.floor(math.log10(most / 4))
    step *= next(each for each in (1, 2, 5, 10) if most / step / each <= 6)
    levels = [(HEIGHT * (1 - step * i / most), f"{step * i:g}") for i in range(int(most / step) + 1)]
    every = -(-len(rows) // MOST_LABELS)
    ticks = [(scale * (math.log2(row["bytes"]) - first), format_bytes(row["bytes"])) for row in rows[::every]]
    lines = {name: points(name) for name in series}
    return page_template("expected.html").render(
        found=found,
        lines=lines,
        paths={name: " ".join(f"{x:.1f},{y:.1f}" for x, y, *_ in each) for name, each in lines.items()},
        levels=levels,
        ticks=ticks,
        width=WIDTH,
        height=HEIGHT,
        colours=COLOURS,
        of_verdicts=OF_VERDICTS,
        summary=summary(found),
        table=html(Document([_table(found)]), sortable=True),
    )


def _table(found: Expectation) -> Table:
    table = sizes_table(found)
    return replace(table, columns=[FULL_NAMES.get(name, name) for name in table.columns])
