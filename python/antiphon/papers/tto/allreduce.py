"""Table I and Figures 8, 9, 12 and 14 of the TTO paper: AllReduce alone."""

from __future__ import annotations

from statistics import median
from typing import Any

import antiphon
from antiphon import Fabric, format_bytes
from antiphon.papers.tto.meshes import ALGORITHMS, DATA, FLITS, MIB, SYSTEM, cases, drawn, point, row, side_of
from antiphon.repro.charts import Bars, Line, Lines, bars, lines, ticks
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure, Shown, row_of
from antiphon.repro.table import Entry, Table
from antiphon.studies import Point, Record


def _run(case: Entry) -> list[Point]:
    return [point(case, case["bytes"])]


def _measure(record: Record) -> Entry:
    return {"time": record["time_ns"], "bandwidth": record["algorithm_bandwidth_gib_per_s"]}


# --- Table I: counted on schedules ----------------------------------------------------------------


def _used_links(case: Entry) -> Entry:
    fabric = Fabric(f"mesh:{case['side']}x{case['side']}")
    schedule = antiphon.build(fabric, case["series"].run, bytes=case["bytes"], system=SYSTEM)
    what = f"{case['side']}x{case['side']}"
    stated = DATA.stated["table1"].get(f"{case['series']} {what}")
    used = schedule.stats(fabric).used_links_percent
    return {"what": what, "used": used, "stated": stated.value if stated else None}


def _table1(table: Table) -> Shown:
    rows = [
        row("table1", str(e["series"]), e["what"], "%", e["used"], f"{e['series']} {e['what']}", 0.02) for e in table
    ]
    return rows, [Bars("Links in use", "links in use, %", ["in use"], bars(table, "what", ["used"], "stated"))]


COUNTED = ("Ring", "RingBiEven", "RingBiOdd (corner left out)", "Ring-2D", "MultiTree", "TTO")
TABLE_1 = Figure(
    "table1",
    lambda _quick: [case for side in (8, 9) for case in cases(COUNTED, side=[side], bytes=[64 * MIB])],
    _used_links,
    _table1,
)

# --- Fig. 8 -------------------------------------------------------------------------------------

GIB_PER_S = DATA.known(["fig8_bandwidth", "fig8_9x9"], "bandwidth_GiBps_as_plotted", "algorithm", side_of, "data_bytes")
STALLS = {("RingBiEven", 8, str(128 * MIB)), ("RingBiOdd", 5, str(64 * MIB)), ("RingBiOdd", 9, str(256 * MIB))}
"""Runs of the artifact that are out of line with its own neighbours."""


def _fig8_cases(quick: bool) -> list[Entry]:
    sides, sizes = ((4, 5), (MIB, 16 * MIB, 256 * MIB)) if quick else ((4, 5, 8, 9), [MIB << n for n in range(11)])
    found: list[Any] = cases(ALGORITHMS + ([] if quick else FLITS), side=sides, bytes=sizes)
    found = [case | {"key": (case["series"].published, case["side"], str(case["bytes"]))} for case in found]
    return [case for case in found if case["series"].name in ALGORITHMS or case["key"] in GIB_PER_S]


def _bandwidth(case: Entry, record: Record) -> Entry:
    known = {"known": GIB_PER_S.get(case["key"]), "source": f"fig8: {case['key']}"}
    note = {"note": DATA.texts["stalled"]} if case["key"] in STALLS else {}
    return {"what": f"{case['side']}x{case['side']}, {format_bytes(case['bytes'])}"} | _measure(record) | known | note


def _fig8(table: Table) -> Shown:
    charts = []
    for side, of in sorted(drawn(table).by("side"), key=lambda found: found[0]):
        sizes = of.axis("bytes")
        marks = ticks(sizes, format_bytes, 2 if len(sizes) > 6 else 1)
        charts.append(
            Lines(f"{side}x{side} mesh", "AllReduce data", "bandwidth, GiB/s", lines(of, "bytes", "bandwidth"), marks)
        )
    return [row_of(entry, "bandwidth", "GiB/s") for entry in table], charts


FIG_8 = Figure("fig8", _fig8_cases, _bandwidth, _fig8, _run)

# --- Fig. 9 -------------------------------------------------------------------------------------

CYCLES = DATA.known(["fig9_scalability", "fig9_large"], "cycles", "algorithm", side_of)
BYTES_PER_NODE = 375 * 1024


def _fig9_cases(quick: bool) -> list[Entry]:
    names = [name for name in ALGORITHMS + ([] if quick else FLITS) if "DBTree" not in name]
    found = [
        case
        for name in names
        for side in range(3, 7 if quick else 17)
        for case in cases([name], side=[side], bytes=[BYTES_PER_NODE * side**2])
    ]
    return [c for c in found if c["series"].name in ALGORITHMS or (c["series"].published, c["side"]) in CYCLES]


def _time(case: Entry, record: Record) -> Entry:
    side, key = case["side"], (case["series"].published, case["side"])
    known = {"known": CYCLES.get(key), "source": f"fig9: {key}"}
    return _measure(record) | {"what": f"{side}x{side}", "chiplets": side**2} | known


