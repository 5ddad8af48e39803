"""A fabric as SVG: nodes, links, what is broken or slow, and what a lower bound rests on."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from markupsafe import Markup, escape

from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.results import Bound
from antiphon.view.drawing import limits
from antiphon.view.drawing.geometry import Frame, Layout, Outline, Pen, Points, bowed, halves, spacing, straight
from antiphon.view.drawing.grid import cells
from antiphon.view.drawing.layout import layout_of
from antiphon.view.text import format_bandwidth

HEAT_NODES = 1000
"""From so many nodes on a drawing is a heat map."""
HEAT_LINKS = 3000
"""Beyond so many links, too: a page would be slow, and the links one blot."""
WIDEST, TALLEST = 960.0, 640.0
"""Pixels of a drawing, its margin apart; small ones are not enlarged to it."""
LARGEST, SMALLEST = 84.0, 10.0
"""Pixels of a unit of the layout."""
SIDE = 0.8
"""Width of what marks a side of a cut, as a part of the distance of neighbours."""
MOST_LIMITS = 0.5
"""Where more than this part of the links are the limit of a bound, none is pointed out."""
CELL = 22.0
"""Pixels of a cell of a heat map, at most."""
CHARACTER = 0.62
"""Width of a character, as a part of the font's size."""
SMALLEST_TEXT = 7.0
"""Pixels; smaller texts are left out, and the tooltip says them."""
KINDS = {
    "rank": "rank",
    "switch": "switch, which forwards",
    "reducing": "switch that adds or multicasts",
    "forwards": "node without a rank, which forwards",
    "dead": "dead node",
    "excluded": "rank left out",
}
"""What the signs of nodes mean."""


@dataclass(frozen=True)
class NodeShape:
    """A node in pixels. ``kind`` is one of ``KINDS``; ``text`` is in it, in letters of ``size`` pixels, and ``below``
    below it."""

    x: float
    y: float
    name: str
    rank: int
    kind: str
    outline: Outline
    text: str
    below: str
    size: float

    @property
    def renumbered(self) -> bool:
        """Whether it is named by a number that is not its rank's."""
        return self.rank >= 0 and self.name.isdecimal() and int(self.name) != self.rank

    @property
    def title(self) -> str:
        """The tooltip."""
        what = f"rank {self.rank}" if self.rank >= 0 else KINDS[self.kind]
        if self.name.isdecimal() and self.rank < 0:
            named = f"node {self.name}: "
        elif self.renumbered:
            named = f"node {self.name}, "
        else:
            named = "" if self.name == str(self.rank) else f"{self.name}: "
        return named + what + (", left out" if self.kind == "excluded" else "")


@dataclass(frozen=True)
class LinkShape:
    """A directed link in pixels. ``kinds``: any of ``bypass``, ``slow``, ``wrap``, with blanks."""

    path: str
    name: str
    kinds: str
    width: float


