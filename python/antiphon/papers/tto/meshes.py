"""What all figures of TTO are about: its algorithms on square meshes."""

from __future__ import annotations

import math
from typing import Any

from antiphon.repro.data import Data
from antiphon.repro.table import Entry, meets
from antiphon.studies import Point

DATA = Data("tto")
SYSTEM = "tto"
MIB = 1 << 20


def in_flits(case: Entry) -> bool:
    """Whether it is run in the network of routers and flits, which takes a hundred times as long and so is for small
    data only."""
    return bool(case["series"].more["kind"] == "flits")


def parity(case: Entry) -> str:
    """Of the side of the mesh."""
    return ("even", "odd")[case["side"] % 2]


def takes_part(case: Entry, size: int) -> bool:
    """Whether an algorithm runs on such a mesh, with so many bytes."""
    return meets({"bytes": size, "parity": parity(case)}, case["series"].more["only"])


def side_of(row: dict[str, str]) -> int:
    """The side of the mesh of a row of the published tables."""
    return math.isqrt(int(row["nodes"]))


def point(case: Entry, size: int, **more: Any) -> Point:
    """An AllReduce; ``chunk`` is TTO's, in bytes, and no larger than what is reduced."""
    series, chunk = case["series"], case.get("chunk")
    spec = f"{series.run}:chunk={min(chunk, size)}" if chunk and series.name == "TTO" else series.run
    fidelity = "flit" if in_flits(case) else "packet"
    return Point(f"mesh:{case['side']}x{case['side']}", spec, size, SYSTEM, fidelity=fidelity, **more)
