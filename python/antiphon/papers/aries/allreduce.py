"""Figure 9 of the ARIES paper, throughput of an AllReduce over its size; and beyond it, other algorithms on fabrics
configured for them, and packets beside flits."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon import format_bytes
from antiphon.papers.aries.designs import (
    ADAPT,
    ALGORITHMS,
    ARIES,
    BEST,
    DATA,
    LARGE,
    LATENCY,
    MESH,
    PEERS,
    SIDES,
    SUBNETS,
    TORUS,
    VARIANTS,
    all_reduce,
    exists,
    least_ns,
)
from antiphon.repro.charts import line_chart
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Rows
from antiphon.repro.table import Entry, Table, grid

KIB = 1 << 10


def fig9(quick: bool) -> Steps:
    """Throughput over the size of the gradients."""
    sizes, sides = ((1, 32, 1024), SIDES[:1]) if quick else ([1 << n for n in range(12)], SIDES)
    bytes = [KIB * size for size in sizes]
    cases = list(
        filter(exists, grid(algorithm=ALGORITHMS, side=sides, series=[MESH, TORUS, ARIES, LATENCY, BEST], size=bytes))
    )
    runs = yield [(case, [all_reduce(case, each) for each in (case["series"], MESH)]) for case in cases]
    table = Table()
    for case, (own, mesh) in runs:
        time, size = own["time_ns"], case["size"]
        title = f"{ALGORITHMS[case['algorithm']]}, {case['side']}x{case['side']}"
        found = {"what": f"{title}, {format_bytes(size)}", "title": title}
        table.append(case | found | {"time": time, "rate": size / time, "gain": mesh["time_ns"] / time})
    labels = "size", "gradients", "rate", "GB/s"
    charts = [
        line_chart(of[0]["title"], of, *labels, ticks=format_bytes, every=2, log=True)
        for of in table.split("algorithm", "side")
    ]
    return Outcome(table, Rows(DATA, "fig9", table, "GB/s", "rate", note=""), charts, columns=2)


def crossover(_cells: Cells, tables: Tables) -> Judged:
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


BEYOND = [series for series in DATA.series.values() if series.more["kind"] == "beyond"]


def _cases(
    series: list[Series], sides: tuple[int, ...], sizes: tuple[int, ...], beyond: Sequence[Series] = BEYOND
) -> list[Entry]:
    """The paper's algorithms on some designs, and others."""
    cases = grid(algorithm=ALGORITHMS, side=sides, size=sizes, series=series)
    cases += grid(algorithm=("beyond",), side=sides, size=sizes, series=beyond)
    found = []
    for case in filter(exists, cases):
        name, algorithm = str(case["series"]), ALGORITHMS.get(case["algorithm"])
        what = f"{case['side']}x{case['side']}, {format_bytes(case['size'])}"
        found.append(case | {"what": what, "name": f"{algorithm}, {name}" if algorithm else name})
    return found


def beyond(quick: bool) -> Steps:
    """Other algorithms on fabrics configured for them."""
    sides, sizes = (SIDES[:1], (64 * KIB,)) if quick else (SIDES, (64 * KIB, 1 << 20, 16 << 20))
    cases = _cases([ARIES, LATENCY, BEST], sides, sizes)
    runs = yield [(case, [all_reduce(case, case["series"])]) for case in cases]
    table = Table()
    rows = Rows(DATA, "beyond")
    for case, (own,) in runs:
        time, least = own["time_ns"], least_ns(case["side"], case["size"])
        e = case | {"time": time, "share": least / time}
        table.append(e)
        rows.add(e, "µs", time / 1e3, group=e["name"], reference=least / 1e3, note="")
    return Outcome(table, rows)


def wires(quick: bool) -> Steps:
    """One wire and two along a row and column, to 16x16."""
    sides, sizes = (SIDES[:1], (2 << 20,)) if quick else ((*SIDES, LARGE), (64 * KIB, 2 << 20))
    cases = _cases([*PEERS, SUBNETS, ARIES, *VARIANTS], sides, sizes, beyond=())
    runs = yield [(case, [all_reduce(case, series, "packet") for series in (case["series"], MESH)]) for case in cases]
    table = Table(case | {"gain": mesh["time_ns"] / own["time_ns"]} for case, (own, mesh) in runs)
    rows = Rows(DATA, "wires")
    for e in table:
        if e["series"] is not MESH:
            rows.add(e, "×", e["gain"], e["name"], note="")
    return Outcome(table, rows)


def flits(quick: bool) -> Steps:
    """Packets and flits."""
    sides, sizes = (SIDES[:1], (4 * KIB,)) if quick else (SIDES, (4 * KIB, 64 * KIB, 1 << 20))
    cases = _cases([MESH, TORUS, ADAPT, ARIES, LATENCY, BEST], sides, sizes)
    runs = yield [
        (case, [all_reduce(case, case["series"], fidelity) for fidelity in ("flit", "packet")]) for case in cases
    ]
    table = Table(case | {"ratio": flits["time_ns"] / packets["time_ns"]} for case, (flits, packets) in runs)
    rows = Rows(DATA, "flits")
    for e in table:
        rows.add(e, "×", e["ratio"], e["name"], note="")
    return Outcome(table, rows)
