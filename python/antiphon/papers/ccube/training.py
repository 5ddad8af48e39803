"""Figures 13, 15 and 17 of the C-Cube paper: training, with the next forward pass behind it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import accumulate
from operator import itemgetter

import numpy as np

from antiphon.papers.ccube.systems import (
    C1,
    CC,
    CHANNELS,
    DATA,
    HEIGHT,
    LATENCY_NS,
    NVLINK_GB,
    OVERLAPPED,
    RANKS,
    RING,
    SYSTEM,
    SYSTEMS,
    TREES,
    V100,
    B,
    allreduce,
    cost,
    layers,
    nccl_us,
)
from antiphon.papers.ccube.trees import SENT_FOR, sent
from antiphon.repro.charts import bar_chart, line_chart
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.results import Column
from antiphon.studies import TrainingPoint

RATES = {"high bandwidth": NVLINK_GB, "low bandwidth": NVLINK_GB / 4}
BEHIND = DATA.series["R behind the backward pass"]


FIG1 = {
    "VGG-16": ("vgg16", "CNN"),
    "ResNet-50": ("resnet50", "CNN"),
    "GNMT": ("gnmt", ""),
    "Transformer": ("transformer", ""),
    "NCF": ("ncf", "NCF"),
}
"""The backbones of Single Stage Detector and Mask R-CNN (section V-A), NCF, and two others of MLPerf; and of which kind
they are, where the paper says something of it."""
USUAL_BATCH = 32


def fig1(_quick: bool) -> Steps:
    """What share of an iteration NCCL's AllReduce takes, for batches that are an assumption."""
    yield []
    table, rows, exchange = Table(), Rows(DATA, "fig1"), DATA.series["AllReduce"]
    for batch in (8, USUAL_BATCH, 128):
        for name, (model, kind) in FIG1.items():
            of = layers(model, batch)
            computing = sum(float(of[part].sum()) for part in ("forward_ns", "input_gradient_ns", "weight_gradient_ns"))
            took = 1000 * nccl_us(int(of["gradient_bytes"].sum()))
            found = {"what": f"{name}, batch {batch}", "share": 100 * took / (took + computing)}
            table.append({"series": exchange, "name": name, "kind": kind, "batch": batch} | found)
    usual = table.where(batch=USUAL_BATCH)
    most = max(usual.where(kind="CNN"), key=itemgetter("share"))
    keys = {most["what"]: "CNN, most", usual.where(kind="NCF")[0]["what"]: "NCF"}
    for e in table:
        rows.add(e, "%", e["share"], key=keys.get(e["what"]), note=DATA.texts["batches"] if e["what"] in keys else "")
    title, parts = f"AllReduce in an iteration, batch {USUAL_BATCH}", {"AllReduce": "share"}
    chart = bar_chart(title, "share of time, %", usual, itemgetter("name"), parts, y_max=100)
    return Outcome(table, rows, [chart])


def closed_form_ns(case: Entry, compute_ns: float, forward_ns: float) -> float:
    """The iteration by the paper's cost model: steps of a latency and a chunk over the rate, exactly counted.

    A chunk ``k`` (from 1) is ready after ``2h + K + k - 2`` steps with the barrier, ``2h + k - 1`` overlapped; the last
    one ends the AllReduce.
    """
    series, rate, of = case["series"], RATES[case["rate"]], layers(case["model"].run, case["batch"])
    size = int(of["gradient_bytes"].sum())
    if series == RING:
        return compute_ns + 2 * (RANKS - 1) * (LATENCY_NS + size / CHANNELS / RANKS / rate)
    count = cost(OVERLAPPED, RANKS, size, rate=rate)[1]
    step = LATENCY_NS + size / TREES / count / rate
    first = 2 * HEIGHT + (0 if series.run == "yes" else count - 1)
    if series.more["overlap"] != "ccube":
        return compute_ns + (first + count - 1) * step
    now, parts = 0.0, accumulate(of["gradient_bytes"].tolist())
    for forward, part in zip(of["forward_ns"].tolist(), parts, strict=True):
        last = math.ceil(part * count / size)
        now = max(now, (first + last - 1) * step if last else 0.0) + forward
    return now + compute_ns - forward_ns


