"""Figures 3, 4, 12 and 14 of the C-Cube paper: AllReduce alone, on the DGX-1 and on more nodes."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import fmean

import antiphon
from antiphon import Fabric
from antiphon._core import TrainingPlan
from antiphon.papers.ccube_systems import (
    C1,
    CHANNELS,
    FIT,
    HEIGHT,
    KIB,
    LATENCY_NS,
    MIB,
    NVLINK_GB,
    RANKS,
    RING,
    SYSTEM,
    B,
    chunk_of,
    cost,
    dgx1,
    row,
    size_text,
    tree_spec,
)
from antiphon.papers.model import Bar, Bars, Experiment, Line, Lines, Numbers, Outcome, Results, Row, Style
from antiphon.study import Point, Record

# --- Fig. 3 -------------------------------------------------------------------------------------

ONE_SHOT, LAYER_WISE, SLICING = "one-shot", "layer-wise", "slicing"
SLICE = 200_000
"""Bytes: 50,000 parameters. The paper does not say."""
SLICES = (SLICE // 2, SLICE, 2 * SLICE)
FIG3_STYLES = {ONE_SHOT: Style("#0072b2"), LAYER_WISE: Style("#e69f00"), SLICING: Style("#d55e00")}
NCCL = (
    "The paper measured NCCL, the latency of whose steps it does not state; here that of C-Cube's own kernels, which is"
    " fitted, stands for both. The claims say which latency would give the paper's 2."
)


@cache
def _layers() -> list[int]:
    """Bytes of the gradients of every layer of ResNet-50."""
    plan = TrainingPlan(antiphon.workload("resnet50"), "roofline", 1)
    return [int(size) for size in plan.layers["gradient_bytes"]]


@cache
def _calls() -> dict[tuple[str, int], list[int]]:
    """Sizes of the AllReduces, by how the gradients are cut (and bytes of a slice)."""
    layers = _layers()
    sliced = {
        (SLICING, most): [min(most, size - start) for size in layers for start in range(0, size, most)]
        for most in SLICES
    }
    return {(ONE_SHOT, 0): [sum(layers)], (LAYER_WISE, 0): layers} | sliced


def calls(name: str, most: int = 0) -> list[int]:
    """Bytes of every AllReduce of ResNet-50's gradients."""
    return _calls()[name, most]


def _fig3_points(_quick: bool) -> list[Point]:
    return [RING.allreduce(size) for sizes in _calls().values() for size in sizes]


def _fig3(results: Results, _quick: bool) -> Outcome:
    rows = []
    numbers: Numbers = {}
    bars = []
    for (name, most), sizes in _calls().items():
        time = sum(results[RING.allreduce(size)]["time_ns"] * count for size, count in Counter(sizes).items())
        share = 100 * 2 * (RANKS - 1) / RANKS * sum(sizes) / time / (CHANNELS * NVLINK_GB)
        numbers[name, most, "share"] = share
        loss = numbers[ONE_SHOT, 0, "share"] / share
        numbers[name, most, "loss"] = loss
        what = f"{name}, {most // 1000} kB" if most else name
        rows.append(Row(what, "share of the peak", "%", share))
        rows.append(Row(what, "AllReduces", "", len(sizes)))
        if name != ONE_SHOT:
            rows.append(row("fig3", what, "times slower than one-shot", "×", loss, f"{what}: times slower", note=NCCL))
        if most in (0, SLICE):
            bars.append(Bar(name, [share]))
    groups = {"ResNet-50, 102 MB of gradients": bars}
    chart = Bars("Ring on the DGX-1", "share of the peak rate, %", ["AllReduce"], groups, 100)
    return Outcome(rows, [chart], numbers)


# --- Fig. 4 -------------------------------------------------------------------------------------

