"""Figures 9b, 10, 11 and 12 of the ACE paper: training, of which two numbers for GNMT and two for DLRM are fitted."""

from __future__ import annotations

from collections.abc import Sequence
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
    row,
)
from antiphon.repro.charts import Bars, Line, Lines, bars
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Record

LARGEST = 128
"""NPUs of Figs. 9b, 10 and 12."""
POINTS = 3.0
"""Of a percentage, by which what is fitted may be off; as a share of the largest of them, 88.7 %."""
SHARE = 0.034
BASELINES = (NO_OVERLAP, COMM_OPT, COMP_OPT)
OVERLAPPED = (COMM_OPT, COMP_OPT, ACE)
PARTS = ["computation", "exposed communication"]


def _models(quick: bool) -> list[Series]:
    """GNMT takes longest."""
    return MODELS[::2] if quick else MODELS


def _jobs(case: Entry) -> list[Iteration]:
    """Its own, and the ideal."""
    return [iteration(case["model"], case["npus"], system) for system in (case["series"], IDEAL)]


def _measure(case: Entry, own: Record, ideal: Record) -> Entry:
    found = {"time": own["iteration_ns"], "compute": own["compute_ns"], "exposed": own["exposed_ns"]}
    parts = {part: found[key] / 1e6 for part, key in zip(PARTS, ("compute", "exposed"), strict=True)}
    share = 100 * ideal["iteration_ns"] / own["iteration_ns"]
    return {"what": f"{case['model']}, {case['npus']} NPUs", "share": share} | found | parts


# --- Figs. 9b and 10, section VI-B --------------------------------------------------------------


def _over_time(case: Entry, own: Record, ideal: Record) -> Entry:
    starts = [start / 1e6 for start in own["starts_ns"]]
    lines = {"computation": own["compute"], "links": own["links"]}
    drawn = [Line(name, starts, shares, marked=False) for name, shares in lines.items()]
    found = {"lines": drawn, "backward": own["backward"], "links": fmean(own["links"])}
    return _measure(case, own, ideal) | found


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
    }
    rows = [row("fig10", "ResNet-50, further", what, unit, ours, what) for what, (unit, ours) in stated.items()]
    # The paper's own numbers: what follows from some, beside others.
    exposed, comm_share, ace_share, ms = 0.315, 0.353, 94.3, 3.5
    decided = ((1 - exposed) / comm_share - 80 / 74) / (2 - 80 / 74)
    operations = 2 * 3 * 4.089e9 * 32
    for what, unit, follows, printed in (
        ("computation, CommOpt over CompOpt, at most", "×", left(COMM_OPT, 1) / left(COMP_OPT, 1), 1.75),
        ("computation, CompOpt over ACE, at most", "×", left(COMP_OPT, 0) / left(ACE, 0), 1.06),
        ("ACE's share of Ideal, at most, from CommOpt's computation", "%", 100 / left(ACE, decided), ace_share),
        ("computation at 120 TFLOPS, batch 32", "ms", operations / 120e9, ms / 2.52 * 0.98),
        ("epoch of 1,281,167 images from 3.5 ms", "s", 1_281_167 / (32 * LARGEST) * ms / 1e3, 12),
    ):
        note = DATA.texts["own"]
        rows.append(Row("The paper's own numbers", what, unit, follows, reference=printed, note=note))
    return rows


def _fig10(table: Table) -> Shown:
    rows: list[Row] = []
    for model, of in table.by("model"):
        for series in OVERLAPPED:
            share, key = of.one("share", series=series), f"{model}: {series}"
            rows.append(row("fig10", f"{model}, share of Ideal", str(series), "%", share, key, SHARE))
        for series in OVERLAPPED[:2]:
            (_, ratio), *_ = of.ratios("time", str(series), "ACE")
            key = f"{model}: ACE over {series}"
            rows.append(row("fig10", f"{model}, speed-up by ACE", str(series), "×", ratio, key))
        rows += [Row(f"{model}, links used, mean", str(e["series"]), "%", e["links"]) for e in of]
    titles = [f"{e['model']}, {str(e['series']).removeprefix('Baseline')}" for e in table]
    drawn = zip(titles, table.column("lines"), strict=True)
    charts = [Lines(title, "time, ms", "%", found, y_max=103) for title, found in drawn]
    return rows + _of_resnet(table), charts


FIG_10 = Figure(
    "fig10",
    lambda quick: grid(model=_models(quick), npus=(LARGEST,), series=SYSTEMS[1:]),
    _over_time,
    _fig10,
    _jobs,
)


def _fig9b(table: Table) -> Shown:
    return [row("fig9b", "ACE, backward pass", str(e["model"]), "%", e["backward"], str(e["model"])) for e in table], ()


FIG_9B = Figure(
    "fig9b", lambda quick: grid(model=_models(quick), npus=(LARGEST,), series=[ACE]), _over_time, _fig9b, _jobs
)

# --- Fig. 11 ------------------------------------------------------------------------------------


def _fig11_cases(quick: bool) -> list[Entry]:
    return grid(model=_models(quick), npus=(16, 64) if quick else SHAPES, series=SYSTEMS)


def over_best(table: Table) -> list[float]:
    """How many times as fast as the fastest baseline ACE is, at every size."""
    times = [{e["series"]: e["time"] for e in of} for _, of in table.by("npus")]
    return [min(of[baseline] for baseline in BASELINES) / of[ACE] for of in times]


