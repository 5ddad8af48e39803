"""The page of one run: that of a comparison of one, and the tables of links and ranks."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon._core import Fabric
from antiphon.collective.result import Comparison, Run
from antiphon.results import rows_of
from antiphon.view.document import Document, Table, document, more, table_of
from antiphon.view.documents.collective import run_document
from antiphon.view.html import html
from antiphon.view.pages import comparison

MOST_ROWS = 500
"""Of a table."""


def render(fabric: Fabric, run: Run) -> str:
    """The page as text."""
    alone = Comparison(
        fabric=run.fabric,
        group=run.group,
        collective=run.collective,
        bytes=run.bytes,
        matrix_bytes=run.matrix_bytes,
        system=run.system,
        fidelities=[run.fidelity],
        bound=run.bound,
        ladder=[[run]],
        estimates=[],
        seconds=[0.0],
        refused=[],
    )
    sections = (
        f'<section><h2>{title}</h2><div class="wide">{html(shown, sortable=True)}</div></section>'
        for title, shown in _tables(fabric, run)
    )
    return comparison.render(fabric, alone, "\n".join(sections))


def _tables(fabric: Fabric, run: Run) -> Iterator[tuple[str, Document]]:
    yield "The run", run_document(run)
    names, links = fabric.nodes["name"], rows_of(run.result.links)
    order = sorted(range(len(links)), key=lambda at: -links[at]["busy_ns"])[:MOST_ROWS]
    ways = [links[at] | {"link": at, "way": f"{names[links[at]['from']]} → {names[links[at]['to']]}"} for at in order]
    columns = "Link: {link} | Way {way} | Busy: {busy_ns} | Of time: {utilization:.1%} | Bytes: {bytes:,}"
    columns += " | Packets: {packets:,}"
    yield "Links, the busiest first", document(table_of(ways, columns), more(len(links), MOST_ROWS))
    yield "Ranks", document(_ranks(run), more(run.ranks, MOST_ROWS))


def _ranks(run: Run) -> Table:
    """What each rank did; what its receive buffers hold, where that is known."""
    rows = rows_of(run.result.ranks)[:MOST_ROWS]
    columns = (
        "Rank: {rank} | Done: {finish_ns} | Sent: {sent_bytes:,} | Received: {received_bytes:,} | Adding: {reduce_ns}"
    )
    known = run.buffer_bytes is not None
    return table_of(
        [row | {"rank": rank} for rank, row in enumerate(rows)],
        columns + (" | Buffers: {buffer_bytes:,.0f}" if known else ""),
    )
