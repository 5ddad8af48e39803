"""The networks of the Themis paper, Figures 5 and 8 to 11 and section 6.3: AllReduce alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from statistics import fmean
from typing import Any

import antiphon
from antiphon.repro.charts import Block, Chart, Line, bar_chart, line_chart, span_chart
from antiphon.repro.data import Data, Kind, Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import RailsPoint, Record

DATA = Data("themis")
ALL = BASELINE, FIFO, SCF, *BESIDE, SEARCH = DATA.named(
    "Baseline",
    "Themis+FIFO",
    "Themis+SCF",
    "Themis+SCF, larger size",
    "Themis+FIFO, loads from zero",
    "Themis+SCF, loads from zero",
    "Themis+SCF, larger size, loads from zero",
    "Search",
)
BOUND = DATA.series["Bound of any scheduler"]
DRAWN = [series for series in DATA.series.values() if series.more["drawn"]]
CURRENT = "2D-current"
NEXT = ("2D-SW_SW", "3D-SW_SW_SW_homo", "3D-SW_SW_SW_hetero", "3D-FC_Ring_SW", "4D-Ring_SW_SW_SW", "4D-Ring_FC_Ring_SW")
"""Topologies of the next generation."""
QUICK = NEXT[1:3]
SENSITIVE = (NEXT[2], NEXT[5])
"""The topologies of Fig. 10."""
MB, GB = 1_000_000, 1_000_000_000


@cache
def dimensions(topology: str) -> list[tuple[str, int, float, float]]:
    """Kind and NPUs of every dimension, its rate in Gb/s and its latency in ns."""
    specs = ",".join(antiphon.rails(topology, 1, scheduler="baseline").dimensions["spec"])
    found = re.findall(r"(ring|fc|sw)(\d+)@([\d.]+)/([\d.]+)ns", specs)
    return [(kind, int(npus), float(rate), float(latency)) for kind, npus, rate, latency in found]


def run(case: Entry, size: int, **more: Any) -> RailsPoint:
    """An AllReduce by a scheduler on a topology."""
    series: Series = case["series"]
    how = {"intra": series.more["intra"] or None, "fixed_delay": series.more["fixed_delay"] == "yes"}
    return RailsPoint(case["topology"], size, series.run, **how | more)


def in_two_lines(column: str) -> Callable[[Entry], str]:
    """The name of a topology as the name of a group."""
    return lambda entry: str(entry[column]).replace("-", "-\n", 1)


def table1(_quick: bool) -> Steps:
    """Steps of the basic algorithms, of so many ns each."""
    kinds = {"ring": "ring", "fc": "direct", "sw": "halving-doubling"}
    runs = yield [(kind, [RailsPoint(f"{kind}8@100000/1000ns", 8, "baseline", "fifo", 1)]) for kind in kinds]
    table = Table()
    for kind, (done,) in runs:
        what = f"{kind}, 8 NPUs: steps of an AllReduce"
        table.append({"kind": kind, "series": kinds[kind], "what": what, "steps": done["time_ns"] / 1000})
    rows = Rows(DATA, "table1")
    for e in table:
        rows.add(e, "steps", e["steps"], key=e["what"])
    return Outcome(table, rows, columns=2)


PARAMETERS = {"size": ("size", "NPUs"), "rate": ("gbit_per_s", "Gb/s"), "latency": ("latency_ns", "ns")}
"""Columns and units, as ``dimensions`` has them."""


def table2(_quick: bool) -> Steps:
    """What our presets have for the rows of the table."""
    yield []
    table = Table()
    for case in DATA.table("topologies"):
        kind, *values = dimensions(case["name"])[int(case["dimension"]) - 1]
        found: Entry = {"npus": float(antiphon.advise_rails(case["name"]).npus), "what": case["name"]}
        for (name, _), ours in zip(PARAMETERS.values(), values, strict=True):
            found |= {name: float(ours), f"stated {name}": float(case[name]) if kind == case["kind"] else None}
        table.append(case | found | {"kind": kind})
    rows = Rows(DATA, "table2")
    for e in table:
        for what, (column, unit) in PARAMETERS.items():
            dimension = f"dim{e['dimension']} ({e['kind']}), {what}"
            stated = {"paper": e[f"stated {column}"], "kind": "input"}
            rows.add(e, unit, e[column], e["name"], dimension, **stated)
    for name, of in table.by("name"):
        npus = of[0]["npus"]
        rows.add(of[0], "NPUs", npus, name, "all dimensions", paper=1024, kind="input")
    chart = bar_chart(
        "Rate of an NPU into each dimension",
        "Gb/s",
        table,
        in_two_lines("name"),
        {"rate": "gbit_per_s"},
        label=lambda e: f"dim{e['dimension']}",
        known="stated gbit_per_s",
    )
    return Outcome(table, rows, [chart], columns=2)


def scenarios(_quick: bool) -> Steps:
    """Section 6.3: two dimensions, of which the second has so many times the rate that is just enough."""
    cases: list[Entry] = [
        {"topology": f"sw16@800/700ns,sw8@{50 * ratio:g}/1700ns", "ratio": ratio, "series": series}
        for ratio in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
        for series in (BASELINE, SCF, SEARCH, BOUND)
    ]
    cases += grid(ratio=(0,), topology=(CURRENT,), series=(BASELINE, SCF, SEARCH))
    cases += grid(ratio=(0,), topology=NEXT, series=(BOUND,))
    runs = yield [(case, [] if case["series"] == BOUND else [run(case, GB)]) for case in cases]
    table = Table()
    for case, records in runs:
        advice = antiphon.advise_rails(case["topology"])
        first, *_ = pairs = advice.pairs.rows()
        least = min(pairs, key=lambda pair: (pair["ratio"], pair["near"], pair["far"]))
        found = {"advice": first["ratio"], "provision": first["provision"], "least": least["ratio"]}
        found |= {"pair": f"dim{least['near']} to dim{least['far']}", "utilization": 100 * advice.utilization_bound}
        for done in records:
            turned = sum(order["first"] != [1, 2] for order in done["orders"])
            far = 100 * done["dimensions"][1]["utilization"]
            found |= {"utilization": 100 * done["utilization"], "far": far, "turned": turned}
        table.append(case | found | {"what": f"{found['provision']}: {case['ratio']:g} of just enough"})
    swept = Table(e for e in table if e["ratio"] > 0)
    rows = Rows(DATA, "scenarios", swept, "%", "utilization", note="")
    for e in table.where(series=BOUND, ratio=0):
        rows.add(e, "%", e["utilization"], what=e["topology"])
        rows.add(e, "×", e["least"], group="Least rate over just enough", what=f"{e['topology']}: {e['pair']}")
    (e,) = table.where(series=BASELINE, topology=CURRENT)
    used, note = "2D-current: rate of dim2 that the baseline uses", DATA.texts["factors"]
    rows.add(e, "Gb/s", e["far"], what=used, key=used, note=note)
    labels = "ratio", "rate of dim2 over what is just enough", "utilization", "utilization, %"
    return Outcome(table, rows, [line_chart("16x8 NPUs, 1 GB", swept, *labels, ticks="{:g}".format, y_max=103)])


def fig5(_quick: bool) -> Steps:
    """Four chunks, in units of the ReduceScatter of one chunk on dim1; orders of all chunks, digit by digit."""
    cases = [{"series": series, "topology": "sw4@1000/0ns,sw4@500/0ns"} for series in DRAWN]
    runs = yield [
        (
            case,
            [
                run(case | {"series": each}, 256 * MB, chunks=4, tables=("stages",))
                for each in (BASELINE, case["series"])
            ],
        )
        for case in cases
    ]
    table = Table()
    for case, (first_run, done) in runs:
        stages = [each for each in first_run["tables"]["stages"] if each["chunk"] == 0]
        first = sorted((int(each["stage"]), each["finish_ns"] - each["start_ns"]) for each in stages)
        unit = first[0][1]
        blocks = []
        for each in done["tables"]["stages"]:
            track, chunk, stage = (f"{n:.0f}" for n in (each["dimension"], each["chunk"] + 1, each["stage"] + 1))
            start, length = each["start_ns"] / unit, (each["finish_ns"] - each["start_ns"]) / unit
            blocks.append(Block(f"dim{track}", f"{chunk}.{stage}", f"chunk {chunk}", start, length))
        orders = int("".join(str(dimension) for order in done["orders"] for dimension in order["first"]))
        loads = {f"load of dim{n}": each["busy_ns"] / unit for n, each in enumerate(done["dimensions"], 1)}
        times = {f"stage {n + 1}": time / unit for n, time in first}
        makespan = {"what": "makespan", "makespan": done["time_ns"] / unit}
        table.append(case | makespan | {"orders": orders, "blocks": blocks} | loads | times)
    baseline, rows = table[0], Rows(DATA, "fig5")
    does = ("ReduceScatter on dim1", "ReduceScatter on dim2", "AllGather on dim2", "AllGather on dim1")
    for stage, key in ((f"stage {n}", f"stage {n}, {what}") for n, what in enumerate(does, 1)):
        # A unit is the time of the first stage, and so of the last.
        kind: Kind = "input" if key in (f"stage 1, {does[0]}", f"stage 4, {does[3]}") else "result"
        rows.add(baseline, "units", baseline[stage], "Chunk 1, baseline", key, key, kind=kind)
    for e in table:
        for what in ("makespan", "load of dim1", "load of dim2"):
            rows.add(e, "units", e[what], what=what, key=f"{e['series']}: {what}", note="")
    label = "time in units; blocks are CHUNK.STAGE"
    charts = [span_chart(str(e["series"]), label, 8.2, ("dim1", "dim2"), e["blocks"]) for e in table]
    return Outcome(table, rows, charts, columns=2)


def _cases_of_fig8(quick: bool, series: Iterable[Series] = ALL) -> list[Entry]:
    megabytes = (100, 250) if quick else (100, 250, 500, 750, 1000)
    cases = grid(series=series, topology=QUICK if quick else NEXT, MB=megabytes)
    return [case | {"size": case["MB"] * MB, "what": f"{case['topology']}, {case['MB']} MB"} for case in cases]


def fig8(quick: bool) -> Steps:
    """Times, and speed-ups over the baseline."""
    cases = _cases_of_fig8(quick)
    runs = yield [(case, [run(case, case["size"])]) for case in cases]
    table = Table(
        case | {"time": done["time_ns"], "utilization": 100 * done["utilization"], "ms": done["time_ns"] / 1e6}
        for case, (done,) in runs
    )
    rows = Rows(DATA, "fig8")
    for series, of in table.by("series"):
        rows.each(of, "ns", "time")
        if not quick and series != BASELINE:
            faster, published = table.where(series=BASELINE).over("time", of), series.published
            for mean, ours, key in (
                ("arithmetic", faster.mean, f"{published}: speed-up"),
                ("geometric", faster.geometric, ""),
            ):
                rows.add(of[0], "×", ours, what=f"speed-up, {mean} mean of 30", key=key)
            words = f"{series}, largest", "speed-up", f"{published}: largest speed-up"
            rows.add(of[0], "×", faster.most, *words)
    charts = [
        bar_chart(topology, "time, ms", of, lambda e: f"{e['MB']} MB", {"AllReduce": "ms"})
        for topology, of in table.where(series=DRAWN).by("topology")
    ]
    return Outcome(table, rows, charts, columns=2)


WINDOW_NS = 100_000
"""In which activity is averaged, as in the paper."""


def _activity(done: Record) -> Entry:
    """Of every dimension, as lines and in the mean."""
    timeline = done["tables"]["timeline"]
    together = max(1, round(WINDOW_NS / timeline[1]["start_ns"]))
    windows = [timeline[start : start + together] for start in range(0, len(timeline), together)]
    starts = [window[0]["start_ns"] / 1e6 for window in windows]
    found: Entry = {"lines": []}
    for number, used in enumerate((each["utilization"] for each in done["dimensions"]), 1):
        name = f"dim{number}"
        shares = [100 * fmean(part[name] for part in window) for window in windows]
        found["lines"].append(Line(name, starts, shares, marked=False))
        found[f"{name}: activity"] = fmean(100 * part[name] for part in timeline)
        found[f"{name}: utilization"] = 100 * used
        found[f"rate that the baseline leaves unused on {name}"] = 800 * (1 - used)
    return found | {"least active": min(value for name, value in found.items() if name.endswith("activity"))}


def fig9(_quick: bool) -> Steps:
    """Which dimensions are active when."""
    cases = grid(topology=NEXT[1:2], size=(GB,), series=(BASELINE, FIFO, SCF, SEARCH))
    runs = yield [(case, [run(case, GB, tables=("timeline",))]) for case in cases]
    table = Table(case | {"what": str(case["series"])} | _activity(done) for case, (done,) in runs)
    rows = Rows(DATA, "fig9")
    for e in table:
        for name in ("dim1", "dim2", "dim3"):
            for what in (f"{name}: activity", f"{name}: utilization"):
                rows.add(e, "%", e[what], what=what, note="")
            if e["series"] == BASELINE and name != "dim1":
                key = f"rate that the baseline leaves unused on {name}"
                rows.add(e, "Gb/s", e[key], what=key, key=key, note="")
    charts = [Chart(e["what"], "time, ms", "activity, %", lines=e["lines"], y_max=103) for e in table]
    return Outcome(table, rows, charts, columns=2)


def fig10(quick: bool) -> Steps:
    """How many chunks: the paper's two topologies, and all six with few."""
    size, few = (100 * MB,), [name for name in NEXT if name not in SENSITIVE]
    chunks = (4, 64) if quick else (4, 8, 16, 32, 64, 128, 256, 512)
    cases = grid(size=size, series=ALL, topology=SENSITIVE, chunks=chunks)
    cases += [] if quick else grid(size=size, series=ALL, topology=few, chunks=(4, 8, 16))
    runs = yield [(case, [run(case, case["size"], chunks=case["chunks"])]) for case in cases]
    table = Table()
    for case, (done,) in runs:
        stated = DATA.number("stated", "value", what=f"{case['series']}, {case['chunks']} chunks")
        found = {"utilization": 100 * done["utilization"], "known mean": stated}
        table.append(case | found | {"what": f"{case['topology']}, {case['chunks']} chunks"})
    rows = Rows(DATA, "fig10")
    for series, of in table.by("series"):
        for count, at in of.where(topology=SENSITIVE).by("chunks"):
            mean, key = at.values("utilization").mean, f"{series.published}, {count} chunks"
            rows.each(at, "%", "utilization")
            rows.add(at[0], "%", mean, what=f"mean of the two, {count} chunks", key=key)
        for count, at in () if quick else of.where(chunks=(4, 8, 16)).by("chunks"):
            mean, what = at.values("utilization").mean, f"mean of the six topologies, {count} chunks"
            rows.add(at[0], "%", mean, what=what, key="")
    drawn = table.where(series=DRAWN, topology=SENSITIVE)
    labels, lines = ("chunks", "chunks", "utilization", "utilization, %"), partial(line_chart, ticks=str, y_max=103)
    charts = [lines(topology, of, *labels) for topology, of in drawn.by("topology")]
    charts.append(lines("mean of the two", drawn, *labels, known="known mean"))
    return Outcome(table, rows, charts, columns=3)


