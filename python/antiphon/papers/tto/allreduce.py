"""Table I and Figures 8, 9, 12 and 14 of the TTO paper: AllReduce alone."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from statistics import correlation, median

import antiphon
from antiphon import Fabric, format_bytes
from antiphon.papers.tto.artifact import DATA, ArtifactPoint, built
from antiphon.repro.charts import Chart, Line, bar_chart, line_chart
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Job

SYSTEM = antiphon.System("tto")
KIB, MIB = 1 << 10, 1 << 20
ALGORITHMS, FLITS, MODELS = (
    [series for series in DATA.series.values() if series.more["kind"] == kind]
    for kind in ("algorithm", "flits", "model")
)
RING, RING_2D, DB_TREE_SHARED, DB_TREE, MULTI_TREE, BI_EVEN, BI_ODD_CORNER, BI_ODD, TTO = ALGORITHMS
IN_FLITS = 16 * MIB
"""The largest AllReduce that is run in flits."""


def takes_part(case: Entry) -> bool:
    """Whether a series is for meshes of this side; in flits, only small data for which a number is published."""
    series: Series = case["series"]
    if series.more["kind"] == "flits" and (case.get("known", 0) is None or case.get("bytes", 0) > IN_FLITS):
        return False
    return series.more["sides"] in ("", "odd" if case["side"] % 2 else "even")


def published(case: Entry, tables: str, column: str, **columns: object) -> Entry:
    """The case with what the artifact has as ``known``."""
    source = f"{tables.split('|')[0]}: {' '.join(map(str, columns.values()))}"
    return case | {"known": DATA.number(tables, column, **columns), "source": source}


def run(case: Entry, bytes: int, chunk: str = "", tables: tuple[str, ...] = ()) -> Job:
    """An AllReduce of a series on a mesh."""
    series, fabric = case["series"], f"mesh:{case['side']}x{case['side']}"
    fidelity = series.more["fidelity"] or "packet"
    return ArtifactPoint(fabric, series.run + chunk, bytes, "tto", fidelity=fidelity, tables=tables)


def _built(series: Series, side: int, size: int = MIB) -> tuple[Fabric, antiphon.Schedule]:
    fabric = Fabric(f"mesh:{side}x{side}")
    return fabric, built(fabric, series.run, "all-reduce", size, SYSTEM)


def table1(_quick: bool) -> Steps:
    """Links in use, counted on the schedules."""
    yield []
    table = Table()
    for case in filter(takes_part, grid(side=(8, 9), series=(RING, BI_EVEN, BI_ODD_CORNER, RING_2D, MULTI_TREE, TTO))):
        side, series = case["side"], case["series"]
        fabric, schedule = _built(series, side, 64 * MIB)
        stats, stated = schedule.stats(fabric), DATA.number("stated", "value", what=f"{series} {side}x{side}")
        counted = {"used": stats.used_links_percent, "ranks": fabric.ranks, "steps": stats.steps}
        counted |= {"steps of the bidirectional ring": 2 * fabric.ranks - 2}
        table.append(case | counted | {"what": f"{side}x{side}", "stated": stated})
    rows = Rows(DATA, "table1")
    for e in table:
        rows.add(e, "%", e["used"], key=f"{e['series']} {e['what']}", note="")
    of, parts = itemgetter("what"), {"in use": "used"}
    chart = bar_chart("Links in use", "links in use, %", table, of, parts, known="stated")
    return Outcome(table, rows, [chart], columns=2)


STALLED = {(BI_EVEN.name, 8, 128 * MIB)} | {
    (f"{BI_ODD}{fidelity}", side, size)
    for fidelity in ("", ", in flits")
    for side, size in ((5, 64 * MIB), (9, 256 * MIB))
}
"""Runs of the artifact that are out of line with its own neighbours."""


def fig8(quick: bool) -> Steps:
    """Bandwidth over the size of the data."""
    cases = []
    for case in grid(
        series=ALGORITHMS if quick else ALGORITHMS + FLITS,
        side=(4, 5) if quick else (4, 5, 8, 9),
        bytes=[MIB << n for n in ((0, 4, 8) if quick else range(11))],
    ):
        series, side, size = case["series"], case["side"], case["bytes"]
        where = {"topology": f"{side}x{side}", "algorithm": series.published, "data_bytes": size}
        case = published(case, "fig8_bandwidth|fig8_9x9", "bandwidth_GiBps_as_plotted", **where)
        stalled = {"note": DATA.texts["stalled"]} if (series.name, side, size) in STALLED else {}
        cases.append(case | stalled | {"what": f"{side}x{side}, {format_bytes(size)}"})
    cases = list(filter(takes_part, cases))
    runs = yield [(case, [run(case, case["bytes"])]) for case in cases]
    table = Table(
        case | {"time": done["time_ns"], "bandwidth": done["algorithm_bandwidth_gib_per_s"]} for case, (done,) in runs
    )
    labels, drawn = ("bytes", "AllReduce data", "bandwidth", "bandwidth, GiB/s"), table.where(series=ALGORITHMS)
    lines = partial(line_chart, ticks=format_bytes, every=2)
    charts = [lines(f"{side}x{side} mesh", of, *labels) for side, of in drawn.by("side")]
    return Outcome(table, Rows(DATA, "fig8", table, "GiB/s", "bandwidth"), charts, columns=2)


def fig9(quick: bool) -> Steps:
    """Time over the size of the mesh; and of the ring on the smallest mesh, with as much for each chiplet."""
    algorithms = [RING, RING_2D, MULTI_TREE, BI_EVEN, BI_ODD_CORNER, BI_ODD, TTO]
    flits = [] if quick else [each for each in FLITS if not each.name.startswith("DBTree")]
    cases = []
    for case in grid(series=algorithms + flits, side=range(3, 7 if quick else 17)):
        series, side = case["series"], case["side"]
        case |= {"what": f"{side}x{side}", "chiplets": float(side * side), "bytes": 384_000 * side * side}
        where = {"nodes": side * side, "algorithm": series.published}
        relative = DATA.number("fig9_scalability|fig9_large", "normalised_runtime", **where)
        cases.append(published(case, "fig9_scalability|fig9_large", "cycles", **where) | {"known relative": relative})
    cases = list(filter(takes_part, cases))
    smallest = [run({"series": RING, "side": side}, 384_000 * side * side) for side in (4, 3)]
    runs = yield [(case, [run(case, case["bytes"]), smallest[case["side"] % 2]]) for case in cases]
    table = Table()
    for case, (own, ring) in runs:
        found = {"time": own["time_ns"], "bandwidth": own["algorithm_bandwidth_gib_per_s"]}
        table.append(case | found | {"relative": own["time_ns"] / ring["time_ns"]})
    charts = []
    for name, side in (("even", 4), ("odd", 3)):
        of = Table(e for e in table.where(series=algorithms) if (e["side"] - side) % 2 == 0)
        y_label, known = f"time / Ring on {side}x{side}", "known relative"
        charts.append(line_chart(f"{name} meshes", of, "chiplets", "chiplets", "relative", y_label, known=known))
    return Outcome(table, Rows(DATA, "fig9", table, "ns", "time"), charts, columns=2)


def fig12(_quick: bool) -> Steps:
    """Use of the links over time."""
    cases = []
    for case in grid(series=(RING, RING_2D, MULTI_TREE, BI_ODD_CORNER, BI_ODD, TTO), side=(9,)):
        means, algorithm = "fig12_link_utilisation_mean", case["series"].published
        stalled = {"note": DATA.texts["stalled_quarter"]} if case["series"] == BI_ODD else {}
        known = published(case, means, "mean_util_incl_head_flit", algorithm=algorithm) | stalled
        cases.append(known | {"what": "mean of the run", "known": known["known"] and 100 * known["known"]})
    runs = yield [(case, [run(case, 256 * MIB, tables=("timeline",))]) for case in cases]
    table = Table()
    for case, (done,) in runs:
        windows = done["tables"]["timeline"]
        starts, shares = [each["start_ns"] / 1e6 for each in windows], [100 * each["utilization"] for each in windows]
        mean = 100 * done["link_utilization_mean"]
        found = {"mean": mean, "median": median(shares), "peak": max(shares), "starts": starts, "shares": shares}
        table.append(case | found)
    rows = Rows(DATA, "fig12", table, "%", "mean")
    said = [(TTO, "median"), (RING, "peak"), (BI_ODD_CORNER, "median"), (MULTI_TREE, "mean"), (MULTI_TREE, "peak")]
    for series, what in said:
        (e,) = table.where(series=series)
        key = f"{series}: {what}"
        rows.add(e, "%", e[what], "As the text says", key, key, note="")
    lines = [Line(str(e["series"]), e["starts"], e["shares"], marked=False) for e in table]
    chart = Chart("9x9 mesh, 256 MiB", "time, ms", "links in use, %", lines=lines, y_max=100)
    return Outcome(table, rows, [chart])


def fig14(_quick: bool) -> Steps:
    """Size of TTO's chunks."""
    cases = []
    for case in grid(series=(TTO,), side=(8,), chunk=[12 * KIB << n for n in range(10)]):
        tables, column = "fig14_chunk|fig14_odd", "bandwidth_GiBps_as_plotted"
        case |= {"size": format_bytes(case["chunk"]), "what": f"chunks of {format_bytes(case['chunk'])}"}
        cases.append(published(case, tables, column, chunk_bytes=case["chunk"]))
    runs = yield [(case, [run(case, 128 * MIB, f":chunk={case['chunk']}")]) for case in cases]
    table = Table(
        case | {"time": done["time_ns"], "bandwidth": done["algorithm_bandwidth_gib_per_s"]} for case, (done,) in runs
    )
    labels = "8x8 mesh, 128 MiB", table, "chunk", "chunk", "bandwidth", "bandwidth, GiB/s"
    chart = line_chart(*labels, ticks=format_bytes)
    return Outcome(table, Rows(DATA, "fig14", table, "GiB/s", "bandwidth"), [chart])


