"""What throughput failures leave, in words."""

from __future__ import annotations

from typing import Any

import antiphon
from antiphon.results import rows_of
from antiphon.view.document import Document, Note, Table, document, more, table_of

WORST = 10
"""Failures that are listed."""
HELPFUL = 5
"""Spares that are listed."""
SCOPES = {
    "links": "single link failures",
    "nodes": "single node failures",
    "1": "single link and node failures",
    "2": "pairs of failures",
}
"""What failures are counted."""


def survival_document(found: antiphon.Survival) -> Document:
    """Mean, worst and chance; the worst failures; the spares that help most."""
    cases = failures(found)
    useful = [row for row in rows_of(found.spares) if row["gain"] > 0]
    return document(
        Note(f"{found.collective} on {found.fabric}: {subject(found)}", "bold", wrap=True),
        Note(verdict(found), wrap=True),
        worst_table(cases[:WORST]),
        more(len(cases), WORST),
        [spares_table(useful[:HELPFUL]), *more(len(useful), HELPFUL)] if useful else None,
    )


def subject(found: antiphon.Survival) -> str:
    """What failures are counted, and on which system."""
    scope = SCOPES.get(found.fail, f"draws, in which each fails at a chance of {found.fail.removeprefix('rate:')}")
    nodes = ", failed nodes forward" if found.failed_nodes == "forward" else ""
    return f"{found.counted:,} {scope}{nodes} (system {found.system})"


def verdict(found: antiphon.Survival) -> str:
    """What is left, in two sentences."""
    chance = f"At least {found.target:.0%} of the throughput is left in {found.chance:.1%} of the failures"
    if found.is_sample:
        chance += f" (95 % interval {found.chance_low:.1%} to {found.chance_high:.1%})"
    mean, worst = _range(found.mean, found.mean_certified), _range(found.worst, found.worst_certified)
    text = f"Of {found.intact_gb_per_s:,.2f} GB/s failures leave {mean} on average, {worst} at worst. {chance}."
    return f"{text} Switches only forward here, though they can add." if found.adders_left_out else text


def failures(found: antiphon.Survival) -> list[dict[str, Any]]:
    """What mean and worst are about, the worst first."""
    tables = [found.cases] if found.cases.height else [found.links, found.nodes]
    rows = [row for table in tables for row in rows_of(table)]
    return sorted(rows, key=lambda row: row["share"])


def worst_table(rows: list[dict[str, Any]], title: str = "Worst failures") -> Table:
    """Failures with what they leave."""
    return table_of(
        rows,
        "Failure {what} | Left: {share:.2%} | At most: {certified:.2%} | Why {stopped}",
        title,
        without=() if any(row["stopped"] for row in rows) else ("Why",),
        what=lambda row: row["name"].replace(",", ", ") or "none",
    )


def spares_table(rows: list[dict[str, Any]], title: str = "Spares that help most") -> Table:
    """What changes if one link pair or node cannot fail."""
    columns = "Cannot fail {name} | Mean rises by: {gain:.3%} | Mean: {mean:.2%} | Worst: {worst:.2%}"
    return table_of(rows, columns, title)


def _range(share: float, certified: float) -> str:
    """A share that is reached, and what nothing exceeds where that reads otherwise."""
    low, high = f"{share:.2%}", f"{certified:.2%}"
    return low if low == high else f"{low} to {high}"
