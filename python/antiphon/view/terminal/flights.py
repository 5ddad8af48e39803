"""Collectives in flight together, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

import antiphon
from antiphon.view.terminal.console import open_console, right_aligned
from antiphon.view.terminal.energy import energy_rows, print_unknown
from antiphon.view.text import format_time, platform

MOST_FLIGHTS = 100
"""Rows of a table of flights."""


def print_flights(run: antiphon.FlightsRun) -> None:
    """When each flight started and ended."""
    console = open_console()
    table = Table(
        right_aligned("Flight"),
        "Group",
        "Collective",
        right_aligned("Start"),
        right_aligned("Finish"),
        right_aligned("Time"),
        right_aligned("Bound"),
        title=f"{len(run.flights):,} flights on {run.fabric} (system {platform(run.system, run.result.fidelity)})",
    )
    for number, row in enumerate(run.to_dict()["flights"][:MOST_FLIGHTS]):
        ranks = row["group"]
        table.add_row(
            row["name"] or str(number),
            "all" if ranks is None else _listed(ranks),
            f"{row['algorithm']}, {row['collective']} of {antiphon.format_bytes(row['bytes'])}",
            format_time(row["start_ns"]),
            format_time(row["finish_ns"]),
            format_time(row["time_ns"]),
            format_time(row["lower_bound_ns"]),
        )
    console.print(table)
    if len(run.flights) > MOST_FLIGHTS:
        console.print(f"and {len(run.flights) - MOST_FLIGHTS:,} more; --json has all", style="dim")
    busy = run.result.link_utilization_mean
    if run.result.energy is not None:
        energy = Table(show_header=False)
        for label, value in energy_rows(run.result.energy):
            energy.add_row(label, value)
        console.print(energy)
        print_unknown(console, run.result.energy)
    console.print(f"All done after {format_time(run.time_ns)}; links busy {busy:.1%}, order {run.order}")


def _listed(ranks: Sequence[int]) -> str:
    """Ranks, the first few of many."""
    text = ", ".join(map(str, ranks[:8]))
    return text if len(ranks) <= 8 else f"{text}, … ({len(ranks):,})"
