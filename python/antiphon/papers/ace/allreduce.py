"""Figures 4, 5, 6 and 9a of the ACE paper, and its section VI-A: AllReduce alone."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from antiphon.papers.ace.runs import ACE, DATA, IDEAL, MIB, SHAPES, AllReduce, all_reduce, row
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Figure, Shown
from antiphon.repro.table import Entry, Table
from antiphon.studies import Record

BASELINE = DATA.series["Baseline"]
SM_GB, MEMORY_GB, SMS = 79.68, 900, 80
"""64 bytes a cycle at 1245 MHz; Table V."""
NEARLY = 0.9
"""Of the ideal rate, which the paper calls enough."""
SATURATED = 0.99


def npu(memory: float = MEMORY_GB, sms: int = SMS) -> str:
    """An NPU that communicates by itself, with so much set aside."""
    return f"npu:memory_gb_per_s={memory:g},sms={sms}"


# --- Fig. 4 -------------------------------------------------------------------------------------

V100S = "ring8@1200/700ns"
"""Eight, 150 GB/s each; NCCL's rings."""


def _beside(case: Entry) -> list[AllReduce]:
    """Alone, and with what the computation leaves."""
    left = npu(case["memory"], case["sms"])
    return [AllReduce(V100S, endpoint, case["megabytes"] * 1_000_000) for endpoint in (npu(), left)]


# --- section VI-A -------------------------------------------------------------------------------

LOSSLESS = "ring4@3200/72.289ns,ring4@400/401.606ns,ring4@400/401.606ns"
"""4x4x4 with links of 100 % of their rate."""
SLOW_GB = 100
"""Memory bandwidth that is certainly too little."""


def sent(npus: int) -> float:
    """Bytes that an NPU sends for each of the buffer, in closed form."""
    local, vertical, horizontal = map(int, SHAPES[npus].split("x"))
    return (2 * (local - 1) + 2 * (vertical - 1) / vertical + 2 * (horizontal - 1) / horizontal) / local


def most(npus: int, efficiency: float = 0.94) -> float:
    """GB/s that an NPU sends when the slowest dimension always does, in closed form."""
    local, *rings = map(int, SHAPES[npus].split("x"))
    loads = [2 * (local - 1) / local / 400, *(2 * (size - 1) / size / local / 50 for size in rings)]
    return efficiency * sent(npus) / max(loads)


def _closed(case: Entry, ideal: Record, lossless: Record, slow: Record) -> Entry:
    npus = case["npus"]
    full = most(npus, 1)
    return {
        "what": SHAPES[npus],
        "sent": ideal["sent"],
        "sent, closed": sent(npus),
        "most": ideal["gb_per_s"],
        "most, closed": most(npus),
        "most that is sent": lossless["gb_per_s"],
        "lossless, closed": full,
        "what ACE reads for it": full / ideal["sent"],
        "reads, closed": full / sent(npus),
        "reads of the baseline for a byte sent": SLOW_GB / slow["gb_per_s"],
        "reads a byte": 1.5,
    }


def _three_ways(case: Entry) -> list[AllReduce]:
    npus = case["npus"]
    return [all_reduce(npus, "ideal"), AllReduce(LOSSLESS, "ideal"), all_reduce(npus, npu(SLOW_GB))]


# --- Fig. 5 -------------------------------------------------------------------------------------

OF_FIG_5 = (16, 64)


def _memory(case: Entry) -> list[AllReduce]:
    spec = {BASELINE: npu(case["memory"]), ACE: f"ace:memory_gb_per_s={case['memory']}", IDEAL: "ideal"}
    return [all_reduce(case["npus"], spec[case["series"]])]


def enough(table: Table, series: object, npus: int) -> float:
    """Memory bandwidth with which 90 % of the ideal rate is reached, between the points."""
    of, goal = table.where(series=series, npus=npus), NEARLY * table.where(series=IDEAL, npus=npus)[0]["rate"]
    for low, high in pairwise(of):
        if low["rate"] < goal <= high["rate"]:
            return float(np.interp(goal, (low["rate"], high["rate"]), (low["memory"], high["memory"])))
    return float("nan")


def _needed(table: Table) -> Shown:
    if not table.whole:
        return [], table
    rows = []
    needed = {series: [enough(table, series, npus) for npus in OF_FIG_5] for series in (BASELINE, ACE)}
    for series, tolerance in ((BASELINE, 0.07), (ACE, 0.15)):
        group, key = f"{series}: memory bandwidth for 90 % of ideal", f"{series}: enough"
        rows.append(
            row("fig5", group, "mean of 16 and 64 NPUs", "GB/s", fmean(needed[series]), key, tolerance=tolerance)
        )
        for npus, value in zip(OF_FIG_5, needed[series], strict=True):
            rows.append(row("fig5", group, f"{npus} NPUs", "GB/s", value, key, tolerance=tolerance))
    group, (less, more) = "How many times less ACE needs", (needed[ACE], needed[BASELINE])
    rows.append(row("fig5", group, "means", "×", fmean(more) / fmean(less), "times less", tolerance=0.15))
    rows.append(row("fig5", group, "64 NPUs", "×", more[1] / less[1], "times less", tolerance=0.15))
    return rows, table


