"""Figure 13 of the C-Cube paper: training, with the next forward pass behind the AllReduce."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import antiphon
from antiphon._core import Workload
from antiphon.papers.ccube import systems as dgx1
from antiphon.papers.ccube.systems import CC, DATA, LATENCY_NS, NVLINK_GB, RANKS, RING, cost
from antiphon.repro.claims import Cells, Judged, Tables, share, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.repro.trained import sizes, timed, trained
from antiphon.studies import Point, Record
from antiphon.training.result import Training

V100 = antiphon.System(dgx1.SYSTEM).processor
"""FP32, at shares of the peaks that tuned kernels reach: an assumption."""
RATES = {"high bandwidth": NVLINK_GB, "low bandwidth": NVLINK_GB / 4}


def train_once(model: str | Workload, point: Point, record: Record, *, chained: bool, **options: Any) -> Training:
    """An iteration with its one AllReduce as it was simulated."""
    collective, overlap = timed(record), "ccube" if chained else "none"
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
    step = LATENCY_NS + size / dgx1.TREES / count / rate
    first = 2 * dgx1.HEIGHT + (0 if series.run == "yes" else count - 1)
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
    return partial(antiphon.train, model, "dgx1v", "ring", **options)


def _jobs(case: Entry) -> list[Point]:
    model, series, rate = case["model"].run, case["series"], RATES[case["rate"]]
    if series == BEHIND:
        return [dgx1.allreduce(RING, size, rate) for size in sizes(_behind(model, case["batch"]))]
    return [dgx1.allreduce(series, 4 * antiphon.workload(model).params, rate)]


def _share(case: Entry, *records: Record) -> Entry:
    """Speed as a share of that without communication."""
    model, batch, series, rate = case["model"].run, case["batch"], case["series"], RATES[case["rate"]]
    closed = None
    if series == BEHIND:
        training = trained(_behind(model, batch), records)
    else:
        chained, point = bool(series.more["chained"]), _jobs(case)[0]
        training = train_once(model, point, records[0], chained=chained, batch=batch, compute=V100)
        closed = training.compute_ns / closed_form_ns(training, series, rate)
    share = training.compute_ns / training.iteration_ns
    return {"gb": rate, "share": share, "percent": 100 * share, "time": 1 / share, "closed": closed}


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


FIGURES = (Figure(DATA, "fig13", _share, _jobs),)
CHECKS = {"order": _order, "cc-exceeds-r": _cc_exceeds}
