"""Beyond the ARIES paper: other algorithms on fabrics configured for them, and its runs in flits."""

from __future__ import annotations

from antiphon import format_bytes
from antiphon.papers.aries.designs import (
    ALGORITHMS,
    DATA,
    all_reduce,
    exists,
    least_ns,
)
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import Point, Record


def _named(case: Entry) -> Entry:
    name, algorithm = str(case["series"]), ALGORITHMS.get(case["algorithm"])
    what = f"{case['side']}x{case['side']}, {format_bytes(case['size'])}"
    return {"what": what, "name": f"{algorithm}, {name}" if algorithm else name}


def _measure(case: Entry, own: Record) -> Entry:
    time, least = own["time_ns"], least_ns(case["side"], case["size"])
    found = {"time": time, "time in µs": time / 1e3, "least in µs": least / 1e3, "share": least / time}
    return _named(case) | found


# --- flits ----------------------------------------------------------------------------------------


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


FIGURES = (
    Figure(DATA, "beyond", _measure, lambda case: [all_reduce(case, case["series"])], keep=exists),
    Figure(DATA, "flits", _over, _both, keep=exists),
)
