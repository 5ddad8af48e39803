"""Figures 9b, 10, 11 and 12 of the ACE paper: training, of which two numbers for GNMT and two for DLRM are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from statistics import fmean

from antiphon.papers.ace.runs import (
    ACE,
    COMM_OPT,
    COMP_OPT,
    DATA,
    DLRM,
    IDEAL,
    MODELS,
    NO_OVERLAP,
    RESNET,
    SHAPES,
    SYSTEMS,
    Iteration,
    iteration,
    left,
    measured,
)
from antiphon.repro.charts import Chart, Line, bar_chart
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Row, Rows
from antiphon.repro.table import Entry, Table, close, grid
from antiphon.studies import Record

LARGEST = 128
"""NPUs of Figs. 9b, 10 and 12."""
IMAGES = 1_281_167
"""Of an epoch of ImageNet."""
POINTS = 3.0
"""Of a percentage, by which what is fitted may be off; as a share of the largest of them, 88.7 %."""
BASELINES = (NO_OVERLAP, COMM_OPT, COMP_OPT)
OVERLAPPED = (COMM_OPT, COMP_OPT, ACE)
PARTS = {part: part for part in ("computation", "exposed communication")}


def _jobs(case: Entry) -> list[Iteration]:
    """Its own, and the ideal."""
    return [iteration(case["model"], case["npus"], system) for system in (case["series"], IDEAL)]


def _measure(case: Entry, own: Record, ideal: Record) -> Entry:
    found = {"time": own["iteration_ns"], "compute": own["compute_ns"], "exposed": own["exposed_ns"]}
    parts = {part: found[key] / 1e6 for part, key in zip(PARTS, ("compute", "exposed"), strict=True)}
    share = 100 * ideal["iteration_ns"] / own["iteration_ns"]
    return case | {"what": f"{case['model']}, {case['npus']} NPUs", "share": share} | found | parts


def _over_time(case: Entry, own: Record, ideal: Record) -> Entry:
    starts = [start / 1e6 for start in own["starts_ns"]]
    lines = {"computation": own["compute"], "links": own["links"]}
    drawn = [Line(name, starts, shares, marked=False) for name, shares in lines.items()]
    title = f"{case['model']}, {str(case['series']).removeprefix('Baseline')}"
    forward, backward = own["passes"]
    found = {"title": title, "lines": drawn, "forward": forward, "backward": backward, "limit": own["limit"]}
    found["links"] = fmean(own["links"])
    return _measure(case, own, ideal) | found


QUICK = (RESNET, DLRM)


def fig9b(quick: bool) -> Steps:
    """Use of ACE in the passes."""
    cases = grid(model=QUICK if quick else MODELS, npus=(LARGEST,), series=(ACE,))
    runs = yield [(case, _jobs(case)) for case in cases]
    table = Table(_over_time(case, *records) for case, records in runs)
    rows = Rows(DATA, "fig9b")
    for e in table:
        rows.add(e, "%", e["backward"], "ACE, backward pass", str(e["model"]), str(e["model"]))
    for e in table:
        rows.add(e, "%", e["forward"], "ACE, forward pass", f"{e['model']}, limit {e['limit']}")
    return Outcome(table, rows)


def fig10(quick: bool) -> Steps:
    """Two iterations."""
    models = QUICK if quick else MODELS
    cases = grid(model=models, npus=(LARGEST,), series=(*OVERLAPPED, IDEAL))
    law = replace(COMM_OPT, name="H200", run=measured(""))
    beside = [(model, [iteration(model, LARGEST, system) for system in (law, IDEAL)]) for model in models]
    every = yield [*((case, _jobs(case)) for case in cases), *beside]
    runs, others = every[: len(cases)], every[len(cases) :]
    table = Table(_over_time(case, *records) for case, records in runs)
    rows = Rows(DATA, "fig10")
    for model, of in table.by("model"):
        for e in of.where(series=OVERLAPPED):
            words = f"{model}, share of Ideal", str(e["series"]), f"{model}: {e['series']}"
            rows.add(e, "%", e["share"], *words)
        (ace,) = of.where(series=ACE)
        for e in of.where(series=(COMM_OPT, COMP_OPT)):
            over = e["series"]
            words = f"{model}, speed-up by ACE", str(over), f"{model}: ACE over {over}"
            rows.add(ace, "×", e["time"] / ace["time"], *words)
        for e in of:
            rows.add(e, "%", e["links"], f"{model}, links used, mean", str(e["series"]))
    for model, (own, ideal) in others:
        share = 100 * ideal["iteration_ns"] / own["iteration_ns"]
        rows.add({}, "%", share, f"{model}, share of Ideal", "contention by the law of an H200, 16 of 132 SMs")
    charts = [Chart(e["title"], "time, ms", "%", lines=e["lines"], y_max=103) for e in table]
    return Outcome(table, rows + _of_resnet(table), charts, columns=4)


def _of_resnet(table: Table) -> list[Row]:
    """What section VI-B says of it further."""
    comm, comp, ace = (table.where(model=RESNET, series=series)[0] for series in OVERLAPPED)
    stated = {
        "computation, BaselineCommOpt over BaselineCompOpt": ("×", comm["compute"] / comp["compute"]),
        "computation, BaselineCompOpt over ACE": ("×", comp["compute"] / ace["compute"]),
        "iteration, BaselineCommOpt over BaselineCompOpt": ("×", comm["time"] / comp["time"]),
        "exposed, BaselineCommOpt": ("%", 100 * comm["exposed"] / comm["time"]),
        "exposed, ACE": ("%", 100 * ace["exposed"] / ace["time"]),
        "iteration, BaselineCompOpt": ("ms", comp["time"] / 1e6),
        "epoch of ImageNet": ("s", IMAGES / (32 * LARGEST) * comp["time"] / 1e9),
    }
    rows = Rows(DATA, "fig10")
    for what, (unit, ours) in stated.items():
        rows.add({}, unit, ours, "ResNet-50, further", what, what)
    return rows


def over_best(table: Table) -> list[float]:
    """How many times as fast as the fastest baseline ACE is, at every size."""
    times = [{e["series"]: e["time"] for e in of} for _, of in table.by("npus")]
    return [min(of[baseline] for baseline in BASELINES) / of[ACE] for of in times]


def over_baselines(table: Table, quick: bool) -> list[Row]:
    """How many times as fast ACE is."""
    rows = Rows(DATA, "fig11")
    for model, of in table.by("model"):
        for npus, ratio in zip(of.axis("npus"), over_best(of), strict=True):
            rows.append(Row(f"{model}: ACE over the best baseline", f"{npus} NPUs", "×", ratio))
    if quick:
        return rows
    for series in (*BASELINES, ACE):
        words = "Share of Ideal, mean of 12", str(series), f"{series}: mean"
        rows.add({}, "%", fmean(table.where(series=series).column("share")), *words)
    for model, of in table.by("model"):
        for how, value in (("mean", fmean(over_best(of))), ("most", max(over_best(of)))):
            what, key = f"{model}, {how}", f"{model}: over the best baseline, {how}"
            rows.add({}, "×", value, "ACE over the best baseline", what, key)
    for how, value in (("mean", fmean(ratios(table))), ("most", max(ratios(table)))):
        rows.add({}, "×", value, "ACE over all baselines", how, f"over all baselines, {how}")
    return rows


def fig11(quick: bool) -> Steps:
    """Iterations on 16 to 128 NPUs."""
    models, npus = (QUICK, (16, 64)) if quick else (MODELS, SHAPES)
    cases = grid(model=models, npus=npus, series=SYSTEMS)
    runs = yield [(case, _jobs(case)) for case in cases]
    table = Table(_measure(case, *records) for case, records in runs)
    for _, of in table.by("what"):
        (ace,) = of.where(series=ACE)
        for e in of:
            e["gap"] = e["time"] / ace["time"]
    shares = table.where(series=SYSTEMS[:-1])
    rows = Rows(DATA, "fig11")
    for e in shares:
        rows.add(e, "%", e["share"], group=f"{e['series']}: share of Ideal")
    charts = [
        bar_chart(str(model), "iteration, ms", of, lambda e: f"{e['npus']} NPUs", PARTS)
        for model, of in table.by("model")
    ]
    return Outcome(table, rows + over_baselines(table, quick), charts, columns=3)


ASIDE_GB, ASIDE_SMS = 80, 1
"""For embeddings, beside computation."""
UPDATES = {"overlap": "updated as long as looked up", "table's update": "updated in 10 ns"}
"""The loop that is improved upon."""


def fig12(_quick: bool) -> Steps:
    """DLRM with its embeddings off the critical path."""
    share = float(DLRM.more["memory_bound"])
    slower = {series: left(series, share, ASIDE_GB, ASIDE_SMS) / left(series, share) for series in (COMP_OPT, ACE)}
    cases = grid(series=slower, loop=UPDATES)
    of = partial(iteration, DLRM, LARGEST)
    runs = yield [
        (case, [of(case["series"], case["loop"]), of(case["series"], "optimized", slower[case["series"]])])
        for case in cases
    ]
    table, drawn = Table(), Table()
    rows = Rows(DATA, "fig12")
    for case, (before, after) in runs:
        series, loop = case["series"], case["loop"]
        e = case | {"what": UPDATES[loop], "gain": before["iteration_ns"] / after["iteration_ns"]}
        table.append(e)
        rows.add(e, "×", e["gain"], e["what"], str(series), str(series) if loop == "overlap" else "")
        for name, record in (("default loop", before), ("optimized loop", after)) if loop == "overlap" else ():
            parts = zip(PARTS, (record["compute_ns"] / 1e6, record["exposed_ns"] / 1e6), strict=True)
            drawn.append({"series": series, "loop": name} | dict(parts))
    return Outcome(table, rows, [bar_chart("DLRM, 128 NPUs", "iteration, ms", drawn, itemgetter("loop"), PARTS)])


def ratios(table: Table) -> list[float]:
    """How many times as fast as each baseline ACE is, at every point."""
    return [ratio for series in BASELINES for _, ratio in table.ratios("time", str(series), "ACE")]


def network_mean(_cells: Cells, tables: Tables) -> Judged:
    """The mean over all baselines."""
    value = fmean(ratios(tables["fig11"]))
    return verdict(close(value, "1.44")), {"value": value}


def network_most(_cells: Cells, tables: Tables) -> Judged:
    """The most over any baseline."""
    value = max(ratios(tables["fig11"]))
    return verdict(close(value, "2.67")), {"value": value}


def fit(_cells: Cells, tables: Tables) -> Judged:
    """How far off the fitted numbers are."""
    off = []
    for model in MODELS[1:]:
        of = tables["fig10"].where(model=model)
        stated = {series: DATA.stated["fig10"][f"{model}: {series}"].value for series in OVERLAPPED}
        off += [of.one("share", series=series) - value for series, value in stated.items()]
    worst = max(map(abs, off))
    return verdict(worst <= POINTS), {"worst": worst, "off": listed(off, "{:+.1f}")}


def no_overlap(_cells: Cells, tables: Tables) -> Judged:
    """At which points BaselineNoOverlap is faster than BaselineCompOpt, and whether they are the paper's."""
    times = {(e["model"], e["npus"]): e["time"] for e in tables["fig11"].where(series=COMP_OPT)}
    found = {
        key: times[key] > e["time"]
        for e in tables["fig11"].where(series=NO_OVERLAP)
        if (key := (e["model"], e["npus"])) in times
    }
    wrong = [(model, npus) for (model, npus), better in found.items() if better != (model is RESNET and npus > 16)]
    texts: Sequence[str] = [f"{model} on {npus} NPUs" for model, npus in wrong]
    return verdict(not wrong, len(wrong) <= 0.25 * len(found)), {
        "right": len(found) - len(wrong),
        "count": len(found),
        "lost": ", ".join(texts),
    }
