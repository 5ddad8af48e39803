"""Figures 4, 5, 6 and 9a of the ACE paper, and its section VI-A: AllReduce alone."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from antiphon.papers.ace.runs import ACE, DATA, IDEAL, MIB, SHAPES, AllReduce, Walk, all_reduce, measured
from antiphon.repro.charts import Block, line_chart, span_chart
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import COUNTED, Row, Rows
from antiphon.repro.table import Entry, Table, close, grid

BASELINE = DATA.series["Baseline"]
SM_GB, MEMORY_GB, SMS = 79.68, 900, 80
"""64 bytes a cycle at 1245 MHz; Table V."""
NEARLY = 0.9
"""Of the ideal rate, which the paper calls enough."""
SATURATED = 0.99


def npu(memory: float = MEMORY_GB, sms: int = SMS) -> str:
    """An NPU that communicates by itself, with so much set aside."""
    return f"npu:memory_gb_per_s={memory:g},sms={sms}"


V100S = "ring8@1200/700ns"
"""Eight, 150 GB/s each; NCCL's rings."""


H200 = {"GEMM": 1.01, "lookup": 1.03}
"""How many times slower a reduction, 4,309 GB/s alone, became beside each on an H200 (``antiphon calibrate``)."""
H200_SMS, H200_SM_GB = 132, 44.9
"""And what one of its SMs reads in a reduction."""


def fig4(_quick: bool) -> Steps:
    """Communication alone, and with what computation leaves: a GEMM of dimension 1000 takes 44.8 of 64 warps of every
    SM, a lookup with a batch of 10,000 429.2 GB/s. Where no shares are stated, both."""
    left = npu(470.8, 24)
    cases = [
        ("GEMM", "GEMM of dimension 1000, 100 MB", 100, npu(sms=24)),
        ("lookup", "embedding lookup with a batch of 10,000, 100 MB", 100, npu(470.8)),
        ("DLRM", "both, 16 MB, in DLRM", 16, left),
        ("Megatron-LM", "both, 100 MB, for Megatron-LM", 100, left),
    ]
    runs = yield [
        ({"what": what, "key": key}, [AllReduce(V100S, each, size * 1_000_000) for each in (npu(), beside)])
        for key, what, size, beside in cases
    ]
    table = Table(case | {"slower": beside["time_ns"] / alone["time_ns"]} for case, (alone, beside) in runs)
    rows = Rows(DATA, "fig4")
    for e in table:
        rows.add(e, "×", e["slower"], "Baseline beside computation", key=e["key"], reference=H200.get(e["key"]))
    for sms in (2, 6, 16, 32):
        slower = float(measured(f"sms={sms},memory_gb_per_s={sms * H200_SM_GB}").rpartition("slowdown=")[2])
        what = f"GEMM of dimension 8192, {sms} of {H200_SMS} SMs"
        rows.add(
            {},
            "×",
            slower,
            "Computation beside a reduction, law of an H200",
            what,
            reference=H200_SMS / (H200_SMS - sms),
        )
    return Outcome(table, rows)


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


def vi_a(_quick: bool) -> Steps:
    """Bytes sent and read."""
    runs = yield [
        (npus, [all_reduce(npus, "ideal"), AllReduce(LOSSLESS, "ideal"), all_reduce(npus, npu(SLOW_GB))])
        for npus in SHAPES
    ]
    table = Table()
    rows, further = Rows(DATA, "vi-a"), Rows(DATA, "vi-a")
    for npus, (ideal, lossless, slow) in runs:
        shape = SHAPES[npus]
        e = {"npus": npus, "what": shape, "sent": ideal["sent"], "most": ideal["gb_per_s"]}
        table.append(e)
        words = "Bytes sent for each of the buffer", None, f"{shape}: bytes sent"
        rows.add(e, "", e["sent"], *words, reference=sent(npus))
        rows.add(e, "GB/s", e["most"], "Most that is sent, 94 %", None, f"{shape}: most", reference=most(npus))
        if npus == 64:
            of, full = partial(further.add, e, group="In 4x4x4, links at 100 %"), most(npus, 1)
            reads, byte = "what ACE reads for it", "reads of the baseline for a byte sent"
            of("GB/s", lossless["gb_per_s"], what="most that is sent", reference=full)
            of("GB/s", full / ideal["sent"], what=reads, key="ACE reads", reference=full / sent(npus))
            of("", SLOW_GB / slow["gb_per_s"], what=byte, key="baseline reads", reference=1.5)
    return Outcome(table, rows + further)