def fig11(quick: bool) -> Steps:
    """Utilization; and with sizes 1.5 % larger, to see how firm a point is."""
    cases = _cases_of_fig8(quick)
    by = {FIFO: (1, 1.015), SCF: (1, 1.015)}
    runs = yield [
        (case, [run(case, round(case["size"] * each)) for each in by.get(case["series"], (1,))]) for case in cases
    ]
    table = Table()
    for case, (own, *other) in runs:
        used = 100 * own["utilization"]
        closed = 100 * antiphon.advise_rails(case["topology"]).baseline_utilization
        moved = 100 * other[0]["utilization"] - used if other else 0.0
        found = {"time": own["time_ns"], "utilization": used, "off closed form": abs(used - closed), "moved": moved}
        table.append(case | found)
    rows = Rows(DATA, "fig11")
    for series, of in table.by("series"):
        rows.each(of, "%", "utilization", key="")
        if not quick:
            mean, key = of.values("utilization").mean, series.published
            rows.add(of[0], "%", mean, what="mean of the 30 points", key=key)
    for series, of in table.where(series=(FIFO, SCF)).by("series"):
        moves, group = of.values("moved"), f"{series}, sizes 1.5 % larger"
        rows.add(of[0], "points", moves.farthest, group=group, what="largest change of a point")
        rows.add(of[0], "points", moves.mean, group=group, what="change of the mean")
    labels = "MB", "AllReduce, MB", "utilization", "utilization, %"
    drawn = table.where(series=DRAWN).by("topology")
    return Outcome(table, rows, [line_chart(name, of, *labels, y_max=103) for name, of in drawn], columns=3)


