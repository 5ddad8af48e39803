"""The page of ``survive``: a map of what is critical, how many failures leave how much, and all of them."""

from __future__ import annotations

import math
from typing import Any

from antiphon._core import Fabric
from antiphon.results import rows_of
from antiphon.results.survival import Survival
from antiphon.view.document import Document, document, more
from antiphon.view.documents.survival import failures, spares_table, subject, verdict, worst_table
from antiphon.view.drawing import Drawing, draw
from antiphon.view.pages.plots import Bar, Bars
from antiphon.view.pages.sheet import MOST_ROWS, Picture, Section, sheet

STEPS = 10
"""Parts of the intact throughput of a bar."""


def render(fabric: Fabric, found: Survival) -> str:
    """The page as text."""
    cases = failures(found)
    useful = [row for row in rows_of(found.spares) if row["gain"] > 0]
    sections = [
        Section("How much is left", "Failures by the share of the throughput that is left.", [_histogram(cases)]),
        _table("Failures", worst_table(cases[:MOST_ROWS], ""), len(cases)),
    ]
    if useful:
        text = "What mean and worst become if one link pair or node cannot fail."
        sections.append(_table("Spares", spares_table(useful[:MOST_ROWS], ""), len(useful), text))
    return sheet(
        f"What failures leave of {found.fabric}",
        f"{found.collective}: {subject(found)}",
        verdict(found),
        sections,
        [
            (f"{found.mean:.1%}", "mean share left"),
            (f"{found.worst:.1%}", "worst"),
            (f"{found.chance:.1%}", f"leave {found.target:.0%}"),
            (f"{found.intact_gb_per_s:,.1f} GB/s", "intact"),
        ],
        picture=_map(draw(fabric), fabric, found),
    )


def _table(title: str, table: Any, count: int, text: str = "") -> Section:
    shown: Document = document(table, more(count, MOST_ROWS))
    return Section(title, text, shown=shown)


def _map(drawing: Drawing, fabric: Fabric, found: Survival) -> Picture:
    """Links and nodes by what is lost if they fail."""
    pairs = {(row["from"], row["to"]): row for row in rows_of(found.links)}
    ends = zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True)
    of_links = [pairs.get((min(a, b), max(a, b))) for a, b in ends]
    by_node = {row["node"]: row for row in rows_of(found.nodes)}
    of_nodes = [by_node.get(node) for node in range(len(drawing.nodes))]
    text = "The darker a link pair or node, the less throughput is left if it alone fails; the darkest leaves none."
    label = "The fabric, links and nodes coloured by what is lost if they fail"
    titles = [
        each.name + (f": {row['share']:.2%} left" if row else "")
        for each, row in zip(drawing.links, of_links, strict=False)
    ]
    return Picture(
        drawing,
        "What is critical",
        text,
        label,
        "critical",
        [_level(row) for row in of_links],
        titles,
        [_level(row) for row in of_nodes],
        [("u1", "nearly all is left"), ("u5", "half"), ("u10", "nothing")],
    )


def _level(row: dict[str, Any] | None) -> str:
    """The class of what is lost; of what was not asked for, none."""
    return "" if row is None else f"u{min(10, max(0, math.ceil(10 * (1 - row['share']) - 1e-2)))}"


def _histogram(cases: list[dict[str, Any]]) -> Bars:
    """How many failures leave how much, in tenths of the intact throughput."""
    counts = [0] * (STEPS + 1)
    for row in cases:
        counts[min(STEPS, math.floor(STEPS * row["share"] + 1e-2))] += 1
    names = [f"{step / STEPS:.0%} to {(step + 1) / STEPS:.0%}" for step in range(STEPS)] + ["all"]
    bars = [Bar(name, count, f"{count:,}") for name, count in zip(names, counts, strict=True)]
    return Bars("Failures by share", bars[::-1])
