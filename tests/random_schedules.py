"""Random schedules that compute a collective, with waits of all kinds, and small changes that may spoil them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import antiphon

SPECS = ("mesh:2x2", "ring:4", "fc:4", "switch:4")
ELEMENT_BYTES = 4


def random_schedule(random: Random, elements: int = 300) -> antiphon.Schedule:
    """A schedule for 4 ranks and up to so many elements.

    Every lane goes along random trees, in random chunks, in phases with and without barriers.
    """
    fabric = antiphon.Fabric(random.choice(SPECS))
    collective = random.choice(antiphon.collectives())
    root = random.randrange(4)
    bytes = ELEMENT_BYTES * random.randint(4, elements)
    builder = antiphon.ScheduleBuilder(fabric, collective, bytes, "random", root=root)
    reduces = collective in ("all-reduce", "reduce", "reduce-scatter")
    copies = collective in ("all-reduce", "broadcast", "all-gather", "all-to-all")
    lanes = []
    for source, owner, offset, length in _regions(random, collective, root, bytes):
        chunks = random.choice([1, 1, 2, 3, 7])
        stride = random.randint(1, 3)
        lane = builder.lane(offset, length, chunks, stride=stride, source=source, owner=owner)
        centre = {"reduce-scatter": owner, "all-reduce": random.randrange(4)}.get(collective, source)
        lanes.append((lane, owner, root if collective in ("reduce", "broadcast") else centre))
    if reduces:
        builder.phase("reduce", barrier=random.random() < 0.5)
        for lane, _, centre in lanes:
            depth = 0
            for child, parent, below in _tree(random, centre):
                depth = max(depth, below)
                builder.reduce(child, parent, lane, 5 - below)
    if copies:
        builder.phase("copy", barrier=random.random() < 0.5)
        for lane, owner, centre in lanes:
            tree = _tree(random, centre)
            if collective == "all-to-all":
                tree = _path(tree, owner)
            for child, parent, below in tree:
                builder.copy(parent, child, lane, below)
    return builder.finish()


def with_waits(random: Random, schedule: antiphon.Schedule) -> antiphon.Schedule:
    """A copy with other endpoints, in which transfers wait for more than they must."""
    document: dict[str, Any] = json.loads(schedule.to_json())
    transfers, lanes = document["transfers"], document["lanes"]

    def lane(transfer: dict[str, Any]) -> dict[str, Any]:
        first = transfer["payload"][0]
        return lanes[first if isinstance(first, int) else first[0]]  # type: ignore[no-any-return]

    def turn(id_: int, chunk: int) -> tuple[int, int, int]:
        transfer = transfers[id_]
        return transfer.get("phase", 0), transfer["step"] + chunk * lane(transfer)["stride"], id_

    for id_, transfer in enumerate(transfers):
        for when, rank in (("start_after", transfer["from"]), ("apply_after", transfer["to"])):
            found = []
            for other in random.sample(range(len(transfers)), min(4, len(transfers))):
                chunks, lag = lane(transfer)["chunks"], random.choice([0, 0, 1, 2])
                event = "applied" if transfers[other]["to"] == rank else "sent"
                here = rank in (transfers[other]["to"], transfers[other]["from"])
                before = all(turn(other, chunk - lag) < turn(id_, chunk) for chunk in range(lag, chunks))
                if here and before and lane(transfers[other])["chunks"] == chunks:
                    found.append({"transfer": other, "event": event, "lag": lag})
            known = [item if isinstance(item, int) else item["transfer"] for item in transfer.get(when, [])]
            transfer[when] = transfer.get(when, []) + [item for item in found if item["transfer"] not in known]
    issue = random.choice(["links", "links", "steps", "steps", "strict-steps"])
    pacing = random.choice(["pipelined", "stop-and-wait"]) if issue == "links" else "pipelined"
    document["endpoint"] |= {"issue": issue, "pacing": pacing, "interfaces": random.choice([None, 1, 2, 3])}
    return antiphon.Schedule.from_json(json.dumps(document))


def _regions(random: Random, collective: str, root: int, bytes: int) -> list[tuple[int, int, int, int]]:
    """Source, owner, first byte and length of parts of the buffer that travel apart."""
    shards = [antiphon.shard(bytes, 4, rank) for rank in range(4)]
    if collective == "all-to-all":
        return [(source, owner, *shards[owner]) for source in range(4) for owner in range(4)]
    if collective in ("reduce-scatter", "all-gather"):
        whole = [(rank, rank, *shard) for rank, shard in enumerate(shards)]
    else:
        whole = [(root, root, 0, bytes)]
    found = []
    for source, owner, offset, length in whole:
        cut = ELEMENT_BYTES * random.randint(0, length // ELEMENT_BYTES)
        pieces = [(offset, cut), (offset + cut, length - cut)]
        found += [(source, owner, *piece) for piece in pieces if piece[1] > 0]
    return found


def _tree(random: Random, centre: int) -> list[tuple[int, int, int]]:
    """Child, parent and depth of the child, which is 1 to 3, of a tree of all ranks."""
    depths, edges = {centre: 0}, []
    for child in random.sample([rank for rank in range(4) if rank != centre], 3):
        parent = random.choice(sorted(depths))
        depths[child] = depths[parent] + 1
        edges.append((child, parent, depths[child]))
    return edges


def _path(tree: list[tuple[int, int, int]], end: int) -> list[tuple[int, int, int]]:
    """The edges of a tree that lead to a rank, the first at its root."""
    above = {child: (child, parent, depth) for child, parent, depth in tree}
    path = []
    while end in above:
        path.append(above[end])
        end = above[end][1]
    return path[::-1]