FIG4_RANKS = tuple(1 << n for n in range(1, 11))
FIG4_SIZES = tuple(16 * KIB << 4 * n for n in range(5))
SIZE_STYLES = {
    size_text(size): Style(colour, marker)
    for size, colour, marker in (
        (16 * KIB, "#56b4e9", "o"),
        (256 * KIB, "#0072b2", "s"),
        (1 * MIB, "#7a5195", "P"),
        (4 * MIB, "#009e73", "D"),
        (64 * MIB, "#d55e00", "^"),
        (1024 * MIB, "#e69f00", "v"),
    )
}
ENDLESS = 1 << 50
ROUNDED = 0.005
"""Tolerance of what the paper rounds to whole percent."""


def _slower(ranks: int, size: int) -> float:
    """How many times as long as the ring one tree takes."""
    found = cost(ranks, size, trees=1)
    return found.tree_ns / found.ring_ns


def _fig4(_results: Results, _quick: bool) -> Outcome:
    rows = []
    numbers: Numbers = {}
    lines = []
    for size in FIG4_SIZES:
        for ranks in FIG4_RANKS:
            numbers[size, ranks] = 1 / _slower(ranks, size)
            rows.append(Row("Eq. 2 over Eq. 5", f"{ranks} nodes, {size_text(size)}", "×", numbers[size, ranks]))
        lines.append(Line(size_text(size), FIG4_RANKS, [numbers[size, ranks] for ranks in FIG4_RANKS]))
    for ranks in FIG4_RANKS[1:6]:
        ratios = {size: _slower(ranks, size) for size in (1 << n for n in range(10, 50))}
        endless = _slower(ranks, ENDLESS)
        most = max(ratios, key=lambda size: ratios[size])
        numbers["endless", ranks], numbers["most", ranks], numbers["most at", ranks] = endless, ratios[most], most
        key = "ring over tree, endless data, 8 nodes" if ranks == RANKS else ""
        bound = ranks / (ranks - 1)
        rows.append(
            row("fig4", "Eq. 5 over Eq. 2, endless data", f"{ranks} nodes", "×", endless, key, ROUNDED, reference=bound)
        )
        what = f"{ranks} nodes, at {most >> 20} MB"
        rows.append(Row("Eq. 5 over Eq. 2, largest of all sizes", what, "×", ratios[most]))
    ticks = [(float(ranks), str(ranks)) for ranks in FIG4_RANKS]
    label = "ring / tree; above 1 the tree is faster"
    chart = Lines("Ring's time over the tree's", "nodes", label, lines, ticks, reference=1, log=True)
    return Outcome(rows, [chart], numbers)


# --- Fig. 12 ------------------------------------------------------------------------------------

FIG12_SIZES = (*(16 * KIB << 2 * n for n in range(7)), 128 * MIB, 256 * MIB)
SIMULATED, EQUATIONS, OWN = "simulated", "Eqs. 5 and 7", "C1, its own best chunks"
FIG12_STYLES = {
    OWN: Style("#0072b2", "v", dashed=True),
    SIMULATED: Style("#0072b2"),
    EQUATIONS: Style("#1b2230", "", dashed=True),
}


def _own(size: int) -> Point:
    """C1 with the number of chunks that is best for it, not for two phases (Eq. 4)."""
    chunk = chunk_of(size, cost(RANKS, size).own_chunks)
    return dgx1(tree_spec(overlap=True, chunk=chunk), size, NVLINK_GB)


def _fig12_sizes(quick: bool) -> tuple[int, ...]:
    return (1 * MIB, 64 * MIB) if quick else FIG12_SIZES


def _fig12_points(quick: bool) -> list[Point]:
    return [point for size in _fig12_sizes(quick) for point in (B.allreduce(size), C1.allreduce(size), _own(size))]


