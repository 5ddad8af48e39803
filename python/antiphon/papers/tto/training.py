"""Figures 10, 11 and 13 and section VIII-B of the TTO paper: training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

import antiphon
from antiphon.papers.tto.allreduce import DATA, SYSTEM, in_flits, point, takes_part
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.figure import Figure, Shown
from antiphon.repro.rows import stated_row
from antiphon.repro.table import Entry, Table
from antiphon.repro.trained import sizes, trained
from antiphon.studies import Point, Record
from antiphon.training.result import Training


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


def _keep(case: Entry) -> bool:
    """In flits only trainings of which all exchanges are small enough."""
    return takes_part(case, 0) and (not in_flits(case) or takes_part(case, max(sizes(_train(case)))))


def _jobs(case: Entry) -> list[Point]:
    # 16 arrays of a chiplet add one number in each row or column a cycle (1 ns).
    rate = (("reduce_rate_gb_per_s", 16 * case["array"] * 4),)
    return [point(case, size, changes=rate) for size in sizes(_train(case))]


def _measure(case: Entry, *records: Record) -> Entry:
    """Times of an epoch, and its parts; what neither computes nor communicates alone is both."""
    done = trained(_train(case), records)
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


# --- Section VIII-B: what one chiplet less costs --------------------------------------------------


def _example(case: Entry, *records: Record) -> Entry:
    found = _measure(case, *records)
    return found | {f"{part} in s": found[f"{part} part"] / 1e9 for part in ("compute", "AllReduce")}


def _gain(table: Table) -> Shown:
    base, tto = table.column("time")
    share, text = 100 * (base - tto) / base, "gain as share of the baseline's epoch"
    return [
        stated_row(DATA, "viii-b", "Equation 2", "gain of TTO in an epoch", "ns", base - tto, "gain"),
        stated_row(DATA, "viii-b", "Equation 2", text, "%", share, "gain share", note="gain"),
    ], table


COMPLETE = ("Ring", "Ring-2D", "MultiTree", "RingBiEven", "RingBiOdd (corner left out)", "TTO")
"""Algorithms that the paper compares and that are complete and mapped as meant."""


def _rivals(case: Entry) -> list[Entry]:
    """The case with every algorithm; its series is the model."""
    rivals = [case | {"model": case["series"], "series": DATA.series[name]} for name in COMPLETE]
    return [rival for rival in rivals if takes_part(rival, 0)]


def _speedup(case: Entry, *records: Record) -> Entry:
    left, epochs = iter(records), {}
    for rival in _rivals(case):
        epochs[rival["series"].name] = trained(_train(rival), islice(left, len(_jobs(rival)))).epoch_ns
    tto = epochs.pop("TTO")
    best = min(epochs, key=lambda name: epochs[name])
    side, array = (f"{case[axis]}x{case[axis]}" for axis in ("side", "array"))
    row = f"{side}, {array} MACs, over {best}"
    return {"what": side if case["array"] == 256 else array, "row": row, "speedup": epochs[best] / tto}


def _rivals_jobs(case: Entry) -> list[Point]:
    return [job for rival in _rivals(case) for job in _jobs(rival)]


def _computing_models(_cells: Cells, tables: Tables) -> Judged:
    """Whether TTO may lose on models that mostly compute, with or without overlap."""
    gains = {e["series"].name: e["speedup"] for e in tables["one-less"].where(side=8, array=256)}
    order = sorted(gains, key=lambda model: gains[model])
    texts = [f"{model} {gains[model]:.3f}×" for model in order]
    behind = []
    for model in gains:
        *others, tto = tables["fig11"].where("series.kind=algorithm", model=model).column("time")
        behind += [model] if min(others) < tto else []
    names = {"least": texts[0], "gains": ", ".join(texts), "behind": ", ".join(behind) or "none"}
    return verdict(gains[order[0]] < 1 or bool(behind)), names


FIGURES = (
    *(Figure(DATA, name, _measure, _jobs, keep=_keep) for name in ("fig10", "fig11", "fig13")),
    Figure(DATA, "viii-b", _example, _jobs, show=_gain),
    Figure(DATA, "one-less", _speedup, _rivals_jobs),
)
CHECKS = {"computing-models": _computing_models}
