"""Figure 14 of the C-Cube paper: more nodes, on switches of our choice, since the paper does not describe its own."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise

from antiphon import Fabric
from antiphon.papers.ccube.dgx1 import CHANNELS, DATA, KIB, LATENCY_NS, MIB, NVLINK_GB, SYSTEM, row
from antiphon.papers.ccube.systems import chunk_of, cost, size_text, tree_spec
from antiphon.repro.charts import Lines, lines, ticks
from antiphon.repro.claims import Cells, Judged, Tables, close, listed, verdict
from antiphon.repro.figure import Figure, Row, Shown
from antiphon.repro.table import Entry, Table
from antiphon.studies import Point, Record

HOSTS = 16
"""Nodes on a switch."""
LINK_NS = 500
NODES = (4, 8, 16, 32, 64, 128, 256)
SIZES = (16 * KIB, MIB, 64 * MIB)
CHUNK = 256 * KIB
SETTINGS = {
    "ratio": ("C1 over R", float(LATENCY_NS), None),
    "256 kB": ("C1 over R, chunks of 256 kB", float(LATENCY_NS), CHUNK),
    "links only": ("C1 over R, latency of links only", 0.0, None),
}
"""How C1 is held against R: group of its rows; latency of a step beside that of the links; bytes of a chunk, None for
the number of chunks of Eq. 4."""


@dataclass(frozen=True)
class LeafSpine(Point):
    """A collective on switches of nodes joined by one switch, with as many links up as down.

    ``fabric`` is ``leaf-spine:SWITCHESxNODES``.
    """

    link_gb: float = NVLINK_GB
    link_ns: float = LINK_NS

    def network(self) -> Fabric:
        """Nodes, their switches, and the one above."""
        switches, hosts = map(int, self.fabric.removeprefix("leaf-spine:").split("x"))
        ranks = switches * hosts
        link = {"rate_gb_per_s": self.link_gb, "latency_ns": self.link_ns}
        document = {
            "schema": "antiphon-fabric/1",
            "nodes": [{}] * ranks + [{"rank": False}] * (switches + 1),
            "links": [{"from": rank, "to": ranks + rank // hosts} | link for rank in range(ranks)]
            + [{"from": ranks + leaf, "to": ranks + switches, "count": hosts} | link for leaf in range(switches)],
        }
        return Fabric.from_json(json.dumps(document), self.fabric)


def _run(case: Entry, algorithm: str, step_ns: float) -> LeafSpine:
    hosts = min(case["ranks"], HOSTS)
    fabric, changes = f"leaf-spine:{case['ranks'] // hosts}x{hosts}", (("hand_off_ns", step_ns),)
    return LeafSpine(fabric, algorithm, case["size"], SYSTEM, changes, fidelity="alpha-beta", tables=("chunks",))


def pair(case: Entry, setting: str) -> tuple[LeafSpine, LeafSpine]:
    """R, and C1 on two trees."""
    _, step_ns, chunk = SETTINGS[setting]
    size = case["size"]
    chunk = min(chunk or chunk_of(size, cost(case["ranks"], size).chunks), chunk_of(size, 1))
    return _run(case, "ring", step_ns), _run(case, tree_spec(overlap=True, chunk=chunk, pacing="pipelined"), step_ns)


def _single(case: Entry, overlap: bool) -> LeafSpine:
    """One tree with or without overlap, for the turnaround."""
    spec = tree_spec(overlap=overlap, chunk=min(CHUNK, case["size"]), trees=1, pacing="pipelined")
    return _run(case, spec, float(LATENCY_NS))


def _jobs(case: Entry) -> list[LeafSpine]:
    return [job for setting in SETTINGS for job in pair(case, setting)] + [_single(case, False), _single(case, True)]


def _cases(quick: bool) -> list[Entry]:
    series = [DATA.series[size_text(size)] for size in SIZES]
    of = NODES[1:3] if quick else NODES
    return [{"series": each, "size": size, "ranks": n} for each, size in zip(series, SIZES, strict=True) for n in of]


def _measure(case: Entry, *records: Record) -> Entry:
    ranks, size = case["ranks"], case["size"]
    found = {"what": f"{ranks} nodes, {size_text(size)}"}
    times = [record["time_ns"] for record in records]
    for setting, ring, trees in zip(SETTINGS, times[::2], times[1::2], strict=False):
        found[setting] = ring / trees
    # When the first chunk is everywhere.
    late, soon = (record["tables"]["chunks"][0]["complete_ns"] for record in records[-2:])
    height, chunks = ranks.bit_length() - 1, math.ceil(size / CHUNK)
    return found | {
        # Constant bandwidth: the ring has all channels, a tree one in each direction.
        "ratio model": cost(ranks, size, rate=CHANNELS * NVLINK_GB).ring_ns / cost(ranks, size).overlapped_ns,
        "turnaround": late / soon,
        "turnaround model": (2 * height + chunks - 1) / (2 * height),
    }


def _fig14(table: Table) -> Shown:
    rows = [
        Row(group, e["what"], "×", e[key], reference=e["ratio model"] if key == "ratio" else None)
        for e in table
        for key, (group, *_) in SETTINGS.items()
    ]
    group = "Gradient turnaround, B over C1"
    rows += [Row(group, e["what"], "×", e["turnaround"], reference=e["turnaround model"]) for e in table]
    for size, column, how, text, key in (
        (
            (SIZES[0], "ratio", "most", "C1 over R", "C1 over R, 16 kB, most"),
            (SIZES[-1], "ratio", "most", "C1 over R", "C1 over R, 64 MB, most"),
            (SIZES[-1], "turnaround", "most", "Gradient turnaround", "turnaround, most"),
            (SIZES[-1], "turnaround", "mean", "Gradient turnaround", "turnaround, mean"),
        )
        if table.whole
        else ()
    ):
        ours, model = (getattr(table.where(size=size).values(of), how) for of in (column, f"{column} model"))
        what = f"{size_text(size)}, {how}"
        rows.append(
            row("fig14", f"{text}, of all nodes", what, "×", ours, key, note=DATA.texts["unstated"], reference=model)
        )
    modelled = Table(entry | {"series": DATA.series[f"{entry['series']}, model"]} for entry in table)
    marks = ticks(table.axis("ranks"))
    charts = []
    for title, label, key in (
        ("(a) C1 over R", "times as fast", "ratio"),
        ("(b) Gradient turnaround", "B's over C1's", "turnaround"),
    ):
        found = lines(table, "ranks", key) + lines(modelled, "ranks", f"{key} model")
        charts.append(Lines(title, "nodes", label, found, marks, reference=1, log=True))
    return rows, charts


FIG_14 = Figure("fig14", _cases, _measure, _fig14, _jobs)


def _scale(size: int, cells: Cells, tables: Tables) -> Judged:
    table, claimed = tables["fig14"].where(size=size), float(cells["low"])
    most = [max(table.column(setting)) for setting in SETTINGS]
    columns = {"ratio": "ratio", "model": "ratio model", "chunked": "256 kB", "links": "links only"}
    large = table.where(ranks=NODES[-2:])
    names = {name: listed(large, f"{{0[{of}]:.2f}}× with {{0[ranks]}}") for name, of in columns.items()}
    return verdict(all(close(value, claimed) for value in most), max(most) > claimed), names


def _turnaround(how: str, cells: Cells, tables: Tables) -> Judged:
    table, claimed = tables["fig14"].where(size=SIZES[-1]), float(cells["low"])
    simulated, steps = (getattr(table.values(column), how) for column in ("turnaround", "turnaround model"))
    near = min(abs(value / claimed - 1) for value in (simulated, steps)) <= 0.15
    return verdict(close(simulated, claimed), near), {"simulated": simulated, "steps": steps}


def _turnaround_nodes(_cells: Cells, tables: Tables) -> Judged:
    table = tables["fig14"]
    larger = all(more > 1 for _, more in table.steps("turnaround", ["size", "ranks"]))
    of_64 = table.where(size=SIZES[-1]).column("turnaround")
    rises, doublings = sum(more > less for less, more in pairwise(of_64)), len(of_64) - 1
    names = {"larger": "yes" if larger else "no", "rises": rises, "first": of_64[0], "last": of_64[-1]}
    return verdict(larger and rises == doublings, larger), names | {"doublings": doublings}


CHECKS = {
    "scale-small": lambda cells, tables: _scale(SIZES[0], cells, tables),
    "scale-large": lambda cells, tables: _scale(SIZES[-1], cells, tables),
    "turnaround-most": lambda cells, tables: _turnaround("most", cells, tables),
    "turnaround-mean": lambda cells, tables: _turnaround("mean", cells, tables),
    "turnaround-nodes": _turnaround_nodes,
}