def _fig12(results: Results, quick: bool) -> Outcome:
    sizes = _fig12_sizes(quick)
    rows = []
    numbers: Numbers = {}
    for size in sizes:
        model = cost(RANKS, size)
        count, step = model.chunks, LATENCY_NS + chunk_of(size, model.chunks) / NVLINK_GB
        points = {B.name: B.allreduce(size), C1.name: C1.allreduce(size), OWN: _own(size)}
        exact = {B.name: 2 * (HEIGHT + count - 1) * step, C1.name: (2 * HEIGHT + count - 1) * step}
        times = {name: results[point]["time_ns"] for name, point in points.items()}
        for name, time in times.items():
            numbers[name, size] = size / time
            rows.append(Row(f"{name}: time", size_text(size), "ns", time, reference=exact.get(name)))
        numbers[SIMULATED, size] = times[B.name] / times[C1.name]
        numbers[EQUATIONS, size] = model.tree_ns / model.overlapped_ns
        numbers["own", size] = times[C1.name] / times[OWN]
        numbers["out of order", size] = sum(_out_of_order(results[points[name]]) for name in (B.name, C1.name))
        key = f"C1 over B, {size_text(size)}"
        for name in (SIMULATED, EQUATIONS):
            rows.append(row("fig12", f"C1 over B, {name}", size_text(size), "×", numbers[name, size], key))
    ticks = [(float(size), size_text(size)) for size in sizes[::2]]
    speeds = [Line(name, sizes, [numbers[name, size] for size in sizes]) for name in (B.name, C1.name, OWN)]
    said = [(64.0 * MIB, 1.75)]
    ratios = [
        Line(name, sizes, [numbers[name, size] for size in sizes], said if name == SIMULATED else ())
        for name in (SIMULATED, EQUATIONS)
    ]
    charts = [
        Lines("(a) AllReduce", "size", "size / time, GB/s", speeds, ticks),
        Lines("(b) C1 over B", "size", "times as fast", ratios, ticks),
    ]
    return Outcome(rows, charts, numbers)


def _out_of_order(record: Record) -> int:
    """Chunks that are complete before the one in front of them in their tree."""
    chunks = record["tables"]["chunks"]
    return sum(
        before["lane"] == after["lane"] and after["complete_ns"] < before["complete_ns"]
        for before, after in pairwise(chunks)
    )


# --- Fig. 14 ------------------------------------------------------------------------------------

HOSTS = 16
"""Nodes on a switch."""
LINK_NS = 500
FIG14_RANKS = (4, 8, 16, 32, 64, 128, 256)
FIG14_SIZES = (16 * KIB, 1 * MIB, 64 * MIB)
FIG14_CHUNK = 256 * KIB


@dataclass(frozen=True)
class Setting:
    """How C1 is held against R.

    Attributes:
        group: of its rows.
        step_ns: latency of a step beside that of the links.
        chunk: bytes; None for the number of chunks of Eq. 4.
    """

    group: str
    step_ns: float = float(LATENCY_NS)
    chunk: int | None = None


SETTINGS = {
    "ratio": Setting("C1 over R"),
    "256 kB": Setting("C1 over R, chunks of 256 kB", chunk=FIG14_CHUNK),
    "links only": Setting("C1 over R, latency of links only", 0.0),
}


