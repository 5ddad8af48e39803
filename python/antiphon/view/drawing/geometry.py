"""Points, frames and paths."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
"""Positions, shape (count, 2): x to the right, y down."""


@dataclass(frozen=True)
class Frame:
    """A box around nodes, with a text at its upper left or ``low``er left corner; in the units of the layout."""

    left: float
    top: float
    right: float
    bottom: float
    text: str = ""
    low: bool = False

    def times(self, scale: float, right: float = 0.0, down: float = 0.0) -> Frame:
        """The same, scaled, then moved."""
        left, top = self.left * scale + right, self.top * scale + down
        return Frame(left, top, self.right * scale + right, self.bottom * scale + down, self.text, self.low)


@dataclass(frozen=True)
class Layout:
    """Where nodes stand and which way links go.

    Attributes:
        points: of the nodes, shape (nodes, 2), neighbours about 1 apart.
        bows: of each link, how far its middle is from the straight line; 0: straight.
        halves: of each link that leaves the drawing at one side and comes in at another, the direction in which it
            leaves, shape (links, 2); zeros: it is drawn whole.
        frames: boxes around nodes.
        radius: of a node, as a part of the distance between neighbours.
    """

    points: Points
    bows: NDArray[np.float64] | None = None
    halves: Points | None = None
    frames: tuple[Frame, ...] = field(default=())
    radius: float = 0.27


def spacing(points: Points) -> float:
    """The smallest distance between two points; 1 where there is only one."""
    if len(points) < 2:
        return 1.0
    gaps = np.hypot(points[:, None, 0] - points[None, :, 0], points[:, None, 1] - points[None, :, 1])
    np.fill_diagonal(gaps, np.inf)
    return float(gaps.min())


def something_between(points: Points, start: Points, end: Points, distance: float) -> bool:
    """Whether a third point lies within a distance of the line between two points."""
    along = end - start
    share = np.clip((points - start) @ along / max(float(along @ along), 1e-12), 0, 1)
    off = points - start - share[:, None] * along
    return int((np.hypot(off[:, 0], off[:, 1]) < distance).sum()) > 2


def unit(vector: Points) -> Points:
    """The direction of a vector."""
    return np.asarray(vector / max(float(np.hypot(*vector)), 1e-12))


def right_of(heading: Points) -> Points:
    """A quarter turn to the right, as seen on a screen."""
    return np.array([-heading[1], heading[0]])


@dataclass(frozen=True)
class Pen:
    """How arrows are drawn, in pixels.

    Attributes:
        scale: of a unit of the layout.
        gap: from the line between two nodes to a link, which lies on the right of its way.
        barb: length of the half arrow head.
    """

    scale: float

    @property
    def gap(self) -> float:
        """From the line between two nodes to a link, which lies on the right of its way."""
        return min(4.5, 0.085 * self.scale)

    @property
    def barb(self) -> float:
        """Length of the half arrow head."""
        return min(7.0, 0.13 * self.scale)


@dataclass(frozen=True)
class Outline:
    """The outline of a node in pixels: a circle, or a box if ``half_width`` differs from ``radius``."""

    x: float
    y: float
    radius: float
    half_width: float
    box: bool

    @property
    def centre(self) -> Points:
        """Its middle."""
        return np.array([self.x, self.y])

    def edge(self, start: Points, heading: Points, clearance: float = 0.0) -> Points:
        """Where a ray from a point inside leaves the outline, and a clearance further."""
        offset = start - self.centre
        if self.box:
            spans = []
            for axis, half in ((0, self.half_width), (1, self.radius)):
                if abs(heading[axis]) > 1e-9:
                    spans.append((math.copysign(half, heading[axis]) - offset[axis]) / heading[axis])
            length = max(min(spans), 0.0) if spans else 0.0
        else:
            along = float(offset @ heading)
            inside = max(self.radius**2 - float(offset @ offset) + along**2, 0.0)
            length = max(math.sqrt(inside) - along, 0.0)
        return np.asarray(start + heading * (length + clearance))


TIP = 1.5
"""Pixels between the tip of an arrow and the node."""


def straight(pen: Pen, start: Outline, end: Outline, copy: int = 0) -> str:
    """A half arrow on the right of the line between two nodes, so that both directions fit. Parallel links lie side
    by side."""
    heading = unit(end.centre - start.centre)
    aside = right_of(heading) * pen.gap * (1 + 1.6 * copy)
    tail = start.edge(start.centre + _within(aside, start), heading)
    tip = end.edge(end.centre + _within(aside, end), -heading, TIP)
    return f"M{_at(tail)} L{_at(tip)} {_barb(pen, tip, heading)}"


def bowed(pen: Pen, start: Outline, end: Outline, height: float, copy: int = 0) -> str:
    """A half arrow that passes the nodes between on the right, ``height`` pixels from the straight line."""
    heading = unit(end.centre - start.centre)
    length = float(np.hypot(*(end.centre - start.centre)))
    up = right_of(heading) * (height + 1.6 * pen.gap * copy) * 4 / 3
    lean = heading * min(0.1 * length, 0.5 * pen.scale)
    first, second = start.centre + lean + up, end.centre - lean + up
    tail = start.edge(start.centre, unit(first - start.centre))
    arriving = unit(end.centre - second)
    tip = end.edge(end.centre, -arriving, TIP)
    return f"M{_at(tail)} C{_at(first)} {_at(second)} {_at(tip)} {_barb(pen, tip, arriving)}"


def halves(pen: Pen, start: Outline, end: Outline, leaving: Points, copy: int = 0) -> str:
    """Two halves: one leaves the drawing in a direction, the other comes in from the opposite side."""
    heading = unit(leaving)
    aside = right_of(heading) * pen.gap * (1 + 1.6 * copy)
    reach = heading * 0.5 * pen.scale
    tail = start.edge(start.centre + _within(aside, start), heading)
    out = start.centre + aside + reach
    come = end.centre + aside - reach
    tip = end.edge(end.centre + _within(aside, end), -heading, TIP)
    return f"M{_at(tail)} L{_at(out)} M{_at(come)} L{_at(tip)} {_barb(pen, tip, heading)}"


def _within(aside: Points, outline: Outline) -> Points:
    """An offset, no longer than lies within an outline."""
    length = float(np.hypot(*aside))
    return np.asarray(aside * min(1.0, 0.85 * outline.radius / max(length, 1e-9)))


def _barb(pen: Pen, tip: Points, heading: Points) -> str:
    return f"L{_at(tip - heading * pen.barb + right_of(heading) * 0.62 * pen.barb)}"


def _at(point: Points) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"