def threshold(quick: bool) -> Steps:
    """Section 4.2: from which difference on loads are not equal."""
    parts = (0, 16) if quick else (0, 1, 4, 16, 64, 256)
    cases = [case | {"parts": each} for case in _cases_of_fig8(quick, (FIFO, SCF)) for each in parts]
    runs = yield [(case, [run(case, case["size"], options=_unusual(threshold=case["parts"]))]) for case in cases]
    table = Table(case | {"utilization": 100 * done["utilization"]} for case, (done,) in runs)
    rows = Rows(DATA, "threshold")
    for of in table.split("series", "parts"):
        what = f"mean of {len(of)} points, 1/{of[0]['parts']} of a chunk" if of[0]["parts"] else "none are equal"
        rows.add(of[0], "%", of.values("utilization").mean, what=what, key="", note="")
    return Outcome(table, rows)


USUAL = {"threshold": 16, "offload": False}


def _unusual(**options: Any) -> tuple[tuple[str, Any], ...]:
    """Options of a run, without those that are usual, so that a run that another figure has is the same."""
    return tuple((name, value) for name, value in options.items() if value != USUAL.get(name))


POLICIES = {"FIFO": "fifo", "SCF": "scf-before", "SCF, larger size": "scf", "oldest": "oldest", "tail": "tail"}


