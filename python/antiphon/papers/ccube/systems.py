"""The systems that the C-Cube paper compares, its cost model, and Figures 3, 4, 12 and 14: AllReduce alone.

The switches that join more nodes are of our choice, since the paper does not describe its own.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise

import antiphon
from antiphon import Fabric
from antiphon._core import TrainingPlan
from antiphon.library import nccl
from antiphon.library.cluster import Cluster
from antiphon.library.measured import expected
from antiphon.repro.charts import bar_chart, line_chart, lines_of
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.results import Table as Columns
from antiphon.studies import Job, Point, Record

DATA = Data("ccube")
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
def layers(model: str, batch: int) -> Columns:
    """Times and gradients of a model's layers on a GPU."""
    return Columns(TrainingPlan(antiphon.workload(model), V100, batch).layers)


def kB(size: int) -> str:
    """A size as the paper writes it, where 64 MB are 64 MiB."""
    return re.sub("(.)iB", r" \1B", antiphon.format_bytes(size)).replace("K", "k")


SLICE = 200_000
"""Bytes: 50,000 parameters. The paper does not say."""


@cache
def calls(name: str, most: int = 0) -> list[int]:
    """Bytes of every AllReduce of ResNet-50's gradients, in slices of at most so many bytes."""
    of_layers = layers("resnet50", 1)["gradient_bytes"].tolist()
    pieces = [sum(of_layers)] if name == "one-shot" else of_layers
    return [min(most or size, size - start) for size in pieces for start in range(0, size, most or size)]


DGX1 = Cluster.parse("dgx-v100:1")
"""For our model of NCCL, which has the DGX-1's rates and latencies from NCCL's source."""


def nccl_us(size: int) -> float:
    """What an AllReduce of NCCL should take on a DGX-1, without a floor of launching, which is not known of it."""
    return expected(DGX1, "all-reduce", size, floor_us=0).time_us


