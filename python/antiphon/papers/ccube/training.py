"""Figures 8, 13, 16 and 17 of the C-Cube paper: the next forward pass behind the AllReduce."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import antiphon
from antiphon._core import TrainingPlan, Workload
from antiphon.papers.ccube.dgx1 import (
    C1,
    C2,
    CC,
    DATA,
    HEIGHT,
    LATENCY_NS,
    MIB,
    NVLINK_GB,
    RANKS,
    RING,
    SYSTEM,
    SYSTEMS,
    TREES,
    B,
    allreduce,
    cost,
    on_trees,
    row,
    tree_spec,
)
from antiphon.repro.charts import Bars, Block, Line, Lines, Spans, bars
from antiphon.repro.claims import Cells, Judged, Tables, listed, share, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Row, Shown, row_of
from antiphon.repro.table import Entry, Table, grid
from antiphon.repro.trained import sizes, trained
from antiphon.results import Column
from antiphon.study import Point, Record
from antiphon.timing import CollectiveTime
from antiphon.training import Training

V100 = antiphon.System(SYSTEM).processor
"""FP32, at shares of the peaks that tuned kernels reach: an assumption."""
MODELS = {"ZFNet": "zfnet", "VGG-16": "vgg16", "ResNet-50": "resnet50"}
BATCHES = (16, 32, 64, 128, 256)
RATES = {"high bandwidth": NVLINK_GB, "low bandwidth": NVLINK_GB / 4}
SIGNIFICANT = 0.02
"""What gains more is an improvement."""


def _timed(record: Record) -> CollectiveTime:
    """A stored collective."""
    rows = record["tables"]["chunks"]
    types = {"lane": np.int64, "chunk": np.uint64, "complete_ns": np.float64}
    chunks = {name: np.array([each[name] for each in rows], kind) for name, kind in types.items()}
    return CollectiveTime(record["time_ns"], [], chunks)


def _train(model: str | Workload, point: Point, record: Record, *, chained: bool, **options: Any) -> Training:
    """An iteration with its one AllReduce as it was simulated."""
    collective, overlap = _timed(record), "ccube" if chained else "none"
    return antiphon.train(
        model, point.fabric, point.algorithm, overlap=overlap, collectives=lambda *_asked: collective, **options
    )


# --- Fig. 13 ------------------------------------------------------------------------------------

BEHIND = DATA.series["R behind the backward pass"]
BUCKET = "25MiB"
"""Of gradients that are reduced together: PyTorch's default."""


def closed_form_ns(training: Training, series: Series, rate: float) -> float:
    """The iteration by the paper's cost model: steps of a latency and a chunk over the rate, exactly counted.

    A chunk ``k`` (from 1) is ready after ``2h + K + k - 2`` steps with the barrier, ``2h + k - 1`` overlapped; the last
    one ends the AllReduce.
    """
    size = training.gradient_bytes
    if series == RING:
        steps = 2 * (training.ranks - 1)
        return training.compute_ns + steps * (LATENCY_NS + size / 4 / training.ranks / rate)
    count = cost(RANKS, size, rate=rate).chunks
    step = LATENCY_NS + size / TREES / count / rate
    first = 2 * HEIGHT + (0 if series.run == "yes" else count - 1)
    if not series.more["chained"]:
        return training.compute_ns + (first + count - 1) * step
    now = 0.0
    part = 0
    for forward, gradients in zip(training.layers["forward_ns"], training.layers["gradient_bytes"], strict=True):
        part += int(gradients)
        last = math.ceil(part * count / size)
        ready = (first + last - 1) * step if last else 0.0
        now = max(now, ready) + float(forward)
    return now + training.compute_ns - training.iteration.forward_ns


def _behind(model: str, batch: int) -> Callable[..., Training]:
    """An iteration whose exchanges on the ring run behind the backward pass."""
    options: dict[str, Any] = {"overlap": "layerwise", "bucket": BUCKET, "batch": batch, "compute": V100}
    return partial(antiphon.train, MODELS[model], "dgx1v", "ring", **options)


def _fig13_cases(quick: bool) -> list[Entry]:
    models, batches = (["ZFNet"], BATCHES[:2]) if quick else (MODELS, BATCHES)
    found = grid(model=models, rate=RATES, batch=batches, series=[B, C1, C2, RING, BEHIND, CC])
    return [case | {"gb": RATES[case["rate"]]} for case in found]


def _fig13_jobs(case: Entry) -> list[Point]:
    if case["series"] == BEHIND:
        return [allreduce(RING, size, case["gb"]) for size in sizes(_behind(case["model"], case["batch"]))]
    return [allreduce(case["series"], 4 * antiphon.workload(MODELS[case["model"]]).params, case["gb"])]


