"""What all figures of C-Cube are about: its DGX-1, the schedules of the systems that it compares, its cost model."""

from __future__ import annotations

import math
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


TREE, OVERLAPPED, OWN_CHUNKS = "tree", "overlapped tree, chunks of Eq. 4", "overlapped tree"
"""Ways of the paper's cost model: Eqs. 5 and 7, for which Eq. 4 has one number of chunks; and that best for Eq. 7."""


@cache
def cost(way: str, ranks: int, size: int, *, trees: int = TREES, rate: float = NVLINK_GB) -> tuple[float, int]:
    """Time of an AllReduce in ns by the paper's equation (sections II-C and III-C; 2 of the ring), and chunks of a
    tree: with the fitted latency, and links of a rate in GB/s."""
    ways = antiphon.advise_trees(ranks, size, f"{LATENCY_NS}ns", rate).ways.rows()
    (found,) = [each for each in ways if each["name"] == way and each["trees"] in (0, trees)]
    return found["formula_ns"], found["chunks"]


def chunk_by_eq_4(size: int, ranks: int = RANKS, rate: float = NVLINK_GB) -> int:
    """Bytes of a chunk of two trees."""
    return chunk_of(size, cost(OVERLAPPED, ranks, size, rate=rate)[1])


def allreduce(series: Series, size: int, rate: float = NVLINK_GB) -> Point:
    """An AllReduce of so many bytes by one of the systems, proven, on a DGX-1 with NVLinks of a rate in GB/s."""
    if series == RING:
        # Each of the channels is a ring of its own, of single NVLinks, with its part of the data; on a whole DGX-1
        # a ring would take both NVLinks of a pair.
        return point("ring", math.ceil(size / CHANNELS), rate, f"ring:{RANKS}")
    return point(tree_spec(overlap=series.run == "yes", chunk=chunk_by_eq_4(size, rate=rate)), size, rate)


def point(algorithm: str, size: int, rate: float = NVLINK_GB, fabric: str = "dgx1v") -> Point:
    """A collective of so many bytes on links of a rate in GB/s; only these and the latency of a step take time."""
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