def odd_corner(_cells: Cells, _tables: Tables) -> Judged:
    """That RingBiOdd leaves out the corner."""
    corner, centre = (antiphon.verify(*_built(series, 9)) for series in (BI_ODD_CORNER, BI_ODD))
    return verdict(corner.complete), {"lost": "" if centre.complete else centre.gaps}


def refused(fabric: str, algorithm: str) -> bool:
    """Whether an algorithm does not apply."""
    try:
        antiphon.build(fabric, algorithm, bytes=MIB, system=SYSTEM)
    except antiphon.AntiphonError as error:
        return error.code == "not-applicable"
    return False


def applicable(_cells: Cells, _tables: Tables) -> Judged:
    """That Table I's algorithms apply where it says so; HDRM is halving and doubling mapped to a BiGraph."""
    cells = {
        (f"mesh:{side}x{side}", series.run): True for side in (8, 9) for series in (RING, RING_2D, DB_TREE, MULTI_TREE)
    }
    cells |= {(fabric, "halving-doubling:mapping=hdrm"): False for fabric in ("mesh:8x8", "mesh:9x9")}
    cells[("mesh:8x8", BI_EVEN.run)] = True
    wrong = [
        f"{algorithm} on {fabric}"
        for (fabric, algorithm), applies in cells.items()
        if refused(fabric, algorithm) == applies
    ]
    return verdict(not wrong), {"count": len(cells), "passing": len(cells) - len(wrong), "lost": ", ".join(wrong)}


