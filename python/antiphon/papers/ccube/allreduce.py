"""Figures 3, 4, 12 and 14 of the C-Cube paper: the systems it compares, its cost model, and AllReduce alone.

The switches that join more nodes are of our choice, since the paper does not describe its own.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import antiphon
from antiphon import Fabric
from antiphon._core import TrainingPlan
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import Job, Point, Record

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


SLICE = 200_000
"""Bytes: 50,000 parameters. The paper does not say."""
RING_GB = CHANNELS * NVLINK_GB
SENT = 2 * (RANKS - 1) / RANKS
"""Bytes that a rank of a ring sends for each of the data."""


@cache
def calls(name: str, most: int = 0) -> list[int]:
    """Bytes of every AllReduce of ResNet-50's gradients, in slices of at most so many bytes."""
    layers = [int(size) for size in TrainingPlan(antiphon.workload("resnet50"), "roofline", 1).layers["gradient_bytes"]]
    pieces = [sum(layers)] if name == "one-shot" else layers
    return [min(most or size, size - start) for size in pieces for start in range(0, size, most or size)]


def _calls_jobs(case: Entry) -> list[Job]:
    """Fig. 3."""
    sizes = [*calls("one-shot"), *calls(case["series"].name, case["most"])]
    return [allreduce(RING, size) for size in sizes]


def _share_of_peak(case: Entry, one_shot: Record, *records: Record) -> Entry:
    sizes = calls(case["series"].name, case["most"])
    times = {size: record["time_ns"] for size, record in zip(sizes, records, strict=True)}
    time = sum(times[size] * count for size, count in Counter(sizes).items())
    share, best = (100 * SENT * sum(sizes) / took / RING_GB for took in (time, one_shot["time_ns"]))
    # Every AllReduce takes its latency once, all together the same bytes.
    busy = SENT * sum(sizes) / RING_GB
    latency = busy / (len(calls("layer-wise")) - 2)
    slices = (busy + len(calls("slicing", SLICE)) * latency) / (busy + latency)
    found = {"calls": len(sizes), "share": share, "slower": best / share}
    return found | {"latency for 2": latency / (2 * (RANKS - 1)) / 1000, "slices with it": slices}


def _slower(ranks: int, size: int) -> float:
    """How many times as long as the ring one tree takes."""
    return cost(TREE, ranks, size, trees=1)[0] / cost("ring", ranks, size)[0]


def _ring_over_tree(case: Entry) -> Entry:
    """Fig. 4: at a size, and at the one where the ring wins most."""
    ranks, slower = case["ranks"], _slower(case["ranks"], case["size"])
    ratios = {size: _slower(ranks, size) for size in (1 << n for n in range(10, 50))}
    most = max(ratios, key=lambda size: ratios[size])
    found = {"ratio": 1 / slower, "slower": slower, "closed": ranks / (ranks - 1)}
    return found | {"most": ratios[most], "MB": most >> 20}


OWN, SIMULATED, EQUATIONS = DATA.named("C1, its own best chunks", "simulated", "Eqs. 5 and 7")


def _overlapping_jobs(case: Entry) -> list[Job]:
    """Fig. 12."""
    size, series = case["size"], case["series"]
    if series == OWN:  # with the number of chunks that is best for it, not for two phases (Eq. 4)
        chunk = chunk_of(size, cost(OWN_CHUNKS, RANKS, size)[1])
        return [point(tree_spec(overlap=True, chunk=chunk), size)]
    return [allreduce(each, size) for each in {SIMULATED: [B, C1], EQUATIONS: []}.get(series, [series])]


def _overlapping(case: Entry, *records: Record) -> Entry:
    size, series = case["size"], case["series"]
    model = [cost(way, RANKS, size) for way in (TREE, OVERLAPPED)]
    if series in (SIMULATED, EQUATIONS):
        slow, fast = [each["time_ns"] for each in records] or [time for time, _ in model]
        return {"ratio": slow / fast}
    time, chunks = records[0]["time_ns"], model[1][1]
    step = LATENCY_NS + chunk_by_eq_4(size) / NVLINK_GB
    steps = {B: 2 * (HEIGHT + chunks - 1), C1: 2 * HEIGHT + chunks - 1}.get(series)
    exact = steps and steps * step
    # Chunks that are complete before the one in front of them in their tree.
    found = pairwise(records[0]["tables"]["chunks"])
    early = sum(one["lane"] == other["lane"] and other["complete_ns"] < one["complete_ns"] for one, other in found)
    return {"time": time, "exact": exact, "speed": size / time, "out of order": early}


