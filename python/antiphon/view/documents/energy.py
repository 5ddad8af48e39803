"""Energy and area."""

from __future__ import annotations

import math
from collections.abc import Sequence

from antiphon.results import Area, Energy, FabricCost
from antiphon.results.energy import PARTS
from antiphon.view.document import Document, Note, Table, dim, document, table_of
from antiphon.view.text import digits, format_bandwidth, format_energy, format_power

STATIC = 4
"""Static powers of a system."""


def energy_facts(energy: Energy | None) -> list[tuple[str, str]]:
    """Labels and values for the table of one run."""
    if energy is None:
        return []
    dynamic = energy.dynamic_aj or 1
    parts = [(part, getattr(energy, f"{part}_aj")) for part in PARTS]
    shares = ", ".join(f"{part} {share / dynamic:.0%}" for part, share in parts if share)
    least = energy.lower_bound_j
    bound = "" if least is None else f"; the least possible is {format_energy(least)}"
    return [
        ("Energy", f"{format_energy(energy.total_j)}{bound}"),
        ("Dynamic", f"{format_energy(energy.dynamic_aj * 1e-18)}: {shares or 'nothing'}"),
        ("Static", _shown(energy, "static")),
        ("Power, mean / peak", f"{format_power(energy.average_power_w)} / {format_power(energy.peak_power_w)}"),
        ("Energy-delay product", f"{energy.energy_delay_js:.3g} Js"),
    ]


def _shown(energy: Energy, part: str) -> str:
    """A part; ``unknown`` where nothing of it is known."""
    attojoules: int = getattr(energy, f"{part}_aj")
    of = "static_" if part == "static" else f"energy_{part.rstrip('s')}_"
    unknown = len([key for key in energy.unknown if key.startswith(of)]) == (STATIC if part == "static" else 1)
    return "unknown" if unknown and not attojoules else format_energy(attojoules * 1e-18)


def energies(of: Sequence[tuple[str, Energy | None]], title: str) -> list[Table | Note]:
    """A row for each run that knows its energy, under its name."""
    known = [(name, energy) for name, energy in of if energy is not None]
    if not known:
        return []
    parts = (*PARTS, "static")
    rows = [
        {"name": name, "of": energy, "least": share_of_least(energy)} | {part: _shown(energy, part) for part in parts}
        for name, energy in known
    ]
    table = table_of(
        rows,
        "{name} | Energy: {of.total_j} | Of least: {least} | "
        + " | ".join(f"{part.capitalize()}: {{{part}}}" for part in parts)
        + " | Mean power: {of.average_power_w} | Peak power: {of.peak_power_w}"
        " | Energy x delay: {of.energy_delay_js:.3g} Js",
        f"{title} (system {known[0][1].system})",
    )
    return [table, *unknown(known[0][1])]


def share_of_least(energy: Energy | None) -> str:
    """The least possible energy over that of the run."""
    return f"{energy.lower_bound_aj / energy.total_aj:.1%}" if energy and energy.lower_bound_aj else "-"


def unknown(energy: Energy | None) -> list[Note]:
    """What counts as nothing since nobody has published it."""
    if energy is None or not energy.unknown:
        return []
    unknown = ", ".join(energy.unknown)
    return dim(f"Unknown, counted as nothing: {unknown} (--set gives them; docs/explanation/energy.md)")


def cost_text(cost: FabricCost) -> str:
    """What a fabric costs to build, in a line."""
    rate, io = format_bandwidth(cost.link_gb_per_s), format_bandwidth(cost.io_gb_per_s)
    ports = f"{cost.ports} ports of up to {rate}, {io} a node"
    edge = f"{cost.beachfront_mm:.3g} mm of edge"
    wires = f"{cost.links} links"
    if cost.wire_mm is not None:
        wires += f" of {cost.wire_mm:,.4g} mm together, the longest {cost.longest_link_mm:.4g} mm"
    across = cost.bisection_gb_per_s
    middle = "" if across is None else f"; {format_bandwidth(across)} across the middle"
    return f"Cost: {ports} ({edge}); {wires}{middle}; routers {cost.area_mm2:,.3f} mm²"


def area_document(fabric: str, area: Area, cost: FabricCost) -> Document:
    """A row for each part, and what the fabric costs besides."""
    parts = table_of(
        area.parts.rows(),
        "Part {part} | Count: {count} | Area of one: {one} µm² | All: {all} mm² | Power of one: {power}"
        " | Source {source}",
        f"Area on {fabric}: routers with {area.ports} ports",
        one=lambda row: digits(row["area_um2"]),
        all=lambda row: digits(row["count"] * row["area_um2"] * 1e-6),
        power=lambda row: "" if math.isnan(row["power_mw"]) else format_power(row["power_mw"] * 1e-3),
    )
    return document(
        parts,
        f"All together: {area.total_mm2:,.3f} mm²",
        f"{cost_text(cost)}, each as wide as the fastest link needs",
    )
