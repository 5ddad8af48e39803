"""The pages of ``rails``: how schedulers use the dimensions of a network, over time and in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from antiphon._core import format_bytes
from antiphon.results import RailsFlights, RailsRun
from antiphon.view.document import Document, Table, table_of
from antiphon.view.documents.network import MOST_FLIGHTS, rails_document, rails_flights_document
from antiphon.view.pages.page import look
from antiphon.view.pages.player import gantt, rails_gantt
from antiphon.view.pages.plots import WIDTH, Bar, Bars, Chart, line, linear, time_bars, times
from antiphon.view.pages.sheet import Section, sheet
from antiphon.view.text import digits, format_time

MOST_DRAWN = 6
"""Schedulers whose use over time is drawn."""
MOST_STAGES = 3000
"""Of chunks, that are drawn."""
TALL = 170.0
"""Height of such a chart, in pixels."""


def render(runs: Sequence[RailsRun]) -> str:
    """The page of one collective by one or several schedulers, as text."""
    first = runs[0]
    ranked = sorted(runs, key=lambda run: run.time_ns)
    names = [str(name) for name in first.dimensions["name"]]
    sections = [
        Section(
            "Time by scheduler",
            "Shorter is better.",
            [time_bars("Time by scheduler", [(_name(run, runs), run.time_ns, _used(run)) for run in ranked])],
        ),
        Section(
            "Use of each dimension",
            "Share of the run in which a dimension sends. The fastest schedule keeps all of them busy.",
            [_shares(ranked, runs, names)],
        ),
        Section(
            "Dimensions over time",
            "Share of each window in which a dimension had a chunk to send.",
            [_over_time(run, runs) for run in ranked[:MOST_DRAWN]],
        ),
        *_chunks(ranked[0], _name(ranked[0], runs)),
        Section("All figures", shown=_figures(runs)),
        Section("What each dimension carries", shown=_loads(ranked, runs)),
    ]
    endpoint = "" if first.endpoint == "system" else f" · endpoint {first.endpoint}"
    return sheet(
        f"{first.collective} of {_size(first.bytes)} on {first.topology}",
        f"{first.npus:,} NPUs · {first.chunks} chunks, ordered over {len(names)} dimensions{endpoint}",
        _verdict(ranked, runs),
        sections,
        [
            (format_time(ranked[0].time_ns), f"time of {_name(ranked[0], runs)}"),
            (f"{ranked[0].utilization:.1%}", "of the rates of all dimensions in use"),
            *(
                [(f"{first.utilization_bound:.1%}", "is the most that any scheduler uses, latency apart")]
                if first.utilization_bound is not None
                else []
            ),
        ],
    )


def _size(count: int) -> str:
    """Sizes of such networks are given in decimal units."""
    return f"{count / 1e6:,g} MB" if count % 10**6 == 0 else format_bytes(count)


def _name(run: RailsRun, runs: Sequence[RailsRun]) -> str:
    """The scheduler, with its queue where others of the same name have another."""
    alike = [each for each in runs if each.scheduler == run.scheduler]
    return f"{run.scheduler} ({run.intra})" if len(alike) > 1 else run.scheduler


def _used(run: RailsRun) -> str:
    return f"{run.utilization:.1%} in use"


def _verdict(ranked: Sequence[RailsRun], runs: Sequence[RailsRun]) -> str:
    best, worst = ranked[0], ranked[-1]
    text = Markup("<strong>{}</strong> takes {} and uses {} of the rates of all dimensions").format(
        _name(best, runs), format_time(best.time_ns), f"{best.utilization:.1%}"
    )
    if worst.time_ns > 1.001 * best.time_ns:
        text += f", {digits(worst.time_ns / best.time_ns)}× as fast as {_name(worst, runs)}"
    elif len(ranked) > 1:
        text += "; the other schedulers take as long"
    return text + "."


def _shares(ranked: Sequence[RailsRun], runs: Sequence[RailsRun], names: Sequence[str]) -> Bars:
    bars = []
    for run in ranked:
        for place, (name, share) in enumerate(zip(names, run.dimensions["utilization"].tolist(), strict=True)):
            bars.append(Bar(f"{_name(run, runs)}, {name}", share, f"{share:.1%}", look(place)["colour"]))
    return Bars("Use of each dimension by each scheduler", bars)


def _over_time(run: RailsRun, runs: Sequence[RailsRun]) -> Chart:
    starts = run.timeline["start_ns"].tolist()
    step = starts[1] - starts[0] if len(starts) > 1 else run.time_ns
    x = times(f"{_name(run, runs)}: time", [run.time_ns], WIDTH)
    y = linear("busy", [1.0], TALL, "{:.0%}".format)
    lines = []
    for place, (name, shares) in enumerate(each for each in run.timeline.items() if each[0] != "start_ns"):
        middles = [
            (min(start + step / 2, run.time_ns), share, "")
            for start, share in zip(starts, shares.tolist(), strict=True)
        ]
        lines.append(line(place, name, x, y, middles, marked=False))
    return Chart(f"Use of the dimensions over time by {_name(run, runs)}", x, y, lines)


def _chunks(run: RailsRun, name: str) -> list[Section]:
    """Which dimension serves which chunk when, unless that is too much for a page."""
    if run.stages.height > MOST_STAGES:
        return []
    text = f"By {name}: when each dimension serves which chunk. A dimension that waits has a gap."
    chart = rails_gantt(run) | {"label": "Chunks in each dimension over time"}
    return [Section("Chunks in each dimension", text, [chart])]


def _figures(runs: Sequence[RailsRun]) -> Document:
    """As on a terminal, without the title, which the page has."""
    table, *others = rails_document(runs).parts
    return Document([replace(table, title="") if isinstance(table, Table) else table, *others])


def _loads(ranked: Sequence[RailsRun], runs: Sequence[RailsRun]) -> Document:
    rows = [
        {"scheduler": _name(run, runs), **row, "share": row["utilization"]}
        for run in ranked
        for row in run.dimensions.rows()
    ]
    columns = (
        "Scheduler {scheduler} | Dimension {name} | Links {spec} | Bytes of an NPU: {bytes:,.0f} | Busy: {busy_ns}"
        " | Of time: {share:.1%}"
    )
    return Document([table_of(rows, columns)])


def render_flights(runs: Sequence[RailsFlights]) -> str:
    """The page of several collectives in flight, as text."""
    ranked = sorted(runs, key=lambda run: run.time_ns)
    best = ranked[0]
    named = [(run.scheduler, run.time_ns, f"{run.utilization:.1%} in use") for run in ranked]
    verdict = Markup("<strong>{}</strong> ends all {} collectives after {} and uses {} of the rates of all dimensions.")
    return sheet(
        f"{best.flights.height:,} collectives in flight on {best.topology}",
        f"{best.npus:,} NPUs",
        verdict.format(
            best.scheduler, f"{best.flights.height:,}", format_time(best.time_ns), f"{best.utilization:.1%}"
        ),
        [
            Section("Time by scheduler", "Shorter is better.", [time_bars("Time by scheduler", named)]),
            Section(
                "When each is in flight",
                f"By {best.scheduler}.",
                [gantt(_tracks(best)) | {"label": "Collectives in flight over time"}],
            ),
            Section("All figures", shown=rails_flights_document(runs)),
        ],
    )


def _tracks(run: RailsFlights) -> dict[str, list[tuple[float, float, str, int]]]:
    """The flights as tracks: the first of them."""
    return {
        f"{number + 1}: {row['name'] or row['collective']}": [
            (
                row["start_ns"],
                row["finish_ns"],
                f"{row['collective']} of {_size(row['bytes'])}: {format_time(row['finish_ns'] - row['start_ns'])}",
                number,
            )
        ]
        for number, row in enumerate(run.flights.rows()[:MOST_FLIGHTS])
    }