HOSTS = 16
"""Nodes on a switch."""
LINK_NS = 500
CHUNK = 256 * KIB
SETTINGS = {"ratio": (LATENCY_NS, None), "256 kB": (LATENCY_NS, CHUNK), "links only": (0.0, None)}
"""How C1 is held against R: latency of a step beside that of the links; bytes of a chunk, None for the number of chunks
of Eq. 4."""


@dataclass(frozen=True)
class LeafSpine(Point):
    """A collective on switches of nodes joined by one switch, with as many links up as down.

    ``fabric`` is ``leaf-spine:SWITCHESxNODES``.
    """

    def network(self) -> Fabric:
        """Nodes, their switches, and the one above."""
        switches, hosts = map(int, self.fabric.removeprefix("leaf-spine:").split("x"))
        ranks = switches * hosts
        link = {"rate_gb_per_s": NVLINK_GB, "latency_ns": LINK_NS}
        document = {
            "schema": "antiphon-fabric/1",
            "nodes": [{}] * ranks + [{"rank": False}] * (switches + 1),
            "links": [{"from": rank, "to": ranks + rank // hosts} | link for rank in range(ranks)]
            + [{"from": ranks + leaf, "to": ranks + switches, "count": hosts} | link for leaf in range(switches)],
        }
        return Fabric.from_json(json.dumps(document), self.fabric)


def _run(case: Entry, algorithm: str, step_ns: float = LATENCY_NS) -> LeafSpine:
    hosts = min(case["ranks"], HOSTS)
    fabric, changes = f"leaf-spine:{case['ranks'] // hosts}x{hosts}", (("hand_off_ns", float(step_ns)),)
    return LeafSpine(fabric, algorithm, case["size"], SYSTEM, changes, fidelity="alpha-beta", tables=("chunks",))


def pair(case: Entry, setting: str) -> tuple[LeafSpine, LeafSpine]:
    """R, and C1 on two trees."""
    (step_ns, chunk), size = SETTINGS[setting], case["size"]
    chunk = min(chunk or chunk_by_eq_4(size, case["ranks"]), chunk_of(size, 1))
    trees = tree_spec(overlap=True, chunk=chunk, pacing="pipelined")
    return _run(case, "ring", step_ns), _run(case, trees, step_ns)


def _jobs(case: Entry) -> list[LeafSpine]:
    """Fig. 14: every pair, and one tree without overlap and with it, for the turnaround."""
    chunk = min(CHUNK, case["size"])
    single = (tree_spec(overlap=way, chunk=chunk, trees=1, pacing="pipelined") for way in (False, True))
    return [job for setting in SETTINGS for job in pair(case, setting)] + [_run(case, spec) for spec in single]


def _measure(case: Entry, *records: Record) -> Entry:
    ranks, size = case["ranks"], case["size"]
    *times, _, _ = (record["time_ns"] for record in records)
    ratios = [ring / trees for ring, trees in zip(times[::2], times[1::2], strict=True)]
    # Constant bandwidth: the ring has all channels, a tree one in each direction.
    ring, trees = cost("ring", ranks, size, rate=RING_GB)[0], cost(OVERLAPPED, ranks, size)[0]
    # When the first chunk is everywhere.
    late, soon = (record["tables"]["chunks"][0]["complete_ns"] for record in records[-2:])
    height, chunks = ranks.bit_length() - 1, math.ceil(size / CHUNK)
    model = {"ratio model": ring / trees, "turnaround model": (2 * height + chunks - 1) / (2 * height)}
    found = dict(zip(SETTINGS, ratios, strict=True)) | {"best": max(ratios), "turnaround": late / soon}
    return found | model


FIGURES = (
    Figure(DATA, "fig3", _share_of_peak, _calls_jobs),
    Figure(DATA, "fig4", _ring_over_tree),
    Figure(DATA, "fig12", _overlapping, _overlapping_jobs),
    Figure(DATA, "fig14", _measure, _jobs),
)
