"""Figure 14 of the C-Cube paper: more nodes, on switches of our choice, since the paper does not describe its own."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise

from antiphon import Fabric
from antiphon.papers.ccube import systems as dgx1
from antiphon.papers.ccube.systems import DATA, LATENCY_NS, NVLINK_GB, cost, size_text
from antiphon.repro.claims import Cells, Judged, Tables, close, listed, verdict
from antiphon.repro.figure import Figure
from antiphon.repro.table import Entry
from antiphon.studies import Point, Record

HOSTS = 16
"""Nodes on a switch."""
LINK_NS = 500
CHUNK = 256 * dgx1.KIB
SETTINGS = {"ratio": (LATENCY_NS, None), "256 kB": (LATENCY_NS, CHUNK), "links only": (0.0, None)}
"""How C1 is held against R: latency of a step beside that of the links; bytes of a chunk, None for the number of chunks
of Eq. 4."""


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
    fabric, changes = f"leaf-spine:{case['ranks'] // hosts}x{hosts}", (("hand_off_ns", float(step_ns)),)
    return LeafSpine(fabric, algorithm, case["size"], dgx1.SYSTEM, changes, fidelity="alpha-beta", tables=("chunks",))


def _trees(case: Entry, chunk: int, step_ns: float = LATENCY_NS, *, overlap: bool = True, trees: int = 2) -> LeafSpine:
    spec = dgx1.tree_spec(overlap=overlap, chunk=chunk, trees=trees, pacing="pipelined")
    return _run(case, spec, step_ns)


def pair(case: Entry, setting: str) -> tuple[LeafSpine, LeafSpine]:
    """R, and C1 on two trees."""
    (step_ns, chunk), size = SETTINGS[setting], case["size"]
    chunk = min(chunk or dgx1.chunk_of(size, cost(case["ranks"], size).chunks), dgx1.chunk_of(size, 1))
    return _run(case, "ring", step_ns), _trees(case, chunk, step_ns)


def _jobs(case: Entry) -> list[LeafSpine]:
    """Every pair, and one tree without overlap and with it, for the turnaround."""
    chunk = min(CHUNK, case["size"])
    single = [_trees(case, chunk, overlap=overlap, trees=1) for overlap in (False, True)]
    return [job for setting in SETTINGS for job in pair(case, setting)] + single


def _measure(case: Entry, *records: Record) -> Entry:
    ranks, size = case["ranks"], case["size"]
    found = {"what": f"{ranks} nodes, {size_text(size)}", "series": DATA.series[size_text(size)]}
    times = [record["time_ns"] for record in records]
    for setting, ring, trees in zip(SETTINGS, times[::2], times[1::2], strict=False):
        found[setting] = ring / trees
    # When the first chunk is everywhere.
    late, soon = (record["tables"]["chunks"][0]["complete_ns"] for record in records[-2:])
    height, chunks = ranks.bit_length() - 1, math.ceil(size / CHUNK)
    return found | {
        # Constant bandwidth: the ring has all channels, a tree one in each direction.
        "ratio model": cost(ranks, size, rate=dgx1.CHANNELS * NVLINK_GB).ring_ns / cost(ranks, size).overlapped_ns,
        "turnaround": late / soon,
        "turnaround model": (2 * height + chunks - 1) / (2 * height),
    }


def _scale(cells: Cells, tables: Tables) -> Judged:
    table, claimed = tables["fig14"].where(cells["at"]), float(cells["low"])
    most = [max(table.column(setting)) for setting in SETTINGS]
    columns = {"ratio": "ratio", "model": "ratio model", "chunked": "256 kB", "links": "links only"}
    large = table[-2:]
    names = {name: listed(large, f"{{0[{of}]:.2f}}× with {{0[ranks]}}") for name, of in columns.items()}
    return verdict(all(close(value, claimed) for value in most), max(most) > claimed), names


def _turnaround(cells: Cells, tables: Tables) -> Judged:
    table, claimed = tables["fig14"].where(cells["at"]), float(cells["low"])
    columns = ("turnaround", "turnaround model")
    simulated, steps = (getattr(table.values(column), cells["statistic"]) for column in columns)
    near = min(abs(value / claimed - 1) for value in (simulated, steps)) <= 0.15
    return verdict(close(simulated, claimed), near), {"simulated": simulated, "steps": steps}


def _turnaround_nodes(cells: Cells, tables: Tables) -> Judged:
    table = tables["fig14"]
    larger = all(more > 1 for _, more in table.steps("turnaround", ["size", "ranks"]))
    of_64 = table.where(cells["at"]).column("turnaround")
    rises, doublings = sum(more > less for less, more in pairwise(of_64)), len(of_64) - 1
    names = {"larger": "yes" if larger else "no", "rises": rises, "first": of_64[0], "last": of_64[-1]}
    return verdict(larger and rises == doublings, larger), names | {"doublings": doublings}


FIGURES = (Figure(DATA, "fig14", _measure, _jobs),)
CHECKS = {
    "scale-small": _scale,
    "scale-large": _scale,
    "turnaround-most": _turnaround,
    "turnaround-mean": _turnaround,
    "turnaround-nodes": _turnaround_nodes,
}
