"""Figures 4 and 12 of the Themis paper: training, whose inputs the paper does not publish; ours are assumptions."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from antiphon._core import TrainingPlan, Workload
from antiphon.papers.themis.allreduce import BASELINE, DATA, SCF, dimensions
from antiphon.repro.charts import Line
from antiphon.repro.claims import Cells, Judged, Tables, by_form
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Shown
from antiphon.repro.table import Entry, Table
from antiphon.studies import Record, TrainingPoint

OPTIONS = {"gradient_bytes": 2, "activation_bytes": 2, "blocking": True}
"""The exchanges of gradients come after the backward pass, and those between layers hold up all computation, as in
ASTRA-sim; numbers are FP16."""


def _options(model: Series) -> dict[str, Any]:
    """How a model is trained; where NPUs share it, the backward pass repeats the forward pass, as the paper says of
    ZeRO."""
    parallel = int(model.more["parallel"])
    of_model = {"batch": int(model.more["batch"]), "compute": model.more["compute"]}
    return OPTIONS | of_model | {"model_parallel": parallel, "recompute": parallel > 1}


def _jobs(case: Entry) -> list[TrainingPoint]:
    series, model = case["series"], case["model"]
    algorithm = f"{series.run}:{series.more['intra']}" if series.more["intra"] else series.run
    options = tuple(_options(model).items())
    return [TrainingPoint(model.run, f"rails:{case['topology']}", algorithm, options)] if series.run else []


@cache
def groups(topology: str, parallel: int) -> tuple[tuple[int, float], tuple[int, float]]:
    """Of the NPUs that share a model, and of those with the same part of it: how many they are, and their rates in
    Gb/s together. The former are on the first dimensions."""
    left, sizes, rates = parallel, [1, 1], [0.0, 0.0]
    for _, size, rate, _ in dimensions(topology):
        inside = math.gcd(left, size)
        left //= inside
        for group, part in enumerate((inside, size // inside)):
            sizes[group] *= part
            rates[group] += rate if part > 1 else 0.0
    model, data = zip(sizes, rates, strict=True)
    return (model, data) if parallel > 1 else (data, data)


@cache
def _ideal(model: Series, topology: str) -> dict[str, float]:
    """The iteration with all rates of a group always busy: 2 S (1 - 1/N) / rates for an AllReduce of S bytes."""
    options = _options(model)
    plan = TrainingPlan(Workload(model.run), options.pop("compute"), options.pop("batch"), **options)
    exchanges = plan.run([0.0] * len(plan.exchanges)).exchanges
    times = []
    for kind, size, of in zip(exchanges["kind"], exchanges["bytes"], exchanges["pass"], strict=True):
        npus, gbit_per_s = groups(topology, options["model_parallel"])[of == "weight gradient"]
        sent = float(size) * (1 - 1 / npus) * (2 if kind == "all-reduce" else 1)
        times.append(8 * sent / gbit_per_s)
    done = plan.run(times)
    return {name: getattr(done, name) for name in ("compute_ns", "exposed_model_ns", "exposed_data_ns")}


def _measure(case: Entry, record: Record | None = None) -> Entry:
    """An iteration: computation, and communication that it waits for, between layers and of gradients."""
    ideal = _ideal(case["model"], case["topology"])
    compute, model, data = ((record or ideal)[name] for name in ("compute_ns", "exposed_model_ns", "exposed_data_ns"))
    exposed = model + data
    return {
        "time": compute + exposed,
        "compute": compute,
        "model part": model,
        "data": data,
        "exposed": exposed,
        "share": 100 * (ideal["exposed_model_ns"] + ideal["exposed_data_ns"]) / exposed,
        "share of model": 100 * model / (compute + exposed),
        "model of exposed": 100 * model / exposed,
    }


SHARES = tuple(range(10, 101, 2))
"""Utilization in percent."""


def _over_utilization(table: Table) -> Shown:
    """What an iteration would take with a share of the rates always busy, and what it takes with the baseline's."""
    drawn = Table()
    for model, of in table.by("model"):
        baseline, ideal = of.where(series=BASELINE), of.where(series="Ideal")
        slowest = ideal[0]["compute"] + 10 * ideal[0]["exposed"]
        found = []
        for at, best in zip(baseline, ideal, strict=True):
            times = [(best["compute"] + best["exposed"] * 100 / used) / slowest for used in SHARES]
            found.append(Line(at["topology"], SHARES, times, marked=False))
            found.append(Line(at["topology"], [at["share"]], [at["time"] / slowest]))
        found.append(Line("Infinite rate", SHARES, [ideal[0]["compute"] / slowest] * len(SHARES), marked=False))
        drawn.append({"model": model, "lines": found})
    return [], drawn


def _train(cells: Cells, tables: Tables) -> Judged:
    """A speed-up; and with the share of computation that gives the paper's mean, whether its other numbers follow."""
    result, names = by_form(dict(cells) | {"form": "close"}, tables)
    table, model = tables["fig12"].where(cells["at"]), cells["at"].removeprefix("model=")
    shares = np.geomspace(0.001, 10, 100_001)[:, None]
    parts = (table.where(series=series) for series in (BASELINE, SCF, "Ideal"))
    slow, *fast = (shares * np.array(of.column("compute")) + of.column("exposed") for of in parts)
    scf, ideal = (slow / times for times in fast)
    keys = ("Themis+SCF, mean", "Themis+SCF, most", "Ideal, mean")
    mean, most, best = (DATA.stated["fig12"][f"{model}: {what}"].value for what in keys)
    at = int(np.abs(scf.mean(axis=1) - mean).argmin())
    names |= {"share": shares[at, 0], "then_most": scf[at].max(), "then_ideal": ideal[at].mean()}
    names |= {"paper_most": most, "paper_ideal": best}
    return result, names


FIGURES = (
    Figure(DATA, "fig4", _measure, _jobs, show=_over_utilization),
    Figure(DATA, "fig12", _measure, _jobs),
)
CHECKS = dict.fromkeys(("train-resnet", "train-gnmt", "train-dlrm", "train-transformer"), _train)
