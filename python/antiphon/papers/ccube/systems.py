"""What all figures of C-Cube are about: its DGX-1, the schedules of the systems that it compares, its cost model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import antiphon
from antiphon.repro.data import Data, Series
from antiphon.studies import Point

DATA = Data("ccube", tolerance=0.05)
KIB, MIB = 1 << 10, 1 << 20
"""The paper's kB and MB: 256 chunks of 256 kB make 64 MB."""
NVLINK_GB = 25.0
"""GB/s of one NVLink in each direction; a GPU has six."""
SYSTEM = "dgx1"
LATENCY_NS = 12_400
"""Of every step on this system, the only fit: with it C1 is 1.75 times as fast as B at 64 MB, by Eqs. 5 and 7."""
CHANNELS = 4
"""NVLinks of a GPU that the ring has, with as much bandwidth in all as two trees use."""
HEIGHT = 3
"""Edges from the root of an 8-node tree to the farthest leaf."""
TREES = 2
RANKS = 8
B, C1, C2, RING, CC = DATA.named("B", "C1", "C2", "R", "CC")


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
    columns = (ways[column].tolist() for column in ("name", "trees", "formula_ns", "chunks"))
    of = {(name, count): (float(time), int(chunks)) for name, count, time, chunks in zip(*columns, strict=True)}
    time, chunks = of["overlapped tree, chunks of Eq. 4", trees]
    return Cost(of["ring", 0][0], of["tree", trees][0], time, chunks, of["overlapped tree", trees][1])


def allreduce(series: Series, size: int, rate: float = NVLINK_GB) -> Point:
    """An AllReduce of so many bytes by one of the systems, proven, on a DGX-1 with NVLinks of a rate in GB/s."""
    if series == RING:
        # Each of the channels is a ring of its own, of single NVLinks, with its part of the data; on a whole DGX-1
        # a ring would take both NVLinks of a pair.
        return _point(f"ring:{RANKS}", "ring", math.ceil(size / CHANNELS), rate)
    chunk = chunk_of(size, cost(RANKS, size, rate=rate).chunks)
    return on_trees(tree_spec(overlap=series.run == "yes", chunk=chunk), size, rate)


def on_trees(algorithm: str, size: int, rate: float = NVLINK_GB) -> Point:
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


def size_text(size: int) -> str:
    """A size as the paper writes it.

    >>> size_text(16 * KIB), size_text(64 * MIB), size_text(1024 * MIB)
    ('16 kB', '64 MB', '1 GB')
    """
    if size >= 1024 * MIB:
        return f"{size // (1024 * MIB)} GB"
    return f"{size // MIB} MB" if size >= MIB else f"{size // KIB} kB"
