"""Studies on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon._core import format_bytes
from antiphon.view.terminal.console import open_console, print_columns
from antiphon.view.text import digits, format_time

if TYPE_CHECKING:
    from antiphon.studies.grid import Grid
    from antiphon.studies.study import Study

ENERGIES = ("energy.total_j", "best.energy.total_j")
"""Columns that are shown where energy was asked for."""
MOST_ROWS = 40
"""Of the table of points."""


def print_study(file: Path, grid: Grid, found: Study, shown: Sequence[str]) -> None:
    """What varies and the main results of the first points; what has none, and why."""
    rows = found.rows
    main = [name for name in shown if name not in grid.columns]
    main += [name for name in ENERGIES if name not in main and any(row.get(name) is not None for row in rows)]
    _print_rows(f"{grid.command}: {len(rows):,} points of {file}", rows, grid.columns, main)
    console = open_console()
    stored = len(rows) - found.made
    console.print(f"Runs: {found.made:,} made, {stored:,} taken from earlier calls or other processes")
    if found.refused:
        console.print("Without a result:", style="dim")
        for reason, count in found.refused.items():
            console.print(f"  {count:,} x {reason}", style="dim", soft_wrap=True)


def print_points(file: Path, grid: Grid, values: Sequence[dict[str, Any]], stored: int) -> None:
    """What would be run."""
    _print_rows(f"{grid.command}: {len(values):,} points of {file}", values, grid.columns, [])
    open_console().print(f"{stored:,} of {len(values):,} points are stored")


def _print_rows(title: str, rows: Sequence[dict[str, Any]], columns: Sequence[str], results: Sequence[str]) -> None:
    lines = []
    for row in rows[:MOST_ROWS]:
        cells = [_cell(name, row.get(name)) for name in results]
        if row.get("refused.code") and cells:
            cells[0] = str(row["refused.code"])
        lines.append([*(_cell(name, row[name]) for name in columns), *cells])
    console = open_console()
    print_columns(console, columns, results, lines, title)
    if len(rows) > MOST_ROWS:
        console.print(f"and {len(rows) - MOST_ROWS:,} more; --out FILE or --format csv has all", style="dim")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_ns"):
        return format_time(value)
    if name == "bytes":
        return format_bytes(value)
    return digits(value) if isinstance(value, float) else str(value)