def intra(quick: bool) -> Steps:
    """Section 4.3: all queue policies, of both schedulers."""
    cases: list[Entry] = [
        case | {"policy": each} for case in _cases_of_fig8(quick, (BASELINE, SCF)) for each in POLICIES
    ]
    runs = yield [(case, [run(case, case["size"], intra=POLICIES[case["policy"]])]) for case in cases]
    table, fifo = Table(), 1.0
    for case, (done,) in runs:
        time, policy = done["time_ns"], case["policy"]
        fifo = time if policy == "FIFO" else fifo
        name = "Baseline" if case["series"] == BASELINE else f"Themis+{policy}"
        found = {"series": name, "time": time, "utilization": 100 * done["utilization"], "over FIFO": time / fifo}
        table.append(case | found)
    rows = Rows(DATA, "intra")
    for of in table.split("series", "policy"):
        mean = of.values("utilization").mean
        rows.add(of[0], "%", mean, what=f"{of[0]['policy']}, mean of {len(of)} points", key="", note="")
    return Outcome(table, rows)


def offload(quick: bool) -> Steps:
    """Section 4.5: switches that reduce and multicast."""
    cases = [case | {"offload": each} for case in _cases_of_fig8(quick, (BASELINE, FIFO, SCF)) for each in (0, 1)]
    options = [_unusual(offload=bool(case["offload"])) for case in cases]
    runs = yield [(case, [run(case, case["size"], options=each)]) for case, each in zip(cases, options, strict=True)]
    table = Table(case | {"time": done["time_ns"], "utilization": 100 * done["utilization"]} for case, (done,) in runs)
    rows = Rows(DATA, "offload")
    for series, of in table.by("series"):
        for does, part in of.by("offload"):
            what = f"mean of {len(part)} points, switches {'reduce' if does else 'only forward'}"
            rows.add(part[0], "%", part.values("utilization").mean, what=what, key="", note="")
            if does and series != BASELINE:
                faster = table.where(series=BASELINE, offload=1).over("time", part)
                rows.add(part[0], "×", faster.mean, what="speed-up over the baseline where switches reduce", key="")
    return Outcome(table, rows)


