"""Figure 9 of the ARIES paper: throughput of an AllReduce over its size."""

from __future__ import annotations

from antiphon import format_bytes
from antiphon.papers.aries.designs import ALGORITHMS, ARIES, DATA, LATENCY, MESH, SIDES, all_reduce, exists
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import Point, Record


def _jobs(case: Entry) -> list[Point]:
    return [all_reduce(case, series) for series in (case["series"], MESH)]


def _measure(case: Entry, own: Record, mesh: Record) -> Entry:
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


FIGURES = (Figure(DATA, "fig9", _measure, _jobs, keep=exists),)
CHECKS = {"crossover": _crossover}
