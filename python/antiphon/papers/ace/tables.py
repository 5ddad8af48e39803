"""Tables III to VI of the ACE paper: its parameters, and what an engine takes."""

from __future__ import annotations

import re

import antiphon
from antiphon._core import engine_parts
from antiphon.papers.ace.runs import ACE, DATA, SHAPES
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry

# --- Tables III, V and VI -----------------------------------------------------------------------

ENDPOINTS = {each: each for each in antiphon.endpoints()}
DIMENSIONS = antiphon.rails(f"ace:{SHAPES[64]}", 1, scheduler="phased").dimensions["spec"]
CLOCK_GHZ, EFFICIENCY, WAYS = 1.245, 0.94, 2
"""Of which the rate of a dimension is: one link each way."""
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


def _parameter(case: Entry) -> Entry:
    """What ours is, from the option of an endpoint or the dimension of a topology."""
    of, option = case["of"], case["option"]
    found: Entry = {"stated": float(case["value"])}
    if of.startswith("dim"):
        gbit, latency = map(float, re.findall(r"@([\d.]+)/([\d.]+)ns", DIMENSIONS[int(of[3:]) - 1])[0])
        return found | {"ours": gbit / 8 / EFFICIENCY / WAYS if option == "rate" else latency * CLOCK_GHZ}
    preset = dict(pair.split("=") for pair in re.findall(r"\w+=[\w.]+", ENDPOINTS[of].example))
    text = preset.get(option) or next(each.default for each in ENDPOINTS[of].options if each.key == option)
    number = antiphon.parse_bytes(text) if text[-1] == "B" else float(text)
    return found | {"ours": number / UNITS.get(case["unit"], 1)}


# --- Table IV -----------------------------------------------------------------------------------

V100_MM2, V100_W = 815, 300
"""The accelerator that the paper models: NVIDIA's data sheet of the V100."""


def _part(case: Entry) -> Entry:
    """What the engine of the endpoint ``ace`` has."""
    _, area, power = next(part for part in engine_parts(ACE.run) if part[0] == case["part"])
    count = int(case["count"])
    stated = {"stated area": count * float(case["area_um2"]), "stated power": count * float(case["power_mw"])}
    shares = {"area share": 100 * area / 1e6 / V100_MM2, "power share": 100 * power / 1e3 / V100_W}
    return {"area": area, "power": power} | shares | stated


FIGURES = (Figure(DATA, "tables", _parameter), Figure(DATA, "table4", _part))
