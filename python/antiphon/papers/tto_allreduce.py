"""Table I and Figures 8, 9, 12 and 14 of the TTO paper: AllReduce alone."""

from __future__ import annotations

from statistics import median

import antiphon
from antiphon.papers.model import Bar, Bars, Experiment, Line, Lines, Numbers, Outcome, Results, Row, published, stated
from antiphon.papers.tto_algorithms import (
    DBTREE,
    DBTREE_PUBLISHED,
    IN_FLITS,
    MIB,
    MULTITREE,
    RING,
    RING_2D,
    RING_BI_EVEN,
    RING_BI_ODD,
    RING_BI_ODD_PUBLISHED,
    SYSTEM,
    TTO,
    VARIANTS,
    Variant,
    allreduce,
    mesh,
    note_of,
    side_of,
)
from antiphon.study import Point

GIB = 1 << 30
ROUNDED = 0.02
"""Tolerance of numbers that the paper gives in whole percent."""
ABOUT = 0.05
"""Tolerance of numbers that the paper's text calls approximate."""


# --- Table I ------------------------------------------------------------------------------------


def _table1_points(_quick: bool) -> list[Point]:
    return []


def _table1(_results: Results, _quick: bool) -> Outcome:
    """Counting needs schedules only."""
    said = stated("tto", "table1")
    rows, groups = [], {}
    numbers: Numbers = {}
    for side in (8, 9):
        fabric = antiphon.Fabric(mesh(side))
        bars = []
        for variant in (RING, RING_BI_EVEN, RING_BI_ODD, RING_2D, MULTITREE, TTO):
            if not variant.runs(side):
                continue
            schedule = antiphon.build(fabric, variant.spec, bytes=64 * MIB, system=SYSTEM)
            percent = schedule.stats(fabric).used_links_percent
            paper = said.get(f"{variant.name} {side}x{side}")
            rows.append(Row(variant.name, f"{side}x{side}", "%", percent, paper, tolerance=ROUNDED))
            bars.append(Bar(variant.name, [percent], paper))
            numbers[side, variant.name] = percent
        groups[f"{side}x{side}"] = bars
    chart = Bars("Links in use", "links in use, %", ["in use"], groups)
    return Outcome(rows, [chart], numbers)


# --- Fig. 8 -------------------------------------------------------------------------------------

FIG8_SIDES = (4, 5, 8, 9)
FIG8_SIZES = tuple(MIB << exponent for exponent in range(11))


def _fig8_cases(quick: bool) -> list[tuple[Variant, int, int]]:
    sides, sizes = ((4, 5), (MIB, 16 * MIB, 256 * MIB)) if quick else (FIG8_SIDES, FIG8_SIZES)
    cases = [(v, side, size) for v in VARIANTS for side in sides for size in sizes if v.runs(side)]
    known = {(row["algorithm"], side_of(row), int(row["data_bytes"])) for row in published("tto", "fig8_bandwidth")}
    return cases + _in_flits(known, quick)


def _in_flits(known: set[tuple[str, int, int]], quick: bool) -> list[tuple[Variant, int, int]]:
    """The cases in flits: those with published numbers (algorithm, side, bytes)."""
    return [
        (variant, side, size)
        for variant in IN_FLITS
        for name, side, size in sorted(known)
        if name == variant.artifact and variant.runs(side, size) and not quick
    ]


def _fig8_points(quick: bool) -> list[Point]:
    return [allreduce(*case) for case in _fig8_cases(quick)]


def _fig8(results: Results, quick: bool) -> Outcome:
    table = {
        (row["algorithm"], side_of(row), int(row["data_bytes"])): float(row["bandwidth_GiBps_as_plotted"])
        for row in published("tto", "fig8_bandwidth")
    }
    rows = []
    numbers: Numbers = {}
    for variant, side, size in _fig8_cases(quick):
        record = results[allreduce(variant, side, size)]
        if variant in VARIANTS:
            numbers[side, variant.name, size] = record["time_ns"]
        ours = record["algorithm_bandwidth_gib_per_s"]
        artifact = table.get((variant.artifact, side, size))
        what = f"{side}x{side}, {antiphon.format_bytes(size)}"
        note = note_of(variant, side, size)
        rows.append(Row(variant.name, what, "GiB/s", ours, None, artifact, variant.tolerance, note))
    charts = []
    for side in sorted({int(side) for side, _, _ in numbers}):
        sizes = sorted({int(size) for of, _, size in numbers if of == side})
        lines = [
            Line(
                variant.name,
                sizes,
                [size / GIB / numbers[side, variant.name, size] * 1e9 for size in sizes],
                [(size, table[key]) for size in sizes if (key := (variant.artifact, side, size)) in table],
            )
            for variant in VARIANTS
            if variant.runs(side)
        ]
        charts.append(Lines(f"{side}x{side} mesh", "AllReduce data", "bandwidth, GiB/s", lines, _size_ticks(sizes)))
    return Outcome(rows, charts, numbers)


