"""Tables I and II, Eq. 1 and the area of the ARIES paper: counted on schedules, and constants."""

from __future__ import annotations

from dataclasses import replace

import antiphon
from antiphon import Fabric
from antiphon.papers.aries.designs import DATA, GRADIENT_BYTES, PORTS, PROCESSOR, SIDES, SYSTEM, row
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table, grid

SIZE = 1 << 20
"""Of what is counted; the counts are the same for any."""

# --- Table I --------------------------------------------------------------------------------------

COUNTS = {"links": ("links", ""), "share": ("on a link", "G"), "steps": ("steps", ""), "most": ("at a time", "G")}
"""Columns of the table, with units: G is the gradients."""
ABOUT = 0.07
"""Tolerance of what the paper gives as about: 2 (N - 1) links of N chiplets, of which it says two for each."""


def _counted(case: Entry) -> Entry:
    """Links in use and messages of rings; of trees, as many as are built at once share gradients and edges."""
    fabric = Fabric(f"torus:{case['side']}x{case['side']}")
    schedule = antiphon.build(fabric, case["run"], bytes=SIZE, system=SYSTEM)
    stats, transfers = schedule.stats(fabric), schedule.transfers
    if trees := int(case["at_once"] or 0):
        sums = int(transfers["reduces"].sum()) // len(schedule.lanes["bytes"])
        links, share = trees * sums, 1 / trees
    else:
        links = round(stats.used_links_percent / 100 * len(stats.links["bytes"]))
        share = int(transfers["message_bytes"].max()) / SIZE
    steps = int(stats.lanes["reduce_height"].max())
    return {
        "what": f"{case['side']}x{case['side']}",
        "counted": {"links": links, "share": share, "steps": steps, "most": min(links / fabric.ranks, PORTS)},
    }


def _table1(table: Table) -> Shown:
    notes = {("2D Ring", "share"): "first", ("Binary Tree", "steps"): "height", ("Multi-Tree", "steps"): "height"}
    rows = []
    for e in table:
        for column, (text, unit) in COUNTS.items():
            note = DATA.texts.get(notes.get((e["algorithm"], column), ""), "")
            tolerance = ABOUT if column == "most" else 0.0
            what, ours = f"{e['what']}: {text}", float(e["counted"][column])
            rows.append(Row(e["algorithm"], what, unit, ours, float(e[column]), tolerance=tolerance, note=note))
    return rows, ()


TABLE_1 = Figure("table1", lambda _quick: [*DATA.table("table1")], _counted, _table1)

# --- Eq. 1 ----------------------------------------------------------------------------------------


def fewer_hops(side: int, level: int) -> float:
    """Eq. 1: what a bypass saves at a level of the tree, from the root's edges (1) on."""
    width = 1 << level
    return (side if width <= side else side**2) / width - 1


def _on_the_mesh(case: Entry) -> Entry:
    """Hops of the edges of a level, of those that take fewest."""
    side, level = case["side"], case["level"]
    fabric = Fabric(f"mesh:{side}x{side}")
    edges = antiphon.build(fabric, "dbtree", bytes=SIZE, system=SYSTEM).transfers
    span = abs(edges["from"].astype(int) - edges["to"].astype(int))
    return {"what": f"level {level}", "hops": int(edges["hops"][span == side**2 >> level].min())}


def _eq1(table: Table) -> Shown:
    return [
        Row(
            f"{e['side']}x{e['side']}",
            e["what"],
            "hops",
            e["hops"],
            1 + fewer_hops(e["side"], e["level"]),
            tolerance=0.0,
        )
        for e in table
    ], ()


EQ_1 = Figure(
    "eq1",
    lambda _quick: [case for side in SIDES for case in grid(side=[side], level=range(1, (side**2).bit_length()))],
    _on_the_mesh,
    _eq1,
)

# --- Table II and section V-D -----------------------------------------------------------------------

MUXES_UM2 = 4688
"""Of an ARIES router: what the paper's 0.3 mm² is for each of 64."""


OURS = {**PROCESSOR, "gradient_bits": 8 * GRADIENT_BYTES}


def _parameters(table: Table) -> Shown:
    return [
        Row("Table II", e["what"], e["unit"], float(e["ours"]), float(e["value"]), is_input=True) for e in table
    ], ()


def _parameter(case: Entry) -> Entry:
    name = case["parameter"]
    return {"ours": OURS[name] if name in OURS else getattr(SYSTEM, name)}


TABLE_2 = Figure("table2", lambda _quick: [*DATA.table("table2")], _parameter, _parameters)


def _area(table: Table) -> Shown:
    (found,) = table
    routers = row("area", "64 routers", "all", "mm²", found["routers"], "routers")
    muxes = row("area", "64 routers", "what ARIES adds", "mm²", found["muxes"], "ARIES adds")
    return [routers, replace(muxes, is_input=True)], ()


AREA = Figure(
    "area",
    lambda _quick: [{"what": "8x8"}],
    lambda _case: {"routers": antiphon.area("mesh:8x8").total_mm2, "muxes": 64 * MUXES_UM2 / 1e6},
    _area,
)
