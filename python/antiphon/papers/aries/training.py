"""Figures 10 and 11 of the ARIES paper: training, and the energy of its exchanges, of which a share is fitted."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np

from antiphon.papers.aries.designs import (
    ALGORITHMS,
    ARIES,
    DATA,
    MESH,
    MODELS,
    PEERS,
    PORTS,
    SIDES,
    SYSTEM,
    WIDE,
    Iteration,
    cases,
    iteration,
    row,
)
from antiphon.repro.charts import Bars, bars
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table
from antiphon.studies import Record

SAMPLES = (1, 16)
"""On each chiplet: as few as there can be, so that exchanges weigh most, and one for each PE."""
DESIGNS = [*PEERS, ARIES, WIDE]
TRANSFORMER = MODELS[-1]
GAINS = {"gain": "execution time", "exchanged": "exchanges alone"}


def _cases(quick: bool) -> list[Entry]:
    sides, models, samples = (SIDES[:1], MODELS[::3], SAMPLES[:1]) if quick else (SIDES, MODELS, SAMPLES)
    return cases(side=sides, samples=samples, model=models, series=DESIGNS)


def _jobs(case: Entry) -> list[Iteration]:
    return [iteration(case, series) for series in (case["series"], ARIES, MESH)]


def least_ns(side: int, size: int) -> float:
    """An AllReduce in which every rank sends through all of its ports all the time, headers included."""
    ranks, payload = side**2, SYSTEM.packet_payload_bytes
    wire = (payload + SYSTEM.header_flits * SYSTEM.flit_bytes) / payload
    return 2 * (ranks - 1) / ranks * size * wire / (PORTS * SYSTEM.link_rate_gb_per_s)


def _measure(case: Entry, own: Record, aries: Record, mesh: Record) -> Entry:
    """How many times as fast ARIES is."""
    algorithm, side, time = ALGORITHMS[case["algorithm"]], case["side"], own["time_ns"]
    return {
        "what": f"{algorithm}, {side}x{side}, {case['model']}, {case['samples']} a chiplet",
        "time": time,
        "parts": [own["compute_ns"] / 1e6, (time - own["compute_ns"]) / 1e6],
        "gain": time / aries["time_ns"],
        "faster": mesh["time_ns"] / time,
        "exchanged": own["communication_ns"] / aries["communication_ns"],
        "ported": own["communication_ns"] / least_ns(side, own["gradient_bytes"]),
        "computed": own["compute_ns"] / time,
    }


# --- Fig. 10 --------------------------------------------------------------------------------------


def _fig10(table: Table) -> Shown:
    rows = []
    for algorithm, those in table.by("algorithm"):
        name = ALGORITHMS[algorithm]
        for side, of in those.by("side"):
            for series, at in of.where(series=[*PEERS, WIDE]).by("series"):
                key = f"{algorithm} {side}x{side}: {series}" if table.whole else ""
                for samples, each in at.by("samples"):
                    what = f"{series}, {samples} a chiplet"
                    rows.append(row("fig10", f"{name}, {side}x{side}", what, "×", fmean(each.column("gain")), key))
                few = at.where(samples=SAMPLES[0])
                most, ours = (fmean(few.column(column)) for column in ("ported", "exchanged"))
                rows.append(row("fig10", f"{name}, {side}x{side}", f"{series}, exchanges alone", "×", ours, key, most))
    if table.whole:
        for algorithm in table.axis("algorithm"):
            group, key = f"{TRANSFORMER}: time of exchanges saved", f"Transformer: {algorithm}"
            rows.append(row("fig10", group, ALGORITHMS[algorithm], "%", saved(table, algorithm), key))
    charts = []
    for algorithm, of in table.where(samples=SAMPLES[0]).by("algorithm"):
        for side, at in of.by("side"):
            drawn = Table(e | dict(zip(PARTS, e["parts"], strict=True)) for e in at)
            title = f"{ALGORITHMS[algorithm]}, {side}x{side}"
            charts.append(Bars(title, "iteration, ms", PARTS, bars(drawn, "model", PARTS)))
    return rows, charts


PARTS = ["computation", "exposed exchanges"]


def saved(table: Table, algorithm: str) -> float:
    """Percent of the time of Transformer's exchanges, mean over networks and sizes."""
    of = table.where(algorithm=algorithm, model=TRANSFORMER, samples=SAMPLES[0], series=PEERS)
    return 100 * fmean(1 - 1 / each for each in of.column("exchanged"))


