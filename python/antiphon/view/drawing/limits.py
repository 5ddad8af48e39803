"""What a lower bound rests on: the sides of a cut or the parts of a partition, and the sentence that names them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from antiphon._core import Fabric
from antiphon.results import Bound
from antiphon.view.drawing.geometry import Frame, Points
from antiphon.view.drawing.grid import coordinates

SIDES = (("left", "right"), ("upper", "lower"), ("front", "back"))
"""Names of the two sides of a cut across x, y and the third dimension."""


def parts_of(fabric: Fabric, bound: Bound | None) -> NDArray[np.int64] | None:
    """The part of every node, -1 where it is of none: switches are with the ranks around them. None where no parts of
    several ranks are the limit."""
    if bound is None or not bound.limit.part_of or max(bound.limit.part_of) + 1 == len(bound.limit.part_of) > 2:
        return None
    ranks = fabric.nodes["rank"]
    part_of = np.array([bound.limit.part_of[rank] if rank >= 0 else -1 for rank in ranks.tolist()])
    near: list[set[int]] = [set() for _ in ranks]
    for start, end in zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True):
        near[end].add(int(part_of[start]))
    for node in np.flatnonzero(ranks < 0).tolist():
        parts = near[node] - {-1}
        if len(parts) == 1:
            part_of[node] = parts.pop()
    return part_of


def sentence(fabric: Fabric, bound: Bound | None, frames: Sequence[Frame] = (), points: Points | None = None) -> str:
    """Names the limit of the links' rates, such as ``Cut: 8 links of 25 GB/s lead from the left half to the right
    half.``; empty if there is none."""
    if bound is None or not bound.limit.links:
        return ""
    text, count = bound.limit.text, len(bound.limit.links)
    found = re.match(r"\d+ links? of [\d.e+-]+(?: to [\d.e+-]+)? GB/s", text)
    links = found[0] if found else f"{count} link{'' if count == 1 else 's'}"
    if not bound.limit.part_of:
        weighted = "" if "together" in text else ", weighted by their prices,"
        return f"{'Prices' if weighted else 'Volume'}: {links}{weighted} carry what must move."
    parts = np.array(bound.limit.part_of)
    number = int(parts.max()) + 1
    sides = _sides(fabric, parts, frames, points) if number == 2 else ("", "")
    if " from ranks " in text:
        lead = "leads" if count == 1 else "lead"
        if "other" in sides[0]:
            return f"Cut: {links} {lead} to {sides[1]} from {sides[0]}."
        return f"Cut: {links} {lead} from {sides[0]} to {sides[1]}."
    if number == 2:
        one, other = sides[::-1] if "other" in sides[0] else sides
        return f"Partition: {links} join {one} and {other}."
    way = "enter" if " that enter " in text else "leave"
    groups = "single ranks" if number == len(parts) else f"{number:,} groups of ranks"
    return f"Partition: {links} {way} {groups}."


def _sides(fabric: Fabric, parts: NDArray[np.int64], frames: Sequence[Frame], points: Points | None) -> tuple[str, str]:
    """What the two sides of a cut are called."""
    ranks = fabric.nodes["rank"]
    nodes = np.array([int(np.flatnonzero(ranks == rank)[0]) for rank in range(len(parts))])
    sides = [np.flatnonzero(parts == side) for side in (0, 1)]
    what = "half" if len(sides[0]) == len(sides[1]) else "part"
    frame = _box(nodes, sides, frames, points)
    if frame:
        return frame
    if min(map(len, sides)) > 1:
        for column, names in zip(reversed(coordinates(fabric)), SIDES, strict=False):
            first, second = (column[nodes[side]] for side in sides)
            if first.max() < second.min() or second.max() < first.min():
                ordered = names if first.max() < second.min() else names[::-1]
                return f"the {ordered[0]} {what}", f"the {ordered[1]} {what}"
    told = [_listed(side.tolist()) for side in sides]
    for at, side in enumerate(sides):
        node = str(fabric.nodes["name"][nodes[side[0]]])
        if len(side) == 1 and node.isdecimal() and int(node) != side[0]:
            told[at] += f" (node {node})"
    large = 0 if len(sides[0]) > len(sides[1]) else 1
    if len(sides[large]) > 3 and (len(sides[1 - large]) == 1 or " to " not in told[large]):
        told[large] = f"the other {len(sides[large]):,} ranks"
    return told[0], told[1]


def _box(
    nodes: NDArray[np.int64], sides: Sequence[NDArray[np.int64]], frames: Sequence[Frame], points: Points | None
) -> tuple[str, str] | None:
    """The names of boxes that are a side; None if none is."""
    if points is None:
        return None
    for frame in frames:
        x, y = points[nodes, 0], points[nodes, 1]
        inside = (frame.left < x) & (x < frame.right) & (frame.top < y) & (y < frame.bottom)
        for at, side in enumerate(sides):
            if set(side.tolist()) == set(np.flatnonzero(inside).tolist()):
                others = "the other box" if len(frames) == 2 else "the other boxes"
                return (frame.text, others) if at == 0 else (others, frame.text)
    return None


def _listed(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) == ranks[-1] - ranks[0] + 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:6]))}{', ...' if len(ranks) > 6 else ''}"
