"""Figures 8, 13, 16 and 17 of the C-Cube paper: the next forward pass behind the AllReduce."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import fmean

import numpy as np

import antiphon
from antiphon._core import TrainingPlan, Workload
from antiphon.papers.ccube_systems import (
    C1,
    CC,
    FIT,
    HEIGHT,
    LATENCY_NS,
    LOW,
    MIB,
    NVLINK_GB,
    RANKS,
    RING,
    SYSTEM,
    TREES,
    VARIANTS,
    B,
    Variant,
    cost,
    dgx1,
    row,
    tree_spec,
)
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
)
from antiphon.results import Column
from antiphon.study import Point, Record
from antiphon.timing import CollectiveTime, Timer
from antiphon.training import Training

V100 = antiphon.System(SYSTEM).processor
"""FP32, at shares of the peaks that tuned kernels reach: an assumption."""
ASSUMED = (
    "Assumed, since the paper does not publish its times of computation: the roofline of a V100 (FP32), 15.7 TFLOP/s at"
    " 60 % and 900 GB/s at 75 %, each backward pass as long as the forward pass. Nothing is tuned."
)
MODELS = {"ZFNet": "zfnet", "VGG-16": "vgg16", "ResNet-50": "resnet50"}
BATCHES = (16, 32, 64, 128, 256)
RATES = {"high bandwidth": NVLINK_GB, "low bandwidth": LOW * NVLINK_GB}


def _timed(record: Record) -> CollectiveTime:
    """A stored collective."""
    rows = record["tables"]["chunks"]
    types = {"lane": np.int64, "chunk": np.uint64, "complete_ns": np.float64}
    chunks = {name: np.array([each[name] for each in rows], kind) for name, kind in types.items()}
    return CollectiveTime(record["time_ns"], [], chunks)


def _train(model: str | Workload, point: Point, results: Results, *, chained: bool, **options: object) -> Training:
    """An iteration with its one AllReduce as it was simulated."""
    collective = _timed(results[point])
    return antiphon.train(
        model,
        point.fabric,
        point.algorithm,
        overlap="ccube" if chained else "none",
        collectives=lambda *_asked: collective,
        **options,  # type: ignore[arg-type]
    )


@cache
def _gradients(model: str) -> int:
    """Bytes of all gradients."""
    return 4 * antiphon.workload(model).params


# --- Fig. 13 ------------------------------------------------------------------------------------


def closed_form_ns(training: Training, variant: Variant, rate: float) -> float:
    """The iteration by the paper's cost model: steps of a latency and a chunk over the rate, exactly counted.

    A chunk ``k`` (from 1) is ready after ``2h + K + k - 2`` steps with the barrier, ``2h + k - 1`` overlapped; the last
    one ends the AllReduce.
    """
    size = training.gradient_bytes
    if variant.overlap is None:
        steps = 2 * (training.ranks - 1)
        return training.compute_ns + steps * (LATENCY_NS + size / 4 / training.ranks / rate)
    count = cost(RANKS, size, rate=rate).chunks
    step = LATENCY_NS + size / TREES / count / rate
    first = 2 * HEIGHT + (0 if variant.overlap else count - 1)
    if not variant.chained:
        return training.compute_ns + (first + count - 1) * step
    now = 0.0
    part = 0
    for forward, gradients in zip(training.layers["forward_ns"], training.layers["gradient_bytes"], strict=True):
        part += int(gradients)
        last = math.ceil(part * count / size)
        ready = (first + last - 1) * step if last else 0.0
        now = max(now, ready) + float(forward)
    return now + training.compute_ns - training.iteration.forward_ns


@dataclass(frozen=True)
class Case:
    """A bar of Fig. 13."""

    model: str
    rate: float
    batch: int
    variant: Variant

    @property
    def point(self) -> Point:
        """Its AllReduce."""
        return self.variant.allreduce(_gradients(MODELS[self.model]), self.rate)

    def result(self, results: Results) -> Training:
        """Its iteration."""
        options = {"batch": self.batch, "compute": V100}
        return _train(MODELS[self.model], self.point, results, chained=self.variant.chained, **options)


BEHIND = "R behind the backward pass"
BUCKET = "25MiB"
"""Of gradients that are reduced together: PyTorch's default."""
BEHIND_NOTE = (
    "Buckets of 25 MB are reduced as soon as the backward pass has their gradients, as PyTorch does. Here a ring takes"
    " nothing from the computation; on GPUs it takes kernels and memory bandwidth. Not in the paper's figure."
)