JITTER_NS = 1000.0


def consistency(quick: bool) -> Steps:
    """Section 4.6: every NPU by itself."""
    ways = {"one order": True, "any order": False}
    cases = grid(topology=QUICK[:1] if quick else NEXT, way=ways)
    runs = yield [
        (
            case,
            [
                run(
                    case | {"series": SCF},
                    100 * MB,
                    chunks=16,
                    options=(("jitter_ns", JITTER_NS), ("enforced", ways[case["way"]])),
                )
            ],
        )
        for case in cases
    ]
    table, rows = Table(), Rows(DATA, "consistency")
    for case, (done,) in runs:
        entry = case | {"series": f"{SCF}, {case['way']}", "what": case["topology"], "deadlock": int("stalled" in done)}
        if not entry["deadlock"]:
            entry["longer"] = 100 * (done["jittered_time_ns"] / done["time_ns"] - 1)
        table.append(entry)
        rows.add(entry, "deadlocks", entry["deadlock"], key="")
    return Outcome(table, rows)


def _packets(topology: str) -> str:
    """Assumed formats: within a package, within and between servers, and of InfiniBand on the last dimension."""
    formats = ["64+16" if latency < 100 else "256+16" for *_, latency in dimensions(topology)]
    return ",".join([*formats[:-1], "4096+26"])


