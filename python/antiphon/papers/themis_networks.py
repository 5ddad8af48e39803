"""Tables 1 and 2 of the Themis paper, and its scenarios of section 6.3: what networks are good for."""

from __future__ import annotations

import re
from collections.abc import Mapping

import antiphon
from antiphon.papers.model import Bar, Bars, Experiment, Line, Lines, Numbers, Outcome, Results, Row, Style, published
from antiphon.papers.themis_schedulers import BASELINE, EXACT, MB, PAPER, SCF, SEARCH, SINGLE, TOPOLOGIES, row
from antiphon.study import RailsPoint

# --- Table 1 ------------------------------------------------------------------------------------

KINDS = {"ring": "ring", "fc": "direct", "sw": "halving-doubling"}
"""Dimensions, and their basic algorithm."""
LATENCY_NS = 1000


def _steps_of(kind: str) -> RailsPoint:
    """So few bytes on so fast a dimension that only the latency of steps is left."""
    return BASELINE.run(f"{kind}8@100000/{LATENCY_NS}ns", 8, 1)


def _table1_points(_quick: bool) -> list[RailsPoint]:
    return [_steps_of(kind) for kind in KINDS]


def _table1(results: Results, _quick: bool) -> Outcome:
    rows = []
    for kind, algorithm in KINDS.items():
        what = f"{kind}, 8 NPUs: steps of an AllReduce"
        steps = results[_steps_of(kind)]["time_ns"] / LATENCY_NS
        rows.append(row("table1", algorithm, what, "steps", steps, what, EXACT))
    return Outcome(rows)


# --- Table 2 ------------------------------------------------------------------------------------

DIMENSION = re.compile(r"(ring|fc|sw)(\d+)@([\d.]+)/([\d.]+)ns")


def _table2(_results: Results, _quick: bool) -> Outcome:
    presets = dict(antiphon.rails_topologies())
    rows = []
    groups: dict[str, list[Bar]] = {}
    for each in published(PAPER, "topologies"):
        name, number = each["name"], int(each["dimension"])
        kind, *values = DIMENSION.findall(presets[name])[number - 1]
        size, rate, latency = map(float, values)
        for what, unit, ours, column in (
            ("size", "NPUs", size, "size"),
            ("rate", "Gb/s", rate, "gbit_per_s"),
            ("latency", "ns", latency, "latency_ns"),
        ):
            paper = float(each[column]) if kind == each["kind"] else None
            rows.append(Row(name, f"dim{number} ({kind}), {what}", unit, ours, paper, tolerance=EXACT))
        groups.setdefault(name.replace("-", "-\n", 1), []).append(
            Bar(f"dim{number}", [rate], float(each["gbit_per_s"]))
        )
    for name in TOPOLOGIES:
        rows.append(Row(name, "all dimensions", "NPUs", float(antiphon.advise_rails(name).npus), 1024, tolerance=EXACT))
    return Outcome(rows, [Bars("Rate of an NPU into each dimension", "Gb/s", ["rate"], groups)])


# --- Section 6.3 --------------------------------------------------------------------------------

NEAR_NPUS, NEAR_GBIT = 16, 800
RATIOS = (1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Rates of the second dimension over what is just enough."""
CURRENT = "2D-current"
BOUND = "Bound of any scheduler"
NETWORK_STYLES: Mapping[str, Style] = {BOUND: Style("#1b2230", "", dashed=True)}
SHOWN = (BASELINE, SCF, SEARCH)


def _network(ratio: float) -> str:
    return f"sw{NEAR_NPUS}@{NEAR_GBIT}/700ns,sw8@{NEAR_GBIT / NEAR_NPUS * ratio:g}/1700ns"


def _scenario_points(_quick: bool) -> list[RailsPoint]:
    networks = [*map(_network, RATIOS), CURRENT]
    return [series.run(network, 1000 * MB) for network in networks for series in SHOWN]


def _scenarios(results: Results, _quick: bool) -> Outcome:
    rows = []
    numbers: Numbers = {}
    for ratio in RATIOS:
        advice = antiphon.advise_rails(_network(ratio))
        numbers[BOUND, str(ratio)] = 100 * advice.utilization_bound
        for series in SHOWN:
            numbers[series.name, str(ratio)] = 100 * results[series.run(_network(ratio), 1000 * MB)]["utilization"]
        numbers["advice", str(ratio)] = float(advice.pairs["ratio"][0])
        what = f"{advice.pairs['provision'][0]}: {ratio:g} of just enough"
        for name in (*(series.name for series in SHOWN), BOUND):
            rows.append(Row(name, what, "%", numbers[name, str(ratio)]))
    orders = results[SCF.run(_network(1.0), 1000 * MB)]["orders"]
    numbers["turned",] = float(sum(order["first"] != [1, 2] for order in orders))
    for name in TOPOLOGIES:
        advice = antiphon.advise_rails(name)
        numbers[BOUND, name] = 100 * advice.utilization_bound
        rows.append(Row(BOUND, name, "%", numbers[BOUND, name]))
        least = min(zip(advice.pairs["ratio"], advice.pairs["near"], advice.pairs["far"], strict=True))
        numbers["least ratio", name] = float(least[0])
        rows.append(Row("Least rate over just enough", f"{name}: dim{least[1]} to dim{least[2]}", "×", float(least[0])))
    second = results[BASELINE.run(CURRENT, 1000 * MB)]["dimensions"][1]
    what = f"{CURRENT}: rate of dim2 that the baseline uses"
    note = "The paper leaves the factors (P - 1)/P out of its estimate."
    used = 100 * second["utilization"]
    rows.append(row("scenarios", BASELINE.name, what, "Gb/s", used, what, SINGLE, note))
    lines = [
        Line(name, RATIOS, [numbers[name, str(ratio)] for ratio in RATIOS], marked=name != BOUND)
        for name in (*(series.name for series in SHOWN), BOUND)
    ]
    ticks = [(ratio, f"{ratio:g}") for ratio in RATIOS]
    label = "rate of dim2 over what is just enough"
    return Outcome(rows, [Lines("16x8 NPUs, 1 GB", label, "utilization, %", lines, ticks, y_max=103)], numbers)


TABLE_1 = Experiment(
    "table1",
    "Table 1. Basic algorithms",
    "Steps of an AllReduce alone in a dimension, from the time of one of eight bytes, which is latency only.",
    _table1_points,
    _table1,
)
TABLE_2 = Experiment(
    "table2",
    "Table 2. Topologies",
    "What our presets hold beside the paper's table: sizes, rates and latencies of every dimension.",
    lambda _quick: [],
    _table2,
    columns=1,
)
SCENARIO = Experiment(
    "scenarios",
    "Section 6.3. Just enough, over- and under-provisioned",
    "The paper describes three ways in which the rates of two dimensions stand to each other, without numbers. Here the"
    f" second dimension of 16x8 NPUs goes from a quarter of what is just enough (dim1's rate over {NEAR_NPUS}) to 16"
    " times that. “antiphon advise rails” names the scenario and the bound from the rates alone.",
    _scenario_points,
    _scenarios,
    columns=1,
)
