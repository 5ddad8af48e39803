"""Tables 1 and 2, Figures 5 and 8 to 11 and section 6.3 of the Themis paper: networks, and AllReduce alone."""

from __future__ import annotations

import re
from itertools import pairwise, product
from statistics import fmean

import antiphon
from antiphon.repro.charts import Block, Line
from antiphon.repro.claims import POINTS, Cells, Judged, Tables, listed, share, verdict
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry, Table
from antiphon.studies import RailsPoint, Record

DATA = Data("themis", tolerance=0.015)
"""Means over many runs agree within 1.5 %."""
MB = 1_000_000
CHUNKS = 64
TOPOLOGIES = tuple(dict.fromkeys(row["name"] for row in DATA.table("topologies")))
"""The six of Table 2."""
CURRENT = "2D-current"
BASELINE, FIFO, SCF, SCF_BEFORE, SEARCH, BOUND = DATA.named(
    "Baseline", "Themis+FIFO", "Themis+SCF", "Themis+SCF, size before", "Search", "Bound of any scheduler"
)
FULL = 95.0
"""Percent that count as the whole network."""


def run(series: Series, topology: str, size: int, chunks: int = CHUNKS, tables: tuple[str, ...] = ()) -> RailsPoint:
    """An AllReduce of so many bytes by a scheduler."""
    more = series.more
    return RailsPoint(topology, size, series.run, more["intra"] or None, chunks, more["fixed_delay"] == "yes", tables)


def wrapped(topology: str) -> str:
    """A name in two lines."""
    return topology.replace("-", "-\n", 1)


# --- Tables 1 and 2 -----------------------------------------------------------------------------

LATENCY_NS = 1000
"""So few bytes on so fast a dimension that only the latency of steps is left."""
PRESETS = {each.name: each for each in antiphon.rails_topologies()}
DIMENSION = re.compile(r"(ring|fc|sw)(\d+)@([\d.]+)/([\d.]+)ns")


def _preset(case: Entry) -> Entry:
    """What our preset has for a row of the table."""
    kind, *values = DIMENSION.findall(PRESETS[case["name"]].example)[int(case["dimension"]) - 1]
    npus = {"npus": float(antiphon.advise_rails(case["name"]).npus), "stated npus": 1024}
    found = npus | {"what": case["name"], "kind": kind, "wrapped": wrapped(case["name"])}
    for name, ours in zip(("size", "gbit_per_s", "latency_ns"), values, strict=True):
        found |= {name: float(ours), f"stated {name}": float(case[name]) if kind == case["kind"] else None}
    return found


def _latency_only(case: Entry) -> list[RailsPoint]:
    return [run(BASELINE, f"{case['kind']}8@100000/{LATENCY_NS}ns", 8, 1)]


# --- Section 6.3 --------------------------------------------------------------------------------

NEAR_NPUS, NEAR_GBIT = 16, 800


def _network(case: Entry) -> str:
    """Two dimensions, of which the second has so many times the rate that is just enough; or one of the paper's."""
    far = NEAR_GBIT / NEAR_NPUS * case.get("ratio", 0)
    return str(case.get("topology", f"sw{NEAR_NPUS}@{NEAR_GBIT}/700ns,sw8@{far:g}/1700ns"))


def _scenario_jobs(case: Entry) -> list[RailsPoint]:
    return [] if case["series"] is BOUND else [run(case["series"], _network(case), 1000 * MB)]


def _scenario(case: Entry, record: Record | None = None) -> Entry:
    advice = antiphon.advise_rails(_network(case))
    least, near, far = min(zip(*(advice.pairs[column] for column in ("ratio", "near", "far")), strict=True))
    found = {"ratio": 0, "topology": "", "advice": float(advice.pairs["ratio"][0]), "least": float(least)} | case
    found["what"] = f"{advice.pairs['provision'][0]}: {found['ratio']:g} of just enough"
    found["pair"] = f"dim{near} to dim{far}"
    if record is None:
        return found | {"utilization": 100 * advice.utilization_bound}
    return found | {
        "utilization": 100 * record["utilization"],
        "far": 100 * record["dimensions"][1]["utilization"],
        "turned": sum(order["first"] != [1, 2] for order in record["orders"]),
    }