def headers(quick: bool) -> Steps:
    """Section 6.1: what packets leave of utilization."""
    chunks = (1, 64) if quick else (1, 64, 512, 4096)
    cases = grid(series=(BASELINE, FIFO, SCF), topology=QUICK if quick else NEXT, chunks=chunks)
    runs = yield [
        (
            case,
            [run(case, 100 * MB, chunks=case["chunks"], options=(("packets", _packets(case["topology"])),))],
        )
        for case in cases
    ]
    table, one = Table(), 0.0
    for case, (done,) in runs:
        header = 100 * done["header_share"]
        one = header if case["chunks"] == 1 else one
        found = {"utilization": 100 * done["utilization"], "header": header, "more header": header - one}
        found["goodput"] = found["utilization"] * (1 - done["header_share"])
        table.append(case | found | {"what": f"{case['topology']}, {case['chunks']} chunks"})
    rows = Rows(DATA, "headers")
    for of in table.split("series", "chunks"):
        for column in ("header", "utilization", "goodput"):
            what = f"{column}, mean of {len(of)} topologies, {of[0]['chunks']} chunks"
            rows.add(of[0], "%", of.values(column).mean, what=what, key="", note="")
    labels = ("chunks", "chunks", "goodput", "goodput, %")
    charts = [line_chart(name, of, *labels, ticks=str, y_max=103) for name, of in table.by("topology")]
    return Outcome(table, rows, charts, columns=3)