def fig3(_quick: bool) -> Steps:
    """One-shot, layer-wise, slicing; by what a run of NCCL should take, by NCCL's own model, and in C-Cube's steps."""
    yield []
    one_shot, layer_wise, slicing = DATA.named("one-shot", "layer-wise", "slicing")
    cases = [(one_shot, 0), (layer_wise, 0), (slicing, SLICE // 2), (slicing, SLICE), (slicing, 2 * SLICE)]
    ways: dict[str, Callable[[int], float]] = {
        "slower": nccl_us,
        "NCCL's model": lambda size: nccl.choose(DGX1, "all-reduce", size).time_us,
        "C-Cube's steps": lambda size: cost("ring", RANKS, size, rate=RING_GB)[0],
    }
    whole, table, rows = sum(calls("one-shot")), Table(), Rows(DATA, "fig3")
    for series, most in cases:
        sizes = Counter(calls(series.name, most))
        found: Entry = {"calls": sum(sizes.values())}
        for name, way in ways.items():
            found[name] = sum(way(size) * count for size, count in sizes.items()) / way(whole)
        found["share"] = 100 * SENT * whole / (6 * NVLINK_GB * 1000) / nccl_us(whole) / found["slower"]
        what = f"{series}, {most / 1000:g} kB" if most else str(series)
        table.append({"series": series, "most": most, "what": what} | found)
    for e in table:
        rows.add(e, "%", e["share"], e["what"], "share of the peak")
        rows.add(e, "", e["calls"], e["what"], "AllReduces")
        if e["series"] != one_shot:
            times = "times slower than one-shot"
            rows.add(e, "×", e["slower"], e["what"], times, f"{e['what']}: times slower")
            for name in ("NCCL's model", "C-Cube's steps"):
                rows.add(e, "×", e[name], e["what"], f"{times}, {name}")
    title, gradients = "NCCL's AllReduce on the DGX-1", "ResNet-50, 102 MB of gradients"
    drawn, parts = table.where(most=(0, SLICE)), {"AllReduce": "share"}
    chart = bar_chart(title, "share of the peak rate, %", drawn, lambda _: gradients, parts, y_max=100)
    return Outcome(table, rows, [chart], columns=2)


ENDLESS = 1 << 50
"""Bytes, so many that latency does not count."""
OVER_NODES = partial(line_chart, label=lambda e: kB(e["size"]), ticks=str, reference=1, log=True)
"""A line for each size."""


def fig4(_quick: bool) -> Steps:
    """How many times as long one tree takes as the ring, at a size and at that where it is most."""
    yield []
    cases = grid(size=[16 * KIB << n for n in range(0, 17, 4)], ranks=[1 << n for n in range(1, 11)])
    cases += grid(size=(ENDLESS,), ranks=(4, 8, 16, 32, 64))
    table = Table()
    for case in cases:
        ranks, sizes = case["ranks"], [case["size"], *(1 << n for n in range(10, 50))]
        slower, *ratios = (cost(TREE, ranks, size, trees=1)[0] / cost("ring", ranks, size)[0] for size in sizes)
        most, size = max(zip(ratios, sizes[1:], strict=True), key=lambda each: each[0])
        found = {"ratio": 1 / slower, "closed": 100 / (ranks - 1), "MB": size >> 20}
        found |= {"faster": 100 * (slower - 1), "fastest": 100 * (most - 1)}
        table.append(case | found | {"what": f"{ranks} nodes, {kB(case['size'])}"})
    finite = Table(e for e in table if e["size"] < ENDLESS)
    rows = Rows(DATA, "fig4", finite, "×", "ratio", group="Eq. 2 over Eq. 5")
    for e in table.where(size=ENDLESS):
        nodes, of = f"{e['ranks']} nodes", "Eq. 5 over Eq. 2 less one"
        rows.add(e, "%", e["faster"], of, f"{nodes}, endless data", reference=e["closed"])
        rows.add(e, "%", e["fastest"], of, f"{nodes}, most", f"ring over tree, most, {nodes}")
    labels = "ranks", "nodes", "ratio", "ring / tree; above 1 the tree is faster"
    return Outcome(table, rows, [OVER_NODES("Ring's time over the tree's", finite, *labels)])


OWN, SIMULATED, EQUATIONS = DATA.named("C1, its own best chunks", "simulated", "Eqs. 5 and 7")


def _overlapping_jobs(series: Series, size: int) -> list[Job]:
    """Fig. 12."""
    if series == OWN:  # with the number of chunks that is best for it, not for two phases (Eq. 4)
        chunk = chunk_of(size, cost(OWN_CHUNKS, RANKS, size)[1])
        return [point(tree_spec(overlap=True, chunk=chunk), size)]
    return [allreduce(each, size) for each in {SIMULATED: [B, C1], EQUATIONS: []}.get(series, [series])]


def _overlapping(series: Series, size: int, records: Sequence[Record]) -> Entry:
    model = [cost(way, RANKS, size) for way in (TREE, OVERLAPPED)]
    if series in (SIMULATED, EQUATIONS):
        slow, fast = [each["time_ns"] for each in records] or [time for time, _ in model]
        return {"ratio": slow / fast, "gain": 100 * (slow / fast - 1)}
    time, chunks = records[0]["time_ns"], model[1][1]
    step = LATENCY_NS + chunk_by_eq_4(size) / NVLINK_GB
    steps = {B: 2 * (HEIGHT + chunks - 1), C1: 2 * HEIGHT + chunks - 1}.get(series)
    exact = steps and steps * step
    # Chunks that are complete before the one in front of them in their tree.
    found = pairwise(records[0]["tables"]["chunks"])
    early = sum(one["lane"] == other["lane"] and other["complete_ns"] < one["complete_ns"] for one, other in found)
    return {"time": time, "exact": exact, "speed": size / time, "out of order": early}


def fig12(quick: bool) -> Steps:
    """Overlapping on the DGX-1."""
    sizes = [MIB, 64 * MIB] if quick else [16 * KIB << n for n in range(0, 13, 2)] + [128 * MIB, 256 * MIB]
    cases = grid(size=sizes, series=(B, C1, OWN, SIMULATED, EQUATIONS))
    runs = yield [(case, _overlapping_jobs(case["series"], case["size"])) for case in cases]
    table = Table()
    for case, records in runs:
        what = kB(case["size"])
        table.append(case | {"what": what} | _overlapping(case["series"], case["size"], records))
    rows = Rows(DATA, "fig12")
    for e in table:
        if "time" in e:
            rows.add(e, "ns", e["time"], group=f"{e['series']}: time", reference=e["exact"])
        else:
            rows.add(e, "×", e["ratio"], f"C1 over B, {e['series']}", None, f"C1 over B, {e['what']}")
    for of in () if quick else (table.where("size>67108864", series=SIMULATED),):
        what = "C1 over B, most above 64 MB"
        rows.add(of[0], "×", of.values("ratio").most, "C1 over B, most", "above 64 MB", what)
    times, ratios = table.where(series=(B, C1, OWN)), table.where(series=(SIMULATED, EQUATIONS))
    charts = [
        line_chart(title, of, "size", "size", y, y_label, ticks=kB, every=2)
        for title, of, y, y_label in (
            ("(a) AllReduce", times, "speed", "size / time, GB/s"),
            ("(b) C1 over B", ratios, "gain", "faster, %"),
        )
    ]
    return Outcome(table, rows, charts, columns=2)


HOSTS = 16
"""Nodes on a switch."""
LINK_NS = 500
CHUNK = 256 * KIB
PACED, FREE = "stop-and-wait", "pipelined"
SETTINGS = {
    "ratio": (LATENCY_NS, None, PACED),
    "256 kB": (LATENCY_NS, CHUNK, PACED),
    "links only": (0.0, None, PACED),
    "pipelined": (LATENCY_NS, None, FREE),
}
"""How C1 is held against R: latency of a step beside that of the links; bytes of a chunk, None for the number of chunks
of Eq. 4; and whether a step of a tree waits for the one before it on its link, as in the paper's cost model."""
TURNED = {
    "turnaround": (2, CHUNK, PACED),
    "one tree": (1, CHUNK, PACED),
    "chunks in each": (2, CHUNK // 2, PACED),
    "turnaround pipelined": (2, CHUNK, FREE),
}
"""How C1's turnaround is held against B's: trees, bytes of a chunk, pacing."""


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


def scale_jobs(case: Entry) -> list[LeafSpine]:
    """R and C1 in every setting; B and C1 in those of the turnaround."""
    jobs, by_eq_4 = [], chunk_by_eq_4(case["size"], case["ranks"])
    for step_ns, chunk, pacing in SETTINGS.values():
        overlapped = tree_spec(overlap=True, chunk=chunk or by_eq_4, pacing=pacing)
        jobs += [_run(case, "ring", step_ns), _run(case, overlapped, step_ns)]
    for trees, chunk, pacing in TURNED.values():
        specs = (tree_spec(overlap=way, chunk=chunk, trees=trees, pacing=pacing) for way in (False, True))
        jobs += [_run(case, spec) for spec in specs]
    return jobs


OTHER_SETTINGS = {"256 kB": "chunks of 256 kB", "links only": "latency of links only", "pipelined": "pipelined"}
OTHER_TURNED = {
    "one tree": "one tree",
    "chunks in each": "256 chunks of 64 MB on each tree",
    "turnaround pipelined": "pipelined",
}


def batched(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Two by two."""
    return zip(values[::2], values[1::2], strict=True)


def _turnaround(record: Record) -> float:
    """When the first chunk is everywhere."""
    return float(record["tables"]["chunks"][0]["complete_ns"])


def fig14(quick: bool) -> Steps:
    """More nodes."""
    cases = grid(size=(16 * KIB, MIB, 64 * MIB), ranks=(8, 16) if quick else [4 << n for n in range(7)])
    runs = yield [(case, scale_jobs(case)) for case in cases]
    table = Table()
    for case, records in runs:
        ranks, size, count = case["ranks"], case["size"], 2 * len(SETTINGS)
        times, firsts = [record["time_ns"] for record in records[:count]], list(map(_turnaround, records[count:]))
        found = dict(zip(SETTINGS, (ring / trees for ring, trees in batched(times)), strict=True))
        found |= dict(zip(TURNED, (late / soon for late, soon in batched(firsts)), strict=True))
        # Constant bandwidth: the ring has all channels, a tree one in each direction.
        ring, trees = cost("ring", ranks, size, rate=RING_GB)[0], cost(OVERLAPPED, ranks, size)[0]
        height, chunks = ranks.bit_length() - 1, math.ceil(size / TREES / CHUNK)
        found |= {"ratio model": ring / trees, "turnaround model": (2 * height + chunks - 1) / (2 * height)}
        table.append(case | {"what": f"{ranks} nodes, {kB(size)}", "gain": 100 * (found["ratio"] - 1)} | found)
    rows = Rows(DATA, "fig14")
    for e in table:
        rows.add(e, "×", e["ratio"], group="C1 over R", reference=e["ratio model"])
        for name, what in OTHER_SETTINGS.items():
            rows.add(e, "×", e[name], group=f"C1 over R, {what}")
    for e in table:
        rows.add(e, "×", e["turnaround"], group="Gradient turnaround, B over C1", reference=e["turnaround model"])
        for name, what in OTHER_TURNED.items():
            rows.add(e, "×", e[name], group=f"Gradient turnaround, B over C1, {what}")

    small, large, note = table.where(size=16 * KIB), table.where(size=64 * MIB), DATA.texts["unstated"]
    if not quick:
        for of in (small, large):
            what = f"{kB(of[0]['size'])}, most"
            most = of.values("ratio").most
            rows.add(of[0], "×", most, "C1 over R, of all nodes", what, f"C1 over R, {what}", note=note)
        turned = large.values("turnaround")
        for name, ours in {"most": turned.most, "mean": turned.mean}.items():
            words = "Gradient turnaround, of all nodes", f"{kB(64 * MIB)}, {name}", f"turnaround, {name}"
            rows.add(large[0], "×", ours, *words, note=note)
    charts = []
    for title, y, y_label in (
        ("(a) C1 over R", "ratio", "times as fast"),
        ("(b) Gradient turnaround", "turnaround", "B's over C1's"),
    ):
        own = OVER_NODES(title, table, "ranks", "nodes", y, y_label)
        further = lines_of(table, "ranks", f"{y} model", lambda e: f"{kB(e['size'])}, model")
        charts.append(replace(own, lines=[*own.lines, *further]))
    return Outcome(table, rows, charts, columns=2)
