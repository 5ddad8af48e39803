"""Layouts of fabrics with switches: boxes of ranks below the switches between them, stars, layers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from antiphon._core import Fabric
from antiphon.view.drawing.geometry import Frame, Layout, Points, something_between
from antiphon.view.drawing.graph import on_circle

INSIDE = {"nvlink": "box", "xgmi": "box", "pcie": "box", "local": "group"}
"""Labels of links inside a box, or a group of routers, and what it is called."""
MOST_LEAVES = 8
"""Leaves of a network, each with its ranks, that are drawn like boxes."""
FEW_SWITCHES = 8
"""So many with their own ranks are drawn as their coordinates say; more on a circle."""
ONE_ROW = 8
"""Ranks of a box that stand in one row; more stand around its switch."""
MANY = 4
"""Of more boxes side by side the ranks stand in two rows."""
MOST_TO_A_ROW = 24
"""Ranks in the row of a layered drawing; more stand below each other, below their switch."""
ROOM = 3.0
"""Between ranks and the switches between boxes, where many links cross."""
PITCH = 1.15
"""Between switches side by side, which are wider than ranks."""


def boxes(fabric: Fabric) -> Layout | None:
    """Each box a frame with its ranks and switches; the switches between them in the middle, or above."""
    graph = _Graph(fabric)
    groups = graph.boxes()
    if groups is None:
        return None
    points = np.zeros((graph.count, 2))
    inside = {each for group in groups for each in group}
    outer = [node for node in range(graph.count) if node not in inside]
    if not outer:
        return _around(fabric, graph, groups)
    levels = graph.levels([node for group in groups for node in group], outer)
    both_sides = len(groups) > 2 and len(levels) == 1
    across = math.ceil(len(groups) / 2) if both_sides else len(groups)
    rows_of_ranks = 2 if across > MANY and len(groups[0]) > MANY else 1
    inner = [_inside(graph, group, rows_of_ranks) for group in groups]
    width = max(float(place[:, 0].max()) for place in inner) + 1.2
    height = max(float(place[:, 1].max()) for place in inner)
    extent = across * (width + 0.8) - 0.8
    rows = [_rows(level, extent) for level in levels]
    tall = sum(len(row) for row in rows)  # of all switches between boxes
    middle = tall + 2 * ROOM - 1
    frames = []
    for number, (group, place) in enumerate(zip(groups, inner, strict=True)):
        left = (number % across) * (width + 0.8) + 0.6
        above = both_sides and number < across
        # Ranks, which come first, stand next to the switches between the boxes.
        down = height - place[:, 1] if above else place[:, 1]
        top = 0.0 if above else middle + (height if both_sides else 0.0)
        shift = (width - 1.2 - float(place[:, 0].max())) / 2
        for node, x, y in zip(group, place[:, 0], down, strict=True):
            points[node] = left + shift + x, top + y
        frames.append(
            Frame(left - 0.6, top - 0.7, left + width - 0.6, top + height + 0.7, graph.called(number), not above)
        )
    start = ROOM + (height if both_sides else 0.0) - (0.0 if both_sides else ROOM)
    for level_rows in reversed(rows):  # the farthest from the ranks on top
        for row in level_rows:
            pitch = extent / len(row)
            for number, node in enumerate(row):
                points[node] = (number + 0.5) * pitch, start
            start += 1.0 + 0.8 * (len(levels) > 1)
    if not both_sides and len(levels) > 1:
        lift = max(0.0, start + ROOM - 1 - middle)
        for group in groups:
            points[group] += (0, lift)
        frames = [frame.times(1.0, down=lift) for frame in frames]
    return Layout(points, _bows(fabric, points), frames=tuple(frames))


def _around(fabric: Fabric, graph: _Graph, groups: Sequence[Sequence[int]]) -> Layout:
    """Groups of routers on a circle, each a frame with its ranks outside of its routers."""
    inner = [_flower(graph, group) for group in groups]
    size = max(float(np.ptp(place, axis=0).max()) for place in inner) + 1.6
    centres = on_circle(len(groups), 1.45 * size + 0.8)
    points = np.zeros((graph.count, 2))
    frames = []
    for number, (group, place, centre) in enumerate(zip(groups, inner, centres, strict=True)):
        points[list(group)] = place - (place.max(axis=0) + place.min(axis=0)) / 2 + centre
        low, high = centre - size / 2 - (0.0, 0.8), centre + size / 2
        frames.append(Frame(float(low[0]), float(low[1]), float(high[0]), float(high[1]), graph.called(number)))
    return Layout(points, frames=tuple(frames))


def flower(fabric: Fabric) -> Layout | None:
    """Many switches on a circle, each with ranks of its own outside of it."""
    graph = _Graph(fabric)
    if len(graph.switches) <= FEW_SWITCHES or not graph.only_to_switches():
        return None
    under = {node for node in range(graph.count) if graph.ranks[node] >= 0}
    if any(len(graph.neighbours[node]) != 1 for node in under):
        return None
    if (
        any(not graph.neighbours[node] & under for node in graph.switches)
        or len(under) + len(graph.switches) < graph.count
    ):
        return None
    return Layout(_flower(graph, range(graph.count)))


def _flower(graph: _Graph, group: Sequence[int]) -> Points:
    """Switches on a circle, and the ranks of each on a larger one beside it."""
    members = set(group)
    switches = [node for node in group if graph.ranks[node] < 0]
    ranks = {
        switch: sorted(n for n in graph.neighbours[switch] & members if graph.ranks[n] >= 0) for switch in switches
    }
    most = max(1, *(len(each) for each in ranks.values()))
    around = max(most * len(switches), 3)
    radius = max(1.0, 0.5 / math.sin(math.pi / around), 0.75 / math.sin(math.pi / max(len(switches), 3)) + 1.2)
    place = {}
    for number, switch in enumerate(switches):
        turn = 2 * math.pi * number / len(switches)
        place[switch] = (radius - 1.2) * math.sin(turn), -(radius - 1.2) * math.cos(turn)
        for at, rank in enumerate(ranks[switch]):
            own = turn + 2 * math.pi * (at - (len(ranks[switch]) - 1) / 2) / around
            place[rank] = radius * math.sin(own), -radius * math.cos(own)
    return np.array([place[node] for node in group])


def star(fabric: Fabric) -> Layout | None:
    """All ranks around the only switch."""
    graph = _Graph(fabric)
    if len(graph.switches) != 1 or not graph.only_to_switches():
        return None
    ranks = [node for node in range(graph.count) if node != graph.switches[0]]
    if len(ranks) < 3:
        return None
    around = on_circle(len(ranks), 1.15)
    points = np.zeros((graph.count, 2))
    points[ranks] = around
    points[graph.switches[0]] = (around.max(axis=0) + around.min(axis=0)) / 2
    return Layout(points)


def layers(fabric: Fabric) -> Layout | None:
    """Ranks below their switches, these below those that are farther from ranks."""
    graph = _Graph(fabric)
    if not graph.switches or not graph.only_to_switches():
        return None
    ranks = [node for node in range(graph.count) if graph.ranks[node] >= 0]
    levels = graph.levels(ranks, [node for node in range(graph.count) if graph.ranks[node] < 0])
    under: dict[int, list[int]] = defaultdict(list)
    for rank in ranks:
        under[min(graph.neighbours[rank], default=-1)].append(rank)
    deep = 1 if len(ranks) <= MOST_TO_A_ROW else math.ceil(len(ranks) / MOST_TO_A_ROW / 2)
    points = np.zeros((graph.count, 2))
    left, gap = 0.0, max(1.8, 0.05 * len(ranks) / deep)
    base = gap * len(levels)
    for group in under.values():
        columns = math.ceil(len(group) / deep)
        for place, rank in enumerate(group):
            row = place // columns
            points[rank] = left + place % columns + 0.5 * (row % 2) * (deep > 1), base + 0.9 * row
        left += columns + 0.6 * (deep > 1)
    for number, level in enumerate(levels):
        ordered = sorted(level, key=lambda node: (_middle(points, graph.neighbours[node]), node))
        pitch = left / len(ordered)
        for place, node in enumerate(ordered):
            points[node] = (place + 0.5) * pitch - 0.5, base - gap * (number + 1)
    return Layout(points, _bows(fabric, points))


def _middle(points: Points, nodes: Iterable[int]) -> float:
    """Mean place of nodes along x."""
    places = [float(points[node, 0]) for node in nodes]
    return sum(places) / len(places) if places else 0.0


def _rows(level: Sequence[int], extent: float) -> list[Sequence[int]]:
    """Nodes in as many rows as they need."""
    count = max(1, math.ceil(len(level) * PITCH / max(extent, PITCH)))
    size = math.ceil(len(level) / count)
    return [level[first : first + size] for first in range(0, len(level), size)]


def _bows(fabric: Fabric, points: Points) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Links past other nodes are bowed."""
    ends = zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True)
    return np.array([0.35 if something_between(points, points[a], points[b], 0.3) else 0.0 for a, b in ends])


