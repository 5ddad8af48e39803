"""Figures 10, 11 and 13 and section VIII-B of the TTO paper: training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import antiphon
from antiphon.collective.timing import CollectiveTime
from antiphon.papers.tto.meshes import (
    ALGORITHMS,
    COMPARED,
    DATA,
    FLITS,
    MODELS,
    SYSTEM,
    cases,
    drawn,
    point,
    row,
    side_of,
)
from antiphon.repro.charts import Bars, Lines, bars, lines, ticks
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.figure import Figure, Row, Shown, row_of
from antiphon.repro.table import Entry, Table, meets
from antiphon.repro.trained import sizes, trained
from antiphon.studies import Point, Record
from antiphon.training.result import Training

QUICK_MODELS = ("AlexNet", "ResNet152")
SHOWN = 1.6
"""Bars are cut at this multiple of Ring's."""


def _train(case: Entry) -> Callable[..., Training]:
    """The training of a case, with the times of its collectives from elsewhere."""
    array = case["array"]
    return partial(
        antiphon.train,
        case["model"].run,
        f"mesh:{case['side']}x{case['side']}",
        case["series"].run,
        SYSTEM,
        overlap=case.get("overlap", "none"),
        compute=f"systolic:rows={array},cols={array}",
    )


def _jobs(case: Entry) -> list[Point]:
    # 16 arrays of a chiplet add one number in each row or column a cycle (1 ns).
    rate = (("reduce_rate_gb_per_s", 16 * case["array"] * 4),)
    return [point(case, size, changes=rate) for size in sizes(_train(case))]


def _trained(case: Entry, records: Iterable[Record]) -> Training:
    return trained(_train(case), [CollectiveTime(each["time_ns"], each["excluded_ranks"]) for each in records])


def _cases(names: Iterable[str], quick: bool, **axes: Iterable[Any]) -> list[Entry]:
    """Trainings of models; in flits only those of which all exchanges are small enough."""
    found = cases(names, **axes, model=DATA.named(*(QUICK_MODELS if quick else MODELS)))
    return [
        c
        for c in found
        if c["series"].name not in FLITS or meets(c | {"bytes": max(sizes(_train(c)))}, c["series"].only)
    ]


def _measure(case: Entry, *records: Record) -> Entry:
    """Times of an epoch, and its parts; what neither computes nor communicates alone is both."""
    done = _trained(case, records)
    both = done.overlapped_communication_ns
    return {
        "time": done.epoch_ns,
        "iteration": done.iteration_ns,
        "iterations": done.iterations,
        "epoch": done.epoch_ns / 1e9,
        "AllReduce": done.communication_ns,
        "allreduce": done.iterations * done.communication_ns,
        "computing": done.compute_ns,
        "compute part": done.iterations * (done.compute_ns - both),
        "both part": done.iterations * both,
        "AllReduce part": done.iterations * done.exposed_communication_ns,
    }


def _relative(table: Table, title: str, parts: Sequence[str]) -> Bars:
    """Epochs over Ring's, by model."""
    found = Table()
    for _, of in drawn(table).by("model"):
        ring = of.one("time", series="Ring")
        found += [entry | {part: entry[f"{part} part"] / ring for part in parts} for entry in of]
    return Bars(title, "epoch / Ring's", parts, bars(found, "model", parts, "known relative"), SHOWN)


# --- Figs. 10 and 13 ----------------------------------------------------------------------------

PUBLISHED = {
    (row["model"], side_of(row) if "nodes" in row else 6, row.get("mac_array", "256"), row["algorithm"]): row
    for row in DATA.table("fig10_models", "fig10_9x9", "fig13_simba", "fig13_mac16")
}
COMPUTED = DATA.known(["compute_cycles"], "total_cycles_json", "model", "mac_array_dim")


