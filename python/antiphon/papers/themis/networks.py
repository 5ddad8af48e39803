"""Tables 1 and 2 of the Themis paper, and section 6.3: what networks are good for; and what all figures are about."""

from __future__ import annotations

import re

import antiphon
from antiphon.repro.claims import Cells, Judged, Tables, share
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import RailsPoint, Record

DATA = Data("themis", tolerance=0.015)
"""Means over many runs agree within 1.5 %."""
MB = 1_000_000
CHUNKS = 64
TOPOLOGIES = tuple(dict.fromkeys(row["name"] for row in DATA.table("topologies")))
"""The six of Table 2."""
CURRENT = "2D-current"
BASELINE, FIFO, SCF, SCF_BEFORE, SEARCH, BOUND = DATA.named(
    "Baseline", "Themis+FIFO", "Themis+SCF", "Themis+SCF, size before", "Search", "Bound of any scheduler"
)
FULL = 95.0
"""Percent that count as the whole network."""


def run(series: Series, topology: str, size: int, chunks: int = CHUNKS, tables: tuple[str, ...] = ()) -> RailsPoint:
    """An AllReduce of so many bytes by a scheduler."""
    more = series.more
    return RailsPoint(topology, size, series.run, more["intra"] or None, chunks, more["fixed_delay"] == "yes", tables)


def wrapped(topology: str) -> str:
    """A name in two lines."""
    return topology.replace("-", "-\n", 1)


# --- Tables 1 and 2 -----------------------------------------------------------------------------

LATENCY_NS = 1000
"""So few bytes on so fast a dimension that only the latency of steps is left."""
PRESETS = {each.name: each for each in antiphon.rails_topologies()}
DIMENSION = re.compile(r"(ring|fc|sw)(\d+)@([\d.]+)/([\d.]+)ns")


def _preset(case: Entry) -> Entry:
    """What our preset has for a row of the table."""
    kind, *values = DIMENSION.findall(PRESETS[case["name"]].example)[int(case["dimension"]) - 1]
    npus = {"npus": float(antiphon.advise_rails(case["name"]).npus), "stated npus": 1024}
    found = npus | {"what": case["name"], "kind": kind, "wrapped": wrapped(case["name"])}
    for name, ours in zip(("size", "gbit_per_s", "latency_ns"), values, strict=True):
        found |= {name: float(ours), f"stated {name}": float(case[name]) if kind == case["kind"] else None}
    return found


def _latency_only(case: Entry) -> list[RailsPoint]:
    return [run(BASELINE, f"{case['kind']}8@100000/{LATENCY_NS}ns", 8, 1)]


def _steps(_case: Entry, record: Record) -> Entry:
    return {"steps": record["time_ns"] / LATENCY_NS}


# --- Section 6.3 --------------------------------------------------------------------------------

NEAR_NPUS, NEAR_GBIT = 16, 800


def _network(case: Entry) -> str:
    """Two dimensions, of which the second has so many times the rate that is just enough; or one of the paper's."""
    far = NEAR_GBIT / NEAR_NPUS * case.get("ratio", 0)
    return str(case.get("topology", f"sw{NEAR_NPUS}@{NEAR_GBIT}/700ns,sw8@{far:g}/1700ns"))


def _scenario_jobs(case: Entry) -> list[RailsPoint]:
    return [] if case["series"] is BOUND else [run(case["series"], _network(case), 1000 * MB)]


def _scenario(case: Entry, record: Record | None = None) -> Entry:
    advice = antiphon.advise_rails(_network(case))
    least, near, far = min(zip(*(advice.pairs[column] for column in ("ratio", "near", "far")), strict=True))
    found = {"ratio": 0, "topology": "", "advice": float(advice.pairs["ratio"][0]), "least": float(least)} | case
    found["what"] = f"{advice.pairs['provision'][0]}: {found['ratio']:g} of just enough"
    found["pair"] = f"dim{near} to dim{far}"
    if record is None:
        return found | {"utilization": 100 * advice.utilization_bound}
    return found | {
        "utilization": 100 * record["utilization"],
        "far": 100 * record["dimensions"][1]["utilization"],
        "turned": sum(order["first"] != [1, 2] for order in record["orders"]),
    }


def _over(_cells: Cells, tables: Tables) -> Judged:
    found = tables["scenarios"].where("ratio>1")
    themis, baseline = (found.where(series=series) for series in (SCF, BASELINE))
    below = [f"{e['utilization']:.1f} % at {e['ratio']:g}" for e in themis if e["utilization"] < FULL]
    used, least = themis.values("utilization"), baseline.column("utilization")[-1]
    result = share(len(below), used.count) if least < FULL else "does not hold"
    return result, {"themis": used, "baseline": least, "lost": ", ".join(below)}


FIGURES = (
    Figure(DATA, "table1", _steps, _latency_only),
    Figure(DATA, "table2", _preset),
    Figure(DATA, "scenarios", _scenario, _scenario_jobs),
)
CHECKS = {"over": _over}