OF_FIG_5 = (16, 64)
ENDPOINTS = {BASELINE: "npu:memory_gb_per_s={memory},sms=80", ACE: "ace:memory_gb_per_s={memory}", IDEAL: "ideal"}


def enough(table: Table, series: object, npus: int) -> float:
    """Memory bandwidth with which 90 % of the ideal rate is reached, between the points."""
    of, goal = table.where(series=series, npus=npus), NEARLY * table.where(series=IDEAL, npus=npus)[0]["rate"]
    for low, high in pairwise(of):
        if low["rate"] < goal <= high["rate"]:
            return float(np.interp(goal, (low["rate"], high["rate"]), (low["memory"], high["memory"])))
    return float("nan")


def fig5(quick: bool) -> Steps:
    """Memory bandwidth for communication."""
    memory = (50, 200, 350, 500) if quick else range(25, 626, 25)
    cases = grid(series=(BASELINE, ACE, IDEAL), npus=OF_FIG_5, memory=memory)
    runs = yield [
        (case, [all_reduce(case["npus"], ENDPOINTS[case["series"]].format(memory=case["memory"]))]) for case in cases
    ]
    table = Table(
        case | {"what": f"{case['npus']} NPUs, {case['memory']} GB/s", "rate": done["gb_per_s"]}
        for case, (done,) in runs
    )
    rows = Rows(DATA, "fig5", table.where(series=(BASELINE, ACE)), "GB/s", "rate")
    for npus, of in table.where(series=IDEAL).by("npus"):
        rows.add(of[0], "GB/s", of[0]["rate"], what=f"{npus} NPUs")
    labels = "memory", "memory bandwidth for communication, GB/s", "rate", "sent, GB/s"
    charts = [line_chart(f"{npus} NPUs", of, *labels) for npus, of in table.by("npus")]
    return Outcome(table, rows if quick else rows + _needed(table), charts, columns=2)


def _needed(table: Table) -> list[Row]:
    rows = Rows(DATA, "fig5")
    needed = {series: [enough(table, series, npus) for npus in OF_FIG_5] for series in (BASELINE, ACE)}
    for series in (BASELINE, ACE):
        group, key = f"{series}: memory bandwidth for 90 % of ideal", f"{series}: enough"
        rows.add({}, "GB/s", fmean(needed[series]), group, "mean of 16 and 64 NPUs", key)
        for npus, value in zip(OF_FIG_5, needed[series], strict=True):
            rows.add({}, "GB/s", value, group, f"{npus} NPUs", key)
    less, more = needed[ACE], needed[BASELINE]
    for what, ours in (("means", fmean(more) / fmean(less)), ("64 NPUs", more[1] / less[1])):
        rows.add({}, "×", ours, "How many times less ACE needs", what, "times less")
    return rows


