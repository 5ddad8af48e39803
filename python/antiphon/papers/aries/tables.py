"""Tables I and II, Eq. 1, routes and the area of the ARIES paper: counted on schedules, and constants."""

from __future__ import annotations

from collections import Counter
from typing import Any

import antiphon
from antiphon import Fabric
from antiphon.papers.aries.designs import (
    ALGORITHMS,
    ARIES,
    ASIDES,
    DATA,
    GRADIENT_BYTES,
    LARGE,
    PEERS,
    PROCESSOR,
    SIDES,
    SYSTEM,
    WIDE,
    design,
)
from antiphon.repro.data import Kind
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import COUNTED, Row, Rows
from antiphon.repro.table import Entry, Table, grid

SIZE = 1 << 20
"""Of what is counted; the counts are the same for any."""


COUNTS = {"links": ("links", ""), "share": ("on a link", "G"), "steps": ("steps", "")}
"""Columns of the table, with units: G is the gradients."""
WITHIN = 2
"""Sums that follow each other within a block of ranks: the rank opposite, over one beside it."""


def _counted(case: Entry) -> Entry:
    """Pairs of ranks that send sums, the largest message, and the sums that follow each other; of ARIES, its links."""
    side = int(case["side"])
    fabric = Fabric(f"{case['fabric']}:{side}x{side}")
    schedule = antiphon.build(fabric, case["run"], bytes=SIZE, system=SYSTEM)
    sent = schedule.transfers
    reduces = sent["reduces"]
    links = len(set(zip(sent["from"][reduces].tolist(), sent["to"][reduces].tolist(), strict=True)))
    steps = int(schedule.stats(fabric).lanes["reduce_height"].max())
    return case | {
        "what": f"{side}x{side}",
        "series": case["algorithm"],
        "our links": _links(side) if case["fabric"] == "aries" else links,
        "our share": float(sent["message_bytes"].max()) / SIZE,
        "our steps": steps,
        "our trees": steps - WITHIN * ("concentration" in case["run"]),
    }


def _links(side: int) -> int:
    """Of the mesh, and of bypasses cut at every router, which ports attach one or the other of."""
    mesh = Fabric(f"aries:{side}x{side}")
    cuts = "+".join(f"{at}-{at + 1}" for at in range(side - 1))
    cut = ",".join(f"{axis}{line}={cuts}" for axis in "xy" for line in range(side))
    detached = "+".join(f"{a}>{b}" for a, b in zip(mesh.links["from"], mesh.links["to"], strict=True))
    return sum(len(each.links["from"]) for each in (mesh, Fabric(f"aries:{side}x{side},{cut},off={detached}")))


def table1(_quick: bool) -> Steps:
    """Algorithms on a torus."""
    yield []
    table = Table(map(_counted, DATA.table("table1")))
    rows: list[Row] = []
    for e in table:
        for column, (text, unit) in COUNTS.items():
            if not e[column]:
                continue
            ours, paper = float(e[f"our {column}"]), float(e[column])
            note = DATA.texts[e["note"]] if ours != paper else ""
            # How many wires there are was taken from the count of links.
            kind: Kind = "input" if column == "links" and e["fabric"] == "aries" else "result"
            what = f"{e['what']}: {text}"
            rows.append(Row(e["algorithm"], what, unit, ours, paper, own=COUNTED, note=note, kind=kind))
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


def waiting(schedule: antiphon.Schedule) -> int:
    """How many links may wait for each other in circles, if all virtual channels are alike.

    A packet holds a link of its route while it waits for the next. What no link waits for is taken away, again and
    again; only circles stay, and what they wait for. None is what no deadlock needs (Dally and Seitz, IEEE ToC 1987).
    """
    transfers, links = schedule.routes["transfer"].tolist(), schedule.routes["link"].tolist()
    pairs = zip(zip(transfers, links, strict=True), zip(transfers[1:], links[1:], strict=True), strict=False)
    after: dict[int, set[int]] = {link: set() for link in links}
    for (one, link), (other, following) in pairs:
        if one == other:
            after[link].add(following)
    before = Counter(following for each in after.values() for following in each)
    free = [link for link in after if not before[link]]
    for link in free:
        before.subtract(after[link])
        free += [following for following in after[link] if not before[following]]
    return len(after) - len(free)


def shared(schedule: antiphon.Schedule) -> float:
    """Percent of the links in use that carry messages of several pairs of ranks."""
    ends = list(zip(schedule.transfers["from"].tolist(), schedule.transfers["to"].tolist(), strict=True))
    pairs: dict[int, set[tuple[int, int]]] = {}
    for transfer, link in zip(schedule.routes["transfer"].tolist(), schedule.routes["link"].tolist(), strict=True):
        pairs.setdefault(link, set()).add(ends[transfer])
    return 100 * sum(len(each) > 1 for each in pairs.values()) / len(pairs)


def routes(quick: bool) -> Steps:
    """Links that several messages share, and that wait for each other."""
    yield []
    table = Table()
    rows = Rows(DATA, "routes")
    designs = [*PEERS, ARIES, *(each for each in ASIDES if each is not WIDE)]
    for case in grid(algorithm=ALGORITHMS, side=SIDES[:1] if quick else (*SIDES, LARGE), series=designs):
        if not (found := design(case["series"], case["algorithm"], case["side"])):
            continue
        fabric = Fabric(found.fabric)
        schedule = antiphon.build(fabric, found.algorithm, bytes=SIZE, system=SYSTEM)
        what = f"{ALGORITHMS[case['algorithm']]}, {case['side']}x{case['side']}"
        common, circles = shared(schedule), waiting(schedule)
        table.append(e := case | {"what": what, "shared": common, "waiting": circles})
        rows.add(e, "%", common, "Links that several pairs of ranks share", f"{what}, {case['series']}", note="")
        rows.add(e, "links", circles, "Links in circles", f"{what}, {case['series']}", note="")
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
