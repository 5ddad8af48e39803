"""Figures 3, 4 and 12 of the C-Cube paper: AllReduce alone, on the DGX-1."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

import antiphon
from antiphon._core import TrainingPlan
from antiphon.papers.ccube.dgx1 import C1, CHANNELS, DATA, HEIGHT, KIB, LATENCY_NS, MIB, NVLINK_GB, RANKS, RING, B, row
from antiphon.papers.ccube.systems import allreduce, chunk_of, cost, on_trees, size_text, tree_spec
from antiphon.repro.charts import Bar, Bars, Lines, lines, ticks
from antiphon.repro.claims import Cells, Judged, Tables, close, verdict
from antiphon.repro.figure import Figure, Row, Shown, row_of
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Job, Record

# --- Fig. 3 -------------------------------------------------------------------------------------

ONE_SHOT, LAYER_WISE, SLICING = DATA.named("one-shot", "layer-wise", "slicing")
SLICE = 200_000
"""Bytes: 50,000 parameters. The paper does not say."""
CUTS = ((ONE_SHOT, 0), (LAYER_WISE, 0), *((SLICING, size) for size in (SLICE // 2, SLICE, 2 * SLICE)))


@cache
def calls(name: str, most: int = 0) -> list[int]:
    """Bytes of every AllReduce of ResNet-50's gradients, in slices of at most so many bytes."""
    layers = [int(size) for size in TrainingPlan(antiphon.workload("resnet50"), "roofline", 1).layers["gradient_bytes"]]
    if name == "slicing":
        return [min(most, size - start) for size in layers for start in range(0, size, most)]
    return layers if name == "layer-wise" else [sum(layers)]


def _calls_jobs(case: Entry) -> list[Job]:
    return [allreduce(RING, size) for size in calls(case["series"].name, case["most"])]


def _share_of_peak(case: Entry, *records: Record) -> Entry:
    sizes = calls(case["series"].name, case["most"])
    times = {size: record["time_ns"] for size, record in zip(sizes, records, strict=True)}
    time = sum(times[size] * count for size, count in Counter(sizes).items())
    what = f"{case['series']}, {case['most'] // 1000} kB" if case["most"] else str(case["series"])
    share = 100 * 2 * (RANKS - 1) / RANKS * sum(sizes) / time / (CHANNELS * NVLINK_GB)
    return {"what": what, "calls": len(sizes), "share": share}


def _fig3(table: Table) -> Shown:
    rows = []
    best = table.one("share", series=ONE_SHOT)
    for e in table:
        what = e["what"]
        rows.append(Row(what, "share of the peak", "%", e["share"]))
        rows.append(Row(what, "AllReduces", "", e["calls"]))
        if e["series"] != ONE_SHOT:
            loss, key = best / e["share"], f"{what}: times slower"
            rows.append(row("fig3", what, "times slower than one-shot", "×", loss, key, note=DATA.texts["nccl"]))
    groups = {
        "ResNet-50, 102 MB of gradients": [Bar(str(e["series"]), [e["share"]]) for e in table.where(most=(0, SLICE))]
    }
    return rows, [Bars("Ring on the DGX-1", "share of the peak rate, %", ["AllReduce"], groups, 100)]


FIG_3 = Figure(
    "fig3", lambda _quick: [{"series": name, "most": most} for name, most in CUTS], _share_of_peak, _fig3, _calls_jobs
)


def _loss(cells: Cells, tables: Tables) -> Judged:
    of, least = {"layer-wise": (LAYER_WISE, 0), "slicing": (SLICING, SLICE)}[cells["id"]], float(cells["low"])
    table = tables["fig3"]
    loss = table.one("share", series=ONE_SHOT) / table.one("share", series=of[0], most=of[1])
    # Every AllReduce takes its latency once, all together the same bytes.
    busy = 2 * (RANKS - 1) / RANKS * calls("one-shot")[0] / (CHANNELS * NVLINK_GB)
    latency = busy / (len(calls("layer-wise")) - 2)
    other = (busy + len(calls("slicing", SLICE)) * latency) / (busy + latency)
    holds = loss > least if of[0] == SLICING else close(loss, least)
    return verdict(holds, loss > least), {"loss": loss, "us": latency / (2 * (RANKS - 1)) / 1000, "other": other}


# --- Fig. 4 -------------------------------------------------------------------------------------

NODES = tuple(1 << n for n in range(1, 11))
ENDLESS = 1 << 50
ROUNDED = 0.005
"""Tolerance of what the paper rounds to whole percent."""


def _slower(ranks: int, size: int) -> float:
    """How many times as long as the ring one tree takes."""
    found = cost(ranks, size, trees=1)
    return found.tree_ns / found.ring_ns


def _fig4_cases(_quick: bool) -> list[Entry]:
    sizes = [16 * KIB << 4 * n for n in range(5)]
    found = [{"series": DATA.series[size_text(size)], "size": size, "ranks": n} for size in sizes for n in NODES]
    return found + [{"series": "all sizes", "size": ENDLESS, "ranks": n} for n in NODES[1:6]]


def _ring_over_tree(case: Entry) -> Entry:
    slower, nodes = _slower(case["ranks"], case["size"]), f"{case['ranks']} nodes"
    if case["size"] < ENDLESS:
        return {"what": f"{nodes}, {size_text(case['size'])}", "ratio": 1 / slower}
    ratios = {size: _slower(case["ranks"], size) for size in (1 << n for n in range(10, 50))}
    most = max(ratios, key=lambda size: ratios[size])
    return {"what": nodes, "endless": slower, "most": ratios[most], "MB": most >> 20}


