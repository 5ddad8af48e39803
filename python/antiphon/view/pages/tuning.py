"""The page of ``tune``: time and bandwidth of every algorithm over sizes, and which is best where."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from antiphon._core import format_bytes
from antiphon.collective.choices import Candidate, Tuning
from antiphon.view.documents.collective import tuning_document
from antiphon.view.pages.page import look
from antiphon.view.pages.plots import HEIGHT, WIDTH, Chart, Scale, decades, line, linear, sizes
from antiphon.view.pages.sheet import Section, sheet
from antiphon.view.text import format_bandwidth, format_energy, format_time, platform

OBJECTIVES = {"time": "the fastest", "energy": "the one with least energy", "edp": "the one with least energy-delay"}
"""What the best is, by what was to be least."""


def render(tuning: Tuning) -> str:
    """The page as text."""
    names = _names(tuning)
    x = sizes("full buffer size", [choice.bytes for choice in tuning], WIDTH)
    timed = [(each.time_ns, each.algorithm) for choice in tuning for each in choice.ranking]
    y = decades("time", [ns for ns, _ in timed], HEIGHT, format_time)
    rates = [choice.bytes / max(each.time_ns, 1e-3) for choice in tuning for each in choice.ranking]
    bandwidth = linear("GB/s", rates, HEIGHT)
    sections = [
        Section(
            "Time over sizes",
            "Lower is better; both axes are logarithmic. The band above the lines names the best of each range.",
            [_chart(tuning, names, x, y, lambda size, each: each.time_ns, format_time)],
        ),
        Section(
            "Bandwidth over sizes",
            "Buffer size over time; higher is better.",
            [_chart(tuning, names, x, bandwidth, lambda size, each: size / max(each.time_ns, 1e-3), format_bandwidth)],
        ),
    ]
    if all(each.energy for choice in tuning for each in choice.ranking):
        joules = [each.energy.total_j for choice in tuning for each in choice.ranking if each.energy]
        scale = decades("energy", joules, HEIGHT, format_energy)
        energy = _chart(
            tuning, names, x, scale, lambda _, each: each.energy.total_j if each.energy else 0, format_energy
        )
        sections.append(Section("Energy over sizes", "Lower is better; both axes are logarithmic.", [energy]))
    sections.append(Section("The best at each size", shown=tuning_document(tuning)))
    last = tuning.choices[-1]
    share = "" if last.efficiency is None else f"{last.efficiency:.1%} of the lower bound's speed"
    tiles = [
        (str(len(tuning)), f"sizes, {format_bytes(tuning.choices[0].bytes)} to {format_bytes(last.bytes)}"),
        (str(len(names)), "algorithms were timed"),
        (
            format_bandwidth(last.algorithm_bandwidth_gb_per_s),
            f"at {format_bytes(last.bytes)}" + (share and f", {share}"),
        ),
    ]
    about = f"every algorithm with its best chunks · system {platform(tuning.system, tuning.fidelity)}"
    return sheet(f"{tuning.collective} on {tuning.fabric}, size by size", about, _verdict(tuning), sections, tiles)


def _names(tuning: Tuning) -> list[str]:
    """The algorithms without options, those that are best somewhere first."""
    best = [_name(choice.best) for choice in tuning]
    return list(dict.fromkeys(best + [_name(each) for choice in tuning for each in choice.ranking]))


def _name(candidate: Candidate) -> str:
    return candidate.algorithm.partition(":")[0]


def ranges(tuning: Tuning) -> list[tuple[int, str]]:
    """From which size on which algorithm is best, whatever its options.

    >>> from antiphon import tune
    >>> ranges(tune("ring:4", sizes="1KiB,64MiB", algorithms="ring,ring-bi", fidelity="alpha-beta"))[-1][1]
    'ring-bi'
    """
    found = [(tuning.choices[0].bytes, _name(tuning.choices[0].best))]
    if tuning.left_out:  # then crossovers are not known
        pairs = zip(tuning.choices, tuning.choices[1:], strict=False)
        found += [(high.bytes, _name(high.best)) for low, high in pairs if _name(low.best) != _name(high.best)]
    return found + [(size, after) for size, _, after in tuning.crossovers]


def _verdict(tuning: Tuning) -> str:
    what, changes = OBJECTIVES[tuning.objective], ranges(tuning)
    first = Markup("<strong>{}</strong>").format(changes[0][1])
    if len(changes) == 1:
        where = "at every size" if len(tuning) > 1 else f"at {format_bytes(changes[0][0])}"
        return first + f" is {what} {where}."
    others = [
        Markup("from about {} on <strong>{}</strong>").format(format_bytes(size), name) for size, name in changes[1:]
    ]
    return first + f" is {what} for small buffers, " + Markup(", ").join(others) + "."


def _chart(
    tuning: Tuning,
    names: list[str],
    x: Scale,
    y: Scale,
    value: Callable[[int, Candidate], float],
    text: Callable[[float], str],
) -> Chart:
    changes = ranges(tuning)
    winners = {name for _, name in changes}
    points: dict[str, list[tuple[float, float, str]]] = {name: [] for name in names}
    for choice in tuning:
        for each in choice.ranking:
            at = value(choice.bytes, each)
            told = f"{each.algorithm} at {format_bytes(choice.bytes)}: {text(at)}"
            points[_name(each)].append((choice.bytes, at, told))
    ends = [x.place(size) for size, _ in changes[1:]] + [x.pixels]
    starts = [0.0, *ends]
    bands = [
        (start, end, look(names.index(name) if name in names else 0)["colour"], name)
        for (_, name), start, end in zip(changes, starts, ends, strict=False)
    ]
    lines = [line(place, name, x, y, points[name], strong=name in winners) for place, name in enumerate(names)]
    return Chart(f"{y.title} of every algorithm over sizes", x, y, lines, bands)
