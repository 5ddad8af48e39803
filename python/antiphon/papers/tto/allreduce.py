"""Table I and Figures 8, 9, 12 and 14 of the TTO paper: AllReduce alone, on square meshes."""

from __future__ import annotations

from statistics import median
from typing import Any

import antiphon
from antiphon import Fabric, format_bytes
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.data import Data
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry, meets
from antiphon.studies import Point, Record

DATA = Data("tto")
SYSTEM = "tto"
MIB = 1 << 20


def in_flits(case: Entry) -> bool:
    """Whether it is run in the network of routers and flits, which takes a hundred times as long and so is for small
    data only."""
    return bool(case["series"].more["kind"] == "flits")


def parity(case: Entry) -> str:
    """Of the side of the mesh."""
    return ("even", "odd")[case["side"] % 2]


def takes_part(case: Entry, size: int) -> bool:
    """Whether an algorithm runs on such a mesh, with so many bytes."""
    return meets({"bytes": size, "parity": parity(case)}, case["series"].more["only"])


def point(case: Entry, size: int, **more: Any) -> Point:
    """An AllReduce; ``chunk`` is TTO's, in bytes, and no larger than what is reduced."""
    series, chunk = case["series"], case.get("chunk")
    spec = f"{series.run}:chunk={min(chunk, size)}" if chunk and series.name == "TTO" else series.run
    fidelity = "flit" if in_flits(case) else "packet"
    return Point(f"mesh:{case['side']}x{case['side']}", spec, size, SYSTEM, fidelity=fidelity, **more)


def _built(name: str, side: int, size: int = MIB) -> tuple[Fabric, antiphon.Schedule]:
    fabric = Fabric(f"mesh:{side}x{side}")
    return fabric, antiphon.build(fabric, DATA.series[name].run, bytes=size, system=SYSTEM)


def _used_links(case: Entry) -> Entry:
    fabric, schedule = _built(case["series"].name, case["side"], 64 * MIB)
    stats, ranks = schedule.stats(fabric), fabric.ranks
    counted = {"ranks": ranks, "steps": stats.steps, "steps of the bidirectional ring": 2 * ranks - 2}
    return {"used": stats.used_links_percent} | counted


# --- Figs. 8 and 9 --------------------------------------------------------------------------------


def _size(case: Entry) -> int:
    """What is reduced: by default 375 KiB for each chiplet."""
    return int(case.get("bytes", 375 * 1024 * case["side"] ** 2))


def _is_compared(case: Entry) -> bool:
    return takes_part(case, _size(case)) and (case["known"] is not None or not in_flits(case))


def _scaled(case: Entry) -> list[Point]:
    """Its own, and that of the ring on the smallest mesh."""
    smallest = {"series": DATA.series["Ring"], "side": 4 - case["side"] % 2}
    return [point(each, _size(each)) for each in (case, smallest)]


def _over_smallest(case: Entry, own: Record, smallest: Record) -> Entry:
    relative = own["time_ns"] / smallest["time_ns"]
    return {"parity": parity(case), "chiplets": case["side"] ** 2, "relative": relative}


# --- Fig. 12 --------------------------------------------------------------------------------------


def _use(_case: Entry, record: Record) -> Entry:
    windows = record["tables"]["timeline"]
    shares = [100 * window["utilization"] for window in windows]
    starts = [window["start_ns"] / 1e6 for window in windows]
    return {"median": median(shares), "peak": max(shares), "starts": starts, "shares": shares}


# --- claims that fit no form ----------------------------------------------------------------------


def _corner(_cells: Cells, _tables: Tables) -> Judged:
    corner, centre = (antiphon.verify(*_built(f"RingBiOdd ({what} left out)", 9)) for what in ("corner", "centre"))
    return verdict(corner.complete), {"lost": "" if centre.complete else centre.gaps}


def _no_bi_odd(_cells: Cells, _tables: Tables) -> Judged:
    try:
        _built("RingBiEven", 9)
    except antiphon.AntiphonError:
        return "holds", {"done": "refused"}
    return "does not hold", {"done": "built"}


def _best_chunk(_cells: Cells, tables: Tables) -> Judged:
    found = {entry["chunk"]: entry["bandwidth"] for entry in tables["fig14"]}
    best = max(found, key=lambda chunk: found[chunk])
    near = listed((format_bytes(chunk) for chunk, value in found.items() if value >= 0.99 * found[best]), "{}")
    return verdict(96 * 1024 <= best <= 192 * 1024), {"best": format_bytes(best), "near": near}


FIGURES = (
    Figure(DATA, "table1", _used_links, keep=lambda case: takes_part(case, 64 * MIB)),
    Figure(DATA, "fig8", jobs=lambda case: [point(case, case["bytes"])], keep=_is_compared),
    Figure(DATA, "fig9", _over_smallest, _scaled, keep=_is_compared),
    Figure(DATA, "fig12", _use, lambda case: [point(case, 256 * MIB, tables=("timeline",))]),
    Figure(DATA, "fig14", jobs=lambda case: [point(case, 128 * MIB)]),
)
CHECKS = {"odd-corner": _corner, "no-bi-odd": _no_bi_odd, "chunk": _best_chunk}