def _fig4(table: Table) -> Shown:
    finite = table.where(f"size<{ENDLESS}")
    rows = [row_of(entry, "ratio", "×", group="Eq. 2 over Eq. 5") for entry in finite]
    for e in table.where(size=ENDLESS):
        ranks, group = e["ranks"], "Eq. 5 over Eq. 2"
        known = ("ring over tree, endless data, 8 nodes" if ranks == RANKS else "", ROUNDED, "", ranks / (ranks - 1))
        rows.append(row("fig4", f"{group}, endless data", e["what"], "×", e["endless"], *known))
        rows.append(Row(f"{group}, largest of all sizes", f"{e['what']}, at {e['MB']} MB", "×", e["most"]))
    label, found = "ring / tree; above 1 the tree is faster", lines(finite, "ranks", "ratio")
    return rows, [Lines("Ring's time over the tree's", "nodes", label, found, ticks(NODES), reference=1, log=True)]


FIG_4 = Figure("fig4", _fig4_cases, _ring_over_tree, _fig4)


def _small_tree(_cells: Cells, tables: Tables) -> Judged:
    ratios = dict(zip(NODES, tables["fig4"].where(size=16 * KIB).column("ratio"), strict=True))
    wins = [ranks for ranks, ratio in ratios.items() if ratio > 1]
    rising = all(ratios[more] > ratios[less] for less, more in pairwise(NODES[1:]))
    holds = rising and wins == [ranks for ranks in NODES if ranks >= wins[0]]
    return verdict(holds), {"first": wins[0], "ratio": ratios[NODES[-1]], "last": NODES[-1]}


def _large_ring(cells: Cells, tables: Tables) -> Judged:
    (found,) = tables["fig4"].where(size=ENDLESS, ranks=RANKS)
    good = abs(found["endless"] - float(cells["low"])) < 0.01
    names = {"endless": 100 * (found["endless"] - 1), "most": 100 * (found["most"] - 1), "MB": found["MB"]}
    return verdict(good and found["most"] < 1.2, good), names


# --- Fig. 12 ------------------------------------------------------------------------------------

OWN, SIMULATED, EQUATIONS = DATA.named("C1, its own best chunks", "simulated", "Eqs. 5 and 7")


def _fig12_cases(quick: bool) -> list[Entry]:
    sizes = (MIB, 64 * MIB) if quick else (*(16 * KIB << 2 * n for n in range(7)), 128 * MIB, 256 * MIB)
    return grid(size=sizes, series=[B, C1, OWN, SIMULATED, EQUATIONS])


def _fig12_jobs(case: Entry) -> list[Job]:
    size, series = case["size"], case["series"]
    if series == OWN:  # with the number of chunks that is best for it, not for two phases (Eq. 4)
        return [on_trees(tree_spec(overlap=True, chunk=chunk_of(size, cost(RANKS, size).own_chunks)), size)]
    return (
        []
        if series == EQUATIONS
        else [allreduce(each, size) for each in ([B, C1] if series == SIMULATED else [series])]
    )


def _overlapping(case: Entry, *records: Record) -> Entry:
    size, series = case["size"], case["series"]
    what, model = {"what": size_text(size)}, cost(RANKS, size)
    if series in (SIMULATED, EQUATIONS):
        slow, fast = (each["time_ns"] for each in records) if records else (model.tree_ns, model.overlapped_ns)
        known = DATA.stated["fig12"].get(f"C1 over B, {what['what']}")
        shown = known.value if known and series == SIMULATED else None
        return what | {"ratio": slow / fast, "known": shown}
    time, step = records[0]["time_ns"], LATENCY_NS + chunk_of(size, model.chunks) / NVLINK_GB
    steps = {B: 2 * (HEIGHT + model.chunks - 1), C1: 2 * HEIGHT + model.chunks - 1}.get(series)
    exact = steps and steps * step
    return what | {"time": time, "exact": exact, "speed": size / time, "out of order": _out_of_order(records[0])}


def _out_of_order(record: Record) -> int:
    """Chunks that are complete before the one in front of them in their tree."""
    found = pairwise(record["tables"]["chunks"])
    return sum(one["lane"] == other["lane"] and other["complete_ns"] < one["complete_ns"] for one, other in found)


def _fig12(table: Table) -> Shown:
    rows = []
    for e in table:
        if "time" in e:
            rows.append(Row(f"{e['series']}: time", e["what"], "ns", e["time"], reference=e["exact"]))
        else:
            rows.append(
                row("fig12", f"C1 over B, {e['series']}", e["what"], "×", e["ratio"], f"C1 over B, {e['what']}")
            )
    times, ratios = table.where(series=[B, C1, OWN]), table.where(series=[SIMULATED, EQUATIONS])
    marks = ticks(table.axis("size"), size_text, 2)
    return rows, [
        Lines("(a) AllReduce", "size", "size / time, GB/s", lines(times, "size", "speed"), marks),
        Lines("(b) C1 over B", "size", "times as fast", lines(ratios, "size", "ratio"), marks),
    ]


FIG_12 = Figure("fig12", _fig12_cases, _overlapping, _fig12, _fig12_jobs)


def _model(_cells: Cells, tables: Tables) -> Judged:
    found = tables["fig12"].ratios("ratio", "simulated", "Eqs. 5 and 7")
    sizes = tables["fig12"].axis("size")
    error = {size: abs(ratio - 1) for size, ratio in zip(sizes, found.numbers, strict=True)}
    large, small = (max(error[size] for size in error if (size >= 4 * MIB) is big) for big in (True, False))
    return verdict(max(small, large) <= 0.05, large <= 0.05), {"large": 100 * large, "small": 100 * small}


CHECKS = {"layer-wise": _loss, "slicing": _loss, "small-tree": _small_tree, "large-ring": _large_ring, "model": _model}
