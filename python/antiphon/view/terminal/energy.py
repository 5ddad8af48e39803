"""Energy and area on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Column, Table

from antiphon.results import Area, Energy
from antiphon.results.energy import PARTS
from antiphon.view.terminal.console import open_console, print_columns, right_aligned
from antiphon.view.text import digits, format_energy, format_power

STATIC = 4
"""Static powers of a system."""


def energy_rows(energy: Energy) -> list[tuple[str, str]]:
    """Labels and values for a table of one run."""
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


def print_energies(console: Console, energies: Sequence[tuple[str, Energy | None]], title: str) -> None:
    """A row for each run that knows its energy, under its name."""
    known = [(name, energy) for name, energy in energies if energy is not None]
    if not known:
        return
    parts = [part.capitalize() for part in PARTS]
    names = ("Energy", "Of least", *parts, "Static", "Mean power", "Peak power", "Energy x delay")
    rows = []
    for name, energy in known:
        spent = [_shown(energy, part) for part in (*PARTS, "static")]
        least = "-" if not energy.lower_bound_aj else f"{energy.lower_bound_aj / energy.total_aj:.1%}"
        powers = (format_power(energy.average_power_w), format_power(energy.peak_power_w))
        rows.append((name, format_energy(energy.total_j), least, *spent, *powers, f"{energy.energy_delay_js:.3g} Js"))
    print_columns(console, [""], names, rows, f"{title} (system {known[0][1].system})")
    print_unknown(console, known[0][1])


def print_unknown(console: Console, energy: Energy | None) -> None:
    """What counts as nothing since nobody has published it."""
    if energy is not None and energy.unknown:
        text = f"Unknown, counted as nothing: {', '.join(energy.unknown)} (--set gives them; docs/energy.md)"
        console.print(text, style="dim", soft_wrap=True)


def print_area(fabric: str, area: Area) -> None:
    """A row for each part."""
    console = open_console()
    table = Table(
        "Part",
        right_aligned("Count"),
        right_aligned("Area of one"),
        right_aligned("All"),
        right_aligned("Power of one"),
        Column("Source", overflow="fold"),
        title=f"Area on {fabric}: routers with {area.ports} ports",
    )
    for row in area.parts.rows():
        power = "" if math.isnan(row["power_mw"]) else format_power(row["power_mw"] * 1e-3)
        table.add_row(
            row["part"],
            f"{row['count']:,}",
            f"{digits(row['area_um2'])} µm²",
            f"{digits(row['count'] * row['area_um2'] * 1e-6)} mm²",
            power,
            row["source"],
        )
    console.print(table)
    console.print(f"All together: {area.total_mm2:,.3f} mm²")
