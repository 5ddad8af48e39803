"""Figures 4 and 12 of the Themis paper: training, whose inputs it does not publish."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from antiphon._core import TrainingPlan, Workload
from antiphon.papers.themis.allreduce import (
    BASELINE,
    CURRENT,
    DATA,
    NEXT,
    QUICK,
    SCF,
    SEARCH,
    dimensions,
    in_two_lines,
)
from antiphon.repro.charts import Chart, Line, bar_chart
from antiphon.repro.claims import Cells, Judged, Tables, by_form
from antiphon.repro.data import Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Job, Record, TrainingPoint

IDEAL = DATA.series["Ideal"]
MODELS = DATA.named("ResNet-152", "GNMT", "DLRM", "Transformer-1T")


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


def training(model: Series, topology: str, series: Series) -> TrainingPoint:
    """Exchanges of gradients come after the backward pass, and those between layers hold up all computation, as in
    ASTRA-sim; numbers are FP16. Where NPUs share a model, the backward pass repeats the forward pass, as the paper says
    of ZeRO."""
    more = model.more
    options: dict[str, Any] = {
        "gradient_bytes": 2,
        "activation_bytes": 2,
        "blocking": True,
        "batch": int(more["batch"]),
    }
    options |= {"compute": more["compute"], "model_parallel": int(more["parallel"])}
    options |= {"recompute": True} if more["recompute"] else {}
    return TrainingPoint(model.run, f"rails:{topology}", series.more["trained"], tuple(options.items()))


@cache
def _ideal(model: Series, topology: str) -> dict[str, float]:
    """The iteration with all rates of a group always busy: 2 S (1 - 1/N) / rates for an AllReduce of S bytes."""
    run = training(model, topology, BASELINE)
    options = dict(run.options)
    plan = TrainingPlan(Workload(run.model), options.pop("compute"), options.pop("batch"), **options)
    exchanges = plan.run([0.0] * len(plan.exchanges)).exchanges
    times = []
    for kind, size, of in zip(exchanges["kind"], exchanges["bytes"], exchanges["pass"], strict=True):
        npus, gbit_per_s = groups(topology, options["model_parallel"])[of == "weight gradient"]
        sent = float(size) * (1 - 1 / npus) * (2 if kind == "all-reduce" else 1)
        times.append(8 * sent / gbit_per_s)
    done = plan.run(times)
    return {name: getattr(done, name) for name in ("compute_ns", "exposed_model_ns", "exposed_data_ns")}


def _runs(case: Entry) -> list[Job]:
    """The ideal needs none."""
    return [] if case["series"] == IDEAL else [training(case["model"], case["topology"], case["series"])]


def _measured(case: Entry, records: Sequence[Record]) -> Entry:
    """An iteration: computation, and communication that it waits for, between layers and of gradients."""
    ideal = _ideal(case["model"], case["topology"])
    own = records[0] if records else ideal
    compute, model, data = (own[name] for name in ("compute_ns", "exposed_model_ns", "exposed_data_ns"))
    exposed = model + data
    time = compute + exposed
    return case | {
        "what": f"{case['model']}, {case['topology']}",
        "time": time,
        "compute": compute,
        "model part": model,
        "data": data,
        "exposed": exposed,
        "share": 100 * (ideal["exposed_model_ns"] + ideal["exposed_data_ns"]) / exposed,
        "share of model": model * 100 / time,
        "model of exposed": model * 100 / exposed,
    }


SHARES = tuple(range(10, 101, 2))
"""Utilization in percent."""


def _over_utilization(of: Table) -> list[Line]:
    """What an iteration would take with a share of the rates always busy, and what it takes with the baseline's."""
    baseline, ideal = of.where(series=BASELINE), of.where(series=IDEAL)
    slowest = ideal[0]["compute"] + 10 * ideal[0]["exposed"]
    found = []
    for at, best in zip(baseline, ideal, strict=True):
        times = [(best["compute"] + best["exposed"] * 100 / used) / slowest for used in SHARES]
        found.append(Line(at["topology"], SHARES, times, marked=False))
        found.append(Line(at["topology"], [at["share"]], [at["time"] / slowest]))
    return [*found, Line("Infinite rate", SHARES, [ideal[0]["compute"] / slowest] * len(SHARES), marked=False)]


