"""TTO and RingBiOdd (HPCA 2024): which of our algorithms stands for which of the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from antiphon.papers.model import Style
from antiphon.study import Point

SYSTEM = "tto"
MIB = 1 << 20


@dataclass(frozen=True)
class Variant:
    """An algorithm as the paper's figures show it.

    Attributes:
        name: for the reader, and the key of its style.
        spec: what it is here.
        artifact: its name in the published tables, empty if they do not have it.
        sides: of the meshes it is run on: ``even``, ``odd`` or ``all``.
        tolerance: how far from the published numbers still agrees: 1 % where links and hand-off
            decide, 6 % where packets queue inside the artifact's routers or dimensions overlap.
        note: what is known about differences.
        fidelity: of its simulation.
        largest: bytes up to which it is run; None for any.
    """

    name: str
    spec: str
    artifact: str
    style: Style
    sides: str = "all"
    tolerance: float = 0.01
    note: str = ""
    fidelity: str = "packet"
    largest: int | None = None

    def runs(self, side: int, size: int = 0) -> bool:
        """Whether the paper, or we, run it on a mesh of this side with this much data."""
        parity = self.sides == "all" or (self.sides == "even") == (side % 2 == 0)
        return parity and (self.largest is None or size <= self.largest)


RING = Variant("Ring", "ring", "Ring", Style("#7f7f7f", "s"))
RING_2D = Variant(
    "Ring-2D",
    "ring-2d",
    "Ring-2D",
    Style("#56b4e9", "D"),
    tolerance=0.06,
    note="The artifact starts the second dimension when one neighbour's part has arrived, before its data is complete:"
    " small data is slower here, where it is awaited.",
)
DBTREE_PUBLISHED = Variant(
    "DBTree (four ranks a router)",
    "dbtree:mapping=four-per-router",
    "DBTree",
    Style("#cc79a7", "v"),
    tolerance=0.06,
    note="The artifact's runs put four ranks on each of the first routers, so that only a quarter of the mesh is used;"
    " the order of packets inside a router decides, which packet fidelity does not model.",
)
DBTREE = Variant("DBTree (one rank a router)", "dbtree", "", Style("#882255", "^"))
MULTITREE = Variant(
    "MultiTree",
    "multitree",
    "MultiTree",
    Style("#e69f00", "P"),
    tolerance=0.06,
    note="In the artifact, packets to different neighbours share interfaces and hold each other up, depending on their"
    " virtual channels.",
)
RING_BI_EVEN = Variant("RingBiEven", "ring-bi", "RingBiEven", Style("#009e73", "X"), sides="even")
RING_BI_ODD_PUBLISHED = Variant(
    "RingBiOdd (centre left out)",
    "ring-bi-odd:excluded=centre",
    "RingBiOdd",
    Style("#0072b2", "<"),
    sides="odd",
    tolerance=0.06,
    note="The artifact leaves out the centre, not a corner, and does not send it everything: not a complete AllReduce."
    " Its two directions share interfaces and stall at times.",
)
RING_BI_ODD = Variant("RingBiOdd (corner left out)", "ring-bi-odd", "", Style("#009e73", ">", dashed=True), sides="odd")
TTO = Variant("TTO", "tto", "TTO", Style("#d55e00", "o"))

VARIANTS = (
    RING,
    RING_2D,
    DBTREE_PUBLISHED,
    DBTREE,
    MULTITREE,
    RING_BI_EVEN,
    RING_BI_ODD_PUBLISHED,
    RING_BI_ODD,
    TTO,
)
"""In the order of the paper's legends."""


def _in_flits(variant: Variant, options: str = "", note: str = "") -> Variant:
    """The same in the network of routers and flits, which takes a hundred times as long: small data."""
    return replace(
        variant,
        name=f"{variant.name}, in flits",
        spec=variant.spec + options,
        note=note,
        fidelity="flit",
        largest=16 * MIB,
    )


IN_FLITS = (
    _in_flits(
        RING_2D,
        ":dependencies=published",
        "As the artifact runs it: the second dimension sends data that is not complete yet.",
    ),
    _in_flits(DBTREE_PUBLISHED),
    _in_flits(MULTITREE),
    _in_flits(
        RING_BI_ODD_PUBLISHED, ",interfaces=shared", "As the artifact runs it: both directions share interfaces."
    ),
)
"""Algorithms whose times depend on routers; compared with published numbers only, not drawn."""

STALLS = {
    ("RingBiEven", 8, 128 * MIB): "The artifact stalled in this run.",
    ("RingBiOdd", 5, 64 * MIB): "The artifact stalled in this run.",
}
"""Runs of the artifact (name, side, bytes) that are out of line with its own neighbours."""


def mesh(side: int) -> str:
    """The fabric of a side."""
    return f"mesh:{side}x{side}"


def allreduce(variant: Variant, side: int, size: int, *, chunk: int | None = None, timeline: bool = False) -> Point:
    """One AllReduce of the paper; ``chunk`` in bytes is TTO's."""
    spec = variant.spec if chunk is None or variant is not TTO else f"{variant.spec}:chunk={chunk}"
    tables = ("timeline",) if timeline else ()
    return Point(mesh(side), spec, size, SYSTEM, fidelity=variant.fidelity, tables=tables)


def side_of(row: dict[str, str]) -> int:
    """The side of the mesh of a row of the published tables."""
    return math.isqrt(int(row["nodes"]))


def note_of(variant: Variant, side: int, size: int) -> str:
    """What is known about a point."""
    return STALLS.get((variant.artifact, side, size), variant.note)