def _share(case: Entry, *records: Record) -> Entry:
    """Speed as a share of that without communication."""
    model, batch, series, rate = (case[axis] for axis in ("model", "batch", "series", "gb"))
    closed = None
    if series == BEHIND:
        training = trained(_behind(model, batch), [_timed(record) for record in records])
    else:
        chained, point = bool(series.more["chained"]), _fig13_jobs(case)[0]
        training = _train(MODELS[model], point, records[0], chained=chained, batch=batch, compute=V100)
        closed = training.compute_ns / closed_form_ns(training, series, rate)
    share = training.compute_ns / training.iteration_ns
    what = f"{model}, {case['rate']}, batch {batch}"
    return {"what": what, "share": share, "percent": 100 * share, "time": 1 / share, "closed": closed}


def _fig13(table: Table) -> Shown:
    rows = [row_of(entry, "share", "of ideal", reference=entry["closed"]) for entry in table]
    charts = []
    shown = Table(entry | {"name": f"batch {entry['batch']}"} for entry in table.where(series=SYSTEMS))
    for model, of in shown.by("model"):
        for rate, at in of.by("rate"):
            groups = bars(at, "name", ["share"])
            charts.append(Bars(f"{model}, {rate}", "share of ideal speed", ["iteration"], groups, 1.0))
    if table.whole:
        pairs = (
            ("C1", "B", "mean"),
            ("C1", "B", "most"),
            ("CC", "B", "mean"),
            ("CC", "B", "most"),
            ("CC", "R", "most"),
        )
        for ours, over, how in (*pairs, ("R", "C1", "most")):
            what, value = f"{ours} over {over}, {how}", getattr(table.ratios("share", ours, over), how)
            rows.append(row("fig13", "Speed-up of an iteration", what, "×", value, what, note=DATA.texts["depends"]))
        most = ("CC", "%", max(table.where(series=CC).column("percent")), "CC, largest share")
        rows.append(row("fig13", "Largest share of ideal speed", *most, note=DATA.texts["depends"]))
    return rows, charts


FIG_13 = Figure("fig13", _fig13_cases, _share, _fig13, _fig13_jobs)


def _order(_cells: Cells, tables: Tables) -> Judged:
    table, pairs = tables["fig13"], (("B", "C1"), ("B", "C2"), ("C1", "CC"), ("C2", "CC"))
    failing = {what for slow, fast in pairs for what, ratio in table.ratios("share", fast, slow) if ratio <= 1}
    count = len(table.where(series=CC))
    return share(len(failing), count), {"passing": count - len(failing), "count": count}


def _cc_exceeds(_cells: Cells, tables: Tables) -> Judged:
    values = tables["fig13"].ratios("share", "CC", "R")
    slower = [what for what, value in values if value < 1]
    small = tables["fig13"].where("model=ZFNet; batch<=32").axis("what")
    names = {"passing": values.count - len(slower), "count": values.count, "lost": "; ".join(slower)}
    return verdict(set(slower) <= set(small)), names


def _ring_behind(_cells: Cells, tables: Tables) -> Judged:
    gained, left = (tables["fig13"].ratios("share", *names) for names in ((BEHIND.name, "R"), ("CC", BEHIND.name)))
    holds = verdict(gained.most <= 1 + SIGNIFICANT, gained.mean <= 1 + SIGNIFICANT)
    return holds, {"gained": gained, "left": left, "faster": sum(value > 1 for value in left.numbers)}


# --- Figs. 8 and 16: layers drawn as in a figure, on one overlapped tree of a DGX-1 -----------------

STEP_BYTES = 2 * MIB
"""A chunk of the examples, and what a step carries: there is no latency."""
UNIT_NS = STEP_BYTES / NVLINK_GB
HEADER = (
    "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes,update_delay"
    ",policy"
)


def examples(figure: str) -> list[Entry]:
    """Layers of so many chunks and steps of a forward pass, which is chained to the AllReduce or not."""
    return [
        case | {"chunks": [*map(int, case["chunks"].split())], "steps": [*map(int, case["steps"].split())]}
        for case in DATA.table("examples")
        if case["figure"] == figure
    ]


def _example_jobs(case: Entry) -> list[Point]:
    spec = tree_spec(overlap=True, chunk=STEP_BYTES, trees=1)
    return [replace(on_trees(spec, sum(case["chunks"]) * STEP_BYTES), changes=(("hand_off_ns", 0.0),))]


def _example(case: Entry, record: Record) -> Entry:
    """How long an iteration takes from the end of the backward pass, and how long it waits for what."""
    layers = [
        f"layer {number},{round(steps * UNIT_NS)},NONE,0,0,NONE,0,0,ALLREDUCE,{count * STEP_BYTES},0,"
        for number, (count, steps) in enumerate(zip(case["chunks"], case["steps"], strict=True), 1)
    ]
    (job,), chained = _example_jobs(case), bool(case["chained"])
    training = _train(Workload.from_csv("layers", "\n".join([HEADER, *layers])), job, record, chained=chained)
    found = {
        "AllReduce": training.communication_ns,
        "iteration": training.iteration_ns,
        "waits for the first layer": training.turnaround_ns if chained else training.communication_ns,
        "bubbles": training.bubbles_ns,
    }
    # A message is a flit longer on a detour, which is not drawn.
    steps = {what: round(value / UNIT_NS, 3) for what, value in found.items()}
    return {"found": steps, "tracks": _tracks(case, training, record)} | steps