def _over(_cells: Cells, tables: Tables) -> Judged:
    found = tables["scenarios"].where("ratio>1")
    themis, baseline = (found.where(series=series) for series in (SCF, BASELINE))
    below = [f"{e['utilization']:.1f} % at {e['ratio']:g}" for e in themis if e["utilization"] < FULL]
    used, least = themis.values("utilization"), baseline.column("utilization")[-1]
    result = share(len(below), used.count) if least < FULL else "does not hold"
    return result, {"themis": used, "baseline": least, "lost": ", ".join(below)}


# --- Fig. 5 -------------------------------------------------------------------------------------

STAGES = ("ReduceScatter on dim1", "ReduceScatter on dim2", "AllGather on dim2", "AllGather on dim1")


def _example_jobs(case: Entry) -> list[RailsPoint]:
    """The baseline's, for the unit, and its own."""
    network = "sw4@1000/0ns,sw4@500/0ns"
    return [run(series, network, 256 * MB, 4, ("stages",)) for series in (BASELINE, case["series"])]


def _example(_case: Entry, baseline: Record, record: Record) -> Entry:
    """In units of the ReduceScatter of one chunk on dim1."""
    first = [each for each in baseline["tables"]["stages"] if each["chunk"] == 0]
    first.sort(key=lambda each: int(each["stage"]))
    unit = first[0]["finish_ns"] - first[0]["start_ns"]
    tracks: dict[str, list[Block]] = {"dim1": [], "dim2": []}
    for each in record["tables"]["stages"]:
        text, label = f"{each['chunk'] + 1:.0f}.{each['stage'] + 1:.0f}", f"chunk {each['chunk'] + 1:.0f}"
        length = (each["finish_ns"] - each["start_ns"]) / unit
        tracks[f"dim{each['dimension']:.0f}"].append(Block(text, label, each["start_ns"] / unit, length))
    loads = [each["busy_ns"] / unit for each in record["dimensions"]]
    stages = [(each["finish_ns"] - each["start_ns"]) / unit for each in first]
    return {
        "makespan": record["time_ns"] / unit,
        "loads": loads,
        "orders": ["".join(map(str, order["first"])) for order in record["orders"]],
        "tracks": tracks,
        **{f"load of dim{number}": load for number, load in enumerate(loads, 1)},
        **{f"stage {n}, {what}": time for n, (what, time) in enumerate(zip(STAGES, stages, strict=True), 1)},
    }


