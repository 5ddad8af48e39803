"""The page of an exploration: time over energy of every simulated design, the front, and each fabric's comparison."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from markupsafe import Markup

from antiphon._core import format_bytes
from antiphon.exploration.front import undominated
from antiphon.exploration.result import Exploration
from antiphon.studies.commands import SETTING
from antiphon.view.document import Document, Table, document
from antiphon.view.documents.exploration import fabrics_table, front_table, point_text, sensitivity_table
from antiphon.view.html import html
from antiphon.view.pages.page import look
from antiphon.view.pages.plots import HEIGHT, WIDTH, Chart, Line, Scale, decades
from antiphon.view.pages.sheet import Section, sheet
from antiphon.view.text import digits, format_energy, format_time

MOST_POINTS = 2000
"""Simulated designs on a page, those of the front first."""
MOST_FABRICS = 200
"""Fabrics whose comparisons a page has."""
RADII = (3.0, 9.0)
"""Of the designs with the least and the most area, in pixels."""
TICKS = 4
"""Parts of an axis that is not logarithmic."""
WIDE = 20.0
"""An axis whose largest value is so many times its least is logarithmic."""


def render(found: Exploration) -> str:
    """The page as text."""
    rows = found.points.rows()[:MOST_POINTS]
    groups = _groups(found, rows)
    sections = [Section("The front", shown=Document([front_table(found, found.front)]))]
    text = "Of a fabric that was not simulated, what it cannot be better than, behind a sign >."
    fabrics = replace(fabrics_table(found), title="")
    sections.append(Section("The fastest of each fabric", text, shown=Document([fabrics])))
    moved = sensitivity_table(found)
    if moved is not None:
        text = (
            "Each parameter by itself, times a factor that makes it twice as good; the designs of the front ran again."
        )
        sections.append(Section("What would move the front", text, shown=document(replace(moved, title=""))))
    if found.refusals:
        lines = [[f"{each.count:,}", each.name, each.algorithm, each.reason] for each in found.refusals]
        table = Table(("Designs:", "Fabric", "Algorithm", "Why"), lines)
        sections.append(Section("Without a result", shown=Document([table])))
    sizes = ", ".join(map(format_bytes, found.sizes))
    tiles = [
        (f"{found.designs:,}", "designs in the space"),
        (f"{found.simulated:,}", "were proven and simulated"),
        (f"{found.pruned:,}", "were left out by their bounds"),
        (f"{len(found.front):,}", "are on the front"),
    ]
    return sheet(
        f"Exploration of {found.name}",
        f"{' and '.join(found.collectives)} of {sizes} · system {found.system}, fidelity {found.fidelity}",
        _verdict(found),
        sections,
        tiles,
        template="exploration.html",
        **_scatter(rows, groups),
        comparisons=[
            {"anchor": anchor, "title": title, "body": _comparison(found, title, members)}
            for anchor, title, members in groups[:MOST_FABRICS]
        ],
    )


def _verdict(found: Exploration) -> str:
    front = found.front
    text = Markup("<strong>{:,} of {:,} designs</strong> are beaten by no other.").format(len(front), found.designs)
    for key, what, shown in (
        ("time_ns", "The fastest", format_time),
        ("energy_j", "The one with least energy", format_energy),
        ("area_mm2", "The one with least area", lambda area: f"{digits(area)} mm2"),
    ):
        best = min(front, key=lambda row, key=key: float(row[key]), default=None)  # type: ignore[misc]
        if best is not None:
            text += f" {what} is {best['algorithm']} on {best['fabric']}: {shown(best[key])}."
    return text


Group = tuple[str, str, list[Mapping[str, Any]]]
"""An anchor, a title and designs that differ in their algorithm alone."""


def _groups(found: Exploration, rows: Sequence[Mapping[str, Any]]) -> list[Group]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_where(found, row), []).append(row)
    named = []
    for number, members in enumerate(groups.values(), 1):
        row = members[0]
        values = [f"{key} {row[key]}" for key in found.front_columns if _is_known(row.get(key))]
        named.append((f"c{number}", " · ".join([f"{row['name']}: {row['fabric']}", *values]), members))
    return named


def _where(found: Exploration, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["fabric"], *(str(row.get(key)) for key in found.front_columns))


def _is_known(value: Any) -> bool:
    return value is not None and value == value and value != ""


def _scatter(rows: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> dict[str, Any]:
    """What the template draws: axes, a circle for each design, and the front in time and energy."""
    if not rows:
        return {"chart": None, "circles": [], "names": []}
    x = _axis("energy", [row["energy_j"] for row in rows], WIDTH, format_energy)
    y = _axis("time", [row["time_ns"] for row in rows], HEIGHT, format_time)
    anchors = {id(row): anchor for anchor, _, members in groups[:MOST_FABRICS] for row in members}
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    areas = [row["area_mm2"] for row in rows]
    low, high = math.sqrt(min(areas)), math.sqrt(max(areas))
    circles = [
        {
            "x": x.place(row["energy_j"]),
            "y": y.pixels - y.place(row["time_ns"]),
            "radius": RADII[0] + (RADII[1] - RADII[0]) * (math.sqrt(row["area_mm2"]) - low) / ((high - low) or 1.0),
            "colour": look(names.index(row["name"]))["colour"],
            "on": row["on_front"],
            "text": point_text(row),
            "anchor": anchors.get(id(row), ""),
        }
        for row in reversed(rows)
    ]
    pairs = [(row["time_ns"], row["energy_j"]) for row in rows if row["on_front"]]
    flat = [pair for pair, is_on in zip(pairs, undominated(pairs), strict=True) if is_on]
    corners = [(x.place(joules), y.pixels - y.place(ns)) for ns, joules in sorted(flat)]
    line = Line("", "var(--accent)", "", [], corners=corners, marked=False)
    chart = Chart("Time of every simulated design over its energy", x, y, [line])
    legend = [(name, look(place)["colour"]) for place, name in enumerate(names)]
    return {"chart": chart, "circles": circles, "names": legend}


def _axis(title: str, values: Sequence[float], pixels: float, text: Callable[[float], str]) -> Scale:
    """From a little below the least value to a little above the largest; logarithmic where they are far apart."""
    low, high = min(values), max(values)
    if low > 0 and high > WIDE * low:
        return decades(title, values, pixels, text)
    room = 0.06 * (high - low) or 0.06 * high or 1.0
    low, high = max(low - room, 0.0), high + room
    ticks = [(pixels * part / TICKS, text(low + (high - low) * part / TICKS)) for part in range(TICKS + 1)]
    return Scale(title, low, high, pixels, False, ticks)


def _comparison(found: Exploration, title: str, members: Sequence[Mapping[str, Any]]) -> str:
    """The algorithms on a fabric, and how the runs of its designs are made again: a line for each workload."""
    where = _where(found, members[0])
    others = [row for row in found.every.rows() if row["state"] == "pruned" and _where(found, row) == where]
    ranked = sorted(members, key=lambda row: float(row["time_ns"]))
    lines = [
        [row["algorithm"], format_time(row["time_ns"]), format_energy(row["energy_j"]), _ending(row)] for row in ranked
    ]
    for row in others:
        least = format_time(row["least_time_ns"]), format_energy(row["least_energy_j"])
        lines.append([row["algorithm"], *(f"> {each}" for each in least), "not simulated"])
    table = Table(("Algorithm", "Time:", "Energy:", ""), lines)
    best = ranked[0]
    keys = [key for key in found.front_columns if key.startswith(SETTING) and _is_known(best.get(key))]
    settings = [word for key in keys for word in ("--set", f"{key.removeprefix(SETTING)}={_given(best[key])}")]
    words = ["--algorithms", ",".join(str(row["algorithm"]) for row in ranked), "--system", found.system, *settings]
    words += ["--fidelity", found.fidelity, "--energy"]
    commands = "\n".join(
        shlex.join(
            ["antiphon", "compare", str(best["fabric"]), "--collective", kind, "--bytes", format_bytes(size), *words]
        )
        for kind, size in product(found.collectives, found.sizes)
    )
    cost = f"{digits(best['area_mm2'])} mm2 of routers, {digits(best['io_gb_per_s'])} GB/s a node"
    return Markup("<p>{}</p>").format(cost) + Markup(html(Document([table]))) + Markup("<pre>{}</pre>").format(commands)


def _given(value: Any) -> str:
    """The value of a parameter as ``--set`` takes it; whole numbers may be beside others in a table."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _ending(row: Mapping[str, Any]) -> str:
    return "on the front" if row["on_front"] else f"misses {row['misses']}" if row["misses"] else ""
