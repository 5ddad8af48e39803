"""Figures 3, 4 and 12 of the C-Cube paper: AllReduce alone, on the DGX-1."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

import antiphon
from antiphon._core import TrainingPlan
from antiphon.papers.ccube import systems as dgx1
from antiphon.papers.ccube.systems import C1, DATA, LATENCY_NS, NVLINK_GB, RANKS, RING, B, cost, size_text
from antiphon.repro.claims import Cells, Judged, Tables, verdict
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import Job, Record

# --- Fig. 3 -------------------------------------------------------------------------------------

SLICE = 200_000
"""Bytes: 50,000 parameters. The paper does not say."""
RING_GB = dgx1.CHANNELS * NVLINK_GB
SENT = 2 * (RANKS - 1) / RANKS
"""Bytes that a rank of a ring sends for each of the data."""


@cache
def calls(name: str, most: int = 0) -> list[int]:
    """Bytes of every AllReduce of ResNet-50's gradients, in slices of at most so many bytes."""
    layers = [int(size) for size in TrainingPlan(antiphon.workload("resnet50"), "roofline", 1).layers["gradient_bytes"]]
    if name == "slicing":
        return [min(most, size - start) for size in layers for start in range(0, size, most)]
    return layers if name == "layer-wise" else [sum(layers)]


def _calls_jobs(case: Entry) -> list[Job]:
    sizes = [*calls("one-shot"), *calls(case["series"].name, case["most"])]
    return [dgx1.allreduce(RING, size) for size in sizes]


def _share_of_peak(case: Entry, one_shot: Record, *records: Record) -> Entry:
    sizes = calls(case["series"].name, case["most"])
    times = {size: record["time_ns"] for size, record in zip(sizes, records, strict=True)}
    time = sum(times[size] * count for size, count in Counter(sizes).items())
    what = f"{case['series']}, {case['most'] // 1000} kB" if case["most"] else str(case["series"])
    share, best = (100 * SENT * sum(sizes) / took / RING_GB for took in (time, one_shot["time_ns"]))
    # Every AllReduce takes its latency once, all together the same bytes.
    busy = SENT * sum(sizes) / RING_GB
    latency = busy / (len(calls("layer-wise")) - 2)
    slices = (busy + len(calls("slicing", SLICE)) * latency) / (busy + latency)
    found = {"what": what, "calls": len(sizes), "share": share, "slower": best / share}
    return found | {"latency for 2": latency / (2 * (RANKS - 1)) / 1000, "slices with it": slices}


# --- Fig. 4 -------------------------------------------------------------------------------------

ENDLESS = 1 << 50


def _slower(ranks: int, size: int) -> float:
    """How many times as long as the ring one tree takes."""
    found = cost(ranks, size, trees=1)
    return found.tree_ns / found.ring_ns


def _ring_over_tree(case: Entry) -> Entry:
    ranks, size = case["ranks"], case["size"]
    slower, nodes = _slower(ranks, size), f"{ranks} nodes"
    if size < ENDLESS:
        return {"what": f"{nodes}, {size_text(size)}", "series": DATA.series[size_text(size)], "ratio": 1 / slower}
    ratios = {size: _slower(ranks, size) for size in (1 << n for n in range(10, 50))}
    most = max(ratios, key=lambda size: ratios[size])
    return {
        "what": nodes,
        "series": "all sizes",
        "endless": slower,
        "closed": ranks / (ranks - 1),
        "most": ratios[most],
        "MB": most >> 20,
    }


def _small_tree(_cells: Cells, tables: Tables) -> Judged:
    ratios = {entry["ranks"]: entry["ratio"] for entry in tables["fig4"].where(size=16 * dgx1.KIB)}
    wins = [ranks for ranks, ratio in ratios.items() if ratio > 1]
    nodes = list(ratios)
    rising = all(ratios[more] > ratios[less] for less, more in pairwise(nodes[1:]))
    holds = rising and wins == [ranks for ranks in nodes if ranks >= wins[0]]
    return verdict(holds), {"first": wins[0], "ratio": ratios[nodes[-1]], "last": nodes[-1]}


# --- Fig. 12 ------------------------------------------------------------------------------------

OWN, SIMULATED, EQUATIONS = DATA.named("C1, its own best chunks", "simulated", "Eqs. 5 and 7")


def _overlapping_jobs(case: Entry) -> list[Job]:
    size, series = case["size"], case["series"]
    if series == OWN:  # with the number of chunks that is best for it, not for two phases (Eq. 4)
        chunk = dgx1.chunk_of(size, cost(RANKS, size).own_chunks)
        return [dgx1.on_trees(dgx1.tree_spec(overlap=True, chunk=chunk), size)]
    compared = {SIMULATED: [B, C1], EQUATIONS: []}.get(series, [series])
    return [dgx1.allreduce(each, size) for each in compared]


def _overlapping(case: Entry, *records: Record) -> Entry:
    size, series = case["size"], case["series"]
    what, model = {"what": size_text(size)}, cost(RANKS, size)
    if series in (SIMULATED, EQUATIONS):
        slow, fast = (each["time_ns"] for each in records) if records else (model.tree_ns, model.overlapped_ns)
        known = DATA.stated["fig12"].get(f"C1 over B, {what['what']}")
        shown = known.value if known and series == SIMULATED else None
        return what | {"ratio": slow / fast, "known": shown}
    time, step = records[0]["time_ns"], LATENCY_NS + dgx1.chunk_of(size, model.chunks) / NVLINK_GB
    steps = {B: 2 * (dgx1.HEIGHT + model.chunks - 1), C1: 2 * dgx1.HEIGHT + model.chunks - 1}.get(series)
    exact = steps and steps * step
    return what | {"time": time, "exact": exact, "speed": size / time, "out of order": _out_of_order(records[0])}


def _out_of_order(record: Record) -> int:
    """Chunks that are complete before the one in front of them in their tree."""
    found = pairwise(record["tables"]["chunks"])
    return sum(one["lane"] == other["lane"] and other["complete_ns"] < one["complete_ns"] for one, other in found)


FIGURES = (
    Figure(DATA, "fig3", _share_of_peak, _calls_jobs),
    Figure(DATA, "fig4", _ring_over_tree),
    Figure(DATA, "fig12", _overlapping, _overlapping_jobs),
)
CHECKS = {
    "small-tree": _small_tree,
}
