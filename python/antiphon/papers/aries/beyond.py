"""Beyond the ARIES paper: other algorithms on fabrics configured for them, and its runs in flits."""

from __future__ import annotations

from antiphon import format_bytes
from antiphon.papers.aries.designs import (
    ADAPT,
    ALGORITHMS,
    DATA,
    MESH,
    SIDES,
    TORUS,
    all_reduce,
    cases,
    least_ns,
)
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Point, Record

OTHERS = [each for each in DATA.series.values() if each.more["kind"] == "beyond"]
OWN = [each for each in DATA.series.values() if each.name.startswith("ARIES")]
SIZES = (64 << 10, 1 << 20, 16 << 20)


def _designs(quick: bool) -> list[Entry]:
    axes = {"side": SIDES[:1] if quick else SIDES, "size": SIZES[:1] if quick else SIZES}
    return [
        *cases(**axes, series=OWN),
        *({"algorithm": "beyond"} | case for case in grid(**axes, series=OTHERS)),
    ]


def _measure(case: Entry, own: Record) -> Entry:
    algorithm, side, size = (case[axis] for axis in ("algorithm", "side", "size"))
    name, least = str(case["series"]), least_ns(side, size)
    return {
        "what": f"{side}x{side}, {format_bytes(size)}",
        "name": f"{ALGORITHMS[algorithm]}, {name}" if algorithm in ALGORITHMS else name,
        "time": own["time_ns"],
        "least": least,
        "share": least / own["time_ns"],
    }


def _beyond(table: Table) -> Shown:
    return [Row(e["name"], e["what"], "µs", e["time"] / 1e3, reference=e["least"] / 1e3) for e in table], ()


BEYOND = Figure("beyond", _designs, _measure, _beyond, lambda case: [all_reduce(case, case["series"])])

# --- flits ----------------------------------------------------------------------------------------

FLIT_SIZES = (4 << 10, 64 << 10, 1 << 20)
ASSIGNED = {"lowest-free": "any interface", "receiver": "the receiver's interface"}
"""Which of its interfaces sends a rank's message."""


def _some(quick: bool) -> list[Entry]:
    sides, sizes = (SIDES[:1], FLIT_SIZES[:1]) if quick else (SIDES, FLIT_SIZES)
    return cases(side=sides, series=[MESH, TORUS, ADAPT, *OWN], size=sizes)


def _both(case: Entry) -> list[Point]:
    return [
        all_reduce(case, case["series"], fidelity, interface_assignment=assigned)
        for assigned in ASSIGNED
        for fidelity in ("packet", "flit")
    ]


def _over(case: Entry, *records: Record) -> Entry:
    packets, flits, other_packets, other_flits = (each["time_ns"] for each in records)
    what = f"{case['side']}x{case['side']}, {format_bytes(case['size'])}"
    return {"what": what, "lowest-free": flits / packets, "receiver": other_flits / other_packets}


def _in_flits(table: Table) -> Shown:
    return [
        Row(f"{ALGORITHMS[e['algorithm']]}, {e['series']}", f"{e['what']}, {text}", "×", e[assigned])
        for e in table
        for assigned, text in ASSIGNED.items()
    ], ()


FLITS = Figure("flits", _some, _over, _in_flits, _both)
