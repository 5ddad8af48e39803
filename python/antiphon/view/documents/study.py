"""Studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon._core import format_bytes
from antiphon.view.document import Document, Part, Table, document, left_out, more
from antiphon.view.text import digits, format_time

if TYPE_CHECKING:
    from antiphon.studies.grid import Grid
    from antiphon.studies.study import Study

ENERGIES = ("energy.total_j", "best.energy.total_j")
"""Columns that are shown where energy was asked for."""
MOST_ROWS = 40
"""Of the table of points."""


def study_document(file: Path, grid: Grid, found: Study, shown: Sequence[str]) -> Document:
    """What varies and the main results of the first points; what has none, and why."""
    rows = found.rows
    main = [name for name in shown if name not in grid.columns]
    main += [name for name in ENERGIES if name not in main and any(row.get(name) is not None for row in rows)]
    runs = f"Runs: {found.made:,} made, {len(rows) - found.made:,} taken from earlier calls or other processes"
    refused = [f"{count:,} x {reason}" for reason, count in found.refused.items()]
    return document(_points(file, grid, rows, main), runs, left_out(refused, "Without a result:"))


def points_document(file: Path, grid: Grid, values: Sequence[dict[str, Any]], stored: int) -> Document:
    """What would be run."""
    return document(_points(file, grid, values, []), f"{stored:,} of {len(values):,} points are stored")


def _points(file: Path, grid: Grid, rows: Sequence[dict[str, Any]], results: Sequence[str]) -> list[Part]:
    lines = []
    for row in rows[:MOST_ROWS]:
        cells = [_cell(name, row.get(name)) for name in results]
        if row.get("refused.code") and cells:
            cells[0] = str(row["refused.code"])
        lines.append([*(_cell(name, row[name]) for name in grid.columns), *cells])
    columns = [*grid.columns, *(f"{name}:" for name in results)]
    table = Table(columns, lines, f"{grid.command}: {len(rows):,} points of {file}")
    return [table, *more(len(rows), MOST_ROWS, "--out FILE or --format csv")]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_ns"):
        return format_time(value)
    if name == "bytes":
        return format_bytes(value)
    return digits(value) if isinstance(value, float) else str(value)
