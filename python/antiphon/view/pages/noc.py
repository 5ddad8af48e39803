"""The page of ``noc``: latency and accepted traffic over the offered rate, and where the network saturates."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from antiphon.network.saturation import Saturation
from antiphon.results import NocResult
from antiphon.view.document import Document
from antiphon.view.documents.network import noc_document, saturation_document
from antiphon.view.pages.plots import HEIGHT, WIDTH, Bar, Bars, Chart, Scale, line, linear
from antiphon.view.pages.sheet import Section, sheet

CLEAR = 12.0
"""Latencies of saturated runs are drawn up to this multiple of the least latency: they only grow with the run."""


def render(runs: Sequence[NocResult]) -> str:
    """The page of one or several rates, as text."""
    ordered = sorted(runs, key=lambda run: run.rate)
    stable = [run for run in ordered if run.stable]
    beyond = [run for run in ordered if not run.stable]
    if len(ordered) == 1:
        run = ordered[0]
        verdict = Markup("A packet takes <strong>{} cycles</strong> on average at a rate of {}").format(
            f"{run.packet_latency_cycles.mean:,.1f}", f"{run.rate:.4g}"
        )
        verdict += "." if stable else ", and the network is saturated: it carries less than it is offered."
    elif not beyond:
        verdict = Markup(
            "The network <strong>keeps up</strong> with every rate, up to {} flits per rank and cycle."
        ).format(f"{stable[-1].rate:.4g}")
    elif not stable:
        verdict = Markup("The network is <strong>saturated</strong> at every rate, from {} on.").format(
            f"{beyond[0].rate:.4g}"
        )
    else:
        verdict = Markup(
            "The network <strong>saturates</strong> between rates of {} and {} flits per rank and cycle."
        ).format(f"{stable[-1].rate:.4g}", f"{beyond[0].rate:.4g}")
    least = beyond[0].rate if beyond else None
    return _page(ordered, verdict, least, noc_document(ordered))


def render_saturation(found: Saturation, more: Sequence[NocResult] = ()) -> str:
    """The page of a saturation, with all runs of its search and ``more``, as text."""
    if found.unstable_rate is None:
        verdict = Markup("The network <strong>keeps up</strong> with every rate.")
    else:
        verdict = Markup(
            "The network keeps up to <strong>{} flits</strong> per rank and cycle, and no longer at {}."
        ).format(f"{found.stable.rate:.4g}", f"{found.unstable_rate:.4g}")
    runs = sorted((*more, *(found.tried or (found.stable,))), key=lambda run: run.rate)
    return _page(runs, verdict, found.unstable_rate, saturation_document(found))


def _page(runs: Sequence[NocResult], verdict: str, unstable_rate: float | None, shown: Document) -> str:
    first = runs[0]
    best = max((run for run in runs if run.stable), key=lambda run: run.rate, default=first)
    x = linear("offered rate, flits per rank and cycle", [run.rate for run in runs], WIDTH, "{:.4g}".format)
    limits = (
        []
        if unstable_rate is None or unstable_rate > x.high
        else [(x.place(unstable_rate), f"saturated from {unstable_rate:.4g} on")]
    )
    sections = []
    if len(runs) > 1:
        latencies = _latencies(runs, x, limits)
        cut = (
            f" The axis is cut at {latencies.y.high:,.6g} cycles: an arrow shows where a line goes on above it, and the"
            " table has the values."
        ) * any(each.open_ends for each in latencies.lines)
        sections = [
            Section(
                "Latency over rate",
                "Cycles from a packet's creation to the arrival of its last flit. Latencies of saturated runs only"
                " count packets that arrived, and grow with the length of the run." + cut,
                [latencies],
            ),
            Section(
                "What the network carries",
                "Flits that leave the network; it keeps up where this is what it is offered.",
                [_accepted(runs, x, limits)],
            ),
        ]
    latency = best.packet_latency_cycles
    bars = [("network alone, mean", best.network_latency_mean_cycles), ("mean", latency.mean), ("median", latency.p50)]
    bars.append(("99th percentile", latency.p99))
    sections += [
        Section(
            f"Latency at rate {best.rate:.4g}",
            "In the network alone a packet does not wait at its source.",
            [Bars("Latencies in cycles", [Bar(name, cycles, f"{cycles:,.1f} cycles") for name, cycles in bars])],
        ),
        Section("All figures", shown=shown),
    ]
    router = first.router
    return sheet(
        f"{first.traffic} traffic on {first.fabric}",
        f"{first.packet_flits}-flit packets · routing {first.routing}"
        f" · {router.vcs} virtual channels of {router.vc_depth} flits",
        verdict,
        sections,
        [
            (f"{latency.mean:,.1f}", f"cycles of latency on average at rate {best.rate:.4g}"),
            (f"{latency.p99:,}", "cycles, the 99th percentile"),
            (f"{best.accepted_flits_per_node_cycle:.4g}", "flits accepted per rank and cycle"),
            (f"{best.hops_mean:.2f}", "routers passed on average"),
        ],
    )


def _latencies(runs: Sequence[NocResult], x: Scale, limits: list[tuple[float, str]]) -> Chart:
    stable = [run.packet_latency_cycles.p99 for run in runs if run.stable]
    least = min(run.packet_latency_cycles.mean for run in runs)
    worst = max(max(run.packet_latency_cycles.mean, run.packet_latency_cycles.p99) for run in runs)
    y = linear("cycles", [min(worst, max([CLEAR * least, *stable]))], HEIGHT)
    lines = []
    for place, (name, of) in enumerate((("mean", "mean"), ("99th percentile", "p99"), ("median", "p50"))):
        points = []
        for run in runs:
            cycles = float(getattr(run.packet_latency_cycles, of))
            state = "" if run.stable else ", saturated"
            points.append((run.rate, cycles, f"rate {run.rate:.4g}: {name} {cycles:,.1f} cycles{state}"))
        lines.append(line(place, name, x, y, points, strong=of == "mean"))
    return Chart("Latency of packets over the offered rate", x, y, lines, limits=limits)


def _accepted(runs: Sequence[NocResult], x: Scale, limits: list[tuple[float, str]]) -> Chart:
    accepted = [
        (
            run.rate,
            run.accepted_flits_per_node_cycle,
            f"rate {run.rate:.4g}: {run.accepted_flits_per_node_cycle:.4g} accepted",
        )
        for run in runs
    ]
    top = max(run.rate for run in runs)
    y = linear("flits per rank and cycle", [top, *(each for _, each, _ in accepted)], HEIGHT * 0.7, "{:.4g}".format)
    ideal = [(rate, rate, "") for rate in (0.0, top)]
    lines = [line(0, "accepted", x, y, accepted), line(1, "offered", x, y, ideal, strong=False, marked=False)]
    return Chart("Accepted flits over the offered rate", x, y, lines, limits=limits)
