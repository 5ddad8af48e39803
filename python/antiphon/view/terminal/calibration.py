"""What a machine does to communication beside computation, on a terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

import antiphon
from antiphon.calibration.result import PUBLISHED
from antiphon.view.terminal.console import open_console, right_aligned
from antiphon.view.text import digits


def print_calibration(calibration: antiphon.Calibration) -> None:
    """The rates and slowdowns, what the ACE paper measured, and the endpoint."""
    console = open_console()
    machine = calibration.machine
    parts = ("SM" if machine.device == "cuda" else "core") + ("" if machine.cores == 1 else "s")
    title = f"{machine.name}, {machine.cores:,} {parts} ({calibration.rounds} rounds): two buffers of"
    title += f" {antiphon.format_bytes(calibration.bytes)}, GEMM of dimension {calibration.gemm:,}"
    names = ("Rate", "quartiles", "Slowdown", "quartiles")
    table = Table("Work", "Beside", *map(right_aligned, names), "Note", title=title)
    for row in calibration.measured.rows():
        one = " by one core" if row["cores"] == 1 < machine.cores else ""
        figures = _span(row, "rate", f" {row['unit']}") + (_span(row, "slowdown", "x") if row["beside"] else ("", ""))
        noise = f"noisy: quartiles differ by {row['spread']:.0%}" if row["noisy"] else ""
        table.add_row(row["work"] + one, row["beside"] or "alone", *figures, noise)
    console.print(table)
    console.print("Slowdown: the rate alone over the rate beside. Bytes count as often as they are read or written.")
    console.print("The ACE paper (ISCA 2021) has of eight V100 GPUs, which is no verdict on this machine:", style="dim")
    for where, work, beside, slowdown in PUBLISHED:
        console.print(f"  {work} beside {beside}: {slowdown}x ({where})", style="dim", soft_wrap=True)
    for note in calibration.notes:
        console.print(f"Note: {note}", soft_wrap=True)
    console.print(f"Endpoint: {calibration.endpoint}", soft_wrap=True)


def _span(row: dict[str, Any], key: str, unit: str) -> tuple[str, str]:
    """A figure, and its quartiles."""
    return digits(row[key]) + unit, f"{digits(row[f'{key}_q1'])} to {digits(row[f'{key}_q3'])}"