@dataclass(frozen=True)
class Drawing:
    """A fabric in pixels.

    Attributes:
        nodes: row ``n`` is node ``n`` of the fabric.
        links: row ``i`` is link ``i`` of the fabric; none on a heat map.
        ghosts: paths of links that were dropped.
        frames: boxes around nodes.
        sides: of a cut or partition, the path that joins the nodes of each part.
        limits: the links that a lower bound by rates rests on.
        sentence: what names that bound.
        signs: the legend, (kind, text) of everything drawn that needs a word.
        heat: whether nodes are cells, and links are not drawn.
    """

    width: float
    height: float
    pen: Pen
    nodes: Sequence[NodeShape]
    links: Sequence[LinkShape]
    ghosts: Sequence[str]
    frames: Sequence[Frame]
    sides: Sequence[str]
    limits: Sequence[int]
    sentence: str
    heat: bool

    @property
    def numbering(self) -> str:
        """What the numbers of nodes are, where they are not those of ranks; empty if they are."""
        node = next((node for node in self.nodes if node.renumbered), None)
        if node is None:
            return ""
        left_out = any(each.rank < 0 and each.name.isdecimal() for each in self.nodes)
        counted = "numbered without the nodes left out" if left_out else "numbered apart from nodes"
        return f"Numbers are nodes; ranks are {counted}: node {node.name} is rank {node.rank}."

    @cached_property
    def signs(self) -> list[tuple[str, str]]:
        """The legend: (kind, text) of everything drawn that needs a word."""
        kinds = {node.kind for node in self.nodes}
        found = [(kind, text) for kind, text in KINDS.items() if kind in kinds and (kind != "rank" or len(kinds) > 1)]
        every = {kind for link in self.links for kind in link.kinds.split()}
        texts = {"bypass": "bypass wire", "slow": "slowed link", "wrap": "wrap-around link, to the opposite edge"}
        found += [(kind, text) for kind, text in texts.items() if kind in every]
        if len({link.width for link in self.links}) > 1:
            found.append(("rate", "the wider, the faster the link"))
        if self.ghosts:
            found.append(("ghost", "dropped link"))
        if self.limits and not self.heat:
            found.append(("limit", "link that the lower bound by rates rests on"))
        cut = ("side that the links of the cut leave", "side that they lead to")
        texts_of_sides = cut if self.sentence.startswith("Cut") else ("a group of ranks of the partition",)
        found += [(f"side{number}", text) for number, text in enumerate(texts_of_sides) if self.sides]
        return found

    def svg(
        self,
        label: str,
        link_classes: Sequence[str] | None = None,
        link_titles: Sequence[str] | None = None,
        node_classes: Sequence[str] | None = None,
        node_titles: Sequence[str] | None = None,
        over: str = "",
    ) -> Markup:
        """The drawing as an element ``svg``.

        Args:
            label: what it shows, for screen readers.
            link_classes: further classes of each link, such as ``u3`` or ``t0``.
            link_titles: tooltip of each link.
            node_classes: further classes of each node.
            node_titles: tooltip of each node.
            over: SVG that lies over links and below nodes.
        """
        extra = _texts(link_classes), _texts(node_classes)
        parts = [
            f'<svg class="fabric" viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img"'
            f' aria-label="{escape(label)}" style="max-width:{self.width:.0f}px;min-width:{self.least:.0f}px">'
        ]
        parts += [
            f'<path class="side side{n % 7}" d="{d}" stroke-width="{self.pen.scale * SIDE:.0f}"/>'
            for n, d in enumerate(self.sides)
        ]
        for frame in self.frames:
            box = f'x="{frame.left:.1f}" y="{frame.top:.1f}" width="{frame.right - frame.left:.1f}"'
            parts.append(f'<rect class="frame" {box} height="{frame.bottom - frame.top:.1f}" rx="8"/>')
            size = min(13.0, 0.4 * self.pen.scale)
            if (
                frame.text
                and size >= SMALLEST_TEXT
                and CHARACTER * size * len(frame.text) < frame.right - frame.left - 6
            ):
                down = frame.bottom - 0.5 * size if frame.low else frame.top + 1.25 * size
                place = f'x="{frame.left + 6:.1f}" y="{down:.1f}" style="font-size:{size:.1f}px"'
                parts.append(f'<text class="frame-text" {place}>{escape(frame.text)}</text>')
        if not self.heat:
            parts += [f'<path class="ghost" d="{path}"/>' for path in self.ghosts]
            parts += [f'<path class="limit" d="{self.links[link].path}"/>' for link in self.limits]
            for number, link in enumerate(self.links):
                classes = " ".join(filter(None, ("link", link.kinds, extra[0](number))))
                title = link.name if link_titles is None else link_titles[number]
                parts.append(
                    f'<path class="{classes}" data-link="{number}" data-kinds="{link.kinds}" d="{link.path}"'
                    f' stroke-width="{link.width:.1f}"><title>{escape(title)}</title></path>'
                )
        parts.append(over)
        for number, node in enumerate(self.nodes):
            title = node.title if node_titles is None else node_titles[number]
            parts.append(self._node(number, node, extra[1](number), title))
        return Markup("".join(parts) + "</svg>")  # everything of others' was escaped

    @property
    def least(self) -> float:
        """Pixels below which it is not shrunk, but scrolls."""
        return min(self.width, 300.0 if self.heat else max(300.0, 0.5 * self.width))

    def _node(self, number: int, node: NodeShape, classes: str, title: str) -> str:
        own = " ".join(filter(None, ("node", node.kind, classes)))
        outline = node.outline
        left, top = node.x - outline.half_width, node.y - outline.radius
        width, height = 2 * outline.half_width, 2 * outline.radius
        if self.heat:
            classes = own.replace("node", "node cell", 1)
            return f'<rect class="{classes}" data-node="{number}" {_box(left, top, width, height)}/>'
        if outline.box:
            shape = f'<rect class="shape" {_box(left, top, width, height)} rx="3"/>'
            if node.kind == "reducing":
                inner = _box(left + 2.5, top + 2.5, max(width - 5, 1), max(height - 5, 1))
                shape += f'<rect class="inner" {inner} rx="2"/>'
        else:
            shape = f'<circle class="shape" {_at(node.x, node.y, "c")} r="{outline.radius:.1f}"/>'
        if node.kind == "dead":
            size = f"{1.2 * outline.radius:.1f}"
            left, top = node.x - 0.6 * outline.radius, node.y - 0.6 * outline.radius
            shape += f'<path class="cross" d="M{left:.1f},{top:.1f} l{size},{size} m-{size},0 l{size},-{size}"/>'
        text = ""
        if node.text:
            text = (
                f'<text {_at(node.x, node.y)} dy=".35em" style="font-size:{node.size:.1f}px">{escape(node.text)}</text>'
            )
        if node.below:
            text += f'<text class="below" {_at(node.x, node.y + outline.radius + 10)}>{escape(node.below)}</text>'
        inside = f"{shape}{text}<title>{escape(title)}</title>"
        return f'<g class="{own}" data-node="{number}" data-rank="{node.rank}">{inside}</g>'


