"""Explorations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any

from antiphon._core import format_bytes
from antiphon.view.document import Document, Table, document, left_out, more, table_of
from antiphon.view.text import digits, format_energy, format_time

if TYPE_CHECKING:
    from antiphon.exploration.result import Exploration

MOST_ROWS = 40
"""Of a table."""
LONGEST_SPEC = 80
"""Specifications are cut where they are longer."""


def exploration_document(found: Exploration) -> Document:
    """The front, what would move it, and what became of the other designs."""
    front = found.front
    sizes = ", ".join(map(format_bytes, found.sizes))
    title = f"{' and '.join(found.collectives)} of {sizes} (system {found.system}, {found.fidelity})"
    counts = (
        f"{found.designs:,} designs: {found.simulated:,} simulated, {found.pruned:,} left out by their bounds,"
        f" {found.over:,} miss a constraint, {found.refused:,} have no result"
        + (f"; {found.repeated:,} more repeat others, as axes give values twice" if found.repeated else "")
    )
    refused = [
        f"{each.count:,} x {' '.join(filter(None, (each.name, each.algorithm)))}: {each.reason}"
        for each in found.refusals[:MOST_ROWS]
    ]
    return document(
        front_table(found, front[:MOST_ROWS], f"{title}: the front of time, energy and area"),
        more(len(front), MOST_ROWS),
        fabrics_table(found),
        counts,
        sensitivity_table(found),
        left_out(refused, "Without a result:"),
        more(len(found.refusals), MOST_ROWS),
    )


def front_table(found: Exploration, rows: list[dict[str, Any]], title: str = "") -> Table:
    """Designs, a row each; what varies among them has columns."""
    columns = [key for key in found.front_columns if len({row.get(key) for row in rows}) > 1]
    varying = "".join(f"{key.removeprefix('set.')} {{value{place}}} | " for place, key in enumerate(columns))
    return table_of(
        rows,
        f"Fabric {{name}} | {varying}Algorithm {{algorithm}} | Time: {{time_ns}} | Energy: {{energy_j}}"
        " | Area: {area} | I/O: {io} | Link: {link} | Longest wire: {longest}",
        title,
        without=[] if any(not isnan(row["longest_link_mm"]) for row in rows) else ["Longest wire:"],
        area=lambda row: f"{digits(row['area_mm2'])} mm2",
        io=lambda row: f"{digits(row['io_gb_per_s'])} GB/s",
        link=lambda row: f"{digits(row['link_gb_per_s'])} GB/s",
        longest=lambda row: "" if isnan(row["longest_link_mm"]) else f"{digits(row['longest_link_mm'])} mm",
        **{f"value{place}": partial(_value, key) for place, key in enumerate(columns)},
    )


def fabrics_table(found: Exploration) -> Table:
    """The fastest design of each fabric; of one that was not simulated, what it cannot be faster than.

    Of equally fast ones it is that with the least energy, then area.
    """
    best: dict[str, dict[str, Any]] = {}
    ended = [row for row in found.every.rows() if row["state"] in ("simulated", "pruned")]
    for row in sorted(ended, key=lambda row: row["state"], reverse=True):  # what was simulated first
        is_timed = row["state"] == "simulated"
        at, energy_j = (row[key if is_timed else f"least_{key}"] for key in ("time_ns", "energy_j"))
        figures = (at, energy_j, row["area_mm2"])
        known = best.get(row["name"])
        if known is None or (figures < known["figures"] and known["is_timed"] == is_timed):
            texts = [f"{'' if is_timed else '> '}{text}" for text in (format_time(at), format_energy(energy_j))]
            best[row["name"]] = row | {"figures": figures, "is_timed": is_timed, "time": texts[0], "energy": texts[1]}
    return table_of(
        sorted(best.values(), key=lambda row: row["figures"]),
        "Fabric {name} | Algorithm {algorithm} | Time: {time} | Energy: {energy} | Area: {area} | On the front: {front}"
        f" | Specification {{fabric:.{LONGEST_SPEC}}}",
        "The fastest of each fabric",
        algorithm=lambda row: row["algorithm"] if row["is_timed"] else "none simulated",
        area=lambda row: f"{digits(row['area_mm2'])} mm2",
        front=lambda row: f"{sum(each['name'] == row['name'] for each in found.front)}",
    )


def sensitivity_table(found: Exploration) -> Table | None:
    """How good the front would be."""
    if not found.sensitivity:
        return None
    front = found.front
    best = {key: min(row[key] for row in front) for key in ("time_ns", "energy_j")}
    return table_of(
        found.sensitivity.rows(),
        "Parameter {parameter} | Times: {factor:g} | Least time: {time_ns} | Change: {faster}"
        " | Least energy: {energy_j} | Change of energy: {lower} | Fastest {algorithm}"
        f" on {{fabric:.{LONGEST_SPEC}}}",
        "What would move the front",
        faster=lambda row: f"{row['time_ns'] / best['time_ns'] - 1:+.1%}",
        lower=lambda row: f"{row['energy_j'] / best['energy_j'] - 1:+.1%}",
    )


def _value(key: str, row: Mapping[str, Any]) -> str:
    value = row[key]
    return "" if value != value else str(value)


def point_text(row: Mapping[str, Any]) -> str:
    """A design in a line."""
    figures = f"{format_time(row['time_ns'])}, {format_energy(row['energy_j'])}, {digits(row['area_mm2'])} mm2"
    return f"{row['algorithm']} on {row['fabric']}: {figures}"
