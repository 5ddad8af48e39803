"""A reproduction on a terminal."""

from __future__ import annotations

from collections import Counter

from rich.table import Column, Table
from rich.text import Text

from antiphon.repro.result import Reproduction
from antiphon.view.terminal.console import open_console, right_aligned

CLAIMS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
"""Verdicts on claims, and how several are counted."""


def print_reproduction(reproduction: Reproduction) -> None:
    """How many numbers of every figure agree and how far off they are; claims; where the report is."""
    console = open_console()
    headers = ("Compared", "Agree", "Differ", "Mean error", "Largest")
    several = len(reproduction.outcomes) > 1
    table = Table(
        Column("Figure" if several else "", overflow="fold"),
        *map(right_aligned, headers),
        Column("at", overflow="fold"),
    )
    groups = next(iter(reproduction.summaries.values()))
    for summary in reproduction.figures.values() if several else groups:
        if summary.compared:
            differing = summary.compared - summary.agreeing
            table.add_row(
                summary.group,
                f"{summary.compared:,}",
                f"{summary.agreeing:,}",
                Text(f"{differing:,}", style="yellow" if differing else "green"),
                *(f"{100 * (error or 0):.2f} %" for error in (summary.error_mean, summary.error_max)),
                summary.worst if differing or summary.error_max else "",
            )
    texts = reproduction.paper.data.texts
    console.print(f"{texts['title']} ({texts['source'].partition(';')[0]})", style="bold")
    if not several:
        console.print(next(iter(reproduction.figures.values())).group)
    console.print(table)
    for title, own in (("Claims of the paper", False), ("Ours", True)):
        verdicts = Counter[str](claim.verdict for claim in reproduction.claims if claim.own == own)
        if verdicts:
            counts = [f"{verdicts[verdict]} {words}" for verdict, words in CLAIMS.items() if verdicts[verdict]]
            console.print(f"{title}: {', '.join(counts)}")
    if reproduction.quick:
        console.print("Claims are about all points: without --quick.")
    stored = reproduction.runs - reproduction.new_runs
    stale = f" ({reproduction.stale_runs:,} of another build are not used)" if reproduction.stale_runs else ""
    console.print(f"Runs: {reproduction.new_runs:,} made, {stored:,} taken from earlier calls{stale}")
    console.print(f"Report: {reproduction.report}", style="dim")
