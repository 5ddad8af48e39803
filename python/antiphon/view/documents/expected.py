"""What is expected of a collective on a cluster, beside a log."""

from __future__ import annotations

import math

import antiphon
from antiphon.results.table import known_rows
from antiphon.view.document import Document, Table, dim, document, table_of
from antiphon.view.text import format_bandwidth, format_time

STYLES = {"too slow": "bold red", "link-limited": "bold green"}
"""Of rows, by their verdict."""


def expectation_document(found: antiphon.Expectation) -> Document:
    """A row for each size, then what may be why, and what speaks against the comparison."""
    floor = f"launch floor {_us(found.floor_us)} (of the {found.floor_from})"
    how = f"; times {found.place}; share: expected over measured" if found.place else ""
    lines = dim(f"{floor}{how}; no schedule is below the bound")
    return document(sizes_table(found), lines, summary(found), [f"Note: {note}" for note in found.notes])


def sizes_table(found: antiphon.Expectation) -> Table:
    """What is expected and measured of each size."""
    rows = known_rows(found.rows)
    measured = any(row["measured_us"] for row in rows)
    return table_of(
        rows,
        "Size: {bytes} | Bound: {bound} | Expected: {expected} | its busbw: {expected_bus} | By {by} | Limit {limit}"
        " | Measured: {measured} | of it busbw: {measured_bus} | Share: {share:.0%} | Verdict {verdict}",
        f"{found.collective} on {found.ranks:,} GPUs of {found.cluster}, {found.library}",
        lambda row: STYLES.get(row["verdict"], "") if measured else "",
        () if measured else ("Measured:", "of it busbw:", "Share:"),
        bound=lambda row: _us(row["bound_us"]),
        expected=lambda row: _us(row["expected_us"]),
        by=lambda row: " ".join(filter(None, (row["algorithm"], row["protocol"]))),
        measured=lambda row: _us(row["measured_us"]),
        expected_bus=lambda row: bus(found, row["bytes"], row["expected_us"]),
        measured_bus=lambda row: bus(found, row["bytes"], row["measured_us"]),
    )


def _us(time_us: float | None) -> str:
    return "-" if time_us is None else format_time(time_us * 1e3)


def bus(found: antiphon.Expectation, size: int, time_us: float | None) -> str:
    """The bus bandwidth of a time, as nccl-tests counts it."""
    return format_bandwidth(found.bus_factor * size / time_us / 1e3) if time_us else "-"


def summary(found: antiphon.Expectation) -> list[str]:
    """The verdict of all sizes, and the faults that explain the largest."""
    last = max(found.rows.rows(), key=lambda row: row["bytes"])
    took, size = last["measured_us"], antiphon.format_bytes(last["bytes"])
    if math.isnan(took):
        return []
    slower = took / last["expected_us"] - 1
    lines = [f"Verdict: {found.verdict}"]
    if found.below:
        return [*lines, "No machine like this is that fast: the log is of another one, or counts other bytes"]
    if found.causes.height and found.slow:
        lines.append(f"One of these would explain the largest sizes, most likely first; times at {size}:")
    elif found.causes.height:
        lines.append(
            f"{size} takes {slower:.0%} more than expected, which the model may be wrong by; else it could be:"
        )
    elif found.slow and slower > 0.1:
        lines.append("No single fault that is known here explains it (docs/how-to/expect.md)")
    for cause in found.causes.rows():
        near = f"{_us(cause['expected_us'])}, {bus(found, last['bytes'], cause['expected_us'])}"
        lines.append(f"  {cause['fault']}: {near}; measured {bus(found, last['bytes'], took)}")
    return lines