def _epoch(case: Entry, *records: Record) -> Entry:
    side, array = case["side"], case["array"]
    key = (case["model"].published, side, str(array), case["series"].published)
    row = PUBLISHED.get(key)
    where = f"{array}x{array} MACs" if side == 6 else f"{side}x{side}"
    return _measure(case, *records) | {
        "what": f"{case['model']}, {where}",
        "known epoch": row and float(row["total_epoch_cycles"]) / 1e9,
        "known AllReduce": row and float(row["allreduce_cycles"]),
        "known relative": row and float(row["norm_total_vs_ring"]),
        "source": f"{key[0]} {side}x{side} {array} {key[-1]}",
    }


def _epochs(table: Table) -> Shown:
    rows = []
    computed = {(e["model"], e["array"]): e["computing"] for e in reversed(table)}
    for model, array in dict.fromkeys((entry["model"], entry["array"]) for entry in table):
        known = COMPUTED[model.published, str(array)]
        what = f"{model}, {array}x{array} MACs"
        rows.append(Row("Compute of an iteration", what, "ns", computed[model, array], None, known))
    for column, unit in (("epoch", "s"), ("AllReduce", "ns")):
        for e in table:
            artifact, source = e[f"known {column}"], f"{e['source']}: {column}"
            rows.append(row_of(e, column, unit, group=f"{e['series']}: {column}", artifact=artifact, source=source))
    charts = []
    for side, array in dict.fromkeys((entry["side"], entry["array"]) for entry in table):
        title = f"{side}x{side} mesh" + (f", {array}x{array} MACs" if side == 6 else "")
        charts.append(_relative(table.where(side=side, array=array), title, ["compute", "AllReduce"]))
    return rows, charts


def _fig10_cases(quick: bool) -> list[Entry]:
    found = _cases(ALGORITHMS, quick, side=[8] if quick else [8, 9], array=[256])
    return found + ([] if quick else _cases(FLITS, quick, side=[8, 9], array=[256]))


def _fig13_cases(quick: bool) -> list[Entry]:
    found = _cases(COMPARED, quick, side=[6], array=[32] if quick else [32, 16], chunk=[48 * 1024])
    return found + ([] if quick else _cases(FLITS, quick, side=[6], array=[32, 16], chunk=[48 * 1024]))


FIG_10 = Figure("fig10", _fig10_cases, _epoch, _epochs, _jobs)
FIG_13 = Figure("fig13", _fig13_cases, _epoch, _epochs, _jobs)

# --- Fig. 11 ------------------------------------------------------------------------------------

OVERLAPPED = {(row["model"], row["algorithm"]): row for row in DATA.table("fig11_overlap")}


def _overlapped(case: Entry, *records: Record) -> Entry:
    row = OVERLAPPED[case["model"].published, case["series"].published]
    note = {"note": DATA.texts["fasterrcnn"]} if case["model"].name == "FasterRCNN" else {}
    found = {
        "what": str(case["model"]),
        "known": float(row["iteration_total"]),
        "known relative": float(row["norm_total_vs_ring"]),
    }
    return _measure(case, *records) | found | note | {"source": f"fig11: {row['model']}, {row['algorithm']}"}


def _fig11(table: Table) -> Shown:
    rows = [row_of(entry, "iteration", "ns") for entry in table]
    return rows, [_relative(table, "8x8 mesh, layer by layer", ["compute", "both", "AllReduce"])]


def _fig11_cases(quick: bool) -> list[Entry]:
    names = COMPARED if quick else COMPARED + FLITS
    return _cases(names, quick, side=[8], array=[256], overlap=["layerwise"], chunk=[24 * 1024])


FIG_11 = Figure("fig11", _fig11_cases, _overlapped, _fig11, _jobs)

# --- Section VIII-B: what one chiplet less costs --------------------------------------------------


