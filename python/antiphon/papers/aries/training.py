"""Figures 10 and 11 of the ARIES paper: training, and the energy of its exchanges, of which a share is fitted."""

from __future__ import annotations

from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np

import antiphon
from antiphon import Fabric
from antiphon.papers.aries.designs import (
    ALGORITHMS,
    ARIES,
    ASIDES,
    BEST,
    DATA,
    MESH,
    MODELS,
    OWN,
    PEERS,
    SAMPLES,
    SEARCHED,
    SIDES,
    SYSTEM,
    Training,
    design,
    exists,
    least_ns,
    training,
)
from antiphon.repro.charts import bar_chart
from antiphon.repro.claims import Cells, Judged, Tables, listed
from antiphon.repro.claims import share as share_of
from antiphon.repro.data import Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Row, Rows
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import Record

TRANSFORMER = MODELS[-1]
POINTS = 4.0
"""By which an average of energy may be off; ``stated.csv`` has it as well."""


def _jobs(case: Entry) -> list[Training]:
    series = case["series"]
    best = [training(case, each, best=True) for each in (series, ARIES)]
    return [*(training(case, each) for each in (series, ARIES, MESH)), *best]


def _measure(case: Entry, *records: Record) -> Entry:
    """How many times as fast ARIES is, by the paper's policy and at best; what counts is one of them."""
    own, aries, mesh, best_own, best_aries = (each[str(case["samples"])] for each in records)
    algorithm, side, time = case["algorithm"], case["side"], own["iteration"]
    title = f"{ALGORITHMS[algorithm]}, {side}x{side}"
    found = {
        "what": f"{title}, {case['model']}, {case['samples']} a chiplet",
        "title": title,
        "time": time,
        "computation": own["compute"] / 1e6,
        "exposed exchanges": (time - own["compute"]) / 1e6,
        "faster": mesh["iteration"] / time,
        "computed": 100 * own["compute"] / time,
    }
    for way, slow, fast in (("policy", own, aries), ("best", best_own, best_aries)):
        found[f"gain_{way}"] = slow["iteration"] / fast["iteration"]
        found[f"exchanged_{way}"] = slow["communication"] / fast["communication"]
        found[f"ported_{way}"] = slow["communication"] / least_ns(side, own["gradient_bytes"])
    counts = ways(algorithm, side)[0]
    return case | found | {name: found[f"{name}_{counts}"] for name in ("gain", "exchanged", "ported")}


def ways(algorithm: str, side: int) -> list[str]:
    """How ARIES is configured, what counts first."""
    if not design(SEARCHED[ARIES], algorithm, side):
        return ["policy"]
    return ["best", "policy"] if (algorithm, side) in BEST else ["policy", "best"]


WAYS = {"policy": ", shortest edges first", "best": ", best found"}


QUICK = [MODELS[0], MODELS[-1]]


def fig10(quick: bool) -> Steps:
    """Times of iterations."""
    sides, samples, models = (SIDES[:1], SAMPLES[:1], QUICK) if quick else (SIDES, SAMPLES, MODELS)
    axes = {"algorithm": ALGORITHMS, "side": sides, "samples": samples}
    cases = list(filter(exists, grid(**axes, model=models, series=[*PEERS, *OWN, *ASIDES])))
    runs = yield [(case, _jobs(case)) for case in cases]
    table = Table(_measure(case, *records) for case, records in runs)
    drawn, parts = table.where(samples=1), {part: part for part in ("computation", "exposed exchanges")}
    charts = [
        bar_chart(of[0]["title"], "iteration, ms", of, itemgetter("model"), parts)
        for of in drawn.split("algorithm", "side")
    ]
    return Outcome(table, gains(table, quick), charts, columns=2)


def gains(table: Table, quick: bool) -> list[Row]:
    """How many times as fast ARIES is, in the mean of the networks."""
    rows = Rows(DATA, "fig10")
    for here in table.split("algorithm", "side"):
        algorithm, side = here[0]["algorithm"], here[0]["side"]
        group, counts = f"{ALGORITHMS[algorithm]}, {side}x{side}", ways(algorithm, side)
        for series, at in here.where(series=[*PEERS, *ASIDES]).by("series"):
            key, few = "" if quick else f"{algorithm} {side}x{side}: {series}", at.where(samples=SAMPLES[0])
            for way in counts if series in PEERS else counts[:1]:
                how = WAYS[way] if len(counts) > 1 else ""
                for samples, each in at.by("samples"):
                    mean = fmean(each.column(f"gain_{way}"))
                    rows.add(at[0], "×", mean, group, f"{series}, {samples} a chiplet{how}", key)
                mean, most = (fmean(few.column(f"{what}_{way}")) for what in ("exchanged", "ported"))
                rows.add(at[0], "×", mean, group, f"{series}, exchanges alone{how}", key, reference=most)
    if not quick:
        for algorithm in table.axis("algorithm"):
            group, key = f"{TRANSFORMER}: time of exchanges saved", f"Transformer: {algorithm}"
            rows.add({}, "%", saved(table, algorithm), group, ALGORITHMS[algorithm], key)
        rows += [
            Row(BUSIEST, f"{side}x{side}, {series}", "G", busiest(series, side))
            for side in table.axis("side")
            for series in (*PEERS, *SEARCHED.values(), ARIES)
        ]
    return rows


