"""Figures 3, 12 and 14 of the C-Cube paper: AllReduce alone, on the DGX-1 and on more nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache

import antiphon
from antiphon.papers.ccube_systems import (
    B,
    C1,
    CHANNELS,
    EXACT,
    FIT,
    HEIGHT,
    KIB,
    LATENCY_NS,
    MIB,
    NVLINK_GB,
    RANKS,
    RING,
    SINGLE,
    best_chunk,
    chunks_of,
    dgx1,
    row,
    size_text,
    tree_spec,
)
from antiphon.papers.model import Bar, Bars, Experiment, Line, Lines, Numbers, Outcome, Results, Row, Style
from antiphon.study import Point

# --- Fig. 3 -------------------------------------------------------------------------------------

ONE_SHOT, LAYER_WISE, SLICING = "one-shot", "layer-wise", "slicing"
SLICE = 200_000
"""Bytes: 50,000 parameters. The paper does not say."""
SLICES = (SLICE // 2, SLICE, 2 * SLICE)
FIG3_STYLES = {ONE_SHOT: Style("#0072b2"), LAYER_WISE: Style("#e69f00"), SLICING: Style("#d55e00")}


@cache
def _layers() -> list[int]:
    """Bytes of the gradients of every layer of ResNet-50."""
    plan = antiphon.TrainingPlan(antiphon.workload("resnet50"), "roofline", 1, "none", "table", 4, 4, 1, False)
    return [int(size) for size in plan.layers["gradient_bytes"]]


def _slices(size: int, largest: int) -> list[int]:
    """A layer in pieces, all but the last of the same size."""
    return [largest] * (size // largest) + [size % largest] * (size % largest > 0)


def _calls() -> dict[tuple[str, int], list[int]]:
    """Sizes of the AllReduces, by how the gradients are cut (and bytes of a slice)."""
    layers = _layers()
    sliced = {(SLICING, most): [part for size in layers for part in _slices(size, most)] for most in SLICES}
    return {(ONE_SHOT, 0): [sum(layers)], (LAYER_WISE, 0): layers} | sliced


def _fig3_points(_quick: bool) -> list[Point]:
    return [RING.allreduce(size) for sizes in _calls().values() for size in sizes]


def _fig3(results: Results, _quick: bool) -> Outcome:
    rows = []
    numbers: Numbers = {}
    peak = CHANNELS * NVLINK_GB
    bars = []
    for (name, most), sizes in _calls().items():
        time = sum(results[RING.allreduce(size)]["time_ns"] * count for size, count in Counter(sizes).items())
        share = 100 * 2 * (RANKS - 1) / RANKS * sum(sizes) / time / peak
        numbers[name, most, "share"], numbers[name, most, "calls"] = share, len(sizes)
        loss = numbers[ONE_SHOT, 0, "share"] / share
        numbers[name, most, "loss"] = loss
        what = f"{name}, {most // 1000} kB" if most else name
        rows.append(Row(what, "share of the peak", "%", share))
        rows.append(Row(what, "AllReduces", "", len(sizes)))
        key = f"{name}: loss" if most in (0, SLICE) and name != ONE_SHOT else ""
        rows.append(row("fig3", what, "times slower than one-shot", "×", loss, key, note=NCCL if key else ""))
        if most in (0, SLICE):
            bars.append(Bar(name, [share]))
    chart = Bars("AllReduce of ResNet-50's gradients", "share of the peak, %", ["AllReduce"], {"ring": bars}, 100)
    return Outcome(rows, [chart], numbers)


NCCL = (
    "The paper measured NCCL, whose steps have a lower latency than those of C-Cube's own kernels; here the fitted latency"
    " is used for both. The claims below say which latency would give the paper's 2."
)

# --- Fig. 12 ------------------------------------------------------------------------------------

FIG12_SIZES = (*(16 * KIB << 2 * n for n in range(7)), 128 * MIB, 256 * MIB)
MODEL, OWN = "Eqs. 5 and 7", "C1 with its own best chunks"
FIG12_STYLES = {MODEL: Style("#1b2230", "", dashed=True), OWN: Style("#0072b2", "v", dashed=True)}


def _own(size: int) -> Point:
    """C1 with the number of chunks that is best for it, sqrt(2) times as many as by Eq. 4."""
    part = math.ceil(size / 2)
    count = max(1, round(math.sqrt((2 * HEIGHT - 1) * part / NVLINK_GB / LATENCY_NS)))
    return dgx1(tree_spec(overlap=True, chunk=math.ceil(part / count / 4) * 4), size, NVLINK_GB)


def _fig12_sizes(quick: bool) -> tuple[int, ...]:
    return (1 * MIB, 64 * MIB) if quick else FIG12_SIZES


def _fig12_points(quick: bool) -> list[Point]:
    return [point for size in _fig12_sizes(quick) for point in (B.allreduce(size), C1.allreduce(size), _own(size))]


def _fig12(results: Results, quick: bool) -> Outcome:
    sizes = _fig12_sizes(quick)
    rows = []
    numbers: Numbers = {}
    for size in sizes:
        count = chunks_of(size, NVLINK_GB)
        step = LATENCY_NS + best_chunk(size, NVLINK_GB) / NVLINK_GB
        points = {B.name: B.allreduce(size), C1.name: C1.allreduce(size), OWN: _own(size)}
        exact = {B.name: 2 * (HEIGHT + count - 1) * step, C1.name: (2 * HEIGHT + count - 1) * step}
        times = {name: results[point]["time_ns"] for name, point in points.items()}
        for name, time in times.items():
            numbers[name, size] = size / time
            rows.append(Row(f"{name}: time", size_text(size), "ns", time, reference=exact.get(name)))
        numbers["gain", size] = times[B.name] / times[C1.name]
        numbers["own gain", size] = times[C1.name] / times[OWN]
        numbers[MODEL, size] = cost.tree_ns(size) / cost.overlapped_ns(size)
        key = f"C1 over B, {size_text(size)}"
        for group, gain in (("C1 over B, simulated", "gain"), (f"C1 over B, {MODEL}", MODEL)):
            rows.append(row("fig12", group, size_text(size), "×", numbers[gain, size], key))
    ticks = [(size, size_text(size)) for size in sizes[:: 2 if len(sizes) > 3 else 1]]
    speeds = [Line(name, sizes, [numbers[name, size] for size in sizes]) for name in (B.name, C1.name, OWN)]
    return Outcome(rows, [
        Lines("AllReduce on the DGX-1", "AllReduce", "GB/s", speeds, ticks),
    ], numbers)