def _at(x: float, y: float, centre: str = "") -> str:
    return f'{centre}x="{x:.1f}" {centre}y="{y:.1f}"'


def _box(left: float, top: float, width: float, height: float) -> str:
    return f'{_at(left, top)} width="{width:.1f}" height="{height:.1f}"'


def _texts(classes: Sequence[str] | None) -> Callable[[int], str]:
    return (lambda number: classes[number]) if classes is not None else (lambda _number: "")


def draw(fabric: Fabric, bound: Bound | None = None, *, excluded: Collection[int] = ()) -> Drawing:
    """The drawing of a fabric.

    >>> from antiphon import Fabric
    >>> drawing = draw(Fabric("mesh:2x2"))
    >>> len(drawing.nodes), len(drawing.links), drawing.signs
    (4, 8, [])

    Args:
        bound: also what it rests on.
        excluded: ranks that are drawn as left out.
    """
    if len(fabric.nodes["rank"]) >= HEAT_NODES or len(fabric.links["from"]) > HEAT_LINKS:
        return _heat(fabric, bound, excluded)
    layout = layout_of(fabric)
    points, least = layout.points, spacing(layout.points)
    extent = np.ptp(points, axis=0)
    scale = float(np.clip(min(WIDEST / max(extent[0], 1), TALLEST / max(extent[1], 1)), SMALLEST, LARGEST / least))
    radius = min(15.0, layout.radius * least * scale)
    pen = Pen(scale * least)
    nodes = _nodes(fabric, points * scale, radius, excluded)
    part_of = limits.parts_of(fabric, bound)
    around = layout.halves is not None and layout.halves.any()
    margin = max(radius + (0.55 * pen.scale if around else 10.0), 0.0 if part_of is None else SIDE * pen.scale / 2 + 2)
    frames = [frame.times(scale) for frame in layout.frames]
    reach = [(node.x + side * (node.outline.half_width + 4), node.y) for node in nodes for side in (-1, 1)]
    reach += [(node.x, node.y + radius + 14) for node in nodes if node.below]
    reach += [(x, y) for f in frames for x, y in ((f.left - 4, f.top - 4), (f.right + 4, f.bottom + 4))]
    low = np.minimum((points * scale).min(axis=0) - margin, np.min(reach, axis=0))
    high = np.maximum((points * scale).max(axis=0) + margin, np.max(reach, axis=0))
    bows = layout.bows
    if bows is not None and bows.any():
        most = float(bows.max()) * scale * 4 / 3
        low, high = (
            np.minimum(low, (points * scale).min(axis=0) - most),
            np.maximum(high, (points * scale).max(axis=0) + most),
        )
    nodes = [_moved(node, -low) for node in nodes]
    frames = [frame.times(1.0, -float(low[0]), -float(low[1])) for frame in frames]
    outlines = [node.outline for node in nodes]
    links = _links(fabric, layout, pen, scale, outlines)
    unmarked = _unmarked(fabric, bound)
    return Drawing(
        width=float(high[0] - low[0]),
        height=float(high[1] - low[1]),
        pen=pen,
        nodes=nodes,
        links=links,
        ghosts=_ghosts(fabric, outlines),
        frames=frames,
        sides=[] if part_of is None else _sides(fabric, layout, outlines, part_of),
        limits=() if unmarked or bound is None else bound.limit.links,
        sentence=limits.sentence(fabric, bound, layout.frames, points) + unmarked,
        heat=False,
    )


