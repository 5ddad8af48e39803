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
    DATA,
    MESH,
    MODELS,
    PEERS,
    SAMPLES,
    SIDES,
    SYSTEM,
    VARIANTS,
    design,
    exists,
    least_ns,
    training,
)
from antiphon.repro.charts import bar_chart
from antiphon.repro.claims import Cells, Judged, Tables, listed, verdict
from antiphon.repro.data import Series
from antiphon.repro.figure import Outcome, Steps
from antiphon.repro.rows import Row, Rows
from antiphon.repro.table import Entry, Table, close, grid
from antiphon.studies import Record

TRANSFORMER = MODELS[-1]
QUICK = [MODELS[0], MODELS[-1]]
DESIGNS = [*PEERS, ARIES, *ASIDES]


def _cases(quick: bool, samples: tuple[int, ...], designs: list[Series]) -> list[Entry]:
    """What is trained on some designs."""
    axes = {"algorithm": ALGORITHMS, "side": SIDES[:1] if quick else SIDES, "samples": samples}
    return list(filter(exists, grid(**axes, model=QUICK if quick else MODELS, series=designs)))


def _measure(case: Entry, record: Record) -> Entry:
    """An iteration."""
    own = record[str(case["samples"])]
    side, time, exchanges = case["side"], own["iteration"], own["communication"]
    title = f"{ALGORITHMS[case['algorithm']]}, {side}x{side}"
    return case | {
        "what": f"{title}, {case['model']}, {case['samples']} a chiplet",
        "title": title,
        "time": time,
        "exchanges": exchanges,
        "computation": own["compute"] / 1e6,
        "exposed exchanges": (time - own["compute"]) / 1e6,
        "computed": 100 * own["compute"] / time,
        "ported": exchanges / least_ns(side, own["gradient_bytes"]),
        "memory": own["memory_bytes"] / 1e6,
    }


def fig10(quick: bool) -> Steps:
    """Times of iterations."""
    cases = _cases(quick, SAMPLES[:1] if quick else SAMPLES, DESIGNS)
    runs = yield [(case, [training(case)]) for case in cases]
    table = Table(_measure(case, record) for case, (record,) in runs)
    aries = {entry["what"]: entry for entry in table.where(series=ARIES)}
    for entry in table:
        entry["gain"] = entry["time"] / aries[entry["what"]]["time"]
    drawn, parts = table.where(samples=1), {part: part for part in ("computation", "exposed exchanges")}
    charts = [
        bar_chart(of[0]["title"], "iteration, ms", of, itemgetter("model"), parts)
        for of in drawn.split("algorithm", "side")
    ]
    rows = gains(table, quick)
    for e in table.where(series=ARIES, algorithm="ring", side=SIDES[0], samples=SAMPLES[0]):
        rows.add(e, "MB", e["memory"], "Memory of a chiplet", str(e["model"]), note=DATA.texts["memory"])
    return Outcome(table, rows, charts, columns=2)


def gains(table: Table, quick: bool) -> Rows:
    """How many times as fast ARIES is, and what stands beside it, in the mean of the networks."""
    rows = Rows(DATA, "fig10")
    for here in table.split("algorithm", "side"):
        algorithm, side, group = here[0]["algorithm"], here[0]["side"], here[0]["title"]
        for fast, aries in here.where(series=[ARIES, *VARIANTS]).by("series"):
            how = "" if fast is ARIES else f": {fast}"
            for series, peer in here.where(series=PEERS).by("series"):
                few = peer.where(samples=SAMPLES[0])
                for samples, each in peer.by("samples"):
                    if samples == SAMPLES[0] or fast is ARIES:
                        mean = each.over("time", aries).mean
                        # The paper's setting: ARIES as it says, one sample a chiplet.
                        counts = fast is ARIES and samples == SAMPLES[0] and not quick
                        key = f"{algorithm} {side}x{side}: {series}" if counts else ""
                        rows.add(peer[0], "×", mean, group, f"{series}, {samples} a chiplet{how}", key)
                mean, most = few.over("exchanges", aries).mean, fmean(few.column("ported"))
                rows.add(peer[0], "×", mean, group, f"{series}, exchanges alone{how}", "", reference=most)
    if not quick:
        for algorithm in table.axis("algorithm"):
            group, key = f"{TRANSFORMER}: time of exchanges saved", f"Transformer: {algorithm}"
            rows.add({}, "%", saved(table, algorithm), group, ALGORITHMS[algorithm], key)
        rows += [
            Row(BUSIEST, f"{side}x{side}, {series}", "G", busiest(series, side))
            for side in table.axis("side")
            for series in (*PEERS, ARIES, *VARIANTS)
            if design(series, "dbtree", side)
        ]
    return rows


