"""Figures 5 and 8 to 11 of the Themis paper: AllReduce alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, geometric_mean

from antiphon.papers.model import (
    Bar,
    Bars,
    Block,
    Experiment,
    Line,
    Lines,
    Numbers,
    Outcome,
    Results,
    Row,
    Spans,
    Style,
    stated,
)
from antiphon.papers.themis_schedulers import (
    BASELINE,
    CHUNKS,
    DRAWN,
    EXACT,
    FIFO,
    MB,
    PAPER,
    SCF,
    SEARCH,
    SERIES,
    SINGLE,
    SIZES_MB,
    TOPOLOGIES,
    Series,
    megabytes,
    row,
)
from antiphon.study import RailsPoint

# --- Fig. 5 -------------------------------------------------------------------------------------

EXAMPLE = "sw4@1000/0ns,sw4@500/0ns"
EXAMPLE_CHUNKS = 4
CHUNK_STYLES = {
    f"chunk {number}": Style(colour) for number, colour in enumerate(("#0072b2", "#d55e00", "#009e73", "#7a5195"), 1)
}
STAGES = (
    "stage 1, ReduceScatter on dim1",
    "stage 2, ReduceScatter on dim2",
    "stage 3, AllGather on dim2",
    "stage 4, AllGather on dim1",
)


def _example(series: Series) -> RailsPoint:
    return series.run(EXAMPLE, 256 * MB, EXAMPLE_CHUNKS, ("stages",))


def _fig5_points(_quick: bool) -> list[RailsPoint]:
    return [_example(series) for series in DRAWN]


def _fig5(results: Results, _quick: bool) -> Outcome:
    first = [each for each in results[_example(BASELINE)]["tables"]["stages"] if each["chunk"] == 0]
    first.sort(key=lambda each: int(each["stage"]))
    unit = first[0]["finish_ns"] - first[0]["start_ns"]
    rows = [
        row("fig5", "Chunk 1, baseline", what, "units", (each["finish_ns"] - each["start_ns"]) / unit, what, EXACT)
        for what, each in zip(STAGES, first, strict=True)
    ]
    numbers: Numbers = {}
    charts = []
    for series in DRAWN:
        record = results[_example(series)]
        numbers[series.name,] = record["time_ns"] / unit
        what = "makespan"
        rows.append(row("fig5", series.name, what, "units", record["time_ns"] / unit, f"{series.name}: {what}", EXACT))
        for dimension, each in enumerate(record["dimensions"], 1):
            key = f"Themis: load of dim{dimension}" if series is SCF else ""
            what = f"load of dim{dimension}"
            rows.append(row("fig5", series.name, what, "units", each["busy_ns"] / unit, key, EXACT))
            numbers[series.name, dimension] = each["busy_ns"] / unit
        for chunk, order in enumerate(record["orders"]):
            numbers[series.name, "order", chunk + 1] = float("".join(map(str, order["first"])))
        charts.append(_spans(series, record["tables"]["stages"], unit))
    return Outcome(rows, charts, numbers)


def _spans(series: Series, stages: Sequence[Mapping[str, float]], unit: float) -> Spans:
    tracks: dict[str, list[Block]] = {"dim1": [], "dim2": []}
    for each in stages:
        text = f"{each['chunk'] + 1:.0f}.{each['stage'] + 1:.0f}"
        length = (each["finish_ns"] - each["start_ns"]) / unit
        label = f"chunk {each['chunk'] + 1:.0f}"
        tracks[f"dim{each['dimension']:.0f}"].append(Block(text, label, each["start_ns"] / unit, length))
    return Spans(series.name, "time in units; blocks are CHUNK.STAGE", tracks, 8.2)


# --- Figs. 8 and 11 -----------------------------------------------------------------------------

LARGER = 1.015
"""By how much sizes are changed to see how firm a point is."""


def _cases(quick: bool) -> list[tuple[str, int]]:
    """Topologies and sizes in bytes: the 30 points."""
    topologies, sizes = (TOPOLOGIES[1:3], SIZES_MB[:2]) if quick else (TOPOLOGIES, SIZES_MB)
    return [(topology, size * MB) for topology in topologies for size in sizes]


def _points(quick: bool) -> list[RailsPoint]:
    return [series.run(*case) for series in SERIES for case in _cases(quick)]


def _fig8(results: Results, quick: bool) -> Outcome:
    cases = _cases(quick)
    numbers: Numbers = {
        (series.name, *case): results[series.run(*case)]["time_ns"] for series in SERIES for case in cases
    }
    rows = []
    for series in SERIES:
        for topology, size in cases:
            time = numbers[series.name, topology, size]
            rows.append(Row(series.name, f"{topology}, {megabytes(size)}", "ns", time, note=series.note))
        if series is not BASELINE and not quick:
            rows += _speedups(numbers, series, cases)
    charts = [
        Bars(
            topology,
            "time, ms",
            ["AllReduce"],
            {
                megabytes(size): [Bar(series.name, [numbers[series.name, topology, size] / 1e6]) for series in DRAWN]
                for of, size in cases
                if of == topology
            },
        )
        for topology in dict.fromkeys(topology for topology, _ in cases)
    ]
    return Outcome(rows, charts, numbers)


def speedups(numbers: Numbers, series: Series, cases: Sequence[tuple[str, int]]) -> list[float]:
    """Over the baseline, at every point."""
    return [numbers[BASELINE.name, name, size] / numbers[series.name, name, size] for name, size in cases]


def _speedups(numbers: Numbers, series: Series, cases: Sequence[tuple[str, int]]) -> list[Row]:
    values = speedups(numbers, series, cases)
    key = f"{series.stands_for}: speed-up"
    rows = [
        row("fig8", series.name, f"speed-up, {how} mean of 30", "×", mean(values), key, note=series.note)
        for how, mean in (("arithmetic", fmean), ("geometric", geometric_mean))
    ]
    most = f"{series.stands_for}: largest speed-up"
    largest = row("fig8", f"{series.name}, largest", "speed-up", "×", max(values), most, SINGLE, series.note)
    return [*rows, largest]


def _fig11_points(quick: bool) -> list[RailsPoint]:
    larger = [series.run(name, round(LARGER * size)) for series in (FIFO, SCF) for name, size in _cases(quick)]
    return _points(quick) + larger


def _fig11(results: Results, quick: bool) -> Outcome:
    cases = _cases(quick)
    numbers: Numbers = {
        (series.name, *case): 100 * results[series.run(*case)]["utilization"] for series in SERIES for case in cases
    }
    rows = []
    for series in SERIES:
        for topology, size in cases:
            what = f"{topology}, {megabytes(size)}"
            rows.append(row("fig11", series.name, what, "%", numbers[series.name, topology, size], note=series.note))
        if not quick:
            mean = fmean(numbers[series.name, topology, size] for topology, size in cases)
            numbers[series.name, "mean"] = mean
            what = "mean of the 30 points"
            rows.append(row("fig11", series.name, what, "%", mean, series.stands_for, note=series.note))
    for series in (FIFO, SCF):
        changes = [
            100 * results[series.run(name, round(LARGER * size))]["utilization"] - numbers[series.name, name, size]
            for name, size in cases
        ]
        group = f"{series.name}, sizes 1.5 % larger"
        most = max(changes, key=abs)
        numbers[series.name, "nudged point"], numbers[series.name, "nudged mean"] = most, fmean(changes)
        rows.append(Row(group, "largest change of a point", "points", most))
        rows.append(Row(group, "change of the mean", "points", fmean(changes)))
    charts = [
        Lines(
            topology,
            "AllReduce, MB",
            "utilization, %",
            [
                Line(
                    series.name,
                    [size / MB for of, size in cases if of == topology],
                    [numbers[series.name, of, size] for of, size in cases if of == topology],
                )
                for series in DRAWN
            ],
            y_max=103,
        )
        for topology in dict.fromkeys(topology for topology, _ in cases)
    ]
    return Outcome(rows, charts, numbers)


# --- Fig. 9 -------------------------------------------------------------------------------------

HOMOGENEOUS = "3D-SW_SW_SW_homo"
WINDOW_NS = 100_000
"""In which activity is averaged, as in the paper."""
ACTIVE = (BASELINE, FIFO, SCF, SEARCH)


def _active(series: Series) -> RailsPoint:
    return series.run(HOMOGENEOUS, 1000 * MB, tables=("timeline",))


def _fig9_points(_quick: bool) -> list[RailsPoint]:
    return [_active(series) for series in ACTIVE]


def _fig9(results: Results, _quick: bool) -> Outcome:
    rows, charts = [], []
    numbers: Numbers = {}
    for series in ACTIVE:
        record = results[_active(series)]
        timeline = record["tables"]["timeline"]
        length = timeline[1]["start_ns"]
        together = max(1, round(WINDOW_NS / length))
        windows = [timeline[start : start + together] for start in range(0, len(timeline), together)]
        lines = []
        for number, each in enumerate(record["dimensions"], 1):
            name = f"dim{number}"
            shares = [100 * fmean(part[name] for part in window) for window in windows]
            numbers[series.name, number] = fmean(100 * part[name] for part in timeline)
            rows.append(Row(series.name, f"{name}: activity", "%", numbers[series.name, number]))
            rows.append(Row(series.name, f"{name}: utilization", "%", 100 * each["utilization"]))
            lines.append(Line(name, [window[0]["start_ns"] / 1e6 for window in windows], shares, marked=False))
            if series is BASELINE and number > 1:
                what = f"rate that the baseline leaves unused on {name}"
                unused = 800 * (1 - each["utilization"])
                rows.append(row("fig9", series.name, what, "Gb/s", unused, what))
        charts.append(Lines(series.name, "time, ms", "activity, %", lines, y_max=103))
    return Outcome(rows, charts, numbers)


# --- Fig. 10 ------------------------------------------------------------------------------------

SENSITIVE = ("3D-SW_SW_SW_hetero", "4D-Ring_FC_Ring_SW")
"""The topologies of Fig. 10."""
FIG10_CHUNKS = tuple(1 << exponent for exponent in range(2, 10))
FEW = (4, 8, 16)
"""Chunks for which the six topologies are looked at."""


def _fig10_cases(quick: bool) -> list[tuple[Series, str, int]]:
    chunks = (4, 64) if quick else FIG10_CHUNKS
    few = () if quick else FEW
    return list(
        dict.fromkeys(
            (series, topology, count)
            for series in SERIES
            for topologies, counts in ((SENSITIVE, chunks), (TOPOLOGIES, few))
            for topology in topologies
            for count in counts
        )
    )


def _fig10_points(quick: bool) -> list[RailsPoint]:
    return [series.run(topology, 100 * MB, count) for series, topology, count in _fig10_cases(quick)]


def _fig10(results: Results, quick: bool) -> Outcome:
    numbers: Numbers = {
        (series.name, topology, chunks): 100 * results[series.run(topology, 100 * MB, chunks)]["utilization"]
        for series, topology, chunks in _fig10_cases(quick)
    }
    counts = [chunks for chunks in FIG10_CHUNKS if (BASELINE.name, SENSITIVE[0], chunks) in numbers]
    rows = []
    for series in SERIES:
        for chunks in counts:
            for topology in SENSITIVE:
                value = numbers[series.name, topology, chunks]
                rows.append(Row(series.name, f"{topology}, {chunks} chunks", "%", value, note=series.note))
            mean = fmean(numbers[series.name, topology, chunks] for topology in SENSITIVE)
            numbers[series.name, "two", chunks] = mean
            key = f"{series.stands_for}, {chunks} chunks"
            rows.append(
                row("fig10", series.name, f"mean of the two, {chunks} chunks", "%", mean, key, note=series.note)
            )
        for chunks in FEW if not quick else ():
            mean = fmean(numbers[series.name, topology, chunks] for topology in TOPOLOGIES)
            numbers[series.name, "six", chunks] = mean
            what = f"mean of the six topologies, {chunks} chunks"
            rows.append(row("fig10", series.name, what, "%", mean, note=series.note))
    ticks = [(float(chunks), str(chunks)) for chunks in counts]
    charts = []
    said = stated(PAPER, "fig10")
    for topology in (*SENSITIVE, "two"):
        lines = [
            Line(
                series.name,
                counts,
                [numbers[series.name, topology, chunks] for chunks in counts],
                [
                    (chunks, said[key])
                    for chunks in counts
                    if topology == "two" and (key := f"{series.name}, {chunks} chunks") in said
                ],
            )
            for series in DRAWN
        ]
        title = "mean of the two" if topology == "two" else topology
        charts.append(Lines(title, "chunks", "utilization, %", lines, ticks, y_max=103))
    return Outcome(rows, charts, numbers)


FIG_5 = Experiment(
    "fig5",
    "Fig. 5. Four chunks on two dimensions",
    "256 MB in four chunks on 4x4 NPUs, the first dimension twice as fast as the second. A unit is the time of the"
    " ReduceScatter of one chunk on dim1. The paper's Themis takes the orders 12, 21, 12, 12, and so does ours.",
    _fig5_points,
    _fig5,
)
FIG_8 = Experiment(
    "fig8",
    "Fig. 8. Time of an AllReduce",
    f"{CHUNKS} chunks, six topologies, 100 MB to 1 GB. The paper prints no time; it states means and the largest"
    " speed-up, without saying which mean: both are here.",
    _points,
    _fig8,
)
FIG_9 = Experiment(
    "fig9",
    "Fig. 9. Which dimensions are active when",
    "An AllReduce of 1 GB on 3D-SW_SW_SW_homo. A dimension is active while it has at least one chunk, waiting or in"
    " service; the lines are shares of 0.1 ms. Activity is not utilization: a dimension whose chunks only wait out"
    " latencies sends nothing.",
    _fig9_points,
    _fig9,
)
FIG_10 = Experiment(
    "fig10",
    "Fig. 10. How many chunks",
    "100 MB in 4 to 512 chunks. The paper states the means of its two topologies for 4 and 512. Rows for all six"
    " topologies with few chunks are ours.",
    _fig10_points,
    _fig10,
    columns=3,
)
FIG_11 = Experiment(
    "fig11",
    "Fig. 11. Utilization",
    "Mean over the dimensions, weighted by their rates. The paper states means over these 30 points, not the points."
    " The reference of the baseline is its closed form, (1 - 1/N) / (largest load × sum of rates), which leaves out"
    " latency.",
    _fig11_points,
    _fig11,
    columns=3,
)
