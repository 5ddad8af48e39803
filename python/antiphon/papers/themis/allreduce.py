"""Figures 5 and 8 to 11 of the Themis paper: AllReduce alone."""

from __future__ import annotations

from itertools import pairwise, product
from statistics import fmean

import antiphon
from antiphon.papers.themis.networks import BASELINE, CHUNKS, DATA, FIFO, MB, SCF, SCF_BEFORE, SEARCH, TOPOLOGIES, run
from antiphon.repro.charts import Block, Line
from antiphon.repro.claims import POINTS, Cells, Judged, Tables, listed, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry, Table
from antiphon.studies import RailsPoint, Record

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


def _measure(case: Entry, record: Record, larger: Record | None = None) -> Entry:
    size = f"{case['size'] // MB} MB"
    found = {"what": f"{case['topology']}, {size}", "AllReduce": size, "time": record["time_ns"]}
    found |= {"ms": record["time_ns"] / 1e6, "MB": case["size"] / MB, "utilization": 100 * record["utilization"]}
    closed = 100 * antiphon.advise_rails(case["topology"]).baseline_utilization
    found["off closed form"] = abs(found["utilization"] - closed)
    return found | {"moved": 100 * larger["utilization"] - found["utilization"] if larger else 0.0}


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


def _by_chunks(case: Entry, record: Record) -> Entry:
    series = case["series"]
    stated = DATA.stated["fig10"].get(f"{series.published}, {case['chunks']} chunks")
    known = stated.value if stated and series.published == series.name else None
    return {"utilization": 100 * record["utilization"], "known mean": known}


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
    Figure(DATA, "fig5", _example, _example_jobs),
    Figure(DATA, "fig8", _measure, _jobs),
    Figure(DATA, "fig9", _active, _timeline),
    Figure(DATA, "fig10", _by_chunks, lambda case: [run(case["series"], case["topology"], 100 * MB, case["chunks"])]),
    Figure(DATA, "fig11", _measure, _jobs_and_larger),
)
CHECKS = {
    "example": _as_in_the_example,
    "chunks-baseline": _chunks_baseline,
    "stable": _stable,
    "initial-load": _initial_load,
    "room": _room,
}
