"""Figures 10 and 11 of the ARIES paper: training, and the energy of its exchanges, of which a share is fitted."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np

from antiphon.papers.aries.designs import (
    ALGORITHMS,
    ARIES,
    ASIDES,
    DATA,
    MESH,
    MODELS,
    PEERS,
    PORTS,
    SAMPLES,
    SIDES,
    SYSTEM,
    Training,
    cases,
    row,
    training,
)
from antiphon.repro.charts import Bars, bars
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.claims import share as share_of
from antiphon.repro.data import Series
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table
from antiphon.studies import Record

DESIGNS = [*PEERS, ARIES, *ASIDES]
TRANSFORMER = MODELS[-1]
GAINS = {"gain": "execution time", "exchanged": "exchanges alone"}


def _cases(quick: bool) -> list[Entry]:
    sides, models, samples = (SIDES[:1], MODELS[::3], SAMPLES[:1]) if quick else (SIDES, MODELS, SAMPLES)
    return cases(side=sides, samples=samples, model=models, series=DESIGNS)


def _jobs(case: Entry) -> list[Training]:
    return [training(case, series) for series in (case["series"], ARIES, MESH)]


def least_ns(side: int, size: int) -> float:
    """An AllReduce in which every rank sends through all of its ports all the time, headers included."""
    ranks, payload = side**2, SYSTEM.packet_payload_bytes
    wire = (payload + SYSTEM.header_flits * SYSTEM.flit_bytes) / payload
    return 2 * (ranks - 1) / ranks * size * wire / (PORTS * SYSTEM.link_rate_gb_per_s)


def _measure(case: Entry, *records: Record) -> Entry:
    """How many times as fast ARIES is."""
    own, aries, mesh = (each[str(case["samples"])] for each in records)
    algorithm, side, time = ALGORITHMS[case["algorithm"]], case["side"], own["iteration"]
    return {
        "what": f"{algorithm}, {side}x{side}, {case['model']}, {case['samples']} a chiplet",
        "time": time,
        "parts": [own["compute"] / 1e6, (time - own["compute"]) / 1e6],
        "gain": time / aries["iteration"],
        "faster": mesh["iteration"] / time,
        "exchanged": own["communication"] / aries["communication"],
        "ported": own["communication"] / least_ns(side, own["gradient_bytes"]),
        "computed": own["compute"] / time,
    }


# --- Fig. 10 --------------------------------------------------------------------------------------


def _fig10(table: Table) -> Shown:
    rows = []
    for algorithm, those in table.by("algorithm"):
        for side, of in those.by("side"):
            for series, at in of.where(series=[*PEERS, *ASIDES]).by("series"):
                key = f"{algorithm} {side}x{side}: {series}" if table.whole else ""
                group, few = f"{ALGORITHMS[algorithm]}, {side}x{side}", at.where(samples=SAMPLES[0])
                means: list[tuple[str, float, float | None]] = [
                    (f"{samples} a chiplet", fmean(each.column("gain")), None) for samples, each in at.by("samples")
                ]
                means.append(("exchanges alone", fmean(few.column("exchanged")), fmean(few.column("ported"))))
                rows += [
                    row("fig10", group, f"{series}, {what}", "×", ours, key, most, series.note)
                    for what, ours, most in means
                ]
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

TIMES = {
    "exchanged": "static power during exchanges",
    "iterated": "static power during iterations",
    "published": "with the paper's own speed-ups",
}
"""Times relative to the mesh, in any of which static power may count."""


def _published(case: Entry, series: Series) -> float:
    """Time over that of the mesh, by the speed-ups that the paper states."""
    stated = {
        each: DATA.stated["fig10"][f"{case['algorithm']} {case['side']}x{case['side']}: {each}"] for each in PEERS
    }
    return (stated[series].value if series in stated else 1.0) / stated[MESH].value


def _energy(case: Entry, *records: Record) -> Entry:
    """What depends on time, and what does not, relative to the mesh."""
    own, _, mesh = (each[str(case["samples"])] for each in records)
    return {
        "what": f"{ALGORITHMS[case['algorithm']]}, {case['side']}x{case['side']}, {case['model']}",
        "dynamic": own["dynamic_j"] / mesh["dynamic_j"],
        "exchanged": own["communication"] / mesh["communication"],
        "iterated": own["iteration"] / mesh["iteration"],
        "published": _published(case, case["series"]),
    }


SHARES = np.linspace(0, 1, 1001)
"""Static shares of the mesh's energy that the fit chooses among."""


def less(table: Table, side: int, series: Series, share: Any, time: str) -> Any:
    """Percent of energy that ARIES saves, mean over algorithms and models, if so much of the mesh's is static."""
    ours, others = (
        np.multiply.outer(share, of.column(time)) + np.multiply.outer(1 - share, of.column("dynamic"))
        for of in (table.where(side=side, series=each) for each in (ARIES, series))
    )
    return 100 * np.mean(1 - ours / others, axis=-1)


def misses(table: Table, share: Any, time: str) -> list[Any]:
    """By how many points the averages miss the paper's."""
    return [
        less(table, side, series, share, time) - DATA.stated["fig11"][f"{side}x{side}: {series}"].value
        for side in table.axis("side")
        for series in PEERS
    ]


def fitted(table: Table, time: str) -> float:
    """The share with which the averages are nearest to the paper's, by least squares: the only fit."""
    return float(SHARES[np.argmin(np.square(misses(table, SHARES, time)).sum(axis=0))])


POINTS = 4.0
"""By which an average may be off."""


def _fig11(table: Table) -> Shown:
    shares = {f"Saved, {text}": (fitted(table, time), time) for time, text in TIMES.items()}
    rows = [
        Row("Static share of the mesh's energy, fitted", TIMES[time], "%", 100 * share)
        for share, time in shares.values()
    ]
    for group, (share, time) in (shares | {"Saved, cited coefficients alone": (0.0, "exchanged")}).items():
        for side in table.axis("side"):
            for series in PEERS:
                key = f"{side}x{side}: {series}"
                rows.append(row("fig11", group, key, "%", float(less(table, side, series, share, time)), key))
    (share, time), *_ = shares.values()
    charts = []
    for side, of in table.by("side"):
        for algorithm, at in of.by("algorithm"):
            drawn = Table(e | {"static": share * e[time], "dynamic": (1 - share) * e["dynamic"]} for e in at)
            title, parts = f"{ALGORITHMS[algorithm]}, {side}x{side}", ["static", "dynamic"]
            charts.append(Bars(title, "energy over the mesh's", parts, bars(drawn, "model", parts)))
    return rows, charts


FIG_11 = Figure(
    "fig11",
    lambda quick: [c for c in _cases(quick) if c["samples"] == SAMPLES[0] and c["series"] not in ASIDES],
    _energy,
    _fig11,
    _jobs,
)

# --- claims ---------------------------------------------------------------------------------------


def _fit(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig11"]
    found: dict[str, Any] = {}
    for time in TIMES:
        share = fitted(table, time)
        found[time] = f"{100 * share:.0f} % static, off by {listed(misses(table, share, time), '{:+.1f}')}"
    off = misses(table, fitted(table, "exchanged"), "exchanged")
    good = sum(abs(each) <= POINTS for each in off)
    found |= {"good": good, "count": len(off), "alone": listed(misses(table, 0.0, "exchanged"), "{:+.1f}")}
    return share_of(len(off) - good, len(off)), found


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
