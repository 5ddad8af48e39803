"""Figure 13 of the C-Cube paper: training, with the next forward pass behind the AllReduce."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import antiphon
from antiphon import results
from antiphon._core import Workload
from antiphon.collective.timing import CollectiveTime
from antiphon.papers.ccube.dgx1 import (
    C1,
    C2,
    CC,
    DATA,
    HEIGHT,
    LATENCY_NS,
    NVLINK_GB,
    RANKS,
    RING,
    SYSTEM,
    SYSTEMS,
    TREES,
    B,
    row,
)
from antiphon.papers.ccube.systems import allreduce, cost
from antiphon.repro.charts import Bars, bars
from antiphon.repro.claims import Cells, Judged, Tables, share, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Shown, row_of
from antiphon.repro.table import Entry, Table, grid
from antiphon.repro.trained import sizes, trained
from antiphon.studies import Point, Record
from antiphon.training.result import Training

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
    chunks = results.Table({name: np.array([each[name] for each in rows], kind) for name, kind in types.items()})
    return CollectiveTime(record["time_ns"], [], chunks)


def train_once(model: str | Workload, point: Point, record: Record, *, chained: bool, **options: Any) -> Training:
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
        training = train_once(MODELS[model], point, records[0], chained=chained, batch=batch, compute=V100)
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


CHECKS = {"order": _order, "cc-exceeds-r": _cc_exceeds, "ring-behind": _ring_behind}
