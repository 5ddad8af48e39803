"""AllReduces as the artifact of the TTO paper runs them, flaws included, and runs that know them by name.

* ``artifact-dbtree``: four ranks on each of the first routers; an odd last rank is left out.
* ``artifact-ring-2d``: a data race, since the second dimension waits for only one part of the first.
* ``artifact-ring-bi-odd``: without the centre, which never gets the last part of either direction.
* ``artifact-ring-bi-odd-shared``: the same, but both directions queue in the same interfaces.

All but the first are no AllReduces, so that no proof could be: they are timed as ``Schedule.assumed``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

import antiphon
from antiphon import Fabric, Schedule, ScheduleBuilder, System
from antiphon.collective.timing import Progress, Timer, simulator
from antiphon.repro.data import Data
from antiphon.studies import Point, TrainingPoint

RANKS_A_ROUTER = 4
Document = dict[str, Any]
"""A schedule as in docs/reference/schedule.md."""


def built(fabric: Fabric, algorithm: str, collective: str, bytes: int, system: System, root: int = 0) -> Schedule:
    """The schedule of one of the artifact's AllReduces on a mesh, or of an algorithm."""
    if algorithm not in MADE:
        return antiphon.build(fabric, algorithm, collective, bytes, system, root)
    document = MADE[algorithm](fabric, bytes, system) | {"algorithm": algorithm}
    return Schedule.from_json(json.dumps(document), fabric).assumed(fabric)


def _db_tree(fabric: Fabric, bytes: int, system: System) -> Document:
    """The trees of an even number of ranks, with the routes between the routers that the ranks share."""
    taking_part = fabric.ranks & ~1
    document: Document = json.loads(
        antiphon.build(f"ring:{taking_part}", "dbtree", bytes=bytes, system=system).to_json()
    )
    direct = antiphon.build(fabric, "direct", "all-to-all", bytes, system)
    ends = list(zip(direct.transfers["from"].tolist(), direct.transfers["to"].tolist(), strict=True))
    routes: dict[tuple[int, int], list[int]] = {}
    for transfer, link in zip(direct.routes["transfer"].tolist(), direct.routes["link"].tolist(), strict=True):
        routes.setdefault(ends[transfer], []).append(link)
    for transfer in document["transfers"]:
        routers = transfer["from"] // RANKS_A_ROUTER, transfer["to"] // RANKS_A_ROUTER
        transfer["route"] = routes.get(routers, [])
    return document | {
        "fabric": fabric.name,
        "ranks": fabric.ranks,
        "excluded": list(range(taking_part, fabric.ranks)),
        "placement": [rank // RANKS_A_ROUTER for rank in range(fabric.ranks)],
    }


def _ring_2d(fabric: Fabric, bytes: int, system: System) -> Document:
    """Without the barrier between the dimensions, and with one wait for the first instead of all."""
    document: Document = json.loads(antiphon.build(fabric, "ring-2d", bytes=bytes, system=system).to_json())
    document["endpoint"]["issue"] = "steps"
    for phase in document["phases"]:
        phase["barrier"] = False
    moments = [(transfer["phase"], transfer["step"]) for transfer in document["transfers"]]
    for transfer in document["transfers"]:
        if transfer["phase"] % 2 == 1:
            first = [other for other in transfer.get("start_after", ()) if moments[other][0] < transfer["phase"]]
            transfer["start_after"] = sorted(first, key=lambda other: moments[other])[:1]
    return document


def _ring_bi_odd(issue: str, fabric: Fabric, bytes: int, system: System) -> Document:
    """A ring in both directions, to which the centre's data go, and from which it gets all but the last part, at one
    neighbour for each direction."""
    ring, centre = around_centre(fabric), fabric.ranks // 2
    merging = centre - 1, centre + 1
    builder = ScheduleBuilder(fabric, "all-reduce", bytes, conflict_free=True)
    count = len(ring)
    # The artifact rounds twice: blocks of D/N in whole packets, then half of N/(N-1) blocks.
    whole = ceil(ceil(bytes / fabric.ranks) / system.packet_payload_bytes) * system.packet_payload_bytes
    wire = ceil(whole * fabric.ranks / (2 * count))
    lanes: dict[int, tuple[int, list[int]]] = {}
    for direction in (0, 1):
        for place in range(count):
            start, length = _cut(_cut((0, bytes), count, place), 2, direction)
            lane = builder.lane(start, length, chunk_bytes=max(wire, length, 1))
            # From the rank that has the sum.
            way = [ring[(place + hop * (1 - 2 * direction)) % count] for hop in range(count)]
            lanes[lane] = way.index(merging[direction]), way
    builder.phase("reduce-scatter")
    for step in range(count):
        for lane, (merge, way) in lanes.items():
            if step == count - 1 - merge:
                builder.reduce(centre, way[merge], lane, step)
            if step > 0:
                builder.reduce(way[count - step], way[count - 1 - step], lane, step)
    builder.phase("all-gather")
    for step in range(count - 1):
        for lane, (merge, way) in lanes.items():
            builder.copy(way[step], way[step + 1], lane, step)
            if step == merge:
                builder.copy(way[merge], centre, lane, step)
    document: Document = json.loads(builder.finish().to_json())
    document["endpoint"]["issue"] = issue
    return document


def _cut(region: tuple[int, int], parts: int, index: int) -> tuple[int, int]:
    """Start and length of a part of a region, cut at multiples of 4 bytes."""
    start, length = region
    low, high = (length if at == parts else length * at // parts // 4 * 4 for at in (index, index + 1))
    return start + low, high - low


def around_centre(fabric: Fabric) -> list[int]:
    """A ring through all ranks of an odd mesh but the centre, from its west neighbour on: where ``ring`` goes from the
    centre, which is a detour of its own way."""
    gather = antiphon.build(fabric, "ring", "all-gather", 4 * fabric.ranks)
    lane = gather.lanes["source"].tolist().index(fabric.ranks // 2)
    carrying = gather.payloads["transfer"][gather.payloads["lane"] == lane]
    ring: list[int] = gather.transfers["to"][carrying].tolist()
    return ring[: fabric.ranks - 1]


class ArtifactPoint(Point):
    """A collective, which may be one of the artifact's."""

    def schedule(self, fabric: Fabric, system: System) -> Schedule:
        """By ``built``."""
        return built(fabric, self.algorithm, self.collective, self.bytes, system, self.root)


class ArtifactTraining(TrainingPoint):
    """Training, whose AllReduces may be the artifact's."""

    def timer(self, system: System, progress: Progress | None) -> Timer:
        """Of what ``built`` gives."""
        return simulator(system, dict(self.options).get("fidelity", "packet"), progress, schedules=built)


MADE: dict[str, Callable[[Fabric, int, System], Document]] = {
    "artifact-dbtree": _db_tree,
    "artifact-ring-2d": _ring_2d,
    "artifact-ring-bi-odd": partial(_ring_bi_odd, "links"),
    "artifact-ring-bi-odd-shared": partial(_ring_bi_odd, "strict-steps"),
}
DATA = Data("tto")
