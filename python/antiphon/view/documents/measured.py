"""Collectives that ran, in the columns of the NCCL tests, and what a machine does to them beside computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import antiphon
from antiphon.calibration.result import PUBLISHED
from antiphon.view.document import Document, Note, Table, dim, table_of
from antiphon.view.text import digits, format_bandwidth, format_bit_rate, format_time


def measurement_document(found: antiphon.Measurement) -> Document:
    """A row for each size: out of place, then in place."""
    where = "MPI ranks" if found.transport == "mpi" else "ranks in threads"
    rows = []
    for run in found.to_dict()["runs"]:
        size = {"size": antiphon.format_bytes(run["bytes"]), "count": f"{run['elements']:,}"}
        inside = {**run["in_place"], "predicted_ns": run["predicted_ns"], "size": "", "count": "", "place": "yes"}
        rows += [{**run, **size, "place": "no"}, inside]
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "Size:": lambda row: row["size"],
        "Count:": lambda row: row["count"],
        "In place:": lambda row: row["place"],
        "Time:": lambda row: format_time(row["time_ns"]),
        "algbw:": lambda row: format_bandwidth(row["algorithm_bandwidth_gb_per_s"]),
        "busbw:": lambda row: format_bandwidth(row["bus_bandwidth_gb_per_s"]),
        "Wrong:": lambda row: f"{row['wrong']:,}",
        "Predicted:": lambda row: format_time(row["predicted_ns"]),
    }
    without = ["Predicted:"] if all(row["predicted_ns"] is None for row in rows) else []
    title = f"{found.algorithm}, {found.collective} of {found.element}, {found.ranks} {where}"
    line = f"Mean of {found.iterations:,} runs on the slowest rank"
    return Document(
        [
            table_of(rows, columns, title, lambda row: "bold red" if row["wrong"] else "", without),
            dim(f"{line}; every element was compared with the definition"),
        ]
    )


def emulated_document(found: antiphon.Emulated) -> Document:
    """A row for each algorithm, the fastest first."""
    rows = sorted(found.runs.rows(), key=lambda row: row["measured_ns"])
    table = table_of(
        rows,
        {
            "Algorithm": lambda row: f"{row['algorithm']}, {antiphon.format_bytes(row['bytes'])}",
            "Measured:": lambda row: format_time(row["measured_ns"]),
            "Predicted:": lambda row: format_time(row["predicted_ns"]),
            "Ratio:": lambda row: f"{row['measured_ns'] / row['predicted_ns']:.3f}",
            "Least:": lambda row: format_time(row["least_ns"]),
            "Most:": lambda row: format_time(row["most_ns"]),
            "Correct:": lambda row: "yes" if row["correct"] else "NO",
        },
        f"{found.collective} on an emulated {found.fabric}, links of {format_bit_rate(found.link_rate_bit_per_s)}",
        lambda row: "bold red" if not row["correct"] else "bold green" if row is rows[0] else "",
    )
    carried = f"links carried {found.slowest_link:.1%} to {found.fastest_link:.1%} of their rate"
    return Document([table, dim(f"Median of {found.repeat:,} runs; under full load, before, {carried}")])


def calibration_document(calibration: antiphon.Calibration) -> Document:
    """The rates and slowdowns, what the ACE paper measured, and the endpoint."""
    machine = calibration.machine
    parts = ("SM" if machine.device == "cuda" else "core") + ("" if machine.cores == 1 else "s")
    title = f"{machine.name}, {machine.cores:,} {parts} ({calibration.rounds} rounds): two buffers of"
    title += f" {antiphon.format_bytes(calibration.bytes)}, GEMM of dimension {calibration.gemm:,}"
    published = [f"  {work} beside {beside}: {slowdown}x ({where})" for where, work, beside, slowdown in PUBLISHED]
    rows = []
    for row in calibration.measured.rows():
        one = " by one core" if row["cores"] == 1 < machine.cores else ""
        figures = _span(row, "rate", f" {row['unit']}") + (_span(row, "slowdown", "x") if row["beside"] else ("", ""))
        noise = f"noisy: quartiles differ by {row['spread']:.0%}" if row["noisy"] else ""
        rows.append((row["work"] + one, row["beside"] or "alone", *figures, noise))
    columns = ("Work", "Beside", "Rate:", "quartiles:", "Slowdown:", "quartiles:", "Note")
    return Document(
        [
            Table(columns, rows, title),
            Note("Slowdown: the rate alone over the rate beside. Bytes count as often as they are read or written."),
            dim("The ACE paper (ISCA 2021) has of eight V100 GPUs, which is no verdict on this machine:"),
            *map(dim, published),
            *(Note(f"Note: {note}") for note in calibration.notes),
            Note(f"Endpoint: {calibration.endpoint}"),
        ]
    )


def _span(row: dict[str, Any], key: str, unit: str) -> tuple[str, str]:
    """A figure, and its quartiles."""
    return digits(row[key]) + unit, f"{digits(row[f'{key}_q1'])} to {digits(row[f'{key}_q3'])}"
