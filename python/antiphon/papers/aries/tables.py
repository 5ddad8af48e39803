"""Tables I and II, Eq. 1 and the area of the ARIES paper: counted on schedules, and constants."""

from __future__ import annotations

from typing import Any

import antiphon
from antiphon import Fabric
from antiphon.papers.aries.designs import DATA, GRADIENT_BYTES, PORTS, PROCESSOR, SYSTEM
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import COUNTED, Row, Rows, Tolerance
from antiphon.repro.table import Entry, Table

SIZE = 1 << 20
"""Of what is counted; the counts are the same for any."""


COUNTS = {
    "links": ("links", ""),
    "share": ("on a link", "G"),
    "steps": ("steps", ""),
    "across": ("hops along a row", ""),
    "most": ("at a time", "G"),
}
"""Columns of the table, with units: G is the gradients."""
ABOUT = Tolerance(0.07, "the paper says about two links for each chiplet, which is 2 N for 2 (N - 1)")


def _counted(case: Entry) -> Entry:
    """Links in use and what a rank sends at once in the last phase of a reduction; of trees, as many as are built at
    once share gradients and edges."""
    side = int(case["side"])
    fabric = Fabric(f"{case['fabric']}:{side}x{side}")
    schedule = antiphon.build(fabric, case["run"], bytes=SIZE, system=SYSTEM)
    stats, sent = schedule.stats(fabric), schedule.transfers
    if trees := int(case["trees"] or 0):
        sums = int(sent["reduces"].sum()) // len(schedule.lanes["bytes"])
        links, share = trees * sums, 1 / trees
    else:
        links = round(stats.used_links_percent / 100 * len(stats.links["bytes"]))
        last = (sent["from"] == 0) & (sent["phase"] == sent["phase"][sent["reduces"]].max())
        share = sum(dict(zip(sent["to"][last], sent["message_bytes"][last].tolist(), strict=True)).values()) / SIZE
    if case["fabric"] == "aries":
        links = _links(side)
    steps, across = int(stats.lanes["reduce_height"].max()), _across(side)
    counted = {"links": links, "share": share, "steps": steps, "across": across, "most": min(links / side**2, PORTS)}
    return case | {"what": f"{side}x{side}", "counted": counted}


def _links(side: int) -> int:
    """Of the mesh, and of bypasses cut at every router, which ports attach one or the other of."""
    mesh = Fabric(f"aries:{side}x{side}")
    cuts = "+".join(f"{at}-{at + 1}" for at in range(side - 1))
    cut = ",".join(f"{axis}{line}={cuts}" for axis in "xy" for line in range(side))
    detached = "+".join(f"{a}>{b}" for a, b in zip(mesh.links["from"], mesh.links["to"], strict=True))
    return sum(len(each.links["from"]) for each in (mesh, Fabric(f"aries:{side}x{side},{cut},off={detached}")))


def _across(side: int) -> int:
    """Hops between the ends of a row."""
    row = Fabric(f"mesh:1x{side}")
    return int(antiphon.build(row, "direct", bytes=SIZE, system=SYSTEM).transfers["hops"].max())


def table1(_quick: bool) -> Steps:
    """Algorithms on a torus."""
    yield []
    table = Table(map(_counted, DATA.table("table1")))
    notes = {"share": "last", "steps": "height", "across": "diameter"}
    rows: list[Row] = []
    for e in table:
        for column, (text, unit) in COUNTS.items():
            if not e[column]:
                continue
            ours, paper = float(e["counted"][column]), float(e[column])
            note = DATA.texts[notes[column]] if column in notes and (e["trees"] or column == "share") else ""
            note = DATA.texts["concentrated"] if "concentrated" in e["algorithm"] else note
            own = ABOUT if column == "most" else COUNTED
            rows.append(Row(e["algorithm"], f"{e['what']}: {text}", unit, ours, paper, own=own, note=note))
    return Outcome(table, rows)


def fewer_hops(side: int, level: int) -> float:
    """Eq. 1: what a bypass saves at a level of the tree, from the root's edges (1) on."""
    width = 1 << level
    return (side if width <= side else side**2) / width - 1


def eq1(_quick: bool) -> Steps:
    """Hops that bypasses save: those of the edges of a level on the mesh, of those that take fewest."""
    yield []
    table = Table()
    rows = Rows(DATA, "eq1")
    for side in (4, 8):
        fabric = Fabric(f"mesh:{side}x{side}")
        edges = antiphon.build(fabric, "dbtree", bytes=SIZE, system=SYSTEM).transfers
        span = abs(edges["from"].astype(int) - edges["to"].astype(int))
        for level in range(1, side.bit_length() * 2 - 1):
            hops = int(edges["hops"][span == side**2 >> level].min())
            e = {"side": side, "level": level, "what": f"level {level}", "hops": hops}
            table.append(e)
            rows.add(e, "hops", hops, f"{side}x{side}", paper=1 + fewer_hops(side, level), own=COUNTED)
    return Outcome(table, rows)


OURS = {**PROCESSOR, "gradient_bits": 8 * GRADIENT_BYTES}


def table2(_quick: bool) -> Steps:
    """Parameters."""
    yield []
    table = Table(DATA.table("table2"))
    rows = Rows(DATA, "table2")
    for e in table:
        name = e["parameter"]
        ours: Any = OURS[name] if name in OURS else getattr(SYSTEM, name)
        rows.add(e, e["unit"], float(ours), "Table II", paper=float(e["value"]), kind="input")
    return Outcome(table, rows)


def area(_quick: bool) -> Steps:
    """Of 64 routers."""
    yield []
    mesh, aries = (antiphon.area(fabric).total_mm2 for fabric in ("mesh:8x8", "aries:8x8"))
    rows, e = Rows(DATA, "area"), {"what": "8x8", "routers": mesh, "muxes": aries - mesh}
    rows.add(e, "mm²", mesh, "64 routers", "all", "routers")
    rows.add(e, "mm²", aries - mesh, "64 routers", "what ARIES adds", "ARIES adds", kind="input")
    return Outcome(Table([e]), rows)
