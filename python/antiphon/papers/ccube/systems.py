"""The systems that the C-Cube paper compares, and its cost model."""

from __future__ import annotations

import math
import re
from functools import cache, partial

import antiphon
from antiphon._core import TrainingPlan
from antiphon.repro import rows
from antiphon.repro.data import Data, Series
from antiphon.results import Table
from antiphon.studies import Point

DATA = Data("ccube", tolerance=0.05)
row = partial(rows.row, DATA)
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
SYSTEMS = B, C1, C2, RING, CC = DATA.named("B", "C1", "C2", "R", "CC")
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
    if not series.run:
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


RING_GB = CHANNELS * NVLINK_GB
SENT = 2 * (RANKS - 1) / RANKS
"""Bytes that a rank of a ring sends for each of the data."""
V100 = antiphon.System(SYSTEM).processor
"""FP32, at shares of the peaks that tuned kernels reach: an assumption."""


@cache
def layers(model: str, batch: int) -> Table:
    """Times and gradients of a model's layers on a GPU."""
    return Table(TrainingPlan(antiphon.workload(model), V100, batch).layers)


def kB(size: int) -> str:
    """A size as the paper writes it, where 64 MB are 64 MiB."""
    return re.sub("(.)iB", r" \1B", antiphon.format_bytes(size)).replace("K", "k")
