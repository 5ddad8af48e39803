"""Collectives that ran, on a terminal, in the columns of the NCCL tests."""

from __future__ import annotations

from rich.table import Table

import antiphon
from antiphon.view.terminal.console import open_console, right_aligned


def print_measurement(found: antiphon.Measurement) -> None:
    """A row for each size: out of place, then in place."""
    console = open_console()
    where = "MPI ranks" if found.transport == "mpi" else "ranks in threads"
    columns = ["Size", "Count", "Time", "algbw", "busbw", "Wrong", "Time in place", "algbw", "busbw", "Wrong"]
    table = Table(
        *(right_aligned(name) for name in columns),
        title=f"{found.algorithm}, {found.collective} of {found.element}, {found.ranks} {where}",
    )
    for row in found.to_dict()["runs"]:
        figures = []
        for part in (row, row["in_place"]):
            figures += [
                f"{part['time_ns'] / 1e3:,.1f} us",
                f"{part['algorithm_bandwidth_gb_per_s']:.3g}",
                f"{part['bus_bandwidth_gb_per_s']:.3g}",
                str(part["wrong"]),
            ]
        table.add_row(
            antiphon.format_bytes(row["bytes"]), f"{row['elements']:,}", *figures, style="" if row["correct"] else "bold red"
        )
    console.print(table)
    line = f"Mean of {found.iterations:,} runs on the slowest rank; bandwidths in GB/s"
    console.print(f"{line}; every element was compared with the definition", style="dim")
