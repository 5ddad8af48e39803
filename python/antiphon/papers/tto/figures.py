"""What must be computed for the TTO paper: used links, their use over time, and where one chiplet less pays."""

from __future__ import annotations

from statistics import median

import antiphon
from antiphon import Fabric
from antiphon.papers.tto.artifact import DATA, built
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.figure import Figure, takes_part
from antiphon.repro.table import Entry
from antiphon.studies import Record

SYSTEM = antiphon.System("tto")
MIB = 1 << 20


def _built(name: str, side: int, size: int = MIB) -> tuple[Fabric, antiphon.Schedule]:
    fabric = Fabric(f"mesh:{side}x{side}")
    return fabric, built(fabric, DATA.series[name].run, "all-reduce", size, SYSTEM)


def _used_links(case: Entry) -> Entry:
    """Table I."""
    fabric, schedule = _built(case["series"].name, case["side"], 64 * MIB)
    stats, ranks = schedule.stats(fabric), fabric.ranks
    counted = {"ranks": ranks, "steps": stats.steps, "steps of the bidirectional ring": 2 * ranks - 2}
    return {"used": stats.used_links_percent} | counted


def _use(_case: Entry, record: Record) -> Entry:
    """Fig. 12."""
    windows = record["tables"]["timeline"]
    shares = [100 * window["utilization"] for window in windows]
    starts = [window["start_ns"] / 1e6 for window in windows]
    return {"median": median(shares), "peak": max(shares), "starts": starts, "shares": shares}


def _rivals(case: Entry) -> list[Entry]:
    """Section VIII-B: the case with every algorithm; its series is the model."""
    complete = [series for series in DATA.series.values() if "complete" in series.roles]
    rivals = [case | {"model": case["series"], "series": series} for series in complete]
    return [rival for rival in rivals if takes_part(rival)]


def _speedup(case: Entry, *records: Record) -> Entry:
    pairs = zip(_rivals(case), records, strict=True)
    epochs = {rival["series"].name: record["epoch_ns"] for rival, record in pairs}
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


TRAINED = Figure(DATA, "viii-b")
FIGURES = (
    Figure(DATA, "table1", _used_links),
    Figure(DATA, "fig12", _use),
    Figure(DATA, "one-less", _speedup, lambda case: [job for rival in _rivals(case) for job in TRAINED.runs(rival)]),
)
CHECKS = {"odd-corner": _corner, "no-bi-odd": _no_bi_odd}
