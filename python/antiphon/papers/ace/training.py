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
    Iteration,
    iteration,
    left,
    row,
)
from antiphon.repro.charts import Line
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure, Shown
from antiphon.repro.rows import Row
from antiphon.repro.table import Entry, Table
from antiphon.studies import Record

LARGEST = 128
"""NPUs of Figs. 9b, 10 and 12."""
POINTS = 3.0
"""Of a percentage, by which what is fitted may be off; as a share of the largest of them, 88.7 %."""
BASELINES = (NO_OVERLAP, COMM_OPT, COMP_OPT)
OVERLAPPED = (COMM_OPT, COMP_OPT, ACE)
PARTS = ["computation", "exposed communication"]


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
    title = f"{case['model']}, {str(case['series']).removeprefix('Baseline')}"
    found = {"title": title, "lines": drawn, "backward": own["backward"], "links": fmean(own["links"])}
    return _measure(case, own, ideal) | found


def _of_resnet(table: Table) -> Shown:
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
    return rows, table


# --- Fig. 11 ------------------------------------------------------------------------------------


def over_best(table: Table) -> list[float]:
    """How many times as fast as the fastest baseline ACE is, at every size."""
    times = [{e["series"]: e["time"] for e in of} for _, of in table.by("npus")]
    return [min(of[baseline] for baseline in BASELINES) / of[ACE] for of in times]


def _over_baselines(table: Table) -> Shown:
    rows = [
        Row(f"{model}: ACE over the best baseline", f"{npus} NPUs", "×", ratio)
        for model, of in table.by("model")
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
    return rows, table


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


def _loops_side_by_side(table: Table) -> Shown:
    shown = Table(
        {"series": e["series"], "loop": loop} | {part: e[f"{when} {part}"] for part in PARTS}
        for e in table.where(loop="overlap")
        for when, loop in (("before", "default loop"), ("after", "optimized loop"))
    )
    return [], shown


# --- claims -------------------------------------------------------------------------------------


def _fit(_cells: Cells, tables: Tables) -> Judged:
    off = []
    for model in MODELS[1:]:
        of = tables["fig10"].where(model=model)
        stated = {series: DATA.stated["fig10"][f"{model}: {series}"].value for series in OVERLAPPED}
        off += [of.one("share", series=series) - value for series, value in stated.items()]
    worst = max(map(abs, off))
    return verdict(worst <= POINTS), {"worst": worst, "off": listed(off, "{:+.1f}")}


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


FIGURES = (
    Figure(DATA, "fig9b", _over_time, _jobs),
    Figure(DATA, "fig10", _over_time, _jobs, show=_of_resnet),
    Figure(DATA, "fig11", _measure, _jobs, show=_over_baselines),
    Figure(DATA, "fig12", _gain, _loops, show=_loops_side_by_side),
)
CHECKS = {"fit": _fit, "no-overlap": _no_overlap}
