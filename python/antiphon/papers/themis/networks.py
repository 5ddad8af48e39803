"""Tables 1 and 2 of the Themis paper, and section 6.3: what networks are good for; and what all figures are about."""

from __future__ import annotations

import re
from functools import partial

import antiphon
from antiphon.repro.charts import Bar, Bars, Lines, lines, ticks
from antiphon.repro.claims import Cells, Judged, Tables, listed, share, verdict
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure, Row, Shown, row_of, stated_row
from antiphon.repro.table import Entry, Table, grid
from antiphon.studies import RailsPoint, Record

DATA = Data("themis", tolerance=0.015)
"""Means over many runs agree within 1.5 %."""
row = partial(stated_row, DATA)
MB = 1_000_000
CHUNKS = 64
TOPOLOGIES = tuple(dict.fromkeys(row["name"] for row in DATA.table("topologies")))
"""The six of Table 2."""
CURRENT = "2D-current"
SCHEDULERS = [series for series in DATA.series.values() if series.run and not series.more["batch"]]
"""In the order of the paper's legends, ours last."""
BASELINE, SCF, SEARCH = DATA.named("Baseline", "Themis+SCF", "Search")
SINGLE, EXACT = 0.05, 0.001
"""Tolerances: of single points, which move by a few per cent when a size does by 1.5, and of what is assumed; of what
is counted."""
FULL = 95.0
"""Percent that count as the whole network."""


def run(series: Series, topology: str, size: int, chunks: int = CHUNKS, tables: tuple[str, ...] = ()) -> RailsPoint:
    """An AllReduce of so many bytes by a scheduler."""
    more = series.more
    return RailsPoint(topology, size, series.run, more["intra"] or None, chunks, more["fixed_delay"] == "yes", tables)


# --- Table 1 ------------------------------------------------------------------------------------

LATENCY_NS = 1000
"""So few bytes on so fast a dimension that only the latency of steps is left."""

TABLE_1 = Figure(
    "table1",
    lambda _quick: [
        {"kind": k, "series": s} for k, s in (("ring", "ring"), ("fc", "direct"), ("sw", "halving-doubling"))
    ],
    lambda case, record: {
        "what": f"{case['kind']}, 8 NPUs: steps of an AllReduce",
        "steps": record["time_ns"] / LATENCY_NS,
    },
    lambda table: ([row("table1", e["series"], e["what"], "steps", e["steps"], e["what"], EXACT) for e in table], ()),
    lambda case: [run(BASELINE, f"{case['kind']}8@100000/{LATENCY_NS}ns", 8, 1)],
)

# --- Table 2 ------------------------------------------------------------------------------------

PRESETS = {each.name: each for each in antiphon.rails_topologies()}
DIMENSION = re.compile(r"(ring|fc|sw)(\d+)@([\d.]+)/([\d.]+)ns")


def _preset(case: Entry) -> Entry:
    """What our preset has for a row of the table."""
    kind, *values = DIMENSION.findall(PRESETS[case["name"]].example)[int(case["dimension"]) - 1]
    same = kind == case["kind"]
    columns = zip(("size", "gbit_per_s", "latency_ns"), values, strict=True)
    return {"kind": kind} | {name: (float(ours), float(case[name]) if same else None) for name, ours in columns}


def _table2(table: Table) -> Shown:
    rows: list[Row] = []
    groups: dict[str, list[Bar]] = {}
    for e in table:
        for what, unit, column in (
            ("size", "NPUs", "size"),
            ("rate", "Gb/s", "gbit_per_s"),
            ("latency", "ns", "latency_ns"),
        ):
            where = f"dim{e['dimension']} ({e['kind']}), {what}"
            ours, known = e[column]
            rows.append(Row(e["name"], where, unit, ours, known, tolerance=EXACT, is_input=True))
        bar = Bar(f"dim{e['dimension']}", e["gbit_per_s"][:1], e["gbit_per_s"][1])
        groups.setdefault(e["name"].replace("-", "-\n", 1), []).append(bar)
    for name in TOPOLOGIES:
        npus = float(antiphon.advise_rails(name).npus)
        rows.append(Row(name, "all dimensions", "NPUs", npus, 1024, tolerance=EXACT, is_input=True))
    return rows, [Bars("Rate of an NPU into each dimension", "Gb/s", ["rate"], groups)]


TABLE_2 = Figure("table2", lambda _quick: DATA.table("topologies"), _preset, _table2)

