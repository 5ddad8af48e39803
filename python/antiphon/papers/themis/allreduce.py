"""Figures 5 and 8 to 11 of the Themis paper: AllReduce alone."""

from __future__ import annotations

from statistics import fmean

import antiphon
from antiphon.papers.themis.networks import (
    BASELINE,
    DATA,
    EXACT,
    MB,
    SCF,
    SCHEDULERS,
    SEARCH,
    SINGLE,
    TOPOLOGIES,
    row,
    run,
)
from antiphon.repro.charts import Bars, Block, Line, Lines, Spans, bars, lines
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure, Row, Shown, row_of
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import RailsPoint, Record

DRAWN = [series for series in SCHEDULERS if series.more["drawn"]]
FIFO, SCF_BEFORE = DATA.named("Themis+FIFO", "Themis+SCF, size before")

# --- Fig. 5 -------------------------------------------------------------------------------------

STAGES = (
    "stage 1, ReduceScatter on dim1",
    "stage 2, ReduceScatter on dim2",
    "stage 3, AllGather on dim2",
    "stage 4, AllGather on dim1",
)


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
    return {
        "what": "makespan",
        "makespan": record["time_ns"] / unit,
        "loads": [each["busy_ns"] / unit for each in record["dimensions"]],
        "orders": ["".join(map(str, order["first"])) for order in record["orders"]],
        "stages": [(each["finish_ns"] - each["start_ns"]) / unit for each in first],
        "tracks": tracks,
    }


def _fig5(table: Table) -> Shown:
    rows = [
        row("fig5", "Chunk 1, baseline", what, "units", length, what, EXACT)
        for what, length in zip(STAGES, table[0]["stages"], strict=True)
    ]
    for e in table:
        name = str(e["series"])
        rows.append(row("fig5", name, "makespan", "units", e["makespan"], f"{name}: makespan", EXACT))
        for number, load in enumerate(e["loads"], 1):
            key = f"Themis: load of dim{number}" if e["series"] == SCF else ""
            rows.append(row("fig5", name, f"load of dim{number}", "units", load, key, EXACT))
    label = "time in units; blocks are CHUNK.STAGE"
    return rows, [Spans(str(entry["series"]), label, entry["tracks"], 8.2) for entry in table]


FIG_5 = Figure("fig5", lambda _quick: grid(series=DRAWN), _example, _fig5, _example_jobs)


