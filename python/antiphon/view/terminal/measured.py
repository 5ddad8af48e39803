"""Collectives that ran, on a terminal, in the columns of the NCCL tests."""

from __future__ import annotations

from rich.table import Table

import antiphon
from antiphon.view.terminal.console import open_console, right_aligned
from antiphon.view.text import format_bandwidth, format_bit_rate, format_time


def print_measurement(found: antiphon.Measurement) -> None:
    """A row for each size: out of place, then in place."""
    console = open_console()
    where = "MPI ranks" if found.transport == "mpi" else "ranks in threads"
    columns = ["Size", "Count", "In place", "Time", "algbw", "busbw", "Wrong"]
    predicted = [row["predicted_ns"] for row in found.to_dict()["runs"] if row["predicted_ns"] is not None]
    columns += ["Predicted"] if predicted else []
    table = Table(
        *(right_aligned(name) for name in columns),
        title=f"{found.algorithm}, {found.collective} of {found.element}, {found.ranks} {where}",
    )
    for row in found.to_dict()["runs"]:
        size = (antiphon.format_bytes(row["bytes"]), f"{row['elements']:,}")
        for what, place, part in (size, "no", row), (("", ""), "yes", row["in_place"]):
            table.add_row(
                *what,
                place,
                format_time(part["time_ns"]),
                format_bandwidth(part["algorithm_bandwidth_gb_per_s"]),
                format_bandwidth(part["bus_bandwidth_gb_per_s"]),
                f"{part['wrong']:,}",
                *([format_time(row["predicted_ns"])] if predicted else []),
                style="bold red" if part["wrong"] else "",
            )
    console.print(table)
    line = f"Mean of {found.iterations:,} runs on the slowest rank"
    console.print(f"{line}; every element was compared with the definition", style="dim")


def print_emulated(found: antiphon.Emulated) -> None:
    """A row for each algorithm, the fastest first."""
    console = open_console()
    rate = format_bit_rate(found.link_rate_bit_per_s)
    table = Table(
        "Algorithm",
        *(right_aligned(name) for name in ("Measured", "Predicted", "Ratio", "Least", "Most", "Correct")),
        title=f"{found.collective} on an emulated {found.fabric}, links of {rate}",
    )
    rows = sorted(found.runs.rows(), key=lambda row: row["measured_ns"])
    for place, row in enumerate(rows):
        table.add_row(
            f"{row['algorithm']}, {antiphon.format_bytes(row['bytes'])}",
            *(format_time(row[name]) for name in ("measured_ns", "predicted_ns")),
            f"{row['measured_ns'] / row['predicted_ns']:.3f}",
            *(format_time(row[name]) for name in ("least_ns", "most_ns")),
            "yes" if row["correct"] else "NO",
            style="bold red" if not row["correct"] else "bold green" if place == 0 else "",
        )
    console.print(table)
    carried = f"links carried {found.slowest_link:.1%} to {found.fastest_link:.1%} of their rate"
    console.print(f"Median of {found.repeat:,} runs; under full load, before, {carried}", style="dim")