# --- Fig. 6 -------------------------------------------------------------------------------------


def _fewest(table: Table) -> Shown:
    if not table.whole:
        return [], table
    swept = table.where(series=BASELINE)
    needed = float(min(e["sms"] for e in swept if e["rate"] >= SATURATED * swept[-1]["rate"]))
    return [
        row("fig6", BASELINE.name, "fewest SMs with 99 % of what all reach", "SMs", needed, "SMs", tolerance=0.0)
    ], table


def _own_and_ideal(case: Entry) -> list[AllReduce]:
    own = npu(sms=case["sms"]) if case["series"] is BASELINE else "ideal"
    return [all_reduce(64, own), all_reduce(64, "ideal")]


def _by_sms(case: Entry, own: Record, ideal: Record) -> Entry:
    return {"rate": own["gb_per_s"], "closed": min(SM_GB * case["sms"] / 1.5, ideal["gb_per_s"])}


# --- Fig. 9a ------------------------------------------------------------------------------------

SPLITS = [series for series in DATA.series.values() if series.run.startswith("fsm_split")]
NEED, PAPER_SRAM = SPLITS[:2]
SRAM_MIB, FSMS = (1, 2, 4, 8), (4, 8, 12, 16, 20, 24)
CHOSEN = (4, 16)


def _engines(case: Entry) -> list[AllReduce]:
    sizes = ((case["sram"], case["fsms"]), CHOSEN)
    return [all_reduce(case["npus"], f"ace:sram={mib * MIB},fsms={fsms},{case['series'].run}") for mib, fsms in sizes]


def speed(table: Table, series: object, sram: int, fsms: int) -> float:
    """Relative to 4 MiB and 16 state machines, mean of the sizes of the system."""
    return fmean(table.where(series=series, sram=sram, fsms=fsms).column("speed"))


def _relative(case: Entry, own: Record, chosen: Record) -> Entry:
    stated = (case["sram"], case["fsms"]) == (8, 20) and case["series"] in (NEED, PAPER_SRAM)
    return {"speed": own["gb_per_s"] / chosen["gb_per_s"], "stated": "more" if stated else ""}


# --- claims -------------------------------------------------------------------------------------

WIGGLE = 0.001
"""What does not count as slower."""


def _monotone(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig9a"]
    falls = []
    for series in SPLITS:
        of = [[speed(table, series, sram, fsms) for fsms in FSMS] for sram in SRAM_MIB]
        steps = [after / before for line in (*of, *zip(*of, strict=True)) for before, after in pairwise(line)]
        falls.append(max(0.0, 1 - min(steps)))
    worst = max(falls)
    return verdict(worst <= WIGGLE, worst <= 2 * WIGGLE), {"falls": listed([100 * fall for fall in falls], "{:.1f} %")}


def _knee(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig9a"]
    names: dict[str, Any] = {}
    for name, series in (("need", NEED), ("paper", PAPER_SRAM)):
        by_fsms = [speed(table, series, CHOSEN[0], fsms) for fsms in FSMS]
        by_sram = [speed(table, series, sram, CHOSEN[1]) for sram in SRAM_MIB]
        names |= {f"{name}_fsms": listed(by_fsms, "{:.2f}"), f"{name}_sram": listed(by_sram, "{:.2f}")}
        names[f"{name}_more"] = 100 * speed(table, series, 8, 20) - 100
    # From 4 MiB and 16 on little is gained: state machines by need, SRAM by the paper's rule.
    fsms = speed(table, NEED, 4, 20) <= 1.1 and speed(table, NEED, 4, 12) < 0.95
    sram = speed(table, PAPER_SRAM, 8, 16) <= 1.1 and speed(table, PAPER_SRAM, 2, 16) < 0.95
    return verdict(fsms and sram, fsms or sram), names


def _times_less(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig5"]
    ratios = [enough(table, BASELINE, npus) / enough(table, ACE, npus) for npus in OF_FIG_5]
    return verdict(min(ratios) >= 3, max(ratios) >= 3), {"ratios": listed(ratios, "{:.2f}×")}


FIGURES = (
    Figure(DATA, "fig4", jobs=_beside),
    Figure(DATA, "fig5", jobs=_memory, show=_needed),
    Figure(DATA, "fig6", _by_sms, _own_and_ideal, show=_fewest),
    Figure(DATA, "vi-a", _closed, _three_ways),
    Figure(DATA, "fig9a", _relative, _engines),
)
CHECKS = {"monotone": _monotone, "knee": _knee, "times-less": _times_less}