def _as_in_the_example(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig5"]
    baseline, fifo, scf, before = (table.one("makespan", series=s) for s in (BASELINE, FIFO, SCF, SCF_BEFORE))
    loads, orders = table.one("loads", series=SCF), table.one("orders", series=SCF)
    holds = orders == ["12", "21", "12", "12"] and loads == [6.5, 7.0] and scf < baseline
    return verdict(holds), {"baseline": baseline, "fifo": fifo, "scf": scf, "before": before, "loads": loads}


# --- Figs. 8 and 11 -----------------------------------------------------------------------------

LARGER = 1.015
"""By how much sizes are changed to see how firm a point is."""


def _cases(quick: bool) -> list[Entry]:
    topologies, sizes = (TOPOLOGIES[1:3], (100, 250)) if quick else (TOPOLOGIES, (100, 250, 500, 750, 1000))
    return grid(series=SCHEDULERS, topology=topologies, size=[size * MB for size in sizes])


def _jobs(case: Entry) -> list[RailsPoint]:
    return [run(case["series"], case["topology"], case["size"])]


def _jobs_and_larger(case: Entry) -> list[RailsPoint]:
    larger = [run(case["series"], case["topology"], round(LARGER * case["size"]))]
    return _jobs(case) + (larger if case["series"] in (FIFO, SCF) else [])


def _measure(case: Entry, record: Record, larger: Record | None = None) -> Entry:
    size = f"{case['size'] // MB} MB"
    found = {"what": f"{case['topology']}, {size}", "AllReduce": size, "time": record["time_ns"]}
    found |= {"ms": record["time_ns"] / 1e6, "MB": case["size"] / MB, "utilization": 100 * record["utilization"]}
    return found | {"moved": 100 * larger["utilization"] - found["utilization"] if larger else 0.0}


def _fig8(table: Table) -> Shown:
    rows = []
    for series, of in table.by("series"):
        rows += [row_of(entry, "time", "ns") for entry in of]
        if series is not BASELINE and table.whole:
            gains, known = table.ratios("time", "Baseline", series.name), series.published
            for how, mean in (("arithmetic", gains.mean), ("geometric", gains.geometric)):
                what = f"speed-up, {how} mean of 30"
                rows.append(row("fig8", series.name, what, "×", mean, f"{known}: speed-up", note=series.note))
            most = (gains.most, f"{known}: largest speed-up", SINGLE, series.note)
            rows.append(row("fig8", f"{series}, largest", "speed-up", "×", *most))
    shown = table.where(series=DRAWN)
    charts = [Bars(name, "time, ms", ["AllReduce"], bars(of, "AllReduce", ["ms"])) for name, of in shown.by("topology")]
    return rows, charts


def _fig11(table: Table) -> Shown:
    rows = []
    for series, of in table.by("series"):
        name, note = series.name, series.note
        rows += [row("fig11", name, e["what"], "%", e["utilization"], note=note) for e in of]
        if table.whole:
            mean = of.values("utilization").mean
            rows.append(row("fig11", name, "mean of the 30 points", "%", mean, series.published, note=note))
    for series in (FIFO, SCF):
        moved, group = table.where(series=series).values("moved"), f"{series}, sizes 1.5 % larger"
        rows.append(Row(group, "largest change of a point", "points", moved.farthest))
        rows.append(Row(group, "change of the mean", "points", moved.mean))
    charts = [
        Lines(name, "AllReduce, MB", "utilization, %", lines(of, "MB", "utilization"), y_max=103)
        for name, of in table.where(series=DRAWN).by("topology")
    ]
    return rows, charts


FIG_8 = Figure("fig8", _cases, _measure, _fig8, _jobs)
FIG_11 = Figure("fig11", _cases, _measure, _fig11, _jobs_and_larger)

# --- Fig. 9 -------------------------------------------------------------------------------------

WINDOW_NS = 100_000
"""In which activity is averaged, as in the paper."""


def _active(_case: Entry, record: Record) -> Entry:
    timeline = record["tables"]["timeline"]
    together = max(1, round(WINDOW_NS / timeline[1]["start_ns"]))
    windows = [timeline[start : start + together] for start in range(0, len(timeline), together)]
    starts, names = [window[0]["start_ns"] / 1e6 for window in windows], ("dim1", "dim2", "dim3")
    return {
        "activity": {name: fmean(100 * part[name] for part in timeline) for name in names},
        "utilization": [each["utilization"] for each in record["dimensions"]],
        "lines": [
            Line(name, starts, [100 * fmean(part[name] for part in window) for window in windows], marked=False)
            for name in names
        ],
    }


def _fig9(table: Table) -> Shown:
    rows = []
    for e in table:
        series = str(e["series"])
        for (name, activity), used in zip(e["activity"].items(), e["utilization"], strict=True):
            rows.append(Row(series, f"{name}: activity", "%", activity))
            rows.append(Row(series, f"{name}: utilization", "%", 100 * used))
            if series == "Baseline" and name != "dim1":
                what = f"rate that the baseline leaves unused on {name}"
                rows.append(row("fig9", series, what, "Gb/s", 800 * (1 - used), what))
    return rows, [Lines(str(e["series"]), "time, ms", "activity, %", e["lines"], y_max=103) for e in table]


FIG_9 = Figure(
    "fig9",
    lambda _quick: grid(series=[BASELINE, FIFO, SCF, SEARCH]),
    _active,
    _fig9,
    lambda case: [run(case["series"], "3D-SW_SW_SW_homo", 1000 * MB, tables=("timeline",))],
)


def _starvation(_cells: Cells, tables: Tables) -> Judged:
    least = [min(tables["fig9"].one("activity", series=series).values()) for series in (BASELINE, FIFO, SCF)]
    return verdict(least[0] < least[1] < least[2]), {"least": listed(least, "{:.0f} %")}


# --- claims of Figs. 5, 9 and 11 ------------------------------------------------------------------


def _closed_form(_cells: Cells, tables: Tables) -> Judged:
    found = tables["fig11"].where(series=BASELINE, size=1000 * MB)
    error = max(abs(e["utilization"] - 100 * antiphon.advise_rails(e["topology"]).baseline_utilization) for e in found)
    return verdict(error < 0.1), {"error": error}


CHECKS = {"example": _as_in_the_example, "starvation": _starvation, "closed-form": _closed_form}
