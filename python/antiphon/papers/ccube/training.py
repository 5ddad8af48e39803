"""Figures 8, 13, 16 and 17 of the C-Cube paper: training, with the next forward pass behind the AllReduce."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

import numpy as np

import antiphon
from antiphon._core import TrainingPlan, Workload
from antiphon.papers.ccube import allreduce as dgx1
from antiphon.papers.ccube.allreduce import DATA, HEIGHT, LATENCY_NS, NVLINK_GB, RANKS, RING, cost
from antiphon.repro.charts import Block
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.repro.trained import sizes, trained
from antiphon.results import Column
from antiphon.studies import Point, Record
from antiphon.training.result import Training

V100 = antiphon.System(dgx1.SYSTEM).processor
"""FP32, at shares of the peaks that tuned kernels reach: an assumption."""
RATES = {"high bandwidth": NVLINK_GB, "low bandwidth": NVLINK_GB / 4}

BEHIND = DATA.series["R behind the backward pass"]


def closed_form_ns(training: Training, series: Series, rate: float) -> float:
    """The iteration by the paper's cost model: steps of a latency and a chunk over the rate, exactly counted.

    A chunk ``k`` (from 1) is ready after ``2h + K + k - 2`` steps with the barrier, ``2h + k - 1`` overlapped; the last
    one ends the AllReduce.
    """
    size = training.gradient_bytes
    if series == RING:
        steps = 2 * (training.ranks - 1)
        return training.compute_ns + steps * (LATENCY_NS + size / 4 / training.ranks / rate)
    count = cost(dgx1.OVERLAPPED, RANKS, size, rate=rate)[1]
    step = LATENCY_NS + size / dgx1.TREES / count / rate
    first = 2 * HEIGHT + (0 if series.run == "yes" else count - 1)
    if series.more["overlap"] != "ccube":
        return training.compute_ns + (first + count - 1) * step
    now, parts = 0.0, accumulate(map(int, training.layers["gradient_bytes"]))
    for forward, part in zip(training.layers["forward_ns"], parts, strict=True):
        last = math.ceil(part * count / size)
        now = max(now, (first + last - 1) * step if last else 0.0) + float(forward)
    return now + training.compute_ns - training.iteration.forward_ns


def _train(case: Entry) -> Callable[..., Training]:
    """Fig. 13: the training of a case, with the times of its collectives from elsewhere."""
    how = {name: case["series"].more[name] for name in ("overlap", "bucket")}
    return partial(antiphon.train, case["model"].run, "dgx1v", "ring", **how, batch=case["batch"], compute=V100)


def _jobs(case: Entry) -> list[Point]:
    return [dgx1.allreduce(case["series"], size, RATES[case["rate"]]) for size in sizes(_train(case))]


def _share(case: Entry, *records: Record) -> Entry:
    """Speed as a share of that without communication."""
    series, rate, training = case["series"], RATES[case["rate"]], trained(_train(case), records)
    closed = None if series == BEHIND else training.compute_ns / closed_form_ns(training, series, rate)
    share = training.compute_ns / training.iteration_ns
    return {"gb": rate, "share": share, "percent": 100 * share, "time": 1 / share, "closed": closed}


STEP_BYTES = 2 * dgx1.MIB
"""A chunk of the examples, and what a step carries: there is no latency."""
UNIT_NS = STEP_BYTES / NVLINK_GB
HEADER = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"


def _example_jobs(case: Entry) -> list[Point]:
    spec = dgx1.tree_spec(overlap=True, chunk=STEP_BYTES, trees=1)
    return [replace(dgx1.point(spec, sum(case["chunks"]) * STEP_BYTES), changes=(("hand_off_ns", 0.0),))]


def _example(case: Entry, record: Record) -> Entry:
    """Figs. 8 and 16: how long an iteration takes from the end of the backward pass, and how long it waits for what."""
    layers = [
        f"layer {number},{round(steps * UNIT_NS)},NONE,0,0,NONE,0,0,ALLREDUCE,{count * STEP_BYTES}"
        for number, (count, steps) in enumerate(zip(case["chunks"], case["steps"], strict=True), 1)
    ]
    chained, workload = case["chained"], Workload.from_csv("layers", "\n".join([HEADER, *layers]))
    train = partial(antiphon.train, workload, "dgx1v", "ring", overlap="ccube" if chained else "none")
    training = trained(train, [record])
    found = {
        "AllReduce": training.communication_ns,
        "iteration": training.iteration_ns,
        "waits for the first layer": training.turnaround_ns if chained else training.communication_ns,
        "bubbles": training.bubbles_ns,
    }
    # A message is a flit longer on a detour, which is not drawn.
    steps = {what: round(value / UNIT_NS, 3) for what, value in found.items()}
    return steps | {"tracks": _tracks(case, training, record)}


def _tracks(case: Entry, training: Training, record: Record) -> dict[str, list[Block]]:
    """When chunks come to the root, when to the last node, and when layers run."""
    complete = [each["complete_ns"] / UNIT_NS for each in record["tables"]["chunks"]]
    tracks: dict[str, list[Block]] = {"reduction": [], "broadcast": [], "forward": []}
    chunks = [(layer, part) for layer, count in enumerate(case["chunks"], 1) for part in range(1, count + 1)]
    for (layer, part), end in zip(chunks, complete, strict=True):
        # A chunk is as long on its way down as on its way up.
        for track, start in (("reduction", end - HEIGHT - 1), ("broadcast", end - 1)):
            tracks[track].append(Block(f"L{layer}-{part}", f"layer {layer}", start, 1))
    forward, begin = training.iteration.forward, 0.0 if case["chained"] else training.communication_ns
    for number, (start, finish) in enumerate(zip(forward["start_ns"], forward["finish_ns"], strict=True), 1):
        length = float(finish - start) / UNIT_NS
        tracks["forward"].append(Block(f"L{number}", f"layer {number}", (begin + float(start)) / UNIT_NS, length))
    return tracks


FIG_17_BATCH = 64


def _layer(case: Entry) -> Entry:
    """Fig. 17: a layer, and what is found of all of them; a stage has the convolutions of one size of image."""
    layers = TrainingPlan(antiphon.workload("resnet50"), V100, FIG_17_BATCH).layers
    parameters = case["series"].name == "parameters"
    values = layers["gradient_bytes"].astype(float) / 4 if parameters else layers["forward_ns"].astype(float)
    names, value = [str(name) for name in layers["layer"]], float(values[case["layer"]])
    stages = {stage + 1: [bool(re.match(f"s{stage}.*b", name)) for name in names] for stage in range(4)}
    return {
        "what": f"{case['layer']}: {names[case['layer']]}",
        "unit": "" if parameters else "ns",
        "place": case["layer"] + 1,
        "value": value,
        "correlation": _rank_correlation(values),
        **{f"mean of stage {stage}": float(values[of].mean()) for stage, of in stages.items()},
    }


def _rank_correlation(values: Column) -> float:
    """Spearman's, of values with their places."""
    ranks = np.array([np.mean(np.flatnonzero(np.sort(values) == value)) for value in values])
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


def _resnet(_cells: Cells, tables: Tables) -> Judged:
    firsts = [of[0] for _, of in tables["fig17"].by("series")]
    sizes, times = ([of[f"mean of stage {stage}"] / 1e6 for stage in range(1, 5)] for of in firsts)
    growing, falling = (all(b > a for a, b in pairwise(values)) for values in (sizes, times[::-1]))
    correlations = listed(firsts, "{0[series]} {0[correlation]:+.2f}")
    names = {"correlations": correlations, "sizes": listed(sizes, "{:.2f}"), "times": listed(times, "{:.2f}")}
    return verdict(growing and falling, growing or falling), names


FIGURES = (
    *(Figure(DATA, name, _example, _example_jobs) for name in ("fig8", "fig16")),
    Figure(DATA, "fig13", _share, _jobs),
    Figure(DATA, "fig17", _layer),
)
CHECKS = {"resnet": _resnet}