def _fig11(table: Table) -> Shown:
    others = [e for e in table if e["series"] is not IDEAL]
    rows = [Row(f"{e['series']}: share of Ideal", e["what"], "%", e["share"]) for e in others]
    for model, of in table.by("model"):
        rows += [
            Row(f"{model}: ACE over the best baseline", f"{npus} NPUs", "×", ratio)
            for npus, ratio in zip(of.axis("npus"), over_best(of), strict=True)
        ]
    if table.whole:
        for series in (*BASELINES, ACE):
            mean = fmean(table.where(series=series).column("share"))
            rows.append(row("fig11", "Share of Ideal, mean of 12", str(series), "%", mean, f"{series}: mean"))
        for model, of in table.by("model"):
            for how, value in (("mean", fmean(over_best(of))), ("most", max(over_best(of)))):
                key = f"{model}: over the best baseline, {how}"
                rows.append(row("fig11", "ACE over the best baseline", f"{model}, {how}", "×", value, key))
        ratios = [ratio for series in BASELINES for _, ratio in table.ratios("time", str(series), "ACE")]
        for how, value in (("mean", fmean(ratios)), ("most", max(ratios))):
            rows.append(row("fig11", "ACE over all baselines", how, "×", value, f"over all baselines, {how}"))
    charts = []
    for model, of in table.by("model"):
        groups = bars(Table(e | {"group": f"{e['npus']} NPUs"} for e in of), "group", PARTS)
        charts.append(Bars(str(model), "iteration, ms", PARTS, groups))
    return rows, charts


FIG_11 = Figure("fig11", _fig11_cases, _measure, _fig11, _jobs)

# --- Fig. 12 ------------------------------------------------------------------------------------

ASIDE_GB, ASIDE_SMS = 80, 1
"""For embeddings, beside computation."""
UPDATES = {"overlap": "updated as long as looked up", "table's update": "updated in 10 ns"}
"""The loop that is improved upon."""


def _loops(case: Entry) -> list[Iteration]:
    series, share = case["series"], float(DLRM.more["memory_bound"])
    slower = left(series, share, ASIDE_GB, ASIDE_SMS) / left(series, share)
    before = iteration(DLRM, LARGEST, series, case["loop"])
    return [before, iteration(DLRM, LARGEST, series, "optimized", slower)]


def _gain(case: Entry, before: Record, after: Record) -> Entry:
    return {"what": UPDATES[case["loop"]], "gain": before["iteration_ns"] / after["iteration_ns"]} | {
        f"{when} {part}": record[f"{key}_ns"] / 1e6
        for when, record in (("before", before), ("after", after))
        for part, key in zip(PARTS, ("compute", "exposed"), strict=True)
    }


def _fig12(table: Table) -> Shown:
    rows = [
        row("fig12", e["what"], str(e["series"]), "×", e["gain"], str(e["series"]) if e["loop"] == "overlap" else "")
        for e in table
    ]
    shown = Table(
        {"series": e["series"], "loop": loop} | {part: e[f"{when} {part}"] for part in PARTS}
        for e in table.where(loop="overlap")
        for when, loop in (("before", "default loop"), ("after", "optimized loop"))
    )
    return rows, [Bars("DLRM, 128 NPUs", "iteration, ms", PARTS, bars(shown, "loop", PARTS))]


FIG_12 = Figure("fig12", lambda _quick: grid(series=[COMP_OPT, ACE], loop=UPDATES), _gain, _fig12, _loops)

# --- claims -------------------------------------------------------------------------------------


def _fit(_cells: Cells, tables: Tables) -> Judged:
    off = []
    for model in MODELS[1:]:
        of = tables["fig10"].where(model=model)
        stated = {series: DATA.stated["fig10"][f"{model}: {series}"].value for series in OVERLAPPED}
        off += [of.one("share", series=series) - value for series, value in stated.items()]
    worst = max(map(abs, off))
    return verdict(worst <= POINTS), {"worst": worst, "off": listed(off, "{:+.1f}")}


def _order(_cells: Cells, tables: Tables) -> Judged:
    shares = [tables["fig10"].one("share", model=RESNET, series=series) for series in OVERLAPPED]
    return verdict(shares == sorted(shares)), {"shares": listed(shares)}


def _no_overlap(_cells: Cells, tables: Tables) -> Judged:
    """At which points BaselineNoOverlap is faster than BaselineCompOpt, and whether they are the paper's."""
    ratios = {(e["model"], e["npus"]): e["time"] for e in tables["fig11"].where(series=COMP_OPT)}
    found = {
        key: ratios[key] > e["time"]
        for e in tables["fig11"].where(series=NO_OVERLAP)
        if (key := (e["model"], e["npus"])) in ratios
    }
    wrong = [(model, npus) for (model, npus), better in found.items() if better != (model is RESNET and npus > 16)]
    texts: Sequence[str] = [f"{model} on {npus} NPUs" for model, npus in wrong]
    return verdict(not wrong, len(wrong) <= 0.25 * len(found)), {
        "right": len(found) - len(wrong),
        "count": len(found),
        "lost": ", ".join(texts),
    }


CHECKS = {"fit": _fit, "order": _order, "no-overlap": _no_overlap}