def _example(table: Table) -> Shown:
    base, tto = table
    gain = base["time"] - tto["time"]
    share, wrong = 100 * gain / base["time"], DATA.texts["gain"]
    rows = [
        row("viii-b", "Equation 1", "iterations, RingBiEven", "", base["iterations"], "iterations RingBiEven", 0),
        row("viii-b", "Equation 1", "iterations, TTO", "", tto["iterations"], "iterations TTO", 0),
        row("viii-b", "Equation 2", "forward and back-propagation", "ns", base["computing"], "T"),
        row("viii-b", "Equation 2", "AllReduce, RingBiEven", "ns", base["AllReduce"], "Cb"),
        row("viii-b", "Equation 2", "AllReduce, TTO", "ns", tto["AllReduce"], "Ct"),
        row("viii-b", "Equation 2", "gain of TTO in an epoch", "ns", gain, "gain"),
        row("viii-b", "Equation 2", "gain as share of the baseline's epoch", "%", share, "gain share", note=wrong),
    ]
    parts = ["compute", "AllReduce"]
    shown = Table(e | {part: e[f"{part} part"] / 1e9 for part in parts} for e in table)
    return rows, [Bars("ResNet152 on 8x8", "epoch, s", parts, bars(shown, "series", parts))]


EXAMPLE = Figure(
    "viii-b",
    lambda _quick: cases(("RingBiEven", "TTO"), model=DATA.named("ResNet152"), side=[8], array=[256]),
    lambda case, *records: {"what": "ResNet152 on 8x8"} | _measure(case, *records),
    _example,
    _jobs,
)

COMPLETE = ("Ring", "Ring-2D", "MultiTree", "RingBiEven", "RingBiOdd (corner left out)", "TTO")
"""Algorithms that the paper compares and that are complete and mapped as meant."""


def _rivals(case: Entry) -> list[Entry]:
    """The case with every algorithm; its series is the model."""
    return cases(COMPLETE, model=[case["series"]], side=[case["side"]], array=[case["array"]])


def _one_less_cases(quick: bool) -> list[Entry]:
    sides, arrays = ((3, 4), (16, 32)) if quick else (range(3, 11), (16, 32, 64, 128, 256))
    settings = dict.fromkeys([(side, 256) for side in sides] + [(8, array) for array in arrays])
    models = DATA.named(*(QUICK_MODELS if quick else MODELS))
    return [{"series": model, "side": side, "array": array} for side, array in settings for model in models]


def _speedup(case: Entry, *records: Record) -> Entry:
    left, epochs = iter(records), {}
    for rival in _rivals(case):
        epochs[rival["series"].name] = _trained(rival, islice(left, len(_jobs(rival)))).epoch_ns
    tto = epochs.pop("TTO")
    best = min(epochs, key=lambda name: epochs[name])
    side, array = (f"{case[axis]}x{case[axis]}" for axis in ("side", "array"))
    row = f"{side}, {array} MACs, over {best}"
    return {"what": side if case["array"] == 256 else array, "row": row, "speedup": epochs[best] / tto}


def _one_less(table: Table) -> Shown:
    charts = []
    for axis, of, x_label, title in (
        ("side", table.where(array=256), "side of the mesh", "256x256 MACs"),
        ("array", table.where(side=8), "side of the array", "8x8 mesh"),
    ):
        found = Table(sorted(of, key=lambda entry: entry[axis]))
        marks = ticks(found.axis(axis))
        found = Table(sorted(found, key=lambda entry: MODELS.index(str(entry["series"]))))
        charts.append(
            Lines(title, x_label, "speedup of TTO's epoch", lines(found, axis, "speedup"), marks, reference=1)
        )
    return [row_of(entry, "speedup", "×", what=entry["row"]) for entry in table], charts


ONE_LESS = Figure(
    "one-less",
    _one_less_cases,
    _speedup,
    _one_less,
    lambda case: [job for rival in _rivals(case) for job in _jobs(rival)],
)


def computing_models(_cells: Cells, tables: Tables) -> Judged:
    """Whether TTO may lose on models that mostly compute, with or without overlap."""
    gains = {e["series"].name: e["speedup"] for e in tables["one-less"].where(side=8, array=256)}
    order = sorted(gains, key=lambda model: gains[model])
    texts = [f"{model} {gains[model]:.3f}×" for model in order]
    behind = []
    for model in gains:
        *others, tto = drawn(tables["fig11"]).where(model=model).column("time")
        behind += [model] if min(others) < tto else []
    names = {"least": texts[0], "gains": ", ".join(texts), "behind": ", ".join(behind) or "none"}
    return verdict(gains[order[0]] < 1 or bool(behind)), names
