"""Figure 9 of the ARIES paper, throughput of an AllReduce over its size; and beyond it, other algorithms on fabrics
configured for them, and runs in flits."""

from __future__ import annotations

from dataclasses import replace

from antiphon import format_bytes
from antiphon.papers.aries.designs import ALGORITHMS, ARIES, DATA, LATENCY, MESH, SIDES, all_reduce, exists, least_ns
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import Point, Record


def _jobs(case: Entry) -> list[Point]:
    return [all_reduce(case, series) for series in (case["series"], MESH)]


def _gained(case: Entry, own: Record, mesh: Record) -> Entry:
    time, size = own["time_ns"], case["size"]
    title = f"{ALGORITHMS[case['algorithm']]}, {case['side']}x{case['side']}"
    found = {"what": f"{title}, {format_bytes(size)}", "title": title}
    return found | {"time": time, "rate": size / time, "gain": mesh["time_ns"] / time}


def _crossover(_cells: Cells, tables: Tables) -> Judged:
    """The last size at which the latency-optimised ring is faster, and the first at which it is not."""
    found = {}
    for side in SIDES:
        of = tables["fig9"].where(algorithm="ring", side=side)
        times = zip(*(of.where(series=series).column("time") for series in (LATENCY, ARIES)), strict=True)
        slower = next((n for n, (low, wide) in enumerate(times) if low > wide), len(of.axis("size")) - 1)
        found[side] = of.axis("size")[max(slower - 1, 0) : slower + 1]
    texts = {f"at{side}": " to ".join(map(format_bytes, sizes)) for side, sizes in found.items()}
    small, large = found.values()
    return verdict(large[-1] > small[-1] and len(small) == len(large) == 2), texts


# --- beyond the paper -------------------------------------------------------------------------------


def _named(case: Entry) -> Entry:
    name, algorithm = str(case["series"]), ALGORITHMS.get(case["algorithm"])
    what = f"{case['side']}x{case['side']}, {format_bytes(case['size'])}"
    return {"what": what, "name": f"{algorithm}, {name}" if algorithm else name}


def _of_the_least(case: Entry, own: Record) -> Entry:
    time, least = own["time_ns"], least_ns(case["side"], case["size"])
    found = {"time": time, "time in µs": time / 1e3, "least in µs": least / 1e3, "share": least / time}
    return _named(case) | found


# --- beyond: in flits ----------------------------------------------------------------------------------------


ROUTERS = (("link_switching", "cut-through"), ("link_buffers", "routers"))
"""Of packets that are in routers what flits are."""


def _in_flits_and_packets(case: Entry) -> list[Point]:
    flits, packets = (all_reduce(case, case["series"], fidelity) for fidelity in ("flit", "packet"))
    return [flits, packets, replace(packets, changes=packets.changes + ROUTERS)]


def _over(case: Entry, flits: Record, packets: Record, routed: Record) -> Entry:
    time = flits["time_ns"]
    return _named(case) | {"ratio": time / packets["time_ns"], "routed": time / routed["time_ns"]}


FIGURES = (
    Figure(DATA, "fig9", _gained, _jobs, keep=exists),
    Figure(DATA, "beyond", _of_the_least, lambda case: [all_reduce(case, case["series"])], keep=exists),
    Figure(DATA, "flits", _over, _in_flits_and_packets, keep=exists),
)
CHECKS = {"crossover": _crossover}
