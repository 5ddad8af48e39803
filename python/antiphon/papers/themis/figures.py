"""The figures of the Themis paper: networks, AllReduce alone, and training, whose inputs it does not publish."""

from __future__ import annotations

import math
import re
from functools import cache
from statistics import fmean

import numpy as np

import antiphon
from antiphon._core import TrainingPlan, Workload
from antiphon.repro.charts import Block, Line
from antiphon.repro.claims import Cells, Judged, Tables, by_form, verdict
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure, Shown
from antiphon.repro.table import Entry, Table, words
from antiphon.studies import Record, TrainingPoint

DATA = Data("themis", tolerance=0.015)
"""Means over many runs agree within 1.5 %."""
BASELINE, FIFO, SCF = DATA.named("Baseline", "Themis+FIFO", "Themis+SCF")


@cache
def dimensions(topology: str) -> list[tuple[str, int, float, float]]:
    """Kind and NPUs of every dimension, its rate in Gb/s and its latency in ns."""
    specs = ",".join(antiphon.rails(topology, 1, scheduler="baseline").dimensions["spec"])
    found = re.findall(r"(ring|fc|sw)(\d+)@([\d.]+)/([\d.]+)ns", specs)
    return [(kind, int(npus), float(rate), float(latency)) for kind, npus, rate, latency in found]


def _preset(case: Entry) -> Entry:
    """What our preset has for a row of Table 2."""
    kind, *values = dimensions(case["name"])[int(case["dimension"]) - 1]
    found = {"npus": float(antiphon.advise_rails(case["name"]).npus), "stated npus": 1024, "kind": kind}
    for name, ours in zip(("size", "gbit_per_s", "latency_ns"), values, strict=True):
        found |= {name: float(ours), f"stated {name}": float(case[name]) if kind == case["kind"] else None}
    return found


def _scenario(case: Entry, record: Record | None = None) -> Entry:
    """Section 6.3."""
    advice = antiphon.advise_rails(words(case["topology"], case))
    first, *_ = pairs = advice.pairs.rows()
    least = min(pairs, key=lambda pair: (pair["ratio"], pair["near"], pair["far"]))
    found = {"advice": first["ratio"], "provision": first["provision"], "least": least["ratio"]}
    found["pair"] = f"dim{least['near']} to dim{least['far']}"
    if record is None:
        return found | {"utilization": 100 * advice.utilization_bound}
    turned = sum(order["first"] != [1, 2] for order in record["orders"])
    used = {"utilization": 100 * record["utilization"], "far": 100 * record["dimensions"][1]["utilization"]}
    return found | used | {"turned": turned}


def _example(_case: Entry, baseline: Record, record: Record) -> Entry:
    """Fig. 5, in units of the ReduceScatter of one chunk on dim1; orders of all chunks, digit by digit."""
    stages = [each for each in baseline["tables"]["stages"] if each["chunk"] == 0]
    first = sorted((int(each["stage"]), each["finish_ns"] - each["start_ns"]) for each in stages)
    unit = first[0][1]
    blocks = []
    for each in record["tables"]["stages"]:
        track, chunk, stage = (f"{number:.0f}" for number in (each["dimension"], each["chunk"] + 1, each["stage"] + 1))
        start, length = each["start_ns"] / unit, (each["finish_ns"] - each["start_ns"]) / unit
        blocks.append(Block(f"dim{track}", f"{chunk}.{stage}", f"chunk {chunk}", start, length))
    return {
        "makespan": record["time_ns"] / unit,
        "orders": int("".join(str(dimension) for order in record["orders"] for dimension in order["first"])),
        "blocks": blocks,
        **{f"load of dim{number}": each["busy_ns"] / unit for number, each in enumerate(record["dimensions"], 1)},
        **{f"stage {number + 1}": time / unit for number, time in first},
    }


WINDOW_NS = 100_000
"""In which activity is averaged, as in the paper."""


def _firm(case: Entry, record: Record, larger: Record | None = None) -> Entry:
    used = 100 * record["utilization"]
    closed = 100 * antiphon.advise_rails(case["topology"]).baseline_utilization
    return {"off closed form": abs(used - closed), "moved": 100 * larger["utilization"] - used if larger else 0.0}


def _active(_case: Entry, record: Record) -> Entry:
    """Fig. 9."""
    timeline = record["tables"]["timeline"]
    together = max(1, round(WINDOW_NS / timeline[1]["start_ns"]))
    windows = [timeline[start : start + together] for start in range(0, len(timeline), together)]
    starts = [window[0]["start_ns"] / 1e6 for window in windows]
    found: Entry = {"lines": []}
    for number, used in enumerate((each["utilization"] for each in record["dimensions"]), 1):
        name = f"dim{number}"
        shares = [100 * fmean(part[name] for part in window) for window in windows]
        found["lines"].append(Line(name, starts, shares, marked=False))
        found[f"{name}: activity"] = fmean(100 * part[name] for part in timeline)
        found[f"{name}: utilization"] = 100 * used
        found[f"rate that the baseline leaves unused on {name}"] = 800 * (1 - used)
    return found | {"least active": min(value for name, value in found.items() if name.endswith("activity"))}


SENSITIVE = ("3D-SW_SW_SW_hetero", "4D-Ring_FC_Ring_SW")
"""The topologies of Fig. 10."""


def _used(table: Table, series: Series, **axes: object) -> float:
    """Mean utilization."""
    return fmean(table.where(series=series, **axes).column("utilization"))


def _chunks_baseline(_cells: Cells, tables: Tables) -> Judged:
    of = tables["fig10"].where(series=BASELINE, topology=SENSITIVE).by("topology")
    spread = max(table.values("utilization").spread for _, table in of)
    return verdict(spread < 1), {"spread": spread}


def _initial_load(_cells: Cells, tables: Tables) -> Judged:
    def error(schedulers: list[Series]) -> float:
        """Mean difference to the paper's numbers, in points."""
        off = [_used(tables["fig11"], each) - DATA.stated["fig11"][each.published].value for each in schedulers]
        for each in schedulers:
            for chunks in (4, 512):
                stated = DATA.stated["fig10"][f"{each.published}, {chunks} chunks"].value
                off.append(_used(tables["fig10"], each, chunks=chunks, topology=SENSITIVE) - stated)
        return fmean(map(abs, off))

    zero = error([FIFO, SCF])
    delay = error(DATA.named("Themis+FIFO, loads from A_K", "Themis+SCF, loads from A_K"))
    return verdict(zero >= delay), {"zero": zero, "delay": delay}


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


TRAINED = Figure(DATA, "fig12")


@cache
def _ideal(model: Series, topology: str) -> dict[str, float]:
    """The iteration with all rates of a group always busy: 2 S (1 - 1/N) / rates for an AllReduce of S bytes."""
    (run,) = TRAINED.runs({"model": model, "topology": topology, "series": BASELINE})
    assert isinstance(run, TrainingPoint)
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
    Figure(DATA, "table2", _preset),
    Figure(DATA, "fig5", _example),
    Figure(DATA, "fig9", _active),
    Figure(DATA, "fig11", _firm),
    Figure(DATA, "scenarios", _scenario),
    Figure(DATA, "fig4", _measure, show=_over_utilization),
    Figure(DATA, "fig12", _measure),
)
CHECKS = dict.fromkeys(("train-resnet", "train-gnmt", "train-dlrm", "train-transformer"), _train) | {
    "chunks-baseline": _chunks_baseline,
    "initial-load": _initial_load,
}