def _as_in_the_example(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig5"]
    baseline, fifo, scf, before = (table.one("makespan", series=s) for s in (BASELINE, FIFO, SCF, SCF_BEFORE))
    loads, orders = table.one("loads", series=SCF), table.one("orders", series=SCF)
    holds = orders == ["12", "21", "12", "12"] and loads == [6.5, 7.0] and scf < baseline
    return verdict(holds), {"baseline": baseline, "fifo": fifo, "scf": scf, "before": before, "loads": loads}


# --- Figs. 8 and 11 -----------------------------------------------------------------------------

LARGER = 1.015
"""By how much sizes are changed to see how firm a point is."""


def _jobs(case: Entry) -> list[RailsPoint]:
    return [run(case["series"], case["topology"], case["size"])]


def _jobs_and_larger(case: Entry) -> list[RailsPoint]:
    larger = [run(case["series"], case["topology"], round(LARGER * case["size"]))]
    return _jobs(case) + (larger if case["series"] in (FIFO, SCF) else [])


def _firm(case: Entry, record: Record, larger: Record | None = None) -> Entry:
    used = 100 * record["utilization"]
    closed = 100 * antiphon.advise_rails(case["topology"]).baseline_utilization
    return {"off closed form": abs(used - closed), "moved": 100 * larger["utilization"] - used if larger else 0.0}


# --- Fig. 9 -------------------------------------------------------------------------------------

WINDOW_NS = 100_000
"""In which activity is averaged, as in the paper."""


def _timeline(case: Entry) -> list[RailsPoint]:
    return [run(case["series"], "3D-SW_SW_SW_homo", 1000 * MB, tables=("timeline",))]


def _active(case: Entry, record: Record) -> Entry:
    timeline = record["tables"]["timeline"]
    together = max(1, round(WINDOW_NS / timeline[1]["start_ns"]))
    windows = [timeline[start : start + together] for start in range(0, len(timeline), together)]
    starts, names = [window[0]["start_ns"] / 1e6 for window in windows], ("dim1", "dim2", "dim3")
    found: Entry = {"what": str(case["series"]), "lines": []}
    for name, used in zip(names, (each["utilization"] for each in record["dimensions"]), strict=True):
        shares = [100 * fmean(part[name] for part in window) for window in windows]
        found["lines"].append(Line(name, starts, shares, marked=False))
        found[f"{name}: activity"] = fmean(100 * part[name] for part in timeline)
        found[f"{name}: utilization"] = 100 * used
        found[f"rate that the baseline leaves unused on {name}"] = 800 * (1 - used)
    return found | {"least active": min(found[f"{name}: activity"] for name in names)}


# --- Fig. 10 ------------------------------------------------------------------------------------

FROM_DELAY = DATA.named("Themis+FIFO, loads from A_K", "Themis+SCF, loads from A_K")
DROP = 5.0
"""Points of utilization that are no longer stable."""
SENSITIVE = ("3D-SW_SW_SW_hetero", "4D-Ring_FC_Ring_SW")
"""The topologies of Fig. 10."""
FEW = (4, 8, 16)
"""Chunks for which the six topologies are looked at."""


def _mean(table: Table, series: object, chunks: int, topologies: tuple[str, ...]) -> float:
    return fmean(table.where(series=series, chunks=chunks, topology=topologies).column("utilization"))


def _chunks_baseline(_cells: Cells, tables: Tables) -> Judged:
    of = tables["fig10"].where(series=BASELINE, topology=SENSITIVE).by("topology")
    spread = max(table.values("utilization").spread for _, table in of)
    return verdict(spread < 1), {"spread": spread}


def _stable(_cells: Cells, tables: Tables) -> Judged:
    drops = {
        (series.name, name, more["chunks"]): less["utilization"] - more["utilization"]
        for series in (SCF, SCF_BEFORE)
        for name in SENSITIVE
        for less, more in pairwise(tables["fig10"].where("chunks>=8", series=series, topology=name))
    }
    series, name, chunks = worst = max(drops, key=lambda case: drops[case])
    later = max(drop for (_, _, many), drop in drops.items() if many > CHUNKS)
    names = {"drop": drops[worst], "where": f"{series} on {name}", "few": chunks // 2, "many": chunks, "later": later}
    return verdict(drops[worst] <= DROP), names


def _initial_load(_cells: Cells, tables: Tables) -> Judged:
    def error(schedulers: list[Series]) -> float:
        """Mean difference to the paper's numbers, in points."""
        stated, used = DATA.stated["fig11"], tables["fig11"]
        pairs = [(used.where(series=s).values("utilization").mean, stated[s.published]) for s in schedulers]
        for series, count in product(schedulers, (4, 512)):
            known = DATA.stated["fig10"][f"{series.published}, {count} chunks"]
            pairs.append((_mean(tables["fig10"], series, count, SENSITIVE), known))
        return fmean(abs(ours - paper.value) for ours, paper in pairs)

    zero, delay = error([FIFO, SCF]), error(FROM_DELAY)
    return verdict(zero >= delay), {"zero": zero, "delay": delay}


def _room(_cells: Cells, tables: Tables) -> Judged:
    scf, search = (tables["fig11"].where(series=series).values("utilization").mean for series in (SCF, SEARCH))
    few = [_mean(tables["fig10"], SEARCH, n, TOPOLOGIES) - _mean(tables["fig10"], SCF, n, TOPOLOGIES) for n in FEW]
    more = search - scf
    return verdict(more <= POINTS, more <= DROP), {"more": more, "few": listed(few, "{:.0f}")}


FIGURES = (
    Figure(DATA, "table1", jobs=_latency_only),
    Figure(DATA, "table2", _preset),
    Figure(DATA, "fig5", _example, _example_jobs),
    Figure(DATA, "fig8", jobs=_jobs),
    Figure(DATA, "fig9", _active, _timeline),
    Figure(DATA, "fig10", jobs=lambda case: [run(case["series"], case["topology"], 100 * MB, case["chunks"])]),
    Figure(DATA, "fig11", _firm, _jobs_and_larger),
    Figure(DATA, "scenarios", _scenario, _scenario_jobs),
)
CHECKS = {
    "example": _as_in_the_example,
    "chunks-baseline": _chunks_baseline,
    "stable": _stable,
    "initial-load": _initial_load,
    "room": _room,
    "over": _over,
}
