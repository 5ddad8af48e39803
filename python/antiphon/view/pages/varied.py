"""Pages of ``beside``, what a collective and other traffic lose by each other, and of ``vary``, how often which time
is, and the links on which it depends most."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from antiphon._core import Fabric, format_bytes
from antiphon.results import BesideRun, Variations
from antiphon.view.documents.varied import FIRST, MOST_LINKS, beside_document, variations_document
from antiphon.view.drawing import draw
from antiphon.view.pages.plots import Bar, Bars, time_bars
from antiphon.view.pages.schedule import carried_picture
from antiphon.view.pages.sheet import Section, sheet
from antiphon.view.text import format_time

BINS = 20
"""Bars of a histogram."""


def render_beside(fabric: Fabric, run: BesideRun) -> str:
    """The page of ``beside`` as text."""
    collective = [("alone", run.alone_ns, ""), ("beside the traffic", run.time_ns, f"{run.slowdown:.3f} times")]
    mean = [("alone", run.traffic_alone.mean_ns, "")]
    mean += [("beside the collective", run.traffic.mean_ns, f"{run.traffic_slowdown:.3f} times")]
    sections = [
        Section("The collective", charts=[time_bars("Time of the collective", collective)]),
        Section("Messages, on average", charts=[time_bars("Mean time of messages", mean)]),
        Section("All figures", shown=beside_document(run)),
    ]
    carried = run.links["collective_bytes"] + run.links["traffic_bytes"]
    return sheet(
        f"{run.algorithm} beside other traffic on {run.fabric}",
        f"{run.collective} of {format_bytes(run.bytes)} · {run.messages:,} messages · {run.fidelity}",
        Markup(
            "The collective takes <strong>{:.3f} times</strong> as long as alone; on a link that both need {}."
        ).format(run.slowdown, FIRST[run.precedence]),
        sections,
        picture=carried_picture(fabric, draw(fabric), carried, "beside"),
    )


def render(found: Variations) -> str:
    """The page as text."""
    times = found.times
    ratio = f"{times.p50_ns / found.intact_ns:.2f}" if found.intact_ns else "1"
    verdict = Markup(
        "Half of the draws take at most <strong>{}</strong>, {} times as long as the fabric as it is."
    ).format(format_time(times.p50_ns), ratio)
    sections = [
        Section(
            "How often which time is",
            f"{found.draws.height:,} draws of all links, each timed with the same schedule.",
            [_histogram("Draws by time", found.draws["time_ns"])],
        )
    ]
    if found.replanned is not None:
        text = "Each draw timed with a schedule that the same algorithm made for it."
        sections.append(
            Section("Planned for each draw", text, [_histogram("Draws by time", found.draws["replanned_ns"])])
        )
    matter = [row for row in found.links.rows() if row["correlation"] >= found.chance][:MOST_LINKS]
    if matter:
        bars = [Bar(f"{row['from']} > {row['to']}", row["correlation"], f"{row['correlation']:.2f}") for row in matter]
        text = (
            "Rank correlation of the time with how slow or far each link is: what to mend first. Below"
            f" {found.chance:.2f} it may be chance."
        )
        sections.append(Section("Links on which the time depends most", text, [Bars("Correlations", bars)]))
    sections.append(Section("All figures", shown=variations_document(found)))
    about = [f"slow {found.slow}" if found.slow else "", f"latency {found.latency} ns" if found.latency else ""]
    return sheet(
        f"{found.algorithm} on varying links of {found.fabric}",
        " · ".join(part for part in [*about, f"{found.share:.0%} of the links", f"seed {found.seed}"] if part),
        verdict,
        sections,
        [
            (format_time(found.intact_ns), "on the fabric as it is"),
            (format_time(times.mean_ns), "on average"),
            (format_time(times.p95_ns), "95 of 100 draws take at most"),
            (format_time(times.worst_ns), "the worst draw"),
        ],
    )


def _histogram(label: str, times: np.ndarray) -> Bars:
    """A bar for each of some equal ranges of time."""
    counts, edges = np.histogram(times, bins=BINS if times.min() < times.max() else 1)
    bars = [
        Bar(f"{format_time(low)} to {format_time(high)}", float(count), f"{count:,}")
        for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    return Bars(label, bars)
