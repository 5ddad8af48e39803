"""Figure 9 of the ARIES paper: throughput of an AllReduce over its size."""

from __future__ import annotations

from antiphon import format_bytes
from antiphon.papers.aries.designs import ALGORITHMS, ARIES, ASIDES, LATENCY, MESH, PEERS, SIDES, all_reduce, cases
from antiphon.repro.charts import Lines, lines, ticks
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table
from antiphon.studies import Point, Record

SIZES = [1 << n for n in range(10, 22)]
"""1 KB to 2 MB, as in the figure."""
BEYOND = (8 << 20, 64 << 20)


def _cases(quick: bool) -> list[Entry]:
    sides, sizes = (SIDES[:1], SIZES[::5]) if quick else (SIDES, (*SIZES, *BEYOND))
    return cases(side=sides, series=[*PEERS, ARIES, *ASIDES], size=sizes)


def _jobs(case: Entry) -> list[Point]:
    return [all_reduce(case, series) for series in (case["series"], MESH)]


def _measure(case: Entry, own: Record, mesh: Record) -> Entry:
    time, size = own["time_ns"], case["size"]
    what = f"{ALGORITHMS[case['algorithm']]}, {case['side']}x{case['side']}, {format_bytes(size)}"
    return {"what": what, "time": time, "rate": size / time, "gain": mesh["time_ns"] / time}


def _fig9(table: Table) -> Shown:
    rows = [Row(str(e["series"]), e["what"], "GB/s", e["rate"]) for e in table]
    charts = []
    for algorithm, of in table.by("algorithm"):
        for side, at in of.by("side"):
            marks, title = ticks(at.axis("size"), format_bytes, 2), f"{ALGORITHMS[algorithm]}, {side}x{side}"
            charts.append(Lines(title, "gradients", "GB/s", lines(at, "size", "rate"), marks, log=True))
    return rows, charts


FIG_9 = Figure("fig9", _cases, _measure, _fig9, _jobs)


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


CHECKS = {"crossover": _crossover}
