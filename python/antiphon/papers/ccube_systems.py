"""C-Cube (HPCA 2023): its DGX-1, and which of our schedules stands for which of the paper's systems."""

from __future__ import annotations

import math
from dataclasses import dataclass

from antiphon.papers.model import Row, Style, stated
from antiphon.study import Point

PAPER = "ccube"
KIB, MIB = 1 << 10, 1 << 20
"""The paper's kB and MB: 256 chunks of 256 kB make 64 MB."""

NVLINK_GB = 25.0
"""GB/s of one NVLink in each direction; a GPU has six."""
LOW = 1 / 4
"""Share of the rate in the paper's “low bandwidth”."""
LATENCY_NS = 12_400
"""Latency of every step, the only fit: with it C1 is 1.75 times as fast as B at 64 MB, by Eqs. 5 and 7."""
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

EXACT = 1e-9
"""Tolerance of what is counted."""
SINGLE = 0.05
"""Tolerance of what the paper states of its measurements."""


@dataclass(frozen=True)
class Cost:
    """The paper's cost model (sections II-C and III-C) for one tree, or one ring.

    Attributes:
        ranks: nodes.
        bytes: of the tree or ring.
        rate: of a link, in GB/s.
    """

    ranks: int
    bytes: int
    rate: float = NVLINK_GB

    @property
    def height(self) -> float:
        """Edges from the root to the farthest leaf."""
        return math.log2(self.ranks)

    @property
    def _root(self) -> float:
        """sqrt(a b N h)."""
        return math.sqrt(LATENCY_NS * self.bytes / self.rate * self.height)

    @property
    def ring_ns(self) -> float:
        """Eq. 2."""
        return 2 * (self.ranks - 1) * (LATENCY_NS + self.bytes / self.rate / self.ranks)

    @property
    def tree_ns(self) -> float:
        """Eq. 5."""
        return 2 * self.height * LATENCY_NS + 2 * self.bytes / self.rate + 4 * self._root

    @property
    def overlapped_ns(self) -> float:
        """Eq. 7."""
        return 2 * self.height * LATENCY_NS + self.bytes / self.rate + 3 * self._root

    @property
    def tree_chunks(self) -> float:
        """Eq. 4."""
        return self._root / LATENCY_NS

    @property
    def overlapped_chunks(self) -> float:
        """The number that is best for the overlapped tree."""
        return math.sqrt(2) * self.tree_chunks


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
            # Each of the channels is a ring of its own with its part of the data.
            return dgx1("ring", math.ceil(size / CHANNELS), rate)
        chunk = best_chunk(size, rate)
        return dgx1(tree_spec(overlap=self.overlap, chunk=chunk), size, rate)


def dgx1(algorithm: str, size: int, rate: float) -> Point:
    """A collective on a DGX-1; nothing but links and the latency of a step takes time."""
    changes = (("hand_off_ns", float(LATENCY_NS)), ("link_latency_ns", 0.0), ("packet_payload_bytes", 1 << 30))
    return Point(f"dgx1v@{rate:g}", algorithm, size, "ideal", changes, fidelity="alpha-beta", tables=("chunks",))


def tree_spec(*, overlap: bool, chunk: int, trees: int = TREES, pacing: str = "stop-and-wait") -> str:
    """The paper's trees: NCCL's binary tree over the numbers of the nodes, and the same with every number XOR 1."""
    how = "yes" if overlap else "no"
    return f"overlapped-tree:mapping=numbered,trees={trees},overlap={how},pacing={pacing},chunk={chunk}"


def best_chunk(size: int, rate: float, *, overlapped: bool = False) -> int:
    """Bytes of a chunk of one tree, whole elements: by Eq. 4, which the paper uses for B and C1 alike, or the
    overlapped tree's own."""
    cost = Cost(RANKS, math.ceil(size / TREES), rate)
    count = max(1, round(cost.overlapped_chunks if overlapped else cost.tree_chunks))
    return math.ceil(math.ceil(size / TREES) / count / 4) * 4


def chunks_of(size: int, rate: float) -> int:
    """Chunks of one tree, ``K``."""
    return math.ceil(math.ceil(size / TREES) / best_chunk(size, rate))


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

    >>> size_text(16 * KIB), size_text(64 * MIB)
    ('16 kB', '64 MB')
    """
    return f"{size // MIB} MB" if size >= MIB else f"{size // KIB} kB"