def hard(_cells: Cells, _tables: Tables) -> Judged:
    """That DBTree's messages cross several links, and that Ring-2D takes more steps than where lines are rings."""
    hops = max(_built(DB_TREE, side)[1].transfers["hops"].max() for side in (8, 9))
    steps, whole = (
        antiphon.build(fabric, RING_2D.run, bytes=MIB, system=SYSTEM).stats(Fabric(fabric)).steps
        for fabric in ("mesh:8x8", "torus:8x8")
    )
    return verdict(hops > 1 and steps > whole), {"hops": hops, "steps": steps, "whole": whole}


LINEAR = 0.999
"""Correlation from which times count as linear."""


def linear(_cells: Cells, tables: Tables) -> Judged:
    """That times grow linearly with the number of chiplets: by their correlation, for even and odd meshes."""
    found = {}
    for series in (RING, RING_2D, MULTI_TREE, BI_EVEN, BI_ODD_CORNER, TTO):
        for odd, name in enumerate(("even", "odd")):
            of = Table(e for e in tables["fig9"].where(series=series) if e["side"] % 2 == odd)
            if of:
                found[f"{series}, {name} meshes"] = correlation(of.column("chiplets"), of.column("time"))
    where = min(found, key=lambda name: found[name])
    return verdict(found[where] >= LINEAR), {"least": found[where], "where": where}


def no_bi_odd(_cells: Cells, _tables: Tables) -> Judged:
    """That there is no bidirectional ring on an odd mesh."""
    gone = refused("mesh:9x9", BI_EVEN.run)
    return verdict(gone), {"done": "refused" if gone else "built"}