def _behind(model: str, batch: int, timer: Timer) -> Training:
    """An iteration whose exchanges on the ring run behind the backward pass."""
    options = {"overlap": "layerwise", "bucket": BUCKET, "batch": batch, "compute": V100}
    return antiphon.train(MODELS[model], "dgx1v", "ring", collectives=timer, **options)  # type: ignore[arg-type]


@cache
def _buckets(model: str) -> list[int]:
    """Bytes of its AllReduces: a training in which they take no time tells their sizes."""
    sizes: list[int] = []

    def note(_fabric: antiphon.Fabric, _algorithm: str, _collective: str, size: int) -> CollectiveTime:
        sizes.append(size)
        return CollectiveTime(0.0, [])

    _behind(model, BATCHES[0], note)
    return sizes


def _behind_share(case: Case, results: Results) -> float:
    """The share of ideal speed of the ring behind the backward pass."""

    def look_up(_fabric: antiphon.Fabric, _algorithm: str, _collective: str, size: int) -> CollectiveTime:
        return _timed(results[RING.allreduce(size, case.rate)])

    training = _behind(case.model, case.batch, look_up)
    return training.compute_ns / training.iteration_ns


def _cases(quick: bool) -> list[Case]:
    models, batches = (["ZFNet"], BATCHES[:2]) if quick else (list(MODELS), BATCHES)
    return [
        Case(model, rate, batch, variant)
        for model in models
        for rate in RATES.values()
        for batch in batches
        for variant in VARIANTS
    ]


def _fig13_points(quick: bool) -> list[Point]:
    cases = _cases(quick)
    behind = [RING.allreduce(size, case.rate) for case in cases for size in _buckets(case.model)]
    return [*(case.point for case in cases), *behind]


def _fig13(results: Results, quick: bool) -> Outcome:
    rows = []
    numbers: Numbers = {}
    cases = _cases(quick)
    for case in cases:
        training = case.result(results)
        ratio = training.compute_ns / training.iteration_ns
        numbers[case.model, _name(case.rate), case.batch, case.variant.name] = ratio
        closed = training.compute_ns / closed_form_ns(training, case.variant, case.rate)
        numbers["closed form", case.model, _name(case.rate), case.batch, case.variant.name] = closed
        what = f"{case.model}, {_name(case.rate)}, batch {case.batch}"
        rows.append(Row(case.variant.name, what, "of ideal", ratio, reference=closed))
        if case.variant is RING:
            share = _behind_share(case, results)
            numbers[case.model, _name(case.rate), case.batch, BEHIND] = share
            rows.append(Row(BEHIND, what, "of ideal", share, note=BEHIND_NOTE))
    charts = []
    for model in dict.fromkeys(case.model for case in cases):
        for name in RATES:
            groups = {
                f"batch {batch}": [Bar(v.name, [numbers[model, name, batch, v.name]]) for v in VARIANTS]
                for batch in dict.fromkeys(case.batch for case in cases)
            }
            charts.append(Bars(f"{model}, {name}", "share of ideal speed", ["iteration"], groups, 1.0))
    if not quick:
        rows += _gains(numbers)
    return Outcome(rows, charts, numbers)


def _name(rate: float) -> str:
    return next(name for name, value in RATES.items() if value == rate)


def gains(numbers: Numbers, ours: str, over: str) -> dict[tuple[str, str, int], float]:
    """How many times as fast at every model, bandwidth and batch."""
    return {
        (model, name, batch): numbers[model, name, batch, ours] / numbers[model, name, batch, over]
        for model in MODELS
        for name in RATES
        for batch in BATCHES
    }


DEPENDS = (
    "Depends on the times of computation, which are assumed: the more of an iteration is computation, the less an"
    " AllReduce matters."
)


def _gains(numbers: Numbers) -> list[Row]:
    rows = []
    for ours, over, keys in (
        (C1, B, ("mean", "most")),
        (CC, B, ("mean", "most")),
        (CC, RING, ("most",)),
        (RING, C1, ("most",)),
    ):
        values = list(gains(numbers, ours.name, over.name).values())
        for how in keys:
            value = fmean(values) if how == "mean" else max(values)
            what = f"{ours.name} over {over.name}, {how}"
            rows.append(row("fig13", "Speed-up of an iteration", what, "×", value, what, note=DEPENDS))
    most = max(numbers[model, name, batch, CC.name] for model in MODELS for name in RATES for batch in BATCHES)
    rows.append(row("fig13", "Largest share of ideal speed", "CC", "%", 100 * most, "CC, largest share", note=DEPENDS))
    return rows


# --- Figs. 8 and 16 -----------------------------------------------------------------------------