def _unmarked(fabric: Fabric, bound: Bound | None) -> str:
    """Why no link is marked as one that a bound rests on; empty if some are, or there are none."""
    links, count = len(fabric.links["from"]), 0 if bound is None else len(bound.limit.links)
    if not count or count < MOST_LIMITS * links:
        return ""
    return f" These are {'all' if count == links else f'{count:,} of all {links:,}'} links, so none is marked."


def _kinds(fabric: Fabric, excluded: Collection[int]) -> list[str]:
    """The kind of every node."""
    nodes, links = fabric.nodes, fabric.links
    linked = np.zeros(len(nodes["rank"]), dtype=bool)
    linked[links["from"]] = linked[links["to"]] = True
    kinds = []
    for node, rank in enumerate(nodes["rank"].tolist()):
        if rank >= 0:
            kinds.append("excluded" if rank in excluded else "rank")
        elif not linked[node]:
            kinds.append("dead")
        elif nodes["reduces"][node] or nodes["multicasts"][node]:
            kinds.append("reducing")
        else:
            kinds.append("forwards" if str(nodes["name"][node]).isdecimal() else "switch")
    return kinds


def _nodes(fabric: Fabric, points: Points, radius: float, excluded: Collection[int]) -> list[NodeShape]:
    names = [str(name) for name in fabric.nodes["name"]]
    ranks = fabric.nodes["rank"].tolist()
    shapes = []
    for node, kind in enumerate(_kinds(fabric, excluded)):
        x, y = map(float, points[node])
        box = kind in ("switch", "reducing")
        room = _room(points, node, 2.4 * radius)
        below, half = "", radius
        if box:
            text, size = _fitting(
                [names[node], *re.findall(r"\d[\d.]*$", names[node])], min(room - 3 - radius, 130.0), radius
            )
            half = max(radius, CHARACTER * size * len(text) / 2 + 5 if text else radius)
        else:
            # As a user says it in ``dead=17``, and as links and the limit of a bound are named.
            inside = names[node] if names[node].isdecimal() else str(ranks[node]) if ranks[node] >= 0 else ""
            text, size = _fitting([inside] if inside else [], 1.9 * radius, radius)
            own = names[node] != str(ranks[node]) and not re.fullmatch(r"(gpu|die|chip)?[\d.]+", names[node])
            if own and room < 1e8 and CHARACTER * 9.5 * len(names[node]) <= room - 4:
                below = names[node]
        outline = Outline(x, y, radius, half, box)
        shapes.append(NodeShape(x, y, names[node], ranks[node], kind, outline, text, below, size))
    return shapes


def _room(points: Points, node: int, tall: float) -> float:
    """How far it is to the next node at about the same height."""
    across, down = np.abs(points - points[node]).T
    beside = across[(down < tall) & (across > 0)]
    return float(beside.min()) if len(beside) else 1e9


def _fitting(texts: Sequence[str], width: float, radius: float) -> tuple[str, float]:
    """The first text that fits into a width, with the size of its letters."""
    for text in texts:
        size = min(12.0, 0.85 * radius, width / (CHARACTER * max(len(text), 1)))
        if size >= SMALLEST_TEXT:
            return text, size
    return "", 0.0


def _moved(node: NodeShape, by: Points) -> NodeShape:
    x, y = node.x + float(by[0]), node.y + float(by[1])
    outline = Outline(x, y, node.outline.radius, node.outline.half_width, node.outline.box)
    return NodeShape(x, y, node.name, node.rank, node.kind, outline, node.text, node.below, node.size)


def _links(fabric: Fabric, layout: Layout, pen: Pen, scale: float, outlines: Sequence[Outline]) -> list[LinkShape]:
    links, names = fabric.links, fabric.nodes["name"]
    widths = _widths(links["rate_gb_per_s"].tolist(), pen, len(outlines))
    seen: dict[tuple[int, int], int] = {}
    shapes = []
    for number, (start, end) in enumerate(zip(links["from"].tolist(), links["to"].tolist(), strict=True)):
        copy = seen[start, end] = seen.get((start, end), -1) + 1
        bow = 0.0 if layout.bows is None else float(layout.bows[number])
        half = None if layout.halves is None or not layout.halves[number].any() else layout.halves[number]
        a, b = outlines[start], outlines[end]
        if half is not None:
            path = halves(pen, a, b, half, copy)
        else:
            path = bowed(pen, a, b, bow * scale, copy) if bow else straight(pen, a, b, copy)
        bypass, slow = str(links["dimension"][number]).endswith("-bypass"), links["speed"][number] < 1
        signs = {"bypass": bypass, "slow": slow, "wrap": half is not None}
        name = f"{names[start]} → {names[end]}" + (", bypass" if bypass else "")
        if slow:
            name += f", slowed to {links['speed'][number]:g} of its rate"
        if len(set(widths)) > 1:
            name += f", {format_bandwidth(links['rate_gb_per_s'][number])}"
        shapes.append(LinkShape(path, name, " ".join(sign for sign, there in signs.items() if there), widths[number]))
    return shapes


