"""What all figures of TTO are about: its algorithms on square meshes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

from antiphon.repro.data import Data
from antiphon.repro.figure import stated_row
from antiphon.repro.table import Entry, Table, grid, meets
from antiphon.studies import Point

DATA = Data("tto")
row = partial(stated_row, DATA)
SYSTEM = "tto"
MIB = 1 << 20
ALGORITHMS, FLITS, MODELS = (
    [name for name, series in DATA.series.items() if series.more["kind"] == kind]
    for kind in ("algorithm", "flits", "model")
)
"""Names of the paper's algorithms; of those in the network of routers and flits, which takes a hundred times as long
and so is for small data only; and of the models."""
COMPARED = [name for name in ALGORITHMS if DATA.series[name].published and "centre" not in name]
"""As the artifact has them, on even meshes."""


def cases(names: Iterable[str], **axes: Iterable[Any]) -> list[Entry]:
    """A grid of meshes (``side``) without those on which an algorithm does not run; of trainings, whose sizes are no
    axis, only the side decides."""
    found = [case | {"parity": ("even", "odd")[case["side"] % 2]} for case in grid(series=DATA.named(*names), **axes)]
    return [case for case in found if meets({"bytes": 0} | case, case["series"].only)]


def side_of(row: dict[str, str]) -> int:
    """The side of the mesh of a row of the published tables."""
    return math.isqrt(int(row["nodes"]))


def point(case: Entry, size: int, **more: Any) -> Point:
    """An AllReduce; ``chunk`` is TTO's, in bytes, and no larger than what is reduced."""
    series, chunk = case["series"], case.get("chunk")
    spec = f"{series.run}:chunk={min(chunk, size)}" if chunk and series.name == "TTO" else series.run
    fidelity = "flit" if series.name in FLITS else "packet"
    return Point(f"mesh:{case['side']}x{case['side']}", spec, size, SYSTEM, fidelity=fidelity, **more)


def drawn(table: Table) -> Table:
    """What charts show: not what is in flits."""
    return Table(entry for entry in table if entry["series"].name not in FLITS)
