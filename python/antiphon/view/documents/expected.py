"""What is expected of a collective on a cluster, beside a log."""

from __future__ import annotations

import math
from typing import Any

import antiphon
from antiphon.view.document import Document, dim, document, table_of
from antiphon.view.text import digits, format_bandwidth, format_time

STYLES = {"too slow": "bold red", "link-limited": "bold green"}
"""Of rows, by their verdict."""


def expectation_document(found: antiphon.Expectation) -> Document:
    """A row for each size, then what may be why, and what speaks against the comparison."""
    rows = [{key: None if value != value else value for key, value in row.items()} for row in found.rows.rows()]
    measured = any(row["measured_us"] for row in rows)
    table = table_of(
        rows,
        "Size: {bytes} | Bound: {bound} | Expected: {expected} | busbw: {expected_bus} | By {by} | Limit {limit}"
        " | Measured: {measured} | of it busbw: {measured_bus} | Share: {share:.0%} | Verdict {verdict}",
        f"{found.collective} on {found.ranks:,} GPUs of {found.cluster}, {found.library}",
        lambda row: STYLES.get(row["verdict"], "") if measured else "",
        () if measured else ("Measured:", "of it busbw:", "Share:"),
        bound=lambda row: format_time(row["bound_us"] * 1e3),
        expected=lambda row: format_time(row["expected_us"] * 1e3),
        by=lambda row: " ".join(filter(None, (row["algorithm"], row["protocol"]))),
        measured=lambda row: "-" if row["measured_us"] is None else format_time(row["measured_us"] * 1e3),
        expected_bus=lambda row: bus(found, row, "expected_us"),
        measured_bus=lambda row: bus(found, row, "measured_us"),
    )
    floor = f"launch floor {format_time(found.floor_us * 1e3)} (of the {found.floor_from})"
    how = f"; times {found.place}; share: expected over measured" if measured else ""
    return document(
        table, dim(f"{floor}{how}; no schedule is below the bound"), summary(found), *map(_note, found.notes)
    )


def bus(found: antiphon.Expectation, row: dict[str, Any], key: str) -> str:
    """The bus bandwidth of a time, as nccl-tests counts it."""
    time_us = row[key]
    return format_bandwidth(found.bus_factor * row["bytes"] / time_us / 1e3) if time_us else "-"


def summary(found: antiphon.Expectation) -> list[str]:
    """The verdict of all sizes, and the faults that explain it."""
    last = max(found.rows.rows(), key=lambda row: row["bytes"])
    took = last["measured_us"]
    if math.isnan(took):
        return []
    slower = took / last["expected_us"] - 1
    lines = [f"Verdict: {found.verdict}."]
    if not found.slow and slower > 0.01 and found.causes.height:
        lines = [
            f"Verdict: {found.verdict}; {slower:.0%} more than expected is within what the model can tell. If not:"
        ]
    elif found.slow and not found.causes.height and took > last["expected_us"]:
        lines.append("No single fault that is known here explains the largest size (docs/expect.md).")
    for cause in found.causes.rows():
        near = cause["expected_us"] / took
        lines.append(
            f"  {cause['fault']}: {format_time(cause['expected_us'] * 1e3)}, {digits(near * 100)} % of measured"
        )
    return lines


def _note(text: str) -> str:
    return f"Note: {text}"
