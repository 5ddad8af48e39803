"""Figure 9 of the ARIES paper, throughput of an AllReduce over its size; and beyond it, other algorithms on fabrics
configured for them, and packets beside flits."""

from __future__ import annotations

from math import log

from antiphon import format_bytes
from antiphon.papers.aries.designs import (
    ALGORITHMS,
    ARIES,
    CONCENTRATED,
    DATA,
    LATENCY,
    MESH,
    SIDES,
    TORUS,
    all_reduce,
    exists,
    least_ns,
)
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry, Table
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


SIMILAR = 0.1
"""By which throughputs may be apart that are very similar: as a ratio, or of the figure's axis."""
TREES = {"binary": ("dbtree", ARIES), "multi": ("multitree", ARIES), "concentrated": ("multitree", CONCENTRATED)}


def _above_the_mesh(table: Table, algorithm: str, series: Series) -> list[tuple[float, float, float]]:
    """Up to 8 KiB: the ratio to the mesh, and how much of a linear and of a logarithmic axis lies between them."""
    found = []
    for _, panel in table.where(algorithm=algorithm).by("side"):
        drawn = panel.where(series=[MESH, TORUS, series]).column("rate")
        least, most = min(drawn), max(drawn)
        small = (panel.where("size<=8192", series=each).column("rate") for each in (series, MESH))
        for own, mesh in zip(*small, strict=True):
            found.append((own / mesh, (own - mesh) / most, log(own / mesh) / log(most / least)))
    return found


def _trees_small(_cells: Cells, tables: Tables) -> Judged:
    """How far above the mesh trees are: as a ratio, and on the axis, which is not known."""
    texts: dict[str, str] = {}
    alike = {}
    for name, of in TREES.items():
        ratios, linear, logarithmic = zip(*_above_the_mesh(tables["fig9"], *of), strict=True)
        texts[name] = f"{min(ratios):.2f}–{max(ratios):.2f}"
        texts |= {f"{name}_linear": f"{100 * max(linear):.0f} %", f"{name}_log": f"{100 * max(logarithmic):.0f} %"}
        alike[name] = max(ratios) - 1 <= SIMILAR, max(linear + logarithmic) <= SIMILAR
    # The sentence is of double binary trees.
    return verdict(all(ratio for ratio, _ in alike.values()), alike["binary"][1]), texts


# --- beyond the paper -------------------------------------------------------------------------------


def _named(case: Entry) -> Entry:
    name, algorithm = str(case["series"]), ALGORITHMS.get(case["algorithm"])
    what = f"{case['side']}x{case['side']}, {format_bytes(case['size'])}"
    return {"what": what, "name": f"{algorithm}, {name}" if algorithm else name}


def _of_the_least(case: Entry, own: Record) -> Entry:
    time, least = own["time_ns"], least_ns(case["side"], case["size"])
    found = {"time": time, "time in µs": time / 1e3, "least in µs": least / 1e3, "share": least / time}
    return _named(case) | found


# --- beyond: flits and packets -----------------------------------------------------------------------


def _in_flits_and_packets(case: Entry) -> list[Point]:
    return [all_reduce(case, case["series"]), all_reduce(case, case["series"], "packet")]


def _over(case: Entry, flits: Record, packets: Record) -> Entry:
    return _named(case) | {"ratio": flits["time_ns"] / packets["time_ns"]}


FIGURES = (
    Figure(DATA, "fig9", _gained, _jobs, keep=exists),
    Figure(DATA, "beyond", _of_the_least, lambda case: [all_reduce(case, case["series"])], keep=exists),
    Figure(DATA, "flits", _over, _in_flits_and_packets, keep=exists),
)
CHECKS = {"crossover": _crossover, "trees-small": _trees_small}