def _fig9(table: Table) -> Shown:
    charts = []
    for parity, smallest in (("even", 4), ("odd", 3)):
        found, published = Table(), CYCLES["Ring", smallest]
        ring = table.one("time", series="Ring", side=smallest)
        for e in drawn(table).where(parity=parity):
            found.append(e | {"relative": e["time"] / ring, "published": e["known"] and e["known"] / published})
        label = f"time / Ring on {smallest}x{smallest}"
        charts.append(Lines(f"{parity} meshes", "chiplets", label, lines(found, "chiplets", "relative", "published")))
    return [row_of(entry, "time", "ns") for entry in table], charts


FIG_9 = Figure("fig9", _fig9_cases, _time, _fig9, _run)

# --- Fig. 12 ------------------------------------------------------------------------------------

USE = DATA.known(["fig12_link_utilisation_mean"], "mean_util_incl_head_flit", "algorithm")
FIG_12_SERIES = ("Ring", "Ring-2D", "MultiTree", "RingBiOdd (centre left out)", "RingBiOdd (corner left out)", "TTO")
IN_THE_TEXT = (
    ("TTO", "median", "TTO"),
    ("Ring", "median", "Ring"),
    ("RingBiOdd (corner left out)", "median", "RingBiOdd"),
    ("MultiTree", "mean", "MultiTree"),
    ("MultiTree", "peak", "MultiTree peak"),
)
"""Algorithm, number, and what the text calls it."""


def _use(case: Entry, record: Record) -> Entry:
    windows = record["tables"]["timeline"]
    shares = [100 * window["utilization"] for window in windows]
    known = USE.get((case["series"].published,))
    note = {"note": DATA.texts["stalled_quarter"]} if "centre" in case["series"].name else {}
    return {
        "what": "mean of the run",
        "mean": 100 * record["link_utilization_mean"],
        "median": median(shares),
        "peak": max(shares),
        "known": known and 100 * known,
        "starts": [window["start_ns"] / 1e6 for window in windows],
        "shares": shares,
    } | note


def _fig12(table: Table) -> Shown:
    rows = [row_of(entry, "mean", "%") for entry in table]
    for name, column, key in IN_THE_TEXT:
        ours = table.one(column, series=name)
        rows.append(row("fig12", "As the text says", f"{name}: {column}", "%", ours, key, 0.05))
    found = [Line(str(e["series"]), e["starts"], e["shares"], marked=False) for e in table]
    return rows, [Lines("9x9 mesh, 256 MiB", "time, ms", "links in use, %", found, y_max=100)]


FIG_12 = Figure(
    "fig12",
    lambda _quick: cases(FIG_12_SERIES, side=[9], bytes=[256 * MIB]),
    _use,
    _fig12,
    lambda case: [point(case, case["bytes"], tables=("timeline",))],
)

# --- Fig. 14 ------------------------------------------------------------------------------------

BY_CHUNK = DATA.known(["fig14_chunk", "fig14_odd"], "bandwidth_GiBps_as_plotted", "chunk_bytes")


def _chunk(case: Entry, record: Record) -> Entry:
    known = BY_CHUNK.get((str(case["chunk"]),))
    return _measure(record) | {"what": f"chunks of {format_bytes(case['chunk'])}", "known": known}


def _fig14(table: Table) -> Shown:
    marks = ticks(table.column("chunk"), format_bytes)
    chart = Lines("8x8 mesh, 128 MiB", "chunk", "bandwidth, GiB/s", lines(table, "chunk", "bandwidth"), marks)
    return [row_of(entry, "bandwidth", "GiB/s", tolerance=0.005) for entry in table], [chart]


FIG_14 = Figure(
    "fig14",
    lambda _quick: cases(["TTO"], side=[8], bytes=[128 * MIB], chunk=[12288 << n for n in range(10)]),
    _chunk,
    _fig14,
    _run,
)

# --- claims that fit no form ----------------------------------------------------------------------


def _on_9x9(name: str) -> tuple[Fabric, antiphon.Schedule]:
    fabric = Fabric("mesh:9x9")
    return fabric, antiphon.build(fabric, DATA.series[name].run, bytes=MIB, system=SYSTEM)


def _corner(_cells: Cells, _tables: Tables) -> Judged:
    corner, centre = (antiphon.verify(*_on_9x9(f"RingBiOdd ({what} left out)")) for what in ("corner", "centre"))
    return verdict(corner.complete), {"lost": "" if centre.complete else centre.gaps}


def _steps(_cells: Cells, _tables: Tables) -> Judged:
    fabric, schedule = _on_9x9("RingBiOdd (corner left out)")
    steps = schedule.stats(fabric).steps
    return verdict(steps == 2 * fabric.ranks - 2), {"steps": steps, "ranks": fabric.ranks}


def _no_bi_odd(_cells: Cells, _tables: Tables) -> Judged:
    try:
        _on_9x9("RingBiEven")
    except antiphon.AntiphonError:
        return "holds", {"done": "refused"}
    return "does not hold", {"done": "built"}


def _best_chunk(_cells: Cells, tables: Tables) -> Judged:
    found = {entry["chunk"]: entry["bandwidth"] for entry in tables["fig14"]}
    best = max(found, key=lambda chunk: found[chunk])
    near = listed((format_bytes(chunk) for chunk, value in found.items() if value >= 0.99 * found[best]), "{}")
    return verdict(96 * 1024 <= best <= 192 * 1024), {"best": format_bytes(best), "near": near}


CHECKS = {"odd-corner": _corner, "odd-steps": _steps, "no-bi-odd": _no_bi_odd, "chunk": _best_chunk}
