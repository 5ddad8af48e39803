"""Tables 1 and 2, Figures 5 and 8 to 11 and section 6.3 of the Themis paper: networks, and AllReduce alone."""

from __future__ import annotations

import re
from functools import cache
from statistics import fmean

import antiphon
from antiphon.repro.charts import Block, Line
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry, Table
from antiphon.studies import RailsPoint, Record

DATA = Data("themis", tolerance=0.015)
"""Means over many runs agree within 1.5 %."""
MB = 1_000_000
CHUNKS = 64
BASELINE, FIFO, SCF, SCF_BEFORE, SEARCH = DATA.named(
    "Baseline", "Themis+FIFO", "Themis+SCF", "Themis+SCF, size before", "Search"
)


def run(series: Series, topology: str, size: int, chunks: int = CHUNKS, *tables: str) -> list[RailsPoint]:
    """An AllReduce of so many bytes by a scheduler; nothing for what is no scheduler."""
    more = series.more
    point = RailsPoint(topology, size, series.run, more["intra"] or None, chunks, more["fixed_delay"] == "yes", tables)
    return [point] if series.run else []


@cache
def dimensions(topology: str) -> list[tuple[str, int, float, float]]:
    """Kind and NPUs of every dimension, its rate in Gb/s and its latency in ns."""
    specs = ",".join(antiphon.rails(topology, MB, scheduler="baseline").dimensions["spec"])
    found = re.findall(r"(ring|fc|sw)(\d+)@([\d.]+)/([\d.]+)ns", specs)
    return [(kind, int(npus), float(rate), float(latency)) for kind, npus, rate, latency in found]


def _preset(case: Entry) -> Entry:
    """What our preset has for a row of Table 2."""
    kind, *values = dimensions(case["name"])[int(case["dimension"]) - 1]
    found = {"npus": float(antiphon.advise_rails(case["name"]).npus), "stated npus": 1024, "kind": kind}
    for name, ours in zip(("size", "gbit_per_s", "latency_ns"), values, strict=True):
        found |= {name: float(ours), f"stated {name}": float(case[name]) if kind == case["kind"] else None}
    return found


# --- Section 6.3 --------------------------------------------------------------------------------

NEAR_NPUS, NEAR_GBIT = 16, 800


def _network(case: Entry) -> str:
    """Two dimensions, of which the second has so many times the rate that is just enough; or one of the paper's."""
    far = NEAR_GBIT / NEAR_NPUS * case["ratio"]
    return str(case["topology"] or f"sw{NEAR_NPUS}@{NEAR_GBIT}/700ns,sw8@{far:g}/1700ns")


def _scenario(case: Entry, record: Record | None = None) -> Entry:
    advice = antiphon.advise_rails(_network(case))
    first, *_ = pairs = advice.pairs.rows()
    least = min(pairs, key=lambda pair: (pair["ratio"], pair["near"], pair["far"]))
    found = {"advice": first["ratio"], "provision": first["provision"], "least": least["ratio"]}
    found["pair"] = f"dim{least['near']} to dim{least['far']}"
    if record is None:
        return found | {"utilization": 100 * advice.utilization_bound}
    turned = sum(order["first"] != [1, 2] for order in record["orders"])
    used = {"utilization": 100 * record["utilization"], "far": 100 * record["dimensions"][1]["utilization"]}
    return found | used | {"turned": turned}


# --- Fig. 5 -------------------------------------------------------------------------------------

STAGES = ("ReduceScatter on dim1", "ReduceScatter on dim2", "AllGather on dim2", "AllGather on dim1")


def _example_jobs(case: Entry) -> list[RailsPoint]:
    """The baseline's, for the unit, and its own."""
    example = ("sw4@1000/0ns,sw4@500/0ns", 256 * MB, 4, "stages")
    return run(BASELINE, *example) + run(case["series"], *example)


def _example(_case: Entry, baseline: Record, record: Record) -> Entry:
    """In units of the ReduceScatter of one chunk on dim1."""
    stages = [each for each in baseline["tables"]["stages"] if each["chunk"] == 0]
    first = sorted((int(each["stage"]), each["finish_ns"] - each["start_ns"]) for each in stages)
    unit = first[0][1]
    tracks: dict[str, list[Block]] = {"dim1": [], "dim2": []}
    for each in record["tables"]["stages"]:
        text, label = f"{each['chunk'] + 1:.0f}.{each['stage'] + 1:.0f}", f"chunk {each['chunk'] + 1:.0f}"
        length = (each["finish_ns"] - each["start_ns"]) / unit
        tracks[f"dim{each['dimension']:.0f}"].append(Block(text, label, each["start_ns"] / unit, length))
    loads = [each["busy_ns"] / unit for each in record["dimensions"]]
    return {
        "makespan": record["time_ns"] / unit,
        "loads": loads,
        "orders": ["".join(map(str, order["first"])) for order in record["orders"]],
        "tracks": tracks,
        **{f"load of dim{number}": load for number, load in enumerate(loads, 1)},
        **{f"stage {n + 1}, {what}": time / unit for what, (n, time) in zip(STAGES, first, strict=True)},
    }


