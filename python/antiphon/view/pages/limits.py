"""The page of ``limits``: the roofline of a collective, time and bandwidth over sizes below their lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from antiphon._core import format_bytes
from antiphon.collective.limited import Limits, SizeLimits
from antiphon.view.documents.limits import THINGS, limits_document, limits_verdict
from antiphon.view.pages.page import look
from antiphon.view.pages.plots import HEIGHT, WIDTH, Chart, Line, Scale, decades, line, sizes
from antiphon.view.pages.sheet import Section, sheet
from antiphon.view.text import format_bandwidth, format_time, platform


def render(found: Limits) -> str:
    """The page as text."""
    x = sizes("full buffer size", [size.bytes for size in found], WIDTH)
    bounds = found.bounds_ns
    times = [size.time_ns for size in found] + [ns for each in bounds.values() for ns in each]
    rates = [size.bytes / ns for size in found for ns in (size.time_ns, size.bound.time_ns) if ns]
    above = "Dots have the colour of what limits the best algorithm; the band above changes halfway between sizes."
    sections = [
        Section(
            "Time over sizes",
            f"No schedule is below the highest of the lines of lower bounds. {above}",
            [_chart(found, x, decades("time", times, HEIGHT, format_time), lambda _, ns: ns, format_time)],
        ),
        Section(
            "Bandwidth over sizes",
            f"Buffer size over time; no schedule is above the lowest of the lines of bounds. {above}",
            [_chart(found, x, decades("GB/s", rates, HEIGHT), lambda size, ns: size / ns, format_bandwidth)],
        ),
        Section("The limit at each size", shown=limits_document(found)),
    ]
    about = f"{found.collective} · system {platform(found.system, found.fidelity)}"
    tiles = [
        (size.limit.name, f"limits at {format_bytes(size.bytes)}; twice as good saves {size.limit.saved:.1%}")
        for size in (found.sizes[:1] + found.sizes[1:][-1:])
    ]
    return sheet(f"What limits {found.collective} on {found.fabric}", about, limits_verdict(found), sections, tiles)


def _chart(
    found: Limits, x: Scale, y: Scale, value: Callable[[int, float], float], text: Callable[[float], str]
) -> Chart:
    def points(of: list[tuple[SizeLimits, float]], what: str) -> list[tuple[float, float, str]]:
        at = [(size.bytes, value(size.bytes, ns)) for size, ns in of if ns]
        return [(bytes, each, f"{what} at {format_bytes(bytes)}: {text(each)}") for bytes, each in at]

    lines = [
        line(
            THINGS.index(name), f"bound by {name}", x, y, points(list(zip(found, ns, strict=True)), name), marked=False
        )
        for name, ns in found.bounds_ns.items()
    ]
    best = [(size, size.time_ns) for size in found]
    lines.append(line(len(THINGS), "best algorithm", x, y, points(best, "best"), marked=False))
    for place, name in enumerate(THINGS):
        dots: list[tuple[float, float, str]] = []
        for size in found:
            if size.limit.name == name and size.time_ns:
                at = value(size.bytes, size.time_ns)
                told = f"{size.algorithm} at {format_bytes(size.bytes)}: {text(at)}, limited by {name}"
                dots.append((x.place(size.bytes), y.pixels - y.place(at), told))
        if dots:
            # One corner alone draws no line.
            colour = look(place)["colour"]
            lines.append(Line("", colour, "", dots, corners=[dots[0][:2]]))
    middles = {high.bytes: sqrt(low.bytes * high.bytes) for low, high in zip(found, found.sizes[1:], strict=False)}
    changes = [(x.place(middles[size]), name) for size, _, name in found.changes]
    starts = [(0.0, found.sizes[0].limit.name), *changes]
    ends = [start for start, _ in changes] + [x.pixels]
    bands = [
        (start, end, look(THINGS.index(name))["colour"], name) for (start, name), end in zip(starts, ends, strict=True)
    ]
    return Chart(f"{y.title} of the best algorithm and lower bounds over sizes", x, y, lines, bands)
