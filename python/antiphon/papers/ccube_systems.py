"""C-Cube (HPCA 2023): its DGX-1, and which of our schedules stands for which of the paper's systems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import antiphon
from antiphon.papers.model import Row, Style, stated
from antiphon.study import Point

PAPER = "ccube"
KIB, MIB = 1 << 10, 1 << 20
"""The paper's kB and MB: 256 chunks of 256 kB make 64 MB."""

NVLINK_GB = 25.0
"""GB/s of one NVLink in each direction; a GPU has six."""
LOW = 1 / 4
"""Share of the rate in the paper's “low bandwidth”."""
SYSTEM = "dgx1"
LATENCY_NS = 12_400
"""Of every step on this system, the only fit: with it C1 is 1.75 times as fast as B at 64 MB, by Eqs. 5 and 7."""
CHANNELS = 4
"""NVLinks of a GPU that the ring has, with as much bandwidth in all as two trees use."""
HEIGHT = 3
"""Edges from the root of an 8-node tree to the farthest leaf."""
TREES = 2
RANKS = 8
FIT = (
    f"Every step takes a latency of {LATENCY_NS / 1000:g} µs and the bytes over 25 GB/s; the latency is the one number"
    " that is fitted, to one sentence (C1 over B at 64 MB), and used everywhere on the DGX-1, for the ring too."
)

EXACT = 0.0
"""Tolerance of what is counted."""
SINGLE = 0.05
"""Tolerance of what the paper states of its measurements."""


@dataclass(frozen=True)
class Cost:
    """The paper's cost model (sections II-C and III-C): times of an AllReduce by its equations, and chunks.

    Attributes:
        ring_ns: Eq. 2.
        tree_ns: Eq. 5.
        overlapped_ns: Eq. 7.
        chunks: of one tree, by Eq. 4, which the paper uses for both.
        own_chunks: that are best for the overlapped tree.
    """

    ring_ns: float
    tree_ns: float
    overlapped_ns: float
    chunks: int
    own_chunks: int


@cache
def cost(ranks: int, size: int, *, trees: int = TREES, rate: float = NVLINK_GB) -> Cost:
    """With the fitted latency, and links of a rate in GB/s."""
    ways = antiphon.advise_trees(ranks, size, f"{LATENCY_NS}ns", rate).ways
    names, counts = ways["name"].tolist(), ways["trees"].tolist()
    ring, tree, overlapped, own = (
        next(at for at, found in enumerate(zip(names, counts, strict=True)) if found == wanted)
        for wanted in (
            ("ring", 0),
            ("tree", trees),
            ("overlapped tree, chunks of Eq. 4", trees),
            ("overlapped tree", trees),
        )
    )
    times = ways["formula_ns"]
    chunks = ways["chunks"]
    return Cost(
        float(times[ring]), float(times[tree]), float(times[overlapped]), int(chunks[overlapped]), int(chunks[own])
    )


@dataclass(frozen=True)
class Variant:
    """A system as the paper's figures show it.

    Attributes:
        name: the paper's letters.
        about: what it is.
        overlap: whether a chunk is broadcast while others are still reduced; None for the ring.
        chained: whether the next forward pass runs behind the broadcast.
    """

    name: str
    about: str
    style: Style
    overlap: bool | None
    chained: bool = False

    def allreduce(self, size: int, rate: float = NVLINK_GB) -> Point:
        """An AllReduce of so many bytes, proven, on a DGX-1 with NVLinks of a rate in GB/s."""
        if self.overlap is None:
            # Each of the channels is a ring of its own, of single NVLinks, with its part of the data; on a whole DGX-1
            # a ring would take both NVLinks of a pair.
            return _point(f"ring:{RANKS}", "ring", math.ceil(size / CHANNELS), rate)
        chunk = chunk_of(size, cost(RANKS, size, rate=rate).chunks)
        return dgx1(tree_spec(overlap=self.overlap, chunk=chunk), size, rate)


def dgx1(algorithm: str, size: int, rate: float) -> Point:
    """A collective on a DGX-1; nothing but links and the latency of a step takes time."""
    return _point("dgx1v", algorithm, size, rate)


def _point(fabric: str, algorithm: str, size: int, rate: float) -> Point:
    return Point(f"{fabric}@{rate:g}", algorithm, size, SYSTEM, fidelity="alpha-beta", tables=("chunks",))


def tree_spec(*, overlap: bool, chunk: int, trees: int = TREES, pacing: str = "stop-and-wait") -> str:
    """The paper's trees: NCCL's binary tree over the numbers of the nodes, and the same with every number XOR 1."""
    how = "yes" if overlap else "no"
    return f"overlapped-tree:mapping=numbered,trees={trees},overlap={how},pacing={pacing},chunk={chunk}"


def chunk_of(size: int, chunks: int) -> int:
    """Bytes of one of so many chunks of a tree, in whole elements."""
    return math.ceil(math.ceil(size / TREES) / chunks / 4) * 4


B = Variant("B", "two trees, the broadcast after the reduction", Style("#7f7f7f", "s"), False)
C1 = Variant("C1", "two trees, overlapped", Style("#56b4e9", "D"), True)
C2 = Variant("C2", "B, the next forward pass chained", Style("#009e73", "^"), False, True)
RING = Variant("R", "ring over four channels", Style("#e69f00", "P"), None)
CC = Variant("CC", "C1 and C2", Style("#d55e00", "o"), True, True)
VARIANTS = (B, C1, C2, RING, CC)
"""In the order of the paper's legends."""
STYLES = {variant.name: variant.style for variant in VARIANTS}


def row(
    figure: str,
    group: str,
    what: str,
    unit: str,
    ours: float,
    key: str = "",
    tolerance: float = SINGLE,
    note: str = "",
    reference: float | None = None,
) -> Row:
    """A row beside what the paper states, by ``key``, and a closed form for the same."""
    return Row(group, what, unit, ours, stated(PAPER, figure).get(key), None, tolerance, note, reference)


def size_text(size: int) -> str:
    """A size as the paper writes it.

    >>> size_text(16 * KIB), size_text(64 * MIB), size_text(1024 * MIB)
    ('16 kB', '64 MB', '1 GB')
    """
    if size >= 1024 * MIB:
        return f"{size // (1024 * MIB)} GB"
    return f"{size // MIB} MB" if size >= MIB else f"{size // KIB} kB"
