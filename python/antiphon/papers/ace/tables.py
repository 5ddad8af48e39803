"""Tables III to VI of the ACE paper: its parameters, and what an engine takes."""

from __future__ import annotations

import re

import antiphon
from antiphon._core import engine_parts
from antiphon.papers.ace.runs import ACE, DATA, SHAPES
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Rows
from antiphon.repro.table import Entry, Table

ENDPOINTS = {str(each): each for each in antiphon.endpoints()}
DIMENSIONS = antiphon.rails(f"ace:{SHAPES[64]}", 1, scheduler="phased").dimensions["spec"]
CLOCK_GHZ, EFFICIENCY, WAYS = 1.245, 0.94, 2
"""Of which the rate of a dimension is: one link each way."""
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


def _ours(of: str, option: str, unit: str) -> float:
    """What ours is, from the option of an endpoint or the dimension of a topology."""
    if of.startswith("dim"):
        gbit, latency = map(float, re.findall(r"@([\d.]+)/([\d.]+)ns", DIMENSIONS[int(of[3:]) - 1])[0])
        return gbit / 8 / EFFICIENCY / WAYS if option == "rate" else latency * CLOCK_GHZ
    preset = dict(pair.split("=") for pair in re.findall(r"\w+=[\w.]+", ENDPOINTS[of].example))
    text = preset.get(option) or next(each.default for each in ENDPOINTS[of].options if each.key == option)
    number = antiphon.parse_bytes(text) if text[-1] == "B" else float(text)
    return number / UNITS.get(unit, 1)


def tables(_quick: bool) -> Steps:
    """Parameters."""
    yield []
    given: list[Entry] = [*DATA.table("parameters")]
    table = Table(e | {"ours": _ours(e["of"], e["option"], e["unit"])} for e in given)
    rows = Rows(DATA, "tables")
    for e in table:
        note = DATA.texts["message"] if (e["table"], e["what"]) == ("III", "Message") else ""
        rows.add(e, e["unit"], e["ours"], e["table"], paper=float(e["value"]), note=note, kind="input")
    return Outcome(table, rows)


V100_MM2, V100_W = 815, 300
"""The accelerator that the paper models: NVIDIA's data sheet of the V100."""


def table4(_quick: bool) -> Steps:
    """What the engine of the endpoint ``ace`` has."""
    yield []
    sizes = {part: (area, power) for part, area, power in engine_parts(ACE.run)}
    table = Table()
    for case in DATA.table("table4"):
        (area, power), count = sizes[case["part"]], int(case["count"])
        stated = {"stated area": count * float(case["area_um2"]), "stated power": count * float(case["power_mw"])}
        shares = {"area share": 100 * area / 1e6 / V100_MM2, "power share": 100 * power / 1e3 / V100_W}
        found = {"what": f"{case['count']} × {case['component']}", "area": area, "power": power}
        table.append(case | found | shares | stated)
    rows = Rows(DATA, "table4")
    for what, unit in (("area", "µm²"), ("power", "mW")):
        for e in table:
            rows.add(e, unit, e[what], f"{what} of the parts", paper=e[f"stated {what}"], kind="input")
        total = table.values(what).total
        rows.add({}, unit, total, group="ACE", what=what, key=what)
    return Outcome(table, rows)
