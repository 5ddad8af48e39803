"""Figure 10 of the Themis paper: how many chunks; and the claims on it."""

from __future__ import annotations

from itertools import pairwise, product
from statistics import fmean

from antiphon.papers.themis.allreduce import DRAWN, FIFO, SCF_BEFORE
from antiphon.papers.themis.networks import (
    BASELINE,
    CHUNKS,
    DATA,
    MB,
    SCF,
    SCHEDULERS,
    SEARCH,
    TOPOLOGIES,
    row,
    run,
)
from antiphon.repro.charts import Lines, lines, ticks
from antiphon.repro.claims import POINTS, Cells, Judged, Tables, listed, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Shown, row_of
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Record

FROM_DELAY = DATA.named("Themis+FIFO, loads from A_K", "Themis+SCF, loads from A_K")
DROP = 5.0
"""Points of utilization that are no longer stable."""
SENSITIVE = ("3D-SW_SW_SW_hetero", "4D-Ring_FC_Ring_SW")
"""The topologies of Fig. 10."""
COUNTS = tuple(1 << exponent for exponent in range(2, 10))
FEW = (4, 8, 16)
"""Chunks for which the six topologies are looked at."""


def _chunk_cases(quick: bool) -> list[Entry]:
    found = grid(series=SCHEDULERS, topology=SENSITIVE, chunks=(4, 64) if quick else COUNTS)
    others = [name for name in TOPOLOGIES if name not in SENSITIVE]
    return found + grid(series=SCHEDULERS, topology=others, chunks=() if quick else FEW)


def _by_chunks(case: Entry, record: Record) -> Entry:
    what = f"{case['topology']}, {case['chunks']} chunks"
    return {"what": what, "utilization": 100 * record["utilization"]}


def _mean(table: Table, series: object, chunks: int, topologies: tuple[str, ...]) -> float:
    return fmean(table.where(series=series, chunks=chunks, topology=topologies).column("utilization"))


def _fig10(table: Table) -> Shown:
    rows, means, two = [], Table(), table.where(topology=SENSITIVE)
    for series, of in two.by("series"):
        for chunks, at in of.by("chunks"):
            rows += [row_of(entry, "utilization", "%") for entry in at]
            mean, key = fmean(at.column("utilization")), f"{series.published}, {chunks} chunks"
            rows.append(
                row("fig10", series.name, f"mean of the two, {chunks} chunks", "%", mean, key, note=series.note)
            )
            known = rows[-1].paper if series.published == series.name else None
            means.append({"series": series, "chunks": chunks, "utilization": mean, "known": known})
        for chunks in FEW if table.whole else ():
            what, mean = f"mean of the six topologies, {chunks} chunks", _mean(table, series, chunks, TOPOLOGIES)
            rows.append(row("fig10", series.name, what, "%", mean, note=series.note))
    charts = [
        Lines(
            title, "chunks", "utilization, %", lines(of, "chunks", "utilization"), ticks(of.axis("chunks")), y_max=103
        )
        for title, all_of in (*two.by("topology"), ("mean of the two", means))
        for of in (all_of.where(series=DRAWN),)
    ]
    return rows, charts


FIG_10 = Figure(
    "fig10",
    _chunk_cases,
    _by_chunks,
    _fig10,
    lambda case: [run(case["series"], case["topology"], 100 * MB, case["chunks"])],
)


def _chunks_baseline(_cells: Cells, tables: Tables) -> Judged:
    of = tables["fig10"].where(series=BASELINE, topology=SENSITIVE).by("topology")
    spread = max(table.values("utilization").spread for _, table in of)
    return verdict(spread < 1), {"spread": spread}


def _stable(_cells: Cells, tables: Tables) -> Judged:
    drops = {
        (series.name, name, more["chunks"]): less["utilization"] - more["utilization"]
        for series in (SCF, SCF_BEFORE)
        for name in SENSITIVE
        for less, more in pairwise(tables["fig10"].where("chunks>=8", series=series, topology=name))
    }
    series, name, chunks = worst = max(drops, key=lambda case: drops[case])
    later = max(drop for (_, _, many), drop in drops.items() if many > CHUNKS)
    names = {"drop": drops[worst], "where": f"{series} on {name}", "few": chunks // 2, "many": chunks, "later": later}
    return verdict(drops[worst] <= DROP), names


def _initial_load(_cells: Cells, tables: Tables) -> Judged:
    def error(schedulers: list[Series]) -> float:
        """Mean difference to the paper's numbers, in points."""
        stated, used = DATA.stated["fig11"], tables["fig11"]
        pairs = [(used.where(series=s).values("utilization").mean, stated[s.published]) for s in schedulers]
        for series, count in product(schedulers, (4, 512)):
            known = DATA.stated["fig10"][f"{series.published}, {count} chunks"]
            pairs.append((_mean(tables["fig10"], series, count, SENSITIVE), known))
        return fmean(abs(ours - paper.value) for ours, paper in pairs)

    zero, delay = error([FIFO, SCF]), error(FROM_DELAY)
    return verdict(zero >= delay), {"zero": zero, "delay": delay}


def _room(_cells: Cells, tables: Tables) -> Judged:
    scf, search = (tables["fig11"].where(series=series).values("utilization").mean for series in (SCF, SEARCH))
    few = [_mean(tables["fig10"], SEARCH, n, TOPOLOGIES) - _mean(tables["fig10"], SCF, n, TOPOLOGIES) for n in FEW]
    more = search - scf
    return verdict(more <= POINTS, more <= DROP), {"more": more, "few": listed(few, "{:.0f}")}


def _search(_cells: Cells, tables: Tables) -> Judged:
    used = tables["fig11"].where(series=SEARCH).values("utilization")
    rivals = [tables["fig8"].ratios("time", str(rival), "Search") for rival in (BASELINE, FIFO, SCF, SCF_BEFORE)]
    slower = len({where for values in rivals for where, ratio in values if ratio < 1})
    return verdict(used.mean >= 99 and not slower), {"used": used, "slower": slower}


def _search_few(_cells: Cells, tables: Tables) -> Judged:
    search, themis = ([_mean(tables["fig10"], series, n, TOPOLOGIES) for n in FEW] for series in (SEARCH, SCF))
    holds = all(value >= least for value, least in zip(search, (70, 88, 96), strict=True))
    return verdict(holds), {"search": listed(search), "themis": listed(themis)}


CHECKS = {
    "chunks-baseline": _chunks_baseline,
    "stable": _stable,
    "initial-load": _initial_load,
    "room": _room,
    "search-64": _search,
    "search-few": _search_few,
}