def _size_ticks(sizes: list[int]) -> list[tuple[float, str]]:
    return [(size, antiphon.format_bytes(size)) for size in sizes[:: 2 if len(sizes) > 6 else 1]]


# --- Fig. 9 -------------------------------------------------------------------------------------

FIG9_BYTES_PER_NODE = 375 * 1024
FIG9_VARIANTS = tuple(variant for variant in VARIANTS if variant not in (DBTREE, DBTREE_PUBLISHED))
"""The paper's figure is without DBTree."""


def _fig9_cases(quick: bool) -> list[tuple[Variant, int, int]]:
    sides = range(3, 7 if quick else 17)
    cases = [(v, side, FIG9_BYTES_PER_NODE * side**2) for v in FIG9_VARIANTS for side in sides if v.runs(side)]
    known = {(row["algorithm"], side_of(row), int(row["data_bytes"])) for row in published("tto", "fig9_scalability")}
    return cases + _in_flits(known, quick)


def _fig9_points(quick: bool) -> list[Point]:
    return [allreduce(*case) for case in _fig9_cases(quick)]


def _fig9(results: Results, quick: bool) -> Outcome:
    table = {(row["algorithm"], side_of(row)): float(row["cycles"]) for row in published("tto", "fig9_scalability")}
    rows = []
    numbers: Numbers = {}
    for variant, side, size in _fig9_cases(quick):
        time_ns = results[allreduce(variant, side, size)]["time_ns"]
        if variant in FIG9_VARIANTS:
            numbers[side, variant.name] = time_ns
        artifact = table.get((variant.artifact, side))
        note = note_of(variant, side, size)
        rows.append(Row(variant.name, f"{side}x{side}", "ns", time_ns, None, artifact, variant.tolerance, note))
    charts = []
    for parity, smallest in (("even", 4), ("odd", 3)):
        ring, ring_published = numbers[smallest, "Ring"], table["Ring", smallest]
        lines = []
        for variant in FIG9_VARIANTS:
            sides = [side for side in range(smallest, 17, 2) if (side, variant.name) in numbers]
            times = [numbers[side, variant.name] / ring for side in sides]
            known = [
                (side**2, table[variant.artifact, side] / ring_published)
                for side in sides
                if (variant.artifact, side) in table
            ]
            if sides:
                lines.append(Line(variant.name, [side**2 for side in sides], times, known))
        y_label = f"time / Ring on {smallest}x{smallest}"
        charts.append(Lines(f"{parity} meshes", "chiplets", y_label, lines))
    return Outcome(rows, charts, numbers)


# --- Fig. 12 ------------------------------------------------------------------------------------

FIG12_SIDE, FIG12_SIZE = 9, 256 * MIB
FIG12_VARIANTS = (RING, RING_2D, MULTITREE, RING_BI_ODD_PUBLISHED, RING_BI_ODD, TTO)
STALLED_QUARTER = "The artifact's run stalled for a quarter of its time."


def _fig12_points(_quick: bool) -> list[Point]:
    return [allreduce(variant, FIG12_SIDE, FIG12_SIZE, timeline=True) for variant in FIG12_VARIANTS]


