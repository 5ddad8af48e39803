"""Table I and Figures 8, 9, 12 and 14 of the TTO paper: AllReduce alone."""

from __future__ import annotations

from statistics import median

import antiphon
from antiphon import Fabric, format_bytes
from antiphon.papers.tto.meshes import DATA, MIB, SYSTEM, in_flits, parity, point, side_of, takes_part
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import Point, Record


def _built(name: str, side: int, size: int = MIB) -> tuple[Fabric, antiphon.Schedule]:
    fabric = Fabric(f"mesh:{side}x{side}")
    return fabric, antiphon.build(fabric, DATA.series[name].run, bytes=size, system=SYSTEM)


def _used_links(case: Entry) -> Entry:
    fabric, schedule = _built(case["series"].name, case["side"], 64 * MIB)
    stated = DATA.stated["table1"].get(f"{case['series']} {case['side']}x{case['side']}")
    return {"used": schedule.stats(fabric).used_links_percent, "stated": stated.value if stated else None}


# --- Figs. 8 and 9 --------------------------------------------------------------------------------

GIB_PER_S = DATA.known(["fig8_bandwidth", "fig8_9x9"], "bandwidth_GiBps_as_plotted", "algorithm", side_of, "data_bytes")
STALLS = {("RingBiEven", 8, str(128 * MIB)), ("RingBiOdd", 5, str(64 * MIB)), ("RingBiOdd", 9, str(256 * MIB))}
"""Runs of the artifact that are out of line with its own neighbours."""


def _key(case: Entry) -> tuple[str, int, str]:
    """Of the published table."""
    return case["series"].published, case["side"], str(case["bytes"])


def _bandwidth(case: Entry, _record: Record) -> Entry:
    note = {"note": DATA.texts["stalled"]} if _key(case) in STALLS else {}
    return {"known": GIB_PER_S.get(_key(case)), "source": f"fig8: {_key(case)}"} | note


def _is_compared(case: Entry) -> bool:
    return takes_part(case, case["bytes"]) and (not in_flits(case) or _key(case) in GIB_PER_S)


CYCLES = DATA.known(["fig9_scalability", "fig9_large"], "cycles", "algorithm", side_of)


def _size(side: int) -> int:
    """375 KiB for each chiplet."""
    return 375 * 1024 * side**2


def _scaled(case: Entry) -> list[Point]:
    """Its own, and that of the ring on the smallest mesh."""
    smallest = {"series": DATA.series["Ring"], "side": 4 - case["side"] % 2}
    return [point(each, _size(each["side"])) for each in (case, smallest)]


def _over_smallest(case: Entry, own: Record, smallest: Record) -> Entry:
    side, key = case["side"], (case["series"].published, case["side"])
    known = CYCLES.get(key)
    return {
        "parity": parity(case),
        "chiplets": side**2,
        "relative": own["time_ns"] / smallest["time_ns"],
        "known": known,
        "known relative": known and known / CYCLES["Ring", 4 - side % 2],
        "source": f"fig9: {key}",
    }


def _is_scaled(case: Entry) -> bool:
    known = (case["series"].published, case["side"]) in CYCLES
    return takes_part(case, _size(case["side"])) and (known or not in_flits(case))


# --- Figs. 12 and 14 ------------------------------------------------------------------------------

USE = DATA.known(["fig12_link_utilisation_mean"], "mean_util_incl_head_flit", "algorithm")


def _use(case: Entry, record: Record) -> Entry:
    windows = record["tables"]["timeline"]
    shares = [100 * window["utilization"] for window in windows]
    known = USE.get((case["series"].published,))
    note = {"note": DATA.texts["stalled_quarter"]} if "centre" in case["series"].name else {}
    return {
        "mean": 100 * record["link_utilization_mean"],
        "median": median(shares),
        "peak": max(shares),
        "known": known and 100 * known,
        "starts": [window["start_ns"] / 1e6 for window in windows],
        "shares": shares,
    } | note


BY_CHUNK = DATA.known(["fig14_chunk", "fig14_odd"], "bandwidth_GiBps_as_plotted", "chunk_bytes")


def _by_chunk(case: Entry, _record: Record) -> Entry:
    return {"known": BY_CHUNK.get((str(case["chunk"]),))}


# --- claims that fit no form ----------------------------------------------------------------------


def _corner(_cells: Cells, _tables: Tables) -> Judged:
    corner, centre = (antiphon.verify(*_built(f"RingBiOdd ({what} left out)", 9)) for what in ("corner", "centre"))
    return verdict(corner.complete), {"lost": "" if centre.complete else centre.gaps}


def _steps(_cells: Cells, _tables: Tables) -> Judged:
    fabric, schedule = _built("RingBiOdd (corner left out)", 9)
    steps = schedule.stats(fabric).steps
    return verdict(steps == 2 * fabric.ranks - 2), {"steps": steps, "ranks": fabric.ranks}


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
    Figure(DATA, "fig8", _bandwidth, lambda case: [point(case, case["bytes"])], keep=_is_compared),
    Figure(DATA, "fig9", _over_smallest, _scaled, keep=_is_scaled),
    Figure(DATA, "fig12", _use, lambda case: [point(case, 256 * MIB, tables=("timeline",))]),
    Figure(DATA, "fig14", _by_chunk, lambda case: [point(case, 128 * MIB)]),
)
CHECKS = {"odd-corner": _corner, "odd-steps": _steps, "no-bi-odd": _no_bi_odd, "chunk": _best_chunk}
