"""A reproduction, for people."""

from __future__ import annotations

from collections import Counter

from antiphon.repro.result import Reproduction
from antiphon.view.document import Document, Note, Table, dim, document

CLAIMS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
"""Verdicts on claims, and how several are counted."""


def reproduction_document(reproduction: Reproduction) -> Document:
    """How many numbers of every figure agree and how far off they are; claims; where the report is."""
    several = len(reproduction.outcomes) > 1
    columns = ("Figure" if several else "", "Compared:", "Agree:", "Differ:", "Mean error:", "Largest:", "at")
    rows: list[tuple[str | Note, ...]] = []
    groups = next(iter(reproduction.summaries.values()))
    for summary in reproduction.figures.values() if several else groups:
        if summary.compared:
            differing = summary.compared - summary.agreeing
            counts = (f"{summary.compared:,}", f"{summary.agreeing:,}")
            differ = Note(f"{differing:,}", "yellow" if differing else "green")
            errors = (f"{100 * (error or 0):.2f} %" for error in (summary.error_mean, summary.error_max))
            worst = summary.worst if differing or summary.error_max else ""
            rows.append((summary.group, *counts, differ, *errors, worst))
    texts = reproduction.paper.data.texts
    title = Note(f"{texts['title']} ({texts['source'].partition(';')[0]})", "bold")
    counted = []
    for whose, own in (("Claims of the paper", False), ("Ours", True)):
        verdicts = Counter[str](claim.verdict for claim in reproduction.claims if claim.own == own)
        if verdicts:
            words = [f"{verdicts[verdict]} {word}" for verdict, word in CLAIMS.items() if verdicts[verdict]]
            counted.append(f"{whose}: {', '.join(words)}")
    stored = reproduction.runs - reproduction.new_runs
    stale = f" ({reproduction.stale_runs:,} of another build are not used)" if reproduction.stale_runs else ""
    return document(
        title,
        not several and next(iter(reproduction.figures.values())).group,
        Table(columns, rows),
        counted,
        reproduction.paper.data.measured,
        reproduction.quick and "Claims are about all points: without --quick.",
        f"Runs: {reproduction.new_runs:,} made, {stored:,} taken from earlier calls{stale}",
        dim(f"Report: {reproduction.report}"),
    )