def _as_in_the_example(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig5"]
    baseline, fifo, scf, before = (table.one("makespan", series=s) for s in (BASELINE, FIFO, SCF, SCF_BEFORE))
    loads, orders = table.one("loads", series=SCF), table.one("orders", series=SCF)
    holds = orders == ["12", "21", "12", "12"] and loads == [6.5, 7.0] and scf < baseline
    return verdict(holds), {"baseline": baseline, "fifo": fifo, "scf": scf, "before": before, "loads": loads}


# --- Figs. 8 to 11 ------------------------------------------------------------------------------

LARGER = 1.015
"""By how much sizes are changed to see how firm a point is."""
WINDOW_NS = 100_000
"""In which activity is averaged, as in the paper."""


def _jobs(case: Entry) -> list[RailsPoint]:
    return run(case["series"], case["topology"], case["size"], case.get("chunks", CHUNKS))


def _jobs_and_larger(case: Entry) -> list[RailsPoint]:
    firm = case["series"] not in (FIFO, SCF)
    return _jobs(case) if firm else _jobs(case) + _jobs(case | {"size": round(LARGER * case["size"])})


def _firm(case: Entry, record: Record, larger: Record | None = None) -> Entry:
    used = 100 * record["utilization"]
    closed = 100 * antiphon.advise_rails(case["topology"]).baseline_utilization
    return {"off closed form": abs(used - closed), "moved": 100 * larger["utilization"] - used if larger else 0.0}


def _active(_case: Entry, record: Record) -> Entry:
    timeline = record["tables"]["timeline"]
    together = max(1, round(WINDOW_NS / timeline[1]["start_ns"]))
    windows = [timeline[start : start + together] for start in range(0, len(timeline), together)]
    starts = [window[0]["start_ns"] / 1e6 for window in windows]
    found: Entry = {"lines": []}
    for number, used in enumerate((each["utilization"] for each in record["dimensions"]), 1):
        name = f"dim{number}"
        shares = [100 * fmean(part[name] for part in window) for window in windows]
        found["lines"].append(Line(name, starts, shares, marked=False))
        found[f"{name}: activity"] = fmean(100 * part[name] for part in timeline)
        found[f"{name}: utilization"] = 100 * used
        found[f"rate that the baseline leaves unused on {name}"] = 800 * (1 - used)
    return found | {"least active": min(value for name, value in found.items() if name.endswith("activity"))}


SENSITIVE = ("3D-SW_SW_SW_hetero", "4D-Ring_FC_Ring_SW")
"""The topologies of Fig. 10."""


def _used(table: Table, series: Series, **axes: object) -> float:
    """Mean utilization."""
    return fmean(table.where(series=series, **axes).column("utilization"))


def _chunks_baseline(_cells: Cells, tables: Tables) -> Judged:
    of = tables["fig10"].where(series=BASELINE, topology=SENSITIVE).by("topology")
    spread = max(table.values("utilization").spread for _, table in of)
    return verdict(spread < 1), {"spread": spread}


def _initial_load(_cells: Cells, tables: Tables) -> Judged:
    def error(schedulers: list[Series]) -> float:
        """Mean difference to the paper's numbers, in points."""
        off = [_used(tables["fig11"], each) - DATA.stated["fig11"][each.published].value for each in schedulers]
        for each in schedulers:
            for chunks in (4, 512):
                stated = DATA.stated["fig10"][f"{each.published}, {chunks} chunks"].value
                off.append(_used(tables["fig10"], each, chunks=chunks, topology=SENSITIVE) - stated)
        return fmean(map(abs, off))

    zero = error([FIFO, SCF])
    delay = error(DATA.named("Themis+FIFO, loads from A_K", "Themis+SCF, loads from A_K"))
    return verdict(zero >= delay), {"zero": zero, "delay": delay}


FIGURES = (
    Figure(DATA, "table1", jobs=lambda case: run(BASELINE, f"{case['kind']}8@100000/1000ns", 8, 1)),
    Figure(DATA, "table2", _preset),
    Figure(DATA, "fig5", _example, _example_jobs),
    Figure(DATA, "fig8", jobs=_jobs),
    Figure(DATA, "fig9", _active, lambda case: run(case["series"], case["topology"], case["size"], CHUNKS, "timeline")),
    Figure(DATA, "fig10", jobs=_jobs),
    Figure(DATA, "fig11", _firm, _jobs_and_larger),
    Figure(DATA, "scenarios", _scenario, lambda case: run(case["series"], _network(case), 1000 * MB)),
)
CHECKS = {
    "example": _as_in_the_example,
    "chunks-baseline": _chunks_baseline,
    "initial-load": _initial_load,
}