@dataclass(frozen=True)
class LeafSpine(Point):
    """A collective on switches of nodes joined by one switch, with as many links up as down.

    ``fabric`` is ``leaf-spine:SWITCHESxNODES``.
    """

    link_gb: float = NVLINK_GB
    link_ns: float = LINK_NS

    def network(self) -> Fabric:
        """Nodes, their switches, and the one above."""
        switches, hosts = map(int, self.fabric.removeprefix("leaf-spine:").split("x"))
        ranks = switches * hosts
        link = {"rate_gb_per_s": self.link_gb, "latency_ns": self.link_ns}
        document = {
            "schema": "antiphon-fabric/1",
            "nodes": [{}] * ranks + [{"rank": False}] * (switches + 1),
            "links": [{"from": rank, "to": ranks + rank // hosts} | link for rank in range(ranks)]
            + [{"from": ranks + leaf, "to": ranks + switches, "count": hosts} | link for leaf in range(switches)],
        }
        return Fabric.from_json(json.dumps(document), self.fabric)


@dataclass(frozen=True)
class Scaled:
    """The runs behind one point of both parts of the figure."""

    ranks: int
    size: int

    def _run(self, algorithm: str, step_ns: float) -> LeafSpine:
        hosts = min(self.ranks, HOSTS)
        fabric = f"leaf-spine:{self.ranks // hosts}x{hosts}"
        changes = (("hand_off_ns", step_ns),)
        return LeafSpine(fabric, algorithm, self.size, SYSTEM, changes, fidelity="alpha-beta", tables=("chunks",))

    def ring(self, setting: Setting) -> LeafSpine:
        """R."""
        return self._run("ring", setting.step_ns)

    def double(self, setting: Setting) -> LeafSpine:
        """C1, on two trees."""
        chunk = setting.chunk or chunk_of(self.size, cost(self.ranks, self.size).chunks)
        chunk = min(chunk, chunk_of(self.size, 1))
        return self._run(tree_spec(overlap=True, chunk=chunk, pacing="pipelined"), setting.step_ns)

    def single(self, overlap: bool) -> LeafSpine:
        """One tree with or without overlap, for the turnaround."""
        spec = tree_spec(overlap=overlap, chunk=min(FIG14_CHUNK, self.size), trees=1, pacing="pipelined")
        return self._run(spec, float(LATENCY_NS))

    @property
    def points(self) -> list[Point]:
        """All of them."""
        runs = [run(setting) for setting in SETTINGS.values() for run in (self.ring, self.double)]
        return [*runs, self.single(False), self.single(True)]

    @property
    def chunks(self) -> int:
        """Of one tree."""
        return math.ceil(self.size / FIG14_CHUNK)


def _fig14_cases(quick: bool) -> list[Scaled]:
    return [Scaled(ranks, size) for size in FIG14_SIZES for ranks in (FIG14_RANKS[1:3] if quick else FIG14_RANKS)]


def _fig14_points(quick: bool) -> list[Point]:
    return [point for case in _fig14_cases(quick) for point in case.points]


def _fig14(results: Results, quick: bool) -> Outcome:
    cases = _fig14_cases(quick)
    rows = []
    numbers: Numbers = {}
    for case in cases:
        what = f"{case.ranks} nodes, {size_text(case.size)}"
        # Constant bandwidth: the ring has all channels, a tree one in each direction.
        ring, tree = cost(case.ranks, case.size, rate=CHANNELS * NVLINK_GB), cost(case.ranks, case.size)
        model = ring.ring_ns / tree.overlapped_ns
        numbers["model", case.size, case.ranks] = model
        for key, setting in SETTINGS.items():
            ratio = results[case.ring(setting)]["time_ns"] / results[case.double(setting)]["time_ns"]
            numbers[key, case.size, case.ranks] = ratio
            rows.append(Row(setting.group, what, "×", ratio, reference=model if key == "ratio" else None))
    for case in cases:
        what = f"{case.ranks} nodes, {size_text(case.size)}"
        late, soon = (_turnaround(results, case, overlap) for overlap in (False, True))
        height = case.ranks.bit_length() - 1
        model = (2 * height + case.chunks - 1) / (2 * height)
        numbers["turnaround", case.size, case.ranks] = late / soon
        numbers["turnaround model", case.size, case.ranks] = model
        rows.append(Row("Gradient turnaround, B over C1", what, "×", late / soon, reference=model))
    if not quick:
        rows += _fig14_stated(numbers)
    ranks = sorted({case.ranks for case in cases})
    ticks = [(float(count), str(count)) for count in ranks]
    charts = []
    for title, label, key, model_key in (
        ("(a) C1 over R", "times as fast", "ratio", "model"),
        ("(b) Gradient turnaround", "B's over C1's", "turnaround", "turnaround model"),
    ):
        lines = [
            Line(name(size_text(size)), ranks, [numbers[of, size, count] for count in ranks])
            for of, name in ((key, str), (model_key, by_formula))
            for size in FIG14_SIZES
        ]
        charts.append(Lines(title, "nodes", label, lines, ticks, reference=1, log=True))
    return Outcome(rows, charts, numbers)


UNSTATED = (
    "The paper states neither its largest number of nodes nor its latencies, sizes or switches; ours go to 256 nodes."
)


def _fig14_stated(numbers: Numbers) -> list[Row]:
    """The largest and mean ratios, which the text states."""
    rows = []
    for size in (FIG14_SIZES[0], FIG14_SIZES[-1]):
        ratio, model = (max(numbers[of, size, ranks] for ranks in FIG14_RANKS) for of in ("ratio", "model"))
        key = f"C1 over R, {size_text(size)}, most"
        what = f"{size_text(size)}, most"
        rows.append(row("fig14", "C1 over R, of all nodes", what, "×", ratio, key, note=UNSTATED, reference=model))
    for how, of_all in (("most", max), ("mean", fmean)):
        ratio, model = (
            of_all([numbers[of, FIG14_SIZES[-1], ranks] for ranks in FIG14_RANKS])
            for of in ("turnaround", "turnaround model")
        )
        group, key = "Gradient turnaround, of all nodes", f"turnaround, {how}"
        rows.append(row("fig14", group, f"64 MB, {how}", "×", ratio, key, note=UNSTATED, reference=model))
    return rows


def by_formula(size: str) -> str:
    """The name of a line of the cost model."""
    return f"{size}, model"


def _turnaround(results: Results, case: Scaled, overlap: bool) -> float:
    """When the first chunk is everywhere."""
    return float(results[case.single(overlap)]["tables"]["chunks"][0]["complete_ns"])


FORMULA_STYLES = {
    by_formula(size_text(size)): Style(SIZE_STYLES[size_text(size)].colour, "", dashed=True) for size in FIG14_SIZES
}

FIG_3 = Experiment(
    "fig3",
    "Fig. 3. One-shot, layer-wise, slicing",
    f"All gradients of ResNet-50 in one AllReduce, in one for each layer, or in slices of at most {SLICE // 1000} kB"
    " (50,000 parameters, an assumption; half and twice as much are in the numbers), one after the other, on a ring"
    " over four channels. The share is that of the data every GPU must send, 2 (P - 1) / P, in the peak of the"
    f" channels. {FIT}",
    _fig3_points,
    _fig3,
)
FIG_4 = Experiment(
    "fig4",
    "Fig. 4. Cost of ring and tree",
    "The paper's equations for the ring (2) and for a tree with the best number of chunks (5), with the latency and the"
    f" rate of the DGX-1, {LATENCY_NS / 1000:g} µs and 25 GB/s: those of the paper's source are not stated. The ratio"
    " depends on the size over rate times latency only, so another latency moves the sizes, not the lines.",
    lambda _quick: [],
    _fig4,
    columns=1,
)
FIG_12 = Experiment(
    "fig12",
    "Fig. 12. Overlapping on the DGX-1",
    f"Two trees, simulated message by message; the number of chunks is that of Eq. 4 for B and C1 alike. {FIT} So the"
    " point at 64 MB agrees by the fit; the others follow. The reference of a time is its number of steps, counted"
    " exactly. C1 has a better number of chunks than that of Eq. 4, which is best for two phases.",
    _fig12_points,
    _fig12,
)
FIG_14 = Experiment(
    "fig14",
    "Fig. 14. More nodes",
    f"Assumed, since the paper does not describe its hierarchy of switches: {HOSTS} nodes on a switch, all these on one"
    f" more, as many links up as down, 25 GB/s and {LINK_NS} ns a link, and the {LATENCY_NS / 1000:g} µs of the DGX-1"
    " for every step. (a) C1 is two trees in chunks by Eq. 4, R a ring on the same fabric; the trees share every node's"
    " one link, while by the cost model R has four times the rate of one tree, as on the DGX-1. Chunks of 256 kB, and"
    " no latency but that of links, are in the numbers. (b) One tree in chunks of 256 kB, as the paper says; the model"
    " counts steps of equal length, (2h + K - 1) / 2h, while in the simulation latencies overlap.",
    _fig14_points,
    _fig14,
)