def _inside(graph: _Graph, group: Sequence[int], rows: int) -> Points:
    """Places of the nodes of a box: ranks in rows on top, the switches that lead out before them, others behind."""
    ranks = [place for place, node in enumerate(group) if graph.ranks[node] >= 0]
    members = set(group)
    leading = [p for p, n in enumerate(group) if graph.ranks[n] < 0 and graph.neighbours[n] - members]
    others = [p for p, n in enumerate(group) if graph.ranks[n] < 0 and not graph.neighbours[n] - members]
    points = np.zeros((len(group), 2))
    joined = any(graph.neighbours[group[place]] & {group[each] for each in ranks} for place in ranks)
    if joined or (len(ranks) > ONE_ROW and len(others) <= 1):
        points[ranks] = on_circle(len(ranks), 1.0 if len(ranks) > ONE_ROW else 1.35)
        middle = (points[ranks].max(axis=0) + points[ranks].min(axis=0)) / 2
        low = float(points[ranks, 1].max())
        if len(others) == 1 and not joined:
            points[others] = middle
        else:
            _row(points, others, float(middle[0]), low + 1.5)
        _row(points, leading, float(middle[0]), -1.5)
    else:
        columns = math.ceil(len(ranks) / rows)
        for row in range(rows):
            _row(points, ranks[row * columns : (row + 1) * columns], 0.5 * row, 0.9 * row)
        middle = points[ranks].mean(axis=0)
        _row(points, leading, float(middle[0]), -1.6, max(1.0, (len(ranks) - 1) / max(len(leading), 1)))
        _row(points, others, float(middle[0]), 0.9 * rows + 0.7, 1.4)
    return np.asarray(points - points.min(axis=0))