def fig4(quick: bool) -> Steps:
    """What utilization is worth."""
    cases = grid(
        model=[model for model in MODELS if model.name != "DLRM"],
        topology=(CURRENT, *NEXT[:2]) if quick else (CURRENT, *NEXT),
        series=(BASELINE, IDEAL),
    )
    runs = yield [(case, _runs(case)) for case in cases]
    table = Table(_measured(case, records) for case, records in runs)
    baseline = table.where(series=BASELINE)
    rows = Rows(DATA, "fig4", baseline, "%", "share")
    if not quick:
        current, coming = baseline.where(topology=CURRENT), baseline.where(topology=NEXT)
        shares = coming.values("share")
        for of, what, ours in (
            (current, "2D-current: baseline utilization", current.values("share").mean),
            (coming, "next generation: baseline utilization, mean", shares.mean),
            (coming, "next generation: baseline utilization, least", shares.least),
        ):
            rows.add(of[0], "%", ours, group="Utilization", what=what, key=what)
        group, note = "Speed-up of an iteration", DATA.texts["assumed"]
        for model, of in table.where(series=IDEAL, topology=NEXT).by("model"):
            faster = baseline.over("time", of)
            for statistic, ours in (("mean", faster.mean), ("most", faster.most)):
                what = f"{model}: ideal over baseline, {statistic}"
                rows.add(of[0], "×", ours, group, what, what, note=note)
    charts = [
        Chart(str(model), "utilization, %", "time / slowest", lines=_over_utilization(of))
        for model, of in table.by("model")
    ]
    return Outcome(table, rows, charts, columns=3)


def fig12(quick: bool) -> Steps:
    """Iterations, and how much faster they and their exposed communication get."""
    cases = grid(model=MODELS, topology=QUICK if quick else NEXT, series=(BASELINE, SCF, SEARCH, IDEAL))
    runs = yield [(case, _runs(case)) for case in cases]
    table = Table(_measured(case, records) for case, records in runs)
    parts = {"iteration": "time", "compute": "compute", "exposed, model": "model part", "exposed, data": "data"}
    rows = Rows(DATA, "fig12")
    for e in table:
        for part, column in parts.items():
            rows.add(e, "ns", e[column], group=f"{e['series']}: {part}", note="")
    baseline, faster = table.where(series=BASELINE), table.where(series=() if quick else (SCF, SEARCH, IDEAL))
    for of in faster.split("series", "model"):
        series, model, ratios = of[0]["series"], of[0]["model"], baseline.over("time", of)
        group = f"{series}: speed-up of an iteration"
        for statistic, ours in (("mean", ratios.mean), ("most", ratios.most)):
            key = f"{model}: {series}, {statistic}"
            rows.add(of[0], "×", ours, group, f"{model}, {statistic}", key, note=DATA.texts["assumed"])
    for series, of in faster.by("series"):
        group, key = "Exposed communication, reduced", f"{series}: exposed communication"
        ours = baseline.over("exposed", of).mean
        rows.add(of[0], "×", ours, group, f"{series}, mean of 24", key, note="")
    drawn = {"compute": "compute", "exposed, model parallel": "model part", "exposed, data parallel": "data"}
    charts = [
        bar_chart(str(model), "iteration / baseline's", of, in_two_lines("topology"), drawn, over=BASELINE)
        for model, of in table.by("model")
    ]
    return Outcome(table, rows, charts)


def train(cells: Cells, tables: Tables) -> Judged:
    """A speed-up; and with the share of computation that gives the paper's mean, whether its other numbers follow."""
    result, names = by_form(dict(cells) | {"form": "close"}, tables)
    table, model = tables["fig12"].where(cells["at"]), cells["at"].removeprefix("model=")
    shares = np.geomspace(0.001, 10, 100_001)[:, None]
    parts = (table.where(series=series) for series in (BASELINE, SCF, IDEAL))
    slow, *fast = (shares * np.array(of.column("compute")) + of.column("exposed") for of in parts)
    scf, ideal = (slow / times for times in fast)
    keys = ("Themis+SCF, mean", "Themis+SCF, most", "Ideal, mean")
    mean, most, best = (DATA.stated["fig12"][f"{model}: {what}"].value for what in keys)
    at = int(np.abs(scf.mean(axis=1) - mean).argmin())
    names |= {"share": shares[at, 0], "then_most": scf[at].max(), "then_ideal": ideal[at].mean()}
    names |= {"paper_most": most, "paper_ideal": best}
    return result, names
