"""A reproduction, for people."""

from __future__ import annotations

from antiphon.repro.result import Reproduction
from antiphon.repro.rows import Summary
from antiphon.view.document import Document, Note, Table, dim, document

CLAIMS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold", "fitted": "fitted"}
"""Verdicts on claims, and how several are counted."""


def _counts(summary: Summary) -> tuple[str | Note, ...]:
    if not summary.compared:
        return ("",) * 5
    hold = Note(f"{summary.agreeing:,}", "yellow" if summary.agreeing < summary.compared else "green")
    errors = (f"{100 * (error or 0):.2f} %" for error in (summary.error_mean, summary.error_max))
    return (f"{summary.compared:,}", hold, f"{summary.by_rule:,}", *errors)


def reproduction_document(reproduction: Reproduction) -> Document:
    """How many numbers of every figure agree and how far off they are; claims; where the report is."""
    several = len(reproduction.outcomes) > 1
    claims = ("Claims:", "Hold:") if several and reproduction.claims else ()
    numbers = ("Compared:", "Hold:", "Within 5 %:", "Mean error:", "Largest:")
    columns = ("Figure" if several else "", *numbers, *claims, "at")
    rows: list[tuple[str | Note, ...]] = []
    groups = next(iter(reproduction.summaries.values()))
    for name, summary in reproduction.figures.items() if several else [("", group) for group in groups]:
        of = reproduction.claims_of(name)
        judged = of.total() - of["fitted"]
        if summary.compared or (claims and judged):
            worst = summary.worst if summary.error_max or summary.agreeing < summary.compared else ""
            told = (f"{judged}", f"{of['holds']}") if claims else ()
            rows.append((summary.group, *_counts(summary), *told, worst))
    texts = reproduction.paper.data.texts
    title = Note(f"{texts['title']} ({texts['source'].partition(';')[0]})", "bold")
    counted = []
    for whose, own in (("Claims of the paper", False), ("Ours", True)):
        verdicts = reproduction.claims_of(own=own)
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
