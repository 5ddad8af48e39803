"""A collective beside other traffic, and on links that vary."""

from __future__ import annotations

import antiphon
from antiphon.results import BesideRun, Variations, rows_of
from antiphon.view.document import Document, document, table_of
from antiphon.view.text import filled, format_bandwidth, format_time

MOST_LINKS = 10
"""Links that are shown."""
FIRST = {
    "fair": "the collective and each message share links equally",
    "traffic": "the traffic goes first",
    "collective": "the collective goes first",
}
"""What a precedence means."""


def beside_document(run: BesideRun) -> Document:
    """What each loses by the other, and where they meet."""
    size = antiphon.format_bytes(run.bytes)
    times = table_of(
        [
            ("Collective", run.alone_ns, run.time_ns, run.slowdown),
            ("Message, mean", run.traffic_alone.mean_ns, run.traffic.mean_ns, run.traffic_slowdown),
            ("Message, 99 %", run.traffic_alone.p99_ns, run.traffic.p99_ns, None),
        ],
        "{0} | Alone: {alone} | Together: {together} | Slower: {slower}",
        f"{run.algorithm}, {run.collective} of {size} on {run.fabric}, beside {run.messages:,} messages",
        alone=lambda row: format_time(row[1]),
        together=lambda row: format_time(row[2]),
        slower=lambda row: "" if row[3] is None else f"{row[3]:.3f}x",
    )
    both = [row for row in rows_of(run.links) if row["collective_bytes"] and row["traffic_bytes"]]
    links = table_of(
        sorted(both, key=lambda row: -row["busy_ns"])[:MOST_LINKS],
        "Link {from} > {to} | Busy: {busy_ns} | Collective: {collective_bytes} | Traffic: {traffic_bytes}",
        "Links that both use, the busiest first",
    )
    rates = [("the collective", run.bandwidth_alone_gb_per_s, run.bandwidth_gb_per_s)]
    rates.append(("whole messages", run.traffic_alone_gb_per_s, run.traffic_gb_per_s))
    brought = [
        f"{who} {format_bandwidth(together)} ({format_bandwidth(alone)} alone)"
        for who, alone, together in rates
        if alone is not None and together is not None
    ]
    return document(
        times,
        None if run.messages else "No message came while the collective ran: give more bytes or a larger load",
        len(links.rows) > 0 and links,
        f"While the collective runs: {', '.join(brought)}" if brought else None,
        f"On a link that both need {FIRST[run.precedence]}"
        + (
            f"; the traffic alone keeps its busiest link busy {run.traffic_load:.1%}"
            if run.traffic_load is not None
            else ""
        ),
    )


def variations_document(found: Variations) -> Document:
    """How long it takes, and the links that matter most."""
    rows = [("The schedule", found.times)]
    if found.replanned is not None:
        rows.append(("Planned for each draw", found.replanned))
    times = table_of(
        rows,
        "{0} | Mean: {1.mean_ns} | 5 %: {1.p5_ns} | 50 %: {1.p50_ns} | 95 %: {1.p95_ns} | 99 %: {1.p99_ns}"
        " | Worst: {1.worst_ns}",
        f"{found.algorithm}, {found.collective} of {antiphon.format_bytes(found.bytes)} on {found.fabric},"
        f" {found.draws.height:,} draws",
    )
    matter = [row for row in found.links.rows() if row["correlation"] >= found.chance and found.chance < 1]
    links = table_of(
        matter[:MOST_LINKS],
        "Link {from} > {to} | Correlation: {correlation:.2f}",
        "Links on which the time depends most",
    )
    return document(
        times,
        len(links.rows) > 0 and links,
        filled("On the fabric as it is {intact_ns}", found)
        + f"; the median is {found.times.p50_ns / found.intact_ns:.3f} times that"
        if found.intact_ns
        else None,
        f"{len(matter):,} of {found.links.height:,} links matter more than by chance (correlation above"
        f" {found.chance:.2f})"
        if found.chance < 1
        else "Which links matter cannot be told from so few draws",
    )
