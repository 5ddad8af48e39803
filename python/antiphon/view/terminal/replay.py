"""Execution traces replayed, on a terminal."""

from __future__ import annotations

from rich.table import Table

import antiphon
from antiphon.view.terminal.console import open_console, right_aligned
from antiphon.view.text import format_time, platform

MOST_EXCHANGES = 40
MOST_RANKS = 16
"""Rows of the tables."""


def print_replay(run: antiphon.Replay) -> None:
    """Where the time of the ranks went, and when exchanges were under way."""
    console = open_console()
    how = platform(run.system, run.fidelity, f"order {run.order}")
    title = f"{run.trace} on {run.fabric} with {run.algorithm} (system {how})"
    exchanges = Table(
        "Exchange",
        "Group",
        "Kind",
        right_aligned("Start"),
        right_aligned("Finish"),
        right_aligned("Time"),
        title=title,
    )
    of = run.exchanges
    for row in range(min(of.height, MOST_EXCHANGES)):
        start, finish = float(of["start_ns"][row]), float(of["finish_ns"][row])
        size = int(of["bytes"][row])
        exchanges.add_row(
            str(of["name"][row]),
            f"{of['group'][row]} ({of['ranks'][row]})",
            f"{of['kind'][row]} of {antiphon.format_bytes(size)}" if size else str(of["kind"][row]),
            format_time(start),
            format_time(finish),
            format_time(finish - start),
        )
    console.print(exchanges)
    if of.height > MOST_EXCHANGES:
        console.print(f"and {of.height - MOST_EXCHANGES:,} more; --json has all", style="dim")
    names = ("compute_ns", "exposed_communication_ns", "other_ns", "idle_ns", "finish_ns")
    ranks = Table(*(right_aligned(name) for name in ("Rank", "Compute", "Exposed", "Host, memory", "Idle", "Finish")))
    for rank in range(min(run.ranks.height, MOST_RANKS)):
        ranks.add_row(str(rank), *(format_time(float(run.ranks[name][rank])) for name in names))
    console.print(ranks)
    if run.ranks.height > MOST_RANKS:
        console.print(f"and {run.ranks.height - MOST_RANKS:,} more; --json has all", style="dim")
    most = format_time(float(run.ranks["exposed_communication_ns"].max()))
    console.print(
        f"All done after {format_time(run.time_ns)}; a rank computes {format_time(run.compute_ns)} and is exposed to"
        f" communication for {format_time(run.exposed_communication_ns)} (mean; at most {most})"
    )
    if run.untimed_nodes:
        console.print(f"{run.untimed_nodes:,} of {run.nodes:,} nodes have no time in the trace and take none")