LAYER_STYLES = {
    f"layer {number}": Style(colour)
    for number, colour in enumerate(("#0072b2", "#d55e00", "#009e73", "#7a5195", "#b8860b"), 1)
}
STEP_BYTES = 2 * MIB
"""A chunk of the examples, and what a step carries: there is no latency."""
UNIT_NS = STEP_BYTES / NVLINK_GB


@dataclass(frozen=True)
class Example:
    """Layers drawn as in a figure, on one overlapped tree of a DGX-1.

    Attributes:
        title: of its chart.
        chunks: of every layer.
        steps: that its forward pass takes.
        chained: whether it runs behind the AllReduce.
    """

    title: str
    chunks: tuple[int, ...]
    steps: tuple[float, ...]
    chained: bool = True

    @property
    def point(self) -> Point:
        """Its AllReduce: no latency, so that a step is a chunk on a link."""
        spec = tree_spec(overlap=True, chunk=STEP_BYTES, trees=1)
        return replace(dgx1(spec, sum(self.chunks) * STEP_BYTES, NVLINK_GB), changes=(("hand_off_ns", 0.0),))

    def workload(self) -> Workload:
        """The layers as a table of times: forward passes only."""
        header = (
            "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"
            ",update_delay,policy"
        )
        lines = [
            f"layer {number},{round(steps * UNIT_NS)},NONE,0,0,NONE,0,0,ALLREDUCE,{count * STEP_BYTES},0,"
            for number, (count, steps) in enumerate(zip(self.chunks, self.steps, strict=True), 1)
        ]
        return Workload.from_csv("layers", "\n".join([header, *lines]))

    def result(self, results: Results) -> Training:
        """Its iteration, counted from the end of the backward pass."""
        return _train(self.workload(), self.point, results, chained=self.chained)

    def spans(self, results: Results, x_max: float) -> Spans:
        """When chunks come to the root, when to the last node, and when layers run."""
        training = self.result(results)
        complete = [each["complete_ns"] / UNIT_NS for each in results[self.point]["tables"]["chunks"]]
        tracks: dict[str, list[Block]] = {"reduction": [], "broadcast": [], "forward": []}
        names = [
            (f"L{layer}-{part}", f"layer {layer}")
            for layer, count in enumerate(self.chunks, 1)
            for part in range(1, count + 1)
        ]
        for (text, label), end in zip(names, complete, strict=True):
            # A chunk is as long on its way down as on its way up.
            tracks["reduction"].append(Block(text, label, end - HEIGHT - 1, 1))
            tracks["broadcast"].append(Block(text, label, end - 1, 1))
        end = training.communication_ns / UNIT_NS
        if self.chained:
            forward = training.iteration.forward
            for number, (start, finish) in enumerate(zip(forward["start_ns"], forward["finish_ns"], strict=True), 1):
                length = float(finish - start) / UNIT_NS
                tracks["forward"].append(Block(f"L{number}", f"layer {number}", float(start) / UNIT_NS, length))
        else:
            for number, length in enumerate(self.steps, 1):
                tracks["forward"].append(Block(f"L{number}", f"layer {number}", end, length))
                end += length
        return Spans(self.title, "time in steps of a chunk", tracks, x_max)


def _example_points(examples: Sequence[Example], _quick: bool) -> list[Point]:
    return [example.point for example in examples]


FIG8_EXAMPLES = (
    Example("(a) not chained", (1, 2, 3, 4, 5), (5, 4, 3, 2, 1), chained=False),
    Example("(b) chained: gradient queuing", (1, 2, 3, 4, 5), (5, 4, 3, 2, 1)),
)


def _steps(name: str, example: Example, results: Results) -> tuple[list[Row], Numbers]:
    """How long an example takes, and how long it waits for what."""
    training = example.result(results)
    found = {
        "AllReduce": training.communication_ns,
        "iteration": training.iteration_ns,
        "waits for the first layer": training.turnaround_ns if example.chained else training.communication_ns,
        "bubbles": training.bubbles_ns,
    }
    # A message is a flit longer on a detour, which is not drawn.
    steps = {what: round(value / UNIT_NS, 3) for what, value in found.items()}
    rows = [Row(name, what, "steps", value) for what, value in steps.items()]
    return rows, {(name, what): value for what, value in steps.items()}


def _examples(examples: Sequence[Example], results: Results, _quick: bool) -> Outcome:
    rows: list[Row] = []
    numbers: Numbers = {}
    x_max = 0.0
    for example in examples:
        of_one, found = _steps(example.title, example, results)
        rows += of_one
        numbers |= found
        x_max = max(x_max, found[example.title, "iteration"])
    return Outcome(rows, [example.spans(results, x_max) for example in examples], numbers)