def fig6(quick: bool) -> Steps:
    """SMs for communication."""
    cases = grid(series=(BASELINE, IDEAL), sms=(2, 6, 10) if quick else range(1, 11))
    own = {BASELINE: "npu:memory_gb_per_s=900,sms={sms}", IDEAL: "ideal"}
    ends = [(case, own[case["series"]].format(sms=case["sms"])) for case in cases]
    runs = yield [(case, [all_reduce(64, each) for each in (end, "ideal")]) for case, end in ends]
    table = Table()
    for case, (done, ideal) in runs:
        found = {"what": f"SMs: {case['sms']}", "rate": done["gb_per_s"]}
        table.append(case | found | {"closed": min(SM_GB * case["sms"] / 1.5, ideal["gb_per_s"])})
    swept = table.where(series=BASELINE)
    rows = Rows(DATA, "fig6")
    for e in swept:
        rows.add(e, "GB/s", e["rate"], reference=e["closed"])
    if not quick:
        needed = float(min(e["sms"] for e in swept if e["rate"] >= SATURATED * swept[-1]["rate"]))
        rows.add({}, "SMs", needed, BASELINE.name, "fewest SMs with 99 % of what all reach", "SMs", own=COUNTED)
    return Outcome(table, rows, [line_chart("4x4x4", table, "sms", "SMs for communication", "rate", "sent, GB/s")])


SPLITS = [series for series in DATA.series.values() if series.run.startswith("fsm_split")]
NEED, PAPER_SRAM = SPLITS[:2]
SRAM_MIB, FSMS = (1, 2, 4, 8), (4, 8, 12, 16, 20, 24)
CHOSEN = (4, 16)


def speed(table: Table, series: object, sram: int, fsms: int) -> float:
    """Relative to 4 MiB and 16 state machines, mean of the sizes of the system."""
    return fmean(table.where(series=series, sram=sram, fsms=fsms).column("speed"))


def fig9a(quick: bool) -> Steps:
    """SRAM and state machines."""
    if quick:
        cases = grid(series=(NEED,), npus=(64,), sram=(2, 4), fsms=(8, 16))
    else:
        cases = grid(series=SPLITS, npus=SHAPES, sram=SRAM_MIB, fsms=FSMS)

    def engine(case: Entry, mib: int, fsms: int) -> AllReduce:
        return all_reduce(case["npus"], f"ace:sram={mib * MIB},fsms={fsms},{case['series'].run}")

    runs = yield [(case, [engine(case, case["sram"], case["fsms"]), engine(case, *CHOSEN)]) for case in cases]
    table = Table()
    for case, (own, chosen) in runs:
        what = f"{case['npus']} NPUs, {case['sram']} MiB, {case['fsms']} state machines"
        table.append(case | {"what": what, "speed": own["gb_per_s"] / chosen["gb_per_s"]})
    rows = Rows(DATA, "fig9a")
    for of in table.split("series", "sram", "fsms"):
        series, sram, fsms = (of[0][axis] for axis in ("series", "sram", "fsms"))
        key = "more" if (sram, fsms) == (8, 20) and series is PAPER_SRAM else ""
        rows.add(of[0], "×", of.values("speed").mean, what=f"{sram} MiB, {fsms} state machines", key=key)
    labels = "fsms", "state machines", "speed", "speed / that of 4 MiB, 16"
    lines = partial(line_chart, label=lambda e: f"{e['sram']} MiB", y_max=1.7)
    return Outcome(table, rows, [lines(str(series), of, *labels) for series, of in table.by("series")], columns=2)


WIGGLE = 0.001
"""What does not count as slower."""


def monotone(_cells: Cells, tables: Tables) -> Judged:
    """That more of either never makes ACE slower."""
    table = tables["fig9a"]
    falls = []
    for series in SPLITS:
        of = [[speed(table, series, sram, fsms) for fsms in FSMS] for sram in SRAM_MIB]
        steps = [after / before for line in (*of, *zip(*of, strict=True)) for before, after in pairwise(line)]
        falls.append(max(0.0, 1 - min(steps)))
    worst = max(falls)
    return verdict(worst <= WIGGLE, worst <= 2 * WIGGLE), {"falls": listed([100 * fall for fall in falls], "{:.1f} %")}


