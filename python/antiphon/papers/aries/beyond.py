"""Beyond the ARIES paper: other algorithms on fabrics configured for them, and its runs in flits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Point, Record

OTHERS = [each for each in DATA.series.values() if each.more["kind"] == "beyond"]
OWN = [each for each in DATA.series.values() if each.name.startswith("ARIES")]
SIZES = (64 << 10, 1 << 20, 16 << 20)


def _cases(quick: bool, sizes: Sequence[int], peers: Iterable[Series] = ()) -> list[Entry]:
    axes = {"side": SIDES[:1] if quick else SIDES, "size": sizes[:1] if quick else sizes}
    others = ({"algorithm": "beyond"} | case for case in grid(**axes, series=OTHERS))
    return [*cases(**axes, series=[*peers, *OWN]), *others]


def _named(case: Entry) -> Entry:
    name, algorithm = str(case["series"]), ALGORITHMS.get(case["algorithm"])
    what = f"{case['side']}x{case['side']}, {format_bytes(case['size'])}"
    return {"what": what, "name": f"{algorithm}, {name}" if algorithm else name}


def _measure(case: Entry, own: Record) -> Entry:
    time, least = own["time_ns"], least_ns(case["side"], case["size"])
    return _named(case) | {"time": time, "least": least, "share": least / time}


def _beyond(table: Table) -> Shown:
    return [Row(e["name"], e["what"], "µs", e["time"] / 1e3, reference=e["least"] / 1e3) for e in table], ()


BEYOND = Figure(
    "beyond", lambda quick: _cases(quick, SIZES), _measure, _beyond, lambda case: [all_reduce(case, case["series"])]
)

# --- flits ----------------------------------------------------------------------------------------

FLIT_SIZES = (4 << 10, 64 << 10, 1 << 20)
INTERFACES = {"ports": "an interface for each port", "ranks": "an interface for each receiver"}


def _both(case: Entry) -> list[Point]:
    """Packets and flits, each with messages that wait for one another's links and with ones that do not."""
    own = {"interfaces": case["side"] ** 2, "interface_assignment": "receiver"}
    return [
        all_reduce(case, case["series"], fidelity, **changes)
        for changes in ({}, own)
        for fidelity in ("packet", "flit")
    ]


def _over(case: Entry, *records: Record) -> Entry:
    packets, flits, own_packets, own_flits = (each["time_ns"] for each in records)
    return _named(case) | {"ports": flits / packets, "ranks": own_flits / own_packets}


def _flits(table: Table) -> Shown:
    return [
        Row(e["name"], f"{e['what']}, {text}", "×", e[column]) for e in table for column, text in INTERFACES.items()
    ], ()


FLITS = Figure("flits", lambda quick: _cases(quick, FLIT_SIZES, [MESH, TORUS, ADAPT]), _over, _flits, _both)
