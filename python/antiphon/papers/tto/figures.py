"""All figures of the TTO paper: AllReduce on square meshes (Table I, Figs. 8, 9, 12 and 14), and training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import antiphon
from antiphon import Fabric
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.data import Data
from antiphon.repro.figure import Figure, takes_part
from antiphon.repro.table import Entry
from antiphon.repro.trained import sizes, trained
from antiphon.studies import Point, Record
from antiphon.training.result import Training

DATA = Data("tto")
SYSTEM = "tto"
MIB = 1 << 20


def point(case: Entry, size: int, **more: Any) -> Point:
    """An AllReduce; ``chunk`` is TTO's, in bytes, and at most what is reduced. Flits take a hundred times as long as
    packets, and so are for small data only."""
    series, chunk = case["series"], case.get("chunk")
    spec = f"{series.run}:chunk={min(chunk, size)}" if chunk and series.name == "TTO" else series.run
    fidelity = {"flits": "flit"}.get(series.more["kind"], "packet")
    return Point(f"mesh:{case['side']}x{case['side']}", spec, size, SYSTEM, fidelity=fidelity, **more)


def _built(name: str, side: int, size: int = MIB) -> tuple[Fabric, antiphon.Schedule]:
    fabric = Fabric(f"mesh:{side}x{side}")
    return fabric, antiphon.build(fabric, DATA.series[name].run, bytes=size, system=SYSTEM)


def _used_links(case: Entry) -> Entry:
    """Table I."""
    fabric, schedule = _built(case["series"].name, case["side"], 64 * MIB)
    stats, ranks = schedule.stats(fabric), fabric.ranks
    counted = {"ranks": ranks, "steps": stats.steps, "steps of the bidirectional ring": 2 * ranks - 2}
    return {"used": stats.used_links_percent} | counted


def _scaled(case: Entry) -> list[Point]:
    """Fig. 9: its own, and that of the ring on the smallest mesh, with as much for each chiplet."""
    size, smallest = int(case["bytes"]), {"series": DATA.series["Ring"], "side": 4 - case["side"] % 2}
    return [point(case, size), point(smallest, size * smallest["side"] ** 2 // case["side"] ** 2)]


def _use(_case: Entry, record: Record) -> Entry:
    """Fig. 12."""
    windows = record["tables"]["timeline"]
    shares = [100 * window["utilization"] for window in windows]
    starts = [window["start_ns"] / 1e6 for window in windows]
    return {"median": median(shares), "peak": max(shares), "starts": starts, "shares": shares}


def _train(case: Entry) -> Callable[..., Training]:
    """Figs. 10, 11 and 13: the training of a case, with the times of its collectives from elsewhere."""
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


def _rivals(case: Entry) -> list[Entry]:
    """Section VIII-B: the case with every algorithm; its series is the model."""
    complete = [series for series in DATA.series.values() if "complete" in series.roles]
    rivals = [case | {"model": case["series"], "series": series} for series in complete]
    return [rival for rival in rivals if takes_part(rival)]


def _speedup(case: Entry, *records: Record) -> Entry:
    left = iter(records)
    epochs = {rival["series"].name: trained(_train(rival), left).epoch_ns for rival in _rivals(case)}
    tto = epochs.pop("TTO")
    best = min(epochs, key=lambda name: epochs[name])
    side, array = (f"{case[axis]}x{case[axis]}" for axis in ("side", "array"))
    return {"what": side if case["array"] == 256 else array, "best": best, "speedup": epochs[best] / tto}


def _corner(_cells: Cells, _tables: Tables) -> Judged:
    corner, centre = (antiphon.verify(*_built(f"RingBiOdd ({what} left out)", 9)) for what in ("corner", "centre"))
    return verdict(corner.complete), {"lost": "" if centre.complete else centre.gaps}


def _no_bi_odd(_cells: Cells, _tables: Tables) -> Judged:
    try:
        _built("RingBiEven", 9)
    except antiphon.AntiphonError:
        return "holds", {"done": "refused"}
    return "does not hold", {"done": "built"}


FIGURES = (
    Figure(DATA, "table1", _used_links),
    Figure(DATA, "fig8", jobs=lambda case: [point(case, case["bytes"])]),
    Figure(DATA, "fig9", jobs=_scaled),
    *(Figure(DATA, name, _measure, _jobs) for name in ("fig10", "fig11", "fig13", "viii-b")),
    Figure(DATA, "fig12", _use, lambda case: [point(case, 256 * MIB, tables=("timeline",))]),
    Figure(DATA, "one-less", _speedup, lambda case: [job for rival in _rivals(case) for job in _jobs(rival)]),
    Figure(DATA, "fig14", jobs=lambda case: [point(case, 128 * MIB)]),
)
CHECKS = {"odd-corner": _corner, "no-bi-odd": _no_bi_odd}