def _row(points: Points, places: Sequence[int], middle: float, down: float, pitch: float = 1.0) -> None:
    """Sets a row of nodes."""
    for at, place in enumerate(places):
        points[place] = middle + (at - (len(places) - 1) / 2) * pitch, down


class _Graph:
    """Neighbours of nodes, whichever way the links lead."""

    def __init__(self, fabric: Fabric) -> None:
        links, nodes = fabric.links, fabric.nodes
        self.count = len(nodes["rank"])
        self.ranks = nodes["rank"].tolist()
        self.links = list(zip(links["from"].tolist(), links["to"].tolist(), map(str, links["dimension"]), strict=True))
        self.rates = dict[str, float]()
        self.word = "box"
        self.neighbours: list[set[int]] = [set() for _ in range(self.count)]
        for (a, b, label), rate in zip(self.links, links["rate_gb_per_s"].tolist(), strict=True):
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)
            self.rates[label] = max(self.rates.get(label, 0.0), 0.0 if rate != rate else rate)
        named = [str(name) for name in nodes["name"]]
        # Ranks that are left out are no switches, though they have no rank.
        self.switches = [
            node
            for node in range(self.count)
            if self.ranks[node] < 0 and self.neighbours[node] and not named[node].isdecimal()
        ]

    def only_to_switches(self) -> bool:
        """Whether no link joins two ranks."""
        return all(self.ranks[a] < 0 or self.ranks[b] < 0 for a, b, _ in self.links)

    def boxes(self) -> list[list[int]] | None:
        """The nodes of each box, ranks first; None if there are no boxes with switches between them."""
        if not self.switches:
            return None
        inside = [label for label in self.rates if label in INSIDE]
        self.word = INSIDE[inside[0]] if inside else "box"
        if "local" in inside:
            inside.append("host")
        elif not inside and "host" in self.rates:
            inside, self.word = ["host"], ""
        if not inside or len(inside) == len(self.rates):
            fastest = max(self.rates.values(), default=0.0)
            inside = [label for label, rate in self.rates.items() if rate > fastest / 1.5] if fastest else []
        if not inside or len(inside) == len(self.rates):
            return None
        group_of = list(range(self.count))

        def root(node: int) -> int:
            while group_of[node] != node:
                group_of[node] = group_of[group_of[node]]
                node = group_of[node]
            return node

        for a, b, label in self.links:
            if label in inside:
                group_of[max(root(a), root(b))] = min(root(a), root(b))
        found: dict[int, list[int]] = defaultdict(list)
        for node in range(self.count):
            if self.ranks[node] >= 0:
                found[root(node)].append(node)
        groups = [group for group in found.values() if len(group) > 1]
        if len(groups) < 2 or len(groups) != len(found) or (not self.word and len(groups) > MOST_LEAVES):
            return None
        of = {node: number for number, group in enumerate(groups) for node in group}
        for node in range(self.count):
            if self.ranks[node] < 0:
                near = {of[each] for each in self.neighbours[node] if each in of and self.ranks[each] >= 0}
                if len(near) == 1 or (not near and root(node) in found):
                    own = near.pop() if near else next(n for n, g in enumerate(groups) if root(g[0]) == root(node))
                    groups[own].append(node)
        if not self.word and sum(map(len, groups)) == self.count:
            return None
        return groups

    def called(self, number: int) -> str:
        """The name of a box; empty if it is only a switch with its ranks."""
        return f"{self.word} {number}" if self.word else ""

    def levels(self, inner: Sequence[int], outer: Sequence[int]) -> list[list[int]]:
        """Nodes by the number of links to the nearest of others."""
        seen, levels, left = set(inner), list[list[int]](), list(outer)
        while left:
            level = [node for node in left if self.neighbours[node] & seen] or left
            levels.append(level)
            seen.update(level)
            left = [node for node in left if node not in seen]
        return levels