def knee(_cells: Cells, tables: Tables) -> Judged:
    """Where little more is gained, by the paper's rule for SRAM; by need stands beside it."""
    table = tables["fig9a"]
    names: dict[str, Any] = {}
    for name, series in (("need", NEED), ("paper", PAPER_SRAM)):
        by_fsms = [speed(table, series, CHOSEN[0], fsms) for fsms in FSMS]
        by_sram = [speed(table, series, sram, CHOSEN[1]) for sram in SRAM_MIB]
        names |= {f"{name}_fsms": listed(by_fsms, "{:.2f}"), f"{name}_sram": listed(by_sram, "{:.2f}")}
        names[f"{name}_more"] = 100 * speed(table, series, 8, 20) - 100
    # Of the paper's rule, which is the last: gains of the steps to what is chosen, and beyond.
    gains = ((1 / by_fsms[2] - 1, by_fsms[4] - 1), (1 / by_sram[1] - 1, by_sram[3] - 1))
    diminishing = all(2 * beyond < before for before, beyond in gains)
    return verdict(close(1 + names["paper_more"] / 100, "1.06") and diminishing), names


def times_less(_cells: Cells, tables: Tables) -> Judged:
    """How many times less memory bandwidth ACE needs, on average of 16 and 64 NPUs."""
    needed = {series: [enough(tables["fig5"], series, npus) for npus in OF_FIG_5] for series in (BASELINE, ACE)}
    ratios = [more / less for more, less in zip(needed[BASELINE], needed[ACE], strict=True)]
    value = fmean(needed[BASELINE]) / fmean(needed[ACE])
    return verdict(close(value, "3.5")), {"value": value, "ratios": listed(ratios, "{:.2f}×")}


MESSAGE = 4096
WALK = {
    BASELINE: f"npu:memory_gb_per_s=900,sms=80,chunk={3 * MESSAGE},message={MESSAGE}",
    ACE: f"ace:chunk={3 * MESSAGE},packet={MESSAGE}",
}
TRACKS = {"read": "memory, reads", "bus": "bus", "links": "link", "add": "adders", "write": "memory, writes"}


def fig8(_quick: bool) -> Steps:
    """One chunk of three messages around a ring of three nodes, forwarded as whole messages."""
    runs = yield [(series, [Walk(end, 3 * MESSAGE)]) for series, end in WALK.items()]
    table, charts = Table(), []
    rows = Rows(DATA, "fig8")
    for series, (done,) in runs:
        sent, read, written = (done[what] / MESSAGE for what in ("sent", "read", "written"))
        e = {"series": series, "what": "one chunk", "sent": sent, "read": read, "written": written}
        table.append(e)
        rows.add(e, "", round(sent, 3), what="messages sent", key=f"{series}: sent")
        rows.add(e, "", round(read, 3), what="messages read from memory", key=f"{series}: read")
        if series is ACE:
            rows.add(e, "", round(written, 3), what="messages written", key=f"{series}: written")
        blocks = [
            Block(TRACKS[part], "", series.name, *span) for part, spans in done["spans"].items() for span in spans
        ]
        charts.append(span_chart(series.name, "time, ns", done["time_ns"], list(TRACKS.values()), blocks))
    return Outcome(table, rows, charts, columns=2)


PARTS = {"memory_gb_per_s": 256, "bus_gb_per_s": 1000, "alus": 8, "fsms": 32, "sram": 8 * MIB}
"""Twice the paper's engine, part by part."""


def iv_i(_quick: bool) -> Steps:
    """What limits the engine, and how much twice as much of each part gains."""
    cases = grid(npus=SHAPES, part=PARTS)
    runs = yield [
        (case, [all_reduce(case["npus"], end) for end in ("ace", f"ace:{case['part']}={PARTS[case['part']]}")])
        for case in cases
    ]
    table = Table()
    rows = Rows(DATA, "iv-i")
    for case, (own, more) in runs:
        gain = own["time_ns"] / more["time_ns"]
        e = case | {"what": f"{case['npus']} NPUs, limit {own['limit']}", "gain": gain, "limit": own["limit"]}
        table.append(e)
        rows.add(e, "×", gain, f"Gain of twice {case['part']}")
    return Outcome(table, rows)