BUSIEST = "Double binary tree: what the busiest link carries"


def busiest(series: Series, side: int) -> float:
    """Which much data waits for, in gradients, over the rate of a channel."""
    found = design(series, "dbtree", side)
    assert found
    fabric = Fabric(found.fabric)
    sent = antiphon.build(fabric, found.algorithm, bytes=1 << 20, system=SYSTEM).stats(fabric).links["bytes"]
    rates = np.nan_to_num(fabric.links["rate_gb_per_s"], nan=SYSTEM.link_rate_gb_per_s)
    return float((sent / rates).max()) * SYSTEM.link_rate_gb_per_s / (1 << 20)


def saved(table: Table, algorithm: str) -> float:
    """Percent of the time of Transformer's exchanges, mean over networks and sizes."""
    of = table.where(algorithm=algorithm, model=TRANSFORMER, samples=SAMPLES[0], series=PEERS)
    return 100 * fmean(1 - 1 / each for each in of.column("exchanged"))


TIMES = {
    "iterated": "static power during iterations",
    "exchanged": "static power during exchanges",
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
    own, _, mesh, best, _ = (each[str(case["samples"])] for each in records)
    algorithm, side = case["algorithm"], case["side"]
    own = best if (algorithm, side) in BEST else own
    return case | {
        "what": f"{ALGORITHMS[algorithm]}, {side}x{side}, {case['model']}",
        "title": f"{ALGORITHMS[algorithm]}, {side}x{side}",
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
    """The share with which the average that misses the paper's most misses it least: the only fit."""
    return float(SHARES[np.argmin(np.abs(misses(table, SHARES, time)).max(axis=0))])


def fig11(quick: bool) -> Steps:
    """Energy of the network."""
    axes = {"algorithm": ALGORITHMS, "side": SIDES[:1] if quick else SIDES, "samples": SAMPLES[:1]}
    cases = list(filter(exists, grid(**axes, model=QUICK if quick else MODELS, series=[*PEERS, *OWN])))
    runs = yield [(case, _jobs(case)) for case in cases]
    table = Table(_energy(case, *records) for case, records in runs)
    shares = {f"Saved, {text}": (fitted(table, time), time) for time, text in TIMES.items()}
    rows = Rows(DATA, "fig11")
    for share, time in shares.values():
        rows.append(Row("Static share of the mesh's energy, fitted", TIMES[time], "%", 100 * share))
    for group, (share, time) in (shares | {"Saved, cited coefficients alone": (0.0, "iterated")}).items():
        for side in table.axis("side"):
            for series in PEERS:
                key, ours = f"{side}x{side}: {series}", float(less(table, side, series, share, time))
                rows.add({}, "%", ours, group=group, what=key, key=key)
    (share, time), *_ = shares.values()
    drawn = Table(e | {"static": share * e[time], "dynamic": (1 - share) * e["dynamic"]} for e in table)
    parts = {"static": "static", "dynamic": "dynamic"}
    charts = [
        bar_chart(of[0]["title"], "energy over the mesh's", of, itemgetter("model"), parts)
        for of in drawn.split("side", "algorithm")
    ]
    return Outcome(table, rows, charts, columns=3)


def energy(_cells: Cells, tables: Tables) -> Judged:
    """How far off the averages are, as fitted."""
    table = tables["fig11"]
    found: dict[str, Any] = {}
    for time in TIMES:
        share = fitted(table, time)
        found[time] = f"{100 * share:.0f} % static, off by {listed(misses(table, share, time), '{:+.1f}')}"
    first = next(iter(TIMES))
    off = misses(table, fitted(table, first), first)
    good = sum(abs(each) <= POINTS for each in off)
    found |= {"good": good, "count": len(off), "alone": listed(misses(table, 0.0, first), "{:+.1f}")}
    return share_of(len(off) - good, len(off)), found