def _training(case: Entry) -> TrainingPoint:
    """Each channel of a ring has one byte of every gradient, and a quarter of every bucket."""
    series, model = case["series"], case["model"].run
    on = allreduce(series, int(layers(model, case["batch"])["gradient_bytes"].sum()), RATES[case["rate"]])
    options = {name: series.more[name] for name in ("overlap", "bucket")} | {"batch": case["batch"], "compute": V100}
    options |= {"gradient_bytes": 4 if series.run else 4 // CHANNELS, "fidelity": on.fidelity}
    return TrainingPoint(model, on.fabric, on.algorithm, tuple(options.items()), system=SYSTEM)


def fig13(quick: bool) -> Steps:
    """Shares of the speed without communication."""
    models, batches = (("ZFNet",), (16, 32)) if quick else (("ZFNet", "VGG-16", "ResNet-50"), (16, 32, 64, 128, 256))
    series = (*SYSTEMS[:4], BEHIND, CC)
    cases = grid(model=DATA.named(*models), rate=RATES, batch=batches, series=series)
    runs = yield [(case, [_training(case)]) for case in cases]
    table = Table()
    for case, (done,) in runs:
        iteration, computing = done["iteration_ns"], done["compute_ns"]
        is_behind, share = case["series"] == BEHIND, computing / iteration
        closed = None if is_behind else computing / closed_form_ns(case, computing, done["forward_ns"])
        found = {"gb": RATES[case["rate"]], "closed": closed, "iteration": iteration, "computing": computing}
        found |= {"what": f"{case['model']}, {case['rate']}, batch {case['batch']}", "share": share}
        memory = done["memory"]
        found["buffers"] = 100 * memory["buffer_bytes"] / (memory["weights_bytes"] + memory["gradients_bytes"])
        table.append(case | found | {"percent": 100 * share, "time": iteration / computing})
    rows = Rows(DATA, "fig13")
    for e in table:
        rows.add(e, "of ideal", e["share"], reference=e["closed"])
    for e in table.where(series=CC):
        rows.add(e, "%", e["buffers"], "Receive buffers of CC over weights and gradients")
    pairs = ((C1, B, "mean"), (C1, B, "most"), (CC, B, "mean"), (CC, B, "most"), (CC, RING, "most"), (RING, C1, "most"))
    for over, slower, statistic in () if quick else pairs:
        # Of shares of the ideal speed: the larger one is over the smaller one.
        of, what = table.where(series=slower), f"{over} over {slower}, {statistic}"
        ratios = table.where(series=over).over("share", of)
        ours = ratios.mean if statistic == "mean" else ratios.most
        rows.add(of[0], "×", ours, "How many times as fast an iteration is", what, what, note=DATA.texts["depends"])
    if not quick:
        of = table.where(series=CC)
        words = "Largest share of ideal speed", "CC", "CC, largest share"
        rows.add(of[0], "%", of.values("percent").most, *words, note=DATA.texts["depends"])
    charts = [
        bar_chart(
            f"{of[0]['model']}, {of[0]['rate']}",
            "share of ideal speed",
            of,
            lambda e: f"batch {e['batch']}",
            {"iteration": "share"},
            y_max=1.0,
        )
        for of in table.where(series=SYSTEMS).split("model", "rate")
    ]
    return Outcome(table, rows, charts, columns=2)


FIG_BATCH = 64
SMS = 80
"""Of a V100 (NVIDIA's white paper on its architecture, 2017)."""


def _cc(case: Entry) -> TrainingPoint:
    return _training(case | {"series": CC, "batch": FIG_BATCH, "rate": "high bandwidth"})


def _relaying(case: Entry) -> TrainingPoint:
    """CC with kernels that stay on the GPU, as the paper's do, and so always have their SMs."""
    usual, changes = _cc(case), (("relay_processors", int(case["series"].run) / SMS),)
    return replace(usual, options=(*usual.options, ("contention", "static")), changes=changes)


def _slowed(case: Entry, loss: float) -> TrainingPoint:
    """CC with two GPUs that lose so many percent of their speed."""
    usual = _cc(case)
    return replace(usual, options=(*usual.options, ("slow", f"0,1:{1 / (1 - loss / 100):.6f}")))


LOSSES = 3.0, 4.0
"""Percent that GPUs 0 and 1 lose in the paper."""


def fig15(quick: bool) -> Steps:
    """What every GPU sends for others, and how much slower it computes by that."""
    models = DATA.named("ZFNet") if quick else DATA.named("ZFNet", "VGG-16", "ResNet-50")
    kernels = DATA.named("1 SM a kernel", "2 SMs a kernel")
    runs = yield [
        (case, [_relaying(case), _cc(case), *(_slowed(case, loss) for loss in LOSSES)])
        for case in grid(series=kernels, model=models)
    ]
    forwarding, table, rows = sent(), Table(), Rows(DATA, "fig15")
    for e in forwarding:
        for part in SENT_FOR:
            rows.add(e, "of the data", e[part], f"sent, {part}")
    for case, (done, usual, *slowed) in runs:
        slowdowns = {each["rank"]: each["slowdown"] for each in done["relays"]}
        for of in forwarding:
            speed = 1 / slowdowns.get(of["gpu"], 1.0)
            what = f"{of['what']}, {case['model']}"
            e = case | of | {"what": what, "speed": speed, "loss": 100 * (1 - speed)}
            table.append(e)
            rows.add(e, "%", e["loss"], "loss of speed")
        for loss, run in zip(LOSSES, slowed, strict=True):
            if case["series"] == kernels[0]:
                longer = 100 * (run["iteration_ns"] / usual["iteration_ns"] - 1)
                rows.add(case, "%", longer, "iteration, longer", f"{case['model']}, GPUs 0 and 1 lose {loss:g} %")
    for series in kernels:
        most, what = table.where(series=series).values("loss").most, "loss of GPUs 0 and 1, most"
        rows.add({"series": series}, "%", most, what=what, key=what, note=DATA.texts["kernels"])
    of_gpu, parts = itemgetter("gpu"), {part: part for part in SENT_FOR}
    title, one = "What a GPU sends in an AllReduce", table.where(model=models[0])
    charts = [
        bar_chart(title, "times the data", forwarding, of_gpu, parts, label=lambda _: "GPU"),
        bar_chart(f"Computation, {models[0]}", "speed", one, of_gpu, {"speed": "speed"}, y_max=1.0),
    ]
    return Outcome(table, rows, charts, columns=2)


def _rank_correlation(values: Column) -> float:
    """Spearman's, of values with their places."""
    ranks = np.array([np.mean(np.flatnonzero(np.sort(values) == value)) for value in values])
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


def fig17(_quick: bool) -> Steps:
    """Layers of ResNet-50, and what is found of all of them; a stage has the convolutions of one size of image."""
    yield []
    of = layers("resnet50", FIG_BATCH)
    names = [str(name) for name in of["layer"]]
    stages = {stage: [bool(re.match(f"s{stage - 1}.*b", name)) for name in names] for stage in (1, 2, 3, 4)}
    table, further, charts = Table(), Rows(DATA, "fig17"), []
    parameters, forward = DATA.named("parameters", "forward pass")
    for series, unit, values, title, y_label in (
        (parameters, "", of["gradient_bytes"].astype(float) / 4, "Parameters of a layer", "millions"),
        (forward, "ns", of["forward_ns"].astype(float), "Forward pass of a layer, batch 64", "time, ms"),
    ):
        means = {f"stage {stage}": float(values[those].mean()) for stage, those in stages.items()}
        all = {"correlation": _rank_correlation(values), **{name: mean / 1e6 for name, mean in means.items()}}
        part = Table()
        for layer, (name, value) in enumerate(zip(names, map(float, values), strict=True)):
            found = {"what": f"{layer}: {name}", "place": layer + 1, "value": value, "millions": value / 1e6}
            part.append({"series": series, "layer": layer, "unit": unit} | found | all)
        table += part
        charts.append(line_chart(title, part, "place", "layer", "millions", y_label))
        further.add(part[0], "of 1", all["correlation"], what="rank correlation with depth")
        for name, mean in means.items():
            further.add(part[0], unit, mean, what=f"mean of {name}")
    rows = Rows(DATA, "fig17")
    for e in table:
        rows.add(e, e["unit"], e["value"])
    return Outcome(table, rows + further, charts, columns=2)