CASES = (
    Example("Case 1: computation falls, gradients grow with depth", (1, 2, 3, 4, 5), (5, 4, 3, 2, 1)),
    Example("Case 2: computation grows: bubbles", (3, 3, 3, 3, 3), (1, 2, 3, 4, 5)),
    Example("Case 3: large first layers: late turnaround", (5, 4, 3, 2, 1), (5, 4, 3, 2, 1)),
)

# --- Fig. 17 ------------------------------------------------------------------------------------

PARAMETERS, TIME = "parameters", "forward pass"
RESNET_STYLES = {PARAMETERS: Style("#0072b2"), TIME: Style("#d55e00")}
FIG17_BATCH = 64


def _fig17(_results: Results, _quick: bool) -> Outcome:
    layers = TrainingPlan(antiphon.workload("resnet50"), V100, FIG17_BATCH).layers
    names = [str(name) for name in layers["layer"]]
    found = {PARAMETERS: layers["gradient_bytes"].astype(float) / 4, TIME: layers["forward_ns"].astype(float)}
    rows = [
        Row(what, f"{index}: {name}", unit, float(values[index]))
        for what, unit in ((PARAMETERS, ""), (TIME, "ns"))
        for values in (found[what],)
        for index, name in enumerate(names)
    ]
    numbers: Numbers = {}
    for what, values in found.items():
        numbers[what, "rank correlation"] = _rank_correlation(values)
        rows.append(Row(what, "rank correlation with depth", "of 1", numbers[what, "rank correlation"]))
        for stage, of in _stages(names).items():
            mean = float(values[of].mean())
            numbers[what, stage] = mean
            rows.append(Row(what, f"mean of {stage}", "" if what == PARAMETERS else "ns", mean))
    charts = [
        Lines("Parameters of a layer", "layer", "millions", [_line(PARAMETERS, found)]),
        Lines(f"Forward pass of a layer, batch {FIG17_BATCH}", "layer", "time, ms", [_line(TIME, found)]),
    ]
    return Outcome(rows, charts, numbers)


def _line(what: str, found: dict[str, Column]) -> Line:
    values = found[what] / 1e6
    return Line(what, list(range(1, len(values) + 1)), values.tolist())


def _stages(names: Sequence[str]) -> dict[str, list[int]]:
    """Layers by the stage of the network: its convolutions of one size of image."""
    stages: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        if name.startswith("s") and "b" in name:
            stages.setdefault(f"stage {int(name[1]) + 1}", []).append(index)
    return stages


def _rank_correlation(values: Column) -> float:
    """Spearman's, of values with their places."""
    ranks = np.array([np.mean(np.flatnonzero(np.sort(values) == value)) for value in values])
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


FIG_8 = Experiment(
    "fig8",
    "Fig. 8. Gradient queuing",
    "Five layers with 1 to 5 chunks, on one overlapped tree of the DGX-1. Unchained, the forward pass waits for all"
    " chunks; chained, each layer starts when its last chunk is everywhere and the layer before is done. “Reduction”"
    " is when a chunk comes to the root, “broadcast” when it comes to the last node. The times of the layers, 5 to 1"
    " steps, are ours: the paper's drawing has no scale.",
    partial(_example_points, FIG8_EXAMPLES),
    partial(_examples, FIG8_EXAMPLES),
    columns=1,
)
FIG_13 = Experiment(
    "fig13",
    "Fig. 13. Training",
    "Speed of an iteration as a share of one without communication (Tc / T), on a DGX-1. B and C1 wait for the whole"
    " AllReduce; C2 and CC run the next forward pass behind it. R is a ring of 25 GB/s on each of four channels, each"
    f" with a quarter of the gradients. Low bandwidth is a quarter of the rate. {FIT} {ASSUMED} The reference is the"
    " iteration by the closed form: steps counted exactly, all of the same length.",
    _fig13_points,
    _fig13,
)
FIG_16 = Experiment(
    "fig16",
    "Fig. 16. Patterns of computation and communication",
    "The paper's three cases with the same sums: 15 chunks, and 15 steps of computation. In case 1 the forward pass"
    " never waits once it has started; in case 2 later layers wait for their gradients; in case 3 the first one does,"
    " for longer.",
    partial(_example_points, CASES),
    partial(_examples, CASES),
    columns=1,
)
FIG_17 = Experiment(
    "fig17",
    "Fig. 17. Layers of ResNet-50",
    "Parameters of every layer, from our table of its convolutions, and the time of its forward pass on a V100."
    f" {ASSUMED}",
    lambda _quick: [],
    _fig17,
)
