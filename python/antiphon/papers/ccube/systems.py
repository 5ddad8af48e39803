"""Figures 3, 4, 12, 13, 14 and 17 of the C-Cube paper: the systems it compares, its cost model, AllReduce alone, and
training, with the next forward pass behind it.

The switches that join more nodes are of our choice, since the paper does not describe its own.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

import numpy as np

import antiphon
from antiphon import Fabric
from antiphon._core import TrainingPlan
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.results import Column, Table
from antiphon.studies import Job, Point, Record, TrainingPoint

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
V100 = antiphon.System(SYSTEM).processor
"""FP32, at shares of the peaks that tuned kernels reach: an assumption."""


@cache
def layers(model: str, batch: int) -> Table:
    """Times and gradients of a model's layers on a GPU."""
    return Table(TrainingPlan(antiphon.workload(model), V100, batch).layers)


@cache
def calls(name: str, most: int = 0) -> list[int]:
    """Bytes of every AllReduce of ResNet-50's gradients, in slices of at most so many bytes."""
    of_layers = layers("resnet50", 1)["gradient_bytes"].tolist()
    pieces = [sum(of_layers)] if name == "one-shot" else of_layers
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


def _ring_over_tree(case: Entry) -> Entry:
    """Fig. 4: how many times as long one tree takes as the ring, at a size and at that where it is most."""
    ranks, sizes = case["ranks"], [case["size"], *(1 << n for n in range(10, 50))]
    slower, *ratios = (cost(TREE, ranks, size, trees=1)[0] / cost("ring", ranks, size)[0] for size in sizes)
    most, size = max(zip(ratios, sizes[1:], strict=True), key=lambda each: each[0])
    return {"ratio": 1 / slower, "slower": slower, "closed": ranks / (ranks - 1), "most": most, "MB": size >> 20}


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


def _jobs(case: Entry) -> list[LeafSpine]:
    """Fig. 14: R and C1 in every setting, and one tree without overlap and with it, for the turnaround."""
    jobs, by_eq_4 = [], chunk_by_eq_4(case["size"], case["ranks"])
    for step_ns, chunk in SETTINGS.values():
        trees = tree_spec(overlap=True, chunk=chunk or by_eq_4, pacing="pipelined")
        jobs += [_run(case, "ring", step_ns), _run(case, trees, step_ns)]
    single = (tree_spec(overlap=way, chunk=CHUNK, trees=1, pacing="pipelined") for way in (False, True))
    return jobs + [_run(case, spec) for spec in single]


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


RATES = {"high bandwidth": NVLINK_GB, "low bandwidth": NVLINK_GB / 4}
BEHIND = DATA.series["R behind the backward pass"]


def closed_form_ns(case: Entry, compute_ns: float, forward_ns: float) -> float:
    """The iteration by the paper's cost model: steps of a latency and a chunk over the rate, exactly counted.

    A chunk ``k`` (from 1) is ready after ``2h + K + k - 2`` steps with the barrier, ``2h + k - 1`` overlapped; the last
    one ends the AllReduce.
    """
    series, rate, of = case["series"], RATES[case["rate"]], layers(case["model"].run, case["batch"])
    size = int(of["gradient_bytes"].sum())
    if series == RING:
        return compute_ns + 2 * (RANKS - 1) * (LATENCY_NS + size / CHANNELS / RANKS / rate)
    count = cost(OVERLAPPED, RANKS, size, rate=rate)[1]
    step = LATENCY_NS + size / TREES / count / rate
    first = 2 * HEIGHT + (0 if series.run == "yes" else count - 1)
    if series.more["overlap"] != "ccube":
        return compute_ns + (first + count - 1) * step
    now, parts = 0.0, accumulate(of["gradient_bytes"].tolist())
    for forward, part in zip(of["forward_ns"].tolist(), parts, strict=True):
        last = math.ceil(part * count / size)
        now = max(now, (first + last - 1) * step if last else 0.0) + forward
    return now + compute_ns - forward_ns


def _trainings(case: Entry) -> list[TrainingPoint]:
    """Fig. 13. Each channel of a ring has one byte of every gradient, and a quarter of every bucket."""
    series, model = case["series"], case["model"].run
    on = allreduce(series, int(layers(model, case["batch"])["gradient_bytes"].sum()), RATES[case["rate"]])
    options = {name: series.more[name] for name in ("overlap", "bucket")} | {"batch": case["batch"], "compute": V100}
    options |= {"gradient_bytes": 4 if series.run else 4 // CHANNELS, "fidelity": on.fidelity}
    return [TrainingPoint(model, on.fabric, on.algorithm, tuple(options.items()), system=SYSTEM)]


def _closed(case: Entry, record: Record) -> Entry:
    """The share of the speed without communication in closed form."""
    compute, is_behind = record["compute_ns"], case["series"] == BEHIND
    closed = None if is_behind else compute / closed_form_ns(case, compute, record["forward_ns"])
    return {"gb": RATES[case["rate"]], "closed": closed}


FIG_17_BATCH = 64


def _layer(case: Entry) -> Entry:
    """Fig. 17: a layer, and what is found of all of them; a stage has the convolutions of one size of image."""
    of = layers("resnet50", FIG_17_BATCH)
    parameters = case["series"].name == "parameters"
    values = of["gradient_bytes"].astype(float) / 4 if parameters else of["forward_ns"].astype(float)
    names, value = [str(name) for name in of["layer"]], float(values[case["layer"]])
    stages = {stage + 1: [bool(re.match(f"s{stage}.*b", name)) for name in names] for stage in range(4)}
    return {
        "what": f"{case['layer']}: {names[case['layer']]}",
        "unit": "" if parameters else "ns",
        "place": case["layer"] + 1,
        "value": value,
        "correlation": _rank_correlation(values),
        **{f"mean of stage {stage}": float(values[those].mean()) for stage, those in stages.items()},
    }


def _rank_correlation(values: Column) -> float:
    """Spearman's, of values with their places."""
    ranks = np.array([np.mean(np.flatnonzero(np.sort(values) == value)) for value in values])
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


FIGURES = (
    Figure(DATA, "fig3", _share_of_peak, _calls_jobs),
    Figure(DATA, "fig4", _ring_over_tree),
    Figure(DATA, "fig12", _overlapping, _overlapping_jobs),
    Figure(DATA, "fig13", _closed, _trainings),
    Figure(DATA, "fig14", _measure, _jobs),
    Figure(DATA, "fig17", _layer),
)