def _tracks(case: Entry, training: Training, record: Record) -> dict[str, list[Block]]:
    """When chunks come to the root, when to the last node, and when layers run."""
    complete = [each["complete_ns"] / UNIT_NS for each in record["tables"]["chunks"]]
    tracks: dict[str, list[Block]] = {"reduction": [], "broadcast": [], "forward": []}
    chunks = [(layer, part) for layer, count in enumerate(case["chunks"], 1) for part in range(1, count + 1)]
    for (layer, part), end in zip(chunks, complete, strict=True):
        # A chunk is as long on its way down as on its way up.
        for track, start in (("reduction", end - HEIGHT - 1), ("broadcast", end - 1)):
            tracks[track].append(Block(f"L{layer}-{part}", f"layer {layer}", start, 1))
    end = training.communication_ns / UNIT_NS
    forward = training.iteration.forward
    for number, length in enumerate(case["steps"], 1):
        start = end
        if case["chained"]:
            start = float(forward["start_ns"][number - 1]) / UNIT_NS
            length = float(forward["finish_ns"][number - 1] - forward["start_ns"][number - 1]) / UNIT_NS
        tracks["forward"].append(Block(f"L{number}", f"layer {number}", start, length))
        end += length
    return tracks


def _examples(table: Table) -> Shown:
    rows = [Row(e["title"], what, "steps", value) for e in table for what, value in e["found"].items()]
    x_max = max(table.column("iteration"))
    return rows, [Spans(e["title"], "time in steps of a chunk", e["tracks"], x_max) for e in table]


FIG_8 = Figure("fig8", lambda _quick: examples("fig8"), _example, _examples, _example_jobs)
FIG_16 = Figure("fig16", lambda _quick: examples("fig16"), _example, _examples, _example_jobs)


def _three_cases(_cells: Cells, tables: Tables) -> Judged:
    first, bubbles, total = (
        tables["fig16"].column(what) for what in ("waits for the first layer", "bubbles", "iteration")
    )
    holds = bubbles[0] == 0 < bubbles[1] and first[2] > max(first[:2]) and total[0] < min(total[1:])
    names = {"total": total, "first": first, "bubbles": bubbles}
    texts = {name: listed(values, "{:g}") for name, values in names.items()}
    return verdict(holds), texts | {"show": "all three show" if holds else "not all show"}


# --- Fig. 17 ------------------------------------------------------------------------------------

FIG_17_BATCH = 64
PARAMETERS, TIME = "parameters", "forward pass"


def _layers(case: Entry) -> Entry:
    layers = TrainingPlan(antiphon.workload("resnet50"), V100, FIG_17_BATCH).layers
    parameters = case["series"] == PARAMETERS
    values = layers["gradient_bytes"].astype(float) / 4 if parameters else layers["forward_ns"].astype(float)
    names = [str(name) for name in layers["layer"]]
    return {
        "unit": "" if parameters else "ns",
        "values": dict(zip(names, values.tolist(), strict=True)),
        "correlation": _rank_correlation(values),
        "stages": {stage: float(values[of].mean()) for stage, of in _stages(names).items()},
    }


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


def _fig17(table: Table) -> Shown:
    rows = [
        Row(e["series"], f"{index}: {name}", e["unit"], value)
        for e in table
        for index, (name, value) in enumerate(e["values"].items())
    ]
    charts = []
    titles = ("Parameters of a layer", "millions"), (f"Forward pass of a layer, batch {FIG_17_BATCH}", "time, ms")
    for e, (title, label) in zip(table, titles, strict=True):
        rows.append(Row(e["series"], "rank correlation with depth", "of 1", e["correlation"]))
        rows += [Row(e["series"], f"mean of {stage}", e["unit"], mean) for stage, mean in e["stages"].items()]
        ys = [value / 1e6 for value in e["values"].values()]
        charts.append(Lines(title, "layer", label, [Line(e["series"], range(1, len(ys) + 1), ys)]))
    return rows, charts


FIG_17 = Figure("fig17", lambda _quick: grid(series=[PARAMETERS, TIME]), _layers, _fig17)


def _resnet(_cells: Cells, tables: Tables) -> Judged:
    sizes, times = ([value / 1e6 for value in stages.values()] for stages in tables["fig17"].column("stages"))
    growing, falling = (all(b > a for a, b in pairwise(values)) for values in (sizes, times[::-1]))
    correlations = listed(tables["fig17"], "{0[series]} {0[correlation]:+.2f}")
    names = {"correlations": correlations, "sizes": listed(sizes, "{:.2f}"), "times": listed(times, "{:.2f}")}
    return verdict(growing and falling, growing or falling), names


CHECKS = {
    "order": _order,
    "cc-exceeds-r": _cc_exceeds,
    "ring-behind": _ring_behind,
    "cases": _three_cases,
    "resnet": _resnet,
}