# --- Section 6.3 --------------------------------------------------------------------------------

NEAR_NPUS, NEAR_GBIT = 16, 800
RATIOS = (1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Rates of the second dimension over what is just enough."""
BOUND = DATA.series["Bound of any scheduler"]
COMPARED = (BASELINE, SCF, SEARCH, BOUND)


def _network(ratio: float) -> str:
    return f"sw{NEAR_NPUS}@{NEAR_GBIT}/700ns,sw8@{NEAR_GBIT / NEAR_NPUS * ratio:g}/1700ns"


def _scenario_cases(_quick: bool) -> list[Entry]:
    found = [case | {"network": _network(case["ratio"])} for case in grid(ratio=RATIOS, series=COMPARED)]
    return [*found, *({"ratio": 0, "series": series, "network": CURRENT} for series in COMPARED[:3])]


def _scenario_jobs(case: Entry) -> list[RailsPoint]:
    return [] if case["series"] is BOUND else [run(case["series"], case["network"], 1000 * MB)]


def _scenario(case: Entry, record: Record | None = None) -> Entry:
    advice = antiphon.advise_rails(case["network"])
    what = f"{advice.pairs['provision'][0]}: {case['ratio']:g} of just enough"
    found = {"what": what, "advice": float(advice.pairs["ratio"][0])}
    if record is None:
        return found | {"utilization": 100 * advice.utilization_bound}
    return found | {
        "utilization": 100 * record["utilization"],
        "far": 100 * record["dimensions"][1]["utilization"],
        "turned": sum(order["first"] != [1, 2] for order in record["orders"]),
    }


def _scenarios(table: Table) -> Shown:
    swept = table.where("ratio>0")
    rows = [row_of(entry, "utilization", "%", note="") for entry in swept]
    for name in TOPOLOGIES:
        advice = antiphon.advise_rails(name)
        rows.append(Row(BOUND.name, name, "%", 100 * advice.utilization_bound))
        least = min(zip(advice.pairs["ratio"], advice.pairs["near"], advice.pairs["far"], strict=True))
        rows.append(Row("Least rate over just enough", f"{name}: dim{least[1]} to dim{least[2]}", "×", float(least[0])))
    what, used = f"{CURRENT}: rate of dim2 that the baseline uses", table.one("far", network=CURRENT, series=BASELINE)
    rows.append(row("scenarios", BASELINE.name, what, "Gb/s", used, what, SINGLE, DATA.texts["factors"]))
    found = [*lines(swept.where(series=COMPARED[:3]), "ratio", "utilization")]
    found += lines(swept.where(series=BOUND), "ratio", "utilization", marked=False)
    marks, label = ticks(RATIOS, "{:g}".format), "rate of dim2 over what is just enough"
    return rows, [Lines("16x8 NPUs, 1 GB", label, "utilization, %", found, marks, y_max=103)]


SCENARIOS = Figure("scenarios", _scenario_cases, _scenario, _scenarios, _scenario_jobs)


def _just_enough(_cells: Cells, tables: Tables) -> Judged:
    found = tables["scenarios"].where(ratio=1.0)
    baseline, themis, search, _ = found.column("utilization")
    good = [value >= FULL for value in (baseline, themis)]
    turned = "" if all(good) else found.one("turned", series=SCF)
    names = {"baseline": baseline, "themis": themis, "search": search, "lost": turned}
    return verdict(all(good), any(good)), names


def _over(_cells: Cells, tables: Tables) -> Judged:
    found = tables["scenarios"].where("ratio>1")
    themis, baseline = (found.where(series=series) for series in (SCF, BASELINE))
    below = [f"{e['utilization']:.1f} % at {e['ratio']:g}" for e in themis if e["utilization"] < FULL]
    used, least = themis.values("utilization"), baseline.column("utilization")[-1]
    result = share(len(below), used.count) if least < FULL else "does not hold"
    return result, {"themis": used, "baseline": least, "lost": ", ".join(below)}


def _under(_cells: Cells, tables: Tables) -> Judged:
    found = tables["scenarios"].where("ratio>0; ratio<1")
    bounds, reached = (found.where(series=series) for series in (BOUND, SEARCH))
    texts = listed(bounds, "at most {0[utilization]:.1f} % at {0[ratio]:g}"), listed(reached.column("utilization"))
    return verdict(max(bounds.column("utilization")) < FULL), {"bounds": texts[0], "reached": texts[1]}


CHECKS = {"just-enough": _just_enough, "over": _over, "under": _under}