def _widths(rates: Sequence[float], pen: Pen, nodes: int) -> list[float]:
    """Of links: one that is eight times as fast is twice as wide. Where a node has many, they are thinner."""
    base = round(max(0.9, min(2.6, pen.scale / 26) * min(1.0, 6 * nodes / max(len(rates), 1))), 1)
    known = [rate for rate in rates if rate == rate]
    if len(known) < len(rates) or not known:
        return [base] * len(rates)
    middle = max(min(known), 1e-9)
    return [round(base * min((rate / middle) ** (1 / 3), 3.0), 1) for rate in rates]


def _ghosts(fabric: Fabric, outlines: Sequence[Outline]) -> list[str]:
    """Lines of links that the specification drops."""
    if not re.search(r",(drop|dead)=", fabric.name):
        return []
    try:
        whole = Fabric(re.sub(r",(drop|dead|exclude)=[^,]*", "", fabric.name))
    except AntiphonError:
        return []
    if len(whole.nodes["rank"]) != len(outlines):
        return []
    there = set(zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True))
    pairs = {
        (min(a, b), max(a, b)) for a, b in zip(whole.links["from"].tolist(), whole.links["to"].tolist(), strict=True)
    }
    paths = []
    for a, b in sorted(pairs):
        if (a, b) not in there and (b, a) not in there:
            start, end = outlines[a], outlines[b]
            paths.append(f"M{start.x:.1f},{start.y:.1f} L{end.x:.1f},{end.y:.1f}")
    return paths


def _sides(
    fabric: Fabric, layout: Layout, outlines: Sequence[Outline], part_of: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[str]:
    """For each part, lines along its nodes and the links between them, which are drawn broad."""
    sides = [
        [f"M{outlines[node].x:.0f},{outlines[node].y:.0f} h0" for node in np.flatnonzero(part_of == part).tolist()]
        for part in range(int(part_of.max()) + 1)
    ]
    links = fabric.links
    for number, (start, end) in enumerate(zip(links["from"].tolist(), links["to"].tolist(), strict=True)):
        part = int(part_of[start])
        bow = layout.bows is not None and layout.bows[number]
        half = layout.halves is not None and layout.halves[number].any()
        if part >= 0 and part == part_of[end] and start < end and not bow and not half:
            a, b = outlines[start], outlines[end]
            sides[part].append(f"M{a.x:.0f},{a.y:.0f} L{b.x:.0f},{b.y:.0f}")
    return ["".join(side) for side in sides]


def _heat(fabric: Fabric, bound: Bound | None, excluded: Collection[int]) -> Drawing:
    """A heat map: a cell for each node, the sides of a cut left out."""
    points, frames = cells(fabric)
    extent = points.max(axis=0) + 1
    side = float(np.clip(min(WIDEST / extent[0], 1.2 * TALLEST / extent[1]), 3.0, CELL))
    top = 22.0 if frames else 4.0
    names, ranks = [str(name) for name in fabric.nodes["name"]], fabric.nodes["rank"].tolist()
    nodes = []
    for number, kind in enumerate(_kinds(fabric, excluded)):
        x, y = (points[number] + 0.5) * side + (4.0, top)
        outline = Outline(float(x), float(y), 0.46 * side, 0.46 * side, True)
        nodes.append(NodeShape(float(x), float(y), names[number], ranks[number], kind, outline, "", "", 0.0))
    edges = [frame.times(side, 0.5 * side + 4, 0.5 * side + top) for frame in frames]
    limit = () if bound is None else bound.limit.links
    width, height = float(extent[0] * side + 8), float(extent[1] * side + top + 6)
    sentence = limits.sentence(fabric, bound) + _unmarked(fabric, bound)
    return Drawing(width, height, Pen(side), nodes, (), (), edges, (), limit, sentence, True)