FIG_10 = Figure("fig10", _cases, _measure, _fig10, _jobs)

# --- Fig. 11 --------------------------------------------------------------------------------------


def _energy(case: Entry, own: Record, _aries: Record, mesh: Record) -> Entry:
    """What depends on time, and what does not, relative to the mesh."""
    return {
        "what": f"{ALGORITHMS[case['algorithm']]}, {case['side']}x{case['side']}, {case['model']}",
        "static": own["time_ns"] / mesh["time_ns"],
        "dynamic": own["dynamic_j"] / mesh["dynamic_j"],
    }


SHARES = np.linspace(0, 1, 1001)
"""Static shares of the mesh's energy that the fit chooses among."""


def less(table: Table, side: int, series: Series, share: Any) -> Any:
    """Percent of energy that ARIES saves, mean over algorithms and models, if so much of the mesh's is static."""
    ours, others = (
        np.multiply.outer(share, of.column("static")) + np.multiply.outer(1 - share, of.column("dynamic"))
        for of in (table.where(side=side, series=each) for each in (ARIES, series))
    )
    return 100 * np.mean(1 - ours / others, axis=-1)


def misses(table: Table, share: Any) -> list[Any]:
    """By how many points the averages miss the paper's."""
    return [
        less(table, side, series, share) - DATA.stated["fig11"][f"{side}x{side}: {series}"].value
        for side in table.axis("side")
        for series in PEERS
    ]


def fitted(table: Table) -> float:
    """The share with which the averages are nearest to the paper's, by least squares: the only fit."""
    return float(SHARES[np.argmin(np.square(misses(table, SHARES)).sum(axis=0))])


POINTS = 4.0
SHARE = POINTS / 38.8
"""Points by which what is fitted may be off, and as a share of the largest average."""


def _fig11(table: Table) -> Shown:
    share = fitted(table)
    rows = [Row("Static share of the mesh's energy", "fitted", "%", 100 * share, note=DATA.texts["share"])]
    for side in table.axis("side"):
        for series in PEERS:
            key = f"{side}x{side}: {series}"
            rows.append(row("fig11", "Saved, after the fit", key, "%", less(table, side, series, share), key))
    for side in table.axis("side"):
        for series in PEERS:
            key = f"{side}x{side}: {series}"
            rows.append(row("fig11", "Saved, cited coefficients alone", key, "%", less(table, side, series, 0.0), key))
    charts = []
    for side, of in table.by("side"):
        for algorithm, at in of.by("algorithm"):
            drawn = Table(e | {"static": share * e["static"], "dynamic": (1 - share) * e["dynamic"]} for e in at)
            title, parts = f"{ALGORITHMS[algorithm]}, {side}x{side}", ["static", "dynamic"]
            charts.append(Bars(title, "energy over the mesh's", parts, bars(drawn, "model", parts)))
    return rows, charts


FIG_11 = Figure(
    "fig11",
    lambda quick: [c for c in _cases(quick) if c["samples"] == SAMPLES[0] and c["series"] is not WIDE],
    _energy,
    _fig11,
    _jobs,
)

# --- claims ---------------------------------------------------------------------------------------


def _fit(_cells: Cells, tables: Tables) -> Judged:
    share = fitted(tables["fig11"])
    after, alone = (misses(tables["fig11"], each) for each in (share, 0.0))
    names = {"share": 100 * share, "worst": max(map(abs, after)), "off": listed(after, "{:+.1f}")}
    good = [abs(each) <= POINTS for each in after]
    return verdict(all(good), sum(good) * 4 >= 3 * len(good)), names | {"alone": listed(alone, "{:+.1f}")}


def _transformer(_cells: Cells, tables: Tables) -> Judged:
    """Whether it mostly computes, so that an iteration gains less than its exchanges."""
    of = tables["fig10"].where(model=TRANSFORMER, samples=SAMPLES[0], series=PEERS)
    others = tables["fig10"].where(samples=SAMPLES[0], series=PEERS)
    gain, all_gain, computed = fmean(of.column("gain")), fmean(others.column("gain")), fmean(of.column("computed"))
    return verdict(computed > 0.5 and gain < all_gain, gain < all_gain), {
        "gain": gain,
        "all": all_gain,
        "computed": 100 * computed,
    }


CHECKS = {"energy": _fit, "transformer": _transformer}