def _fig12(results: Results, _quick: bool) -> Outcome:
    table = {
        row["algorithm"]: 100 * float(row["mean_util_incl_head_flit"])
        for row in published("tto", "fig12_link_utilisation_mean")
    }
    said = stated("tto", "fig12")
    rows, lines = [], []
    numbers: Numbers = {}
    for variant, point in zip(FIG12_VARIANTS, _fig12_points(False), strict=True):
        record = results[point]
        mean = 100 * record["link_utilization_mean"]
        windows = record["tables"]["timeline"]
        shares = [100 * window["utilization"] for window in windows]
        numbers[variant.name, "mean"] = mean
        numbers[variant.name, "median"] = median(shares)
        numbers[variant.name, "peak"] = max(shares)
        artifact = table.get(variant.artifact)
        note = STALLED_QUARTER if variant is RING_BI_ODD_PUBLISHED else variant.note
        rows.append(Row(variant.name, "mean of the run", "%", mean, None, artifact, variant.tolerance, note))
        starts = [window["start_ns"] / 1e6 for window in windows]
        lines.append(Line(variant.name, starts, shares, marked=False))
    for variant, figure, paper in (
        (TTO, "median", "TTO"),
        (RING, "median", "Ring"),
        (RING_BI_ODD, "median", "RingBiOdd"),
        (MULTITREE, "mean", "MultiTree"),
        (MULTITREE, "peak", "MultiTree peak"),
    ):
        what = f"{variant.name}: {figure}"
        ours = numbers[variant.name, figure]
        rows.append(Row("As the text says", what, "%", ours, said[paper], tolerance=ABOUT))
    chart = Lines("9x9 mesh, 256 MiB", "time, ms", "links in use, %", lines, y_max=100)
    return Outcome(rows, [chart], numbers)


# --- Fig. 14 ------------------------------------------------------------------------------------

FIG14_SIDE, FIG14_SIZE = 8, 128 * MIB
FIG14_CHUNKS = tuple(12288 << exponent for exponent in range(10))


def _fig14_points(_quick: bool) -> list[Point]:
    return [allreduce(TTO, FIG14_SIDE, FIG14_SIZE, chunk=chunk) for chunk in FIG14_CHUNKS]


def _fig14(results: Results, _quick: bool) -> Outcome:
    table = {
        int(row["chunk_bytes"]): float(row["bandwidth_GiBps_as_plotted"]) for row in published("tto", "fig14_chunk")
    }
    rows = []
    numbers: Numbers = {}
    for chunk, point in zip(FIG14_CHUNKS, _fig14_points(False), strict=True):
        ours = results[point]["algorithm_bandwidth_gib_per_s"]
        numbers[chunk,] = ours
        artifact = table.get(chunk)
        rows.append(Row("TTO", f"chunks of {antiphon.format_bytes(chunk)}", "GiB/s", ours, None, artifact, 0.005))
    line = Line("TTO", FIG14_CHUNKS, [numbers[chunk,] for chunk in FIG14_CHUNKS], sorted(table.items()))
    ticks = [(chunk, antiphon.format_bytes(chunk)) for chunk in FIG14_CHUNKS]
    chart = Lines("8x8 mesh, 128 MiB", "chunk", "bandwidth, GiB/s", [line], ticks)
    return Outcome(rows, [chart], numbers)


TABLE_1 = Experiment(
    "table1",
    "Table I. Links in use",
    "Share of the directed links (224 on 8x8, 288 on 9x9) that carry data in the steady state, counted on the"
    " schedules.",
    _table1_points,
    _table1,
)
FIG_8 = Experiment(
    "fig8",
    "Fig. 8. AllReduce bandwidth over data size",
    "Data over time, in GiB/s (the paper writes GB/s). The published numbers are those of the artifact's result files;"
    " those at hand are for 4x4, 5x5 and 8x8.",
    _fig8_points,
    _fig8,
)
FIG_9 = Experiment(
    "fig9",
    "Fig. 9. Time over the size of the mesh",
    "AllReduce of 375 KiB for each chiplet. The rows are times; the plot is normalized to Ring on the smallest mesh, as"
    " in the paper. The published numbers at hand are for three meshes of each parity.",
    _fig9_points,
    _fig9,
)
FIG_12 = Experiment(
    "fig12",
    "Fig. 12. Use of the links over time",
    "Share of all links that transmit, over the run. The published means follow from the artifact's flit counts.",
    _fig12_points,
    _fig12,
    columns=1,
)
FIG_14 = Experiment(
    "fig14",
    "Fig. 14. Size of TTO's chunks",
    "Bandwidth of TTO by the size of its chunks.",
    _fig14_points,
    _fig14,
    columns=1,
)