def up_to(_cells: Cells, tables: Tables) -> Judged:
    """The largest of the averages."""
    means = {}
    for of in tables["fig10"].where(samples=SAMPLES[0], series=PEERS).split("algorithm", "side", "series"):
        means[f"{of[0]['title']}, {of[0]['series']}"] = of.values("gain").mean
    where = max(means, key=lambda each: means[each])
    own = means[f"{ALGORITHMS['dbtree']}, 8x8, Flattened butterfly"]
    return verdict(close(means[where], "3.92")), {"most": means[where], "where": where, "own": own}


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
    of = table.where(algorithm=algorithm, model=TRANSFORMER, samples=SAMPLES[0])
    aries = of.where(series=ARIES)
    return fmean(of.where(series=each).over("exchanges", aries).saved for each in PEERS)


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


def _energy(case: Entry, record: Record, on_mesh: Record) -> Entry:
    """What depends on time, and what does not, relative to the mesh."""
    own, mesh = (each[str(case["samples"])] for each in (record, on_mesh))
    title = f"{ALGORITHMS[case['algorithm']]}, {case['side']}x{case['side']}"
    return case | {
        "what": f"{title}, {case['model']}",
        "title": title,
        "dynamic": own["dynamic_j"] / mesh["dynamic_j"],
        "exchanged": own["communication"] / mesh["communication"],
        "iterated": own["iteration"] / mesh["iteration"],
        "published": _published(case, case["series"]),
    }


SHARES = np.linspace(0, 1, 1001)
"""Static shares of the mesh's energy that the fit chooses among."""


def less(of: Table, series: Series, share: Any, time: str) -> Any:
    """Percent of energy that ARIES saves, mean over what there is, if so much of the mesh's is static."""
    ours, others = (
        np.multiply.outer(share, each.column(time)) + np.multiply.outer(1 - share, each.column("dynamic"))
        for each in (of.where(series=one) for one in (ARIES, series))
    )
    return 100 * np.mean(1 - ours / others, axis=-1)


def misses(table: Table, share: Any, time: str) -> list[Any]:
    """By how many points the averages miss the paper's."""
    return [
        less(table.where(side=side), series, share, time) - DATA.stated["fig11"][f"{side}x{side}: {series}"].value
        for side in table.axis("side")
        for series in PEERS
    ]


def fitted(table: Table, time: str) -> float:
    """The share with which the average that misses the paper's most misses it least: the only fit."""
    return float(SHARES[np.argmin(np.abs(misses(table, SHARES, time)).max(axis=0))])


def fig11(quick: bool) -> Steps:
    """Energy of the network."""
    cases = _cases(quick, SAMPLES[:1], [*PEERS, ARIES])
    runs = yield [(case, [training(case), training(case | {"series": MESH})]) for case in cases]
    table = Table(_energy(case, *records) for case, records in runs)
    shares = {f"Saved, {text}": (fitted(table, time), time) for time, text in TIMES.items()}
    rows = Rows(DATA, "fig11")
    for share, time in shares.values():
        rows.append(Row("Static share of the mesh's energy, fitted", TIMES[time], "%", 100 * share))
    for group, (share, time) in (shares | {"Saved, cited coefficients alone": (0.0, "iterated")}).items():
        for side in table.axis("side"):
            for series in PEERS:
                key, ours = f"{side}x{side}: {series}", float(less(table.where(side=side), series, share, time))
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
    found = {"alone": listed(misses(table, 0.0, "iterated"), "{:+.1f}")}
    for time in TIMES:
        share = fitted(table, time)
        found[time] = f"{100 * share:.0f} % static, off by {listed(misses(table, share, time), '{:+.1f}')}"
    return "fitted", found


def most_saved(_cells: Cells, tables: Tables) -> Judged:
    """Which algorithm saves most energy, and is sped up most, by our numbers and by the paper's."""
    table = tables["fig11"]
    shares = {"": fitted(table, "iterated"), "none": 0.0, "all": 1.0}
    found: dict[str, Any] = {}
    most = {}
    for name, share in shares.items():
        means = {
            algorithm: fmean(float(less(of, series, share, "iterated")) for series in PEERS)
            for algorithm, of in table.by("algorithm")
        }
        most[name] = max(means, key=lambda each: means[each])
        found[f"saved{name}"] = listed(means.values())
    stated = DATA.stated["fig10"].items()
    for algorithm in ALGORITHMS:
        found[algorithm] = fmean(each.value for what, each in stated if what.startswith(f"{algorithm} "))
    return verdict(most[""] == "multitree"), found
