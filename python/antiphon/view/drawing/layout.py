"""Where the nodes of a fabric stand, and which way each link goes, in units of about the distance of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from antiphon._core import Fabric
from antiphon.view.drawing import boxes, graph, grid
from antiphon.view.drawing.geometry import Layout, Points, something_between, spacing

SPARSEST = 4
"""A drawing whose extent is more than so many times the distance per node has single nodes far out: it is not used."""
WIDEST = 45
"""Units; wider drawings with switches are folded."""
FLATTEST = 0.3
"""Flatter drawings are stretched to this ratio of height to width."""


def layout_of(fabric: Fabric) -> Layout:
    """The first layout that suits: boxes, a star, a grid, the fabric's own coordinates, layers, distances, a circle."""
    makers: Sequence[Callable[[Fabric], Layout | None]] = (
        boxes.boxes,
        boxes.star,
        boxes.flower,
        grid.lattice,
        own_coordinates,
        boxes.layers,
        graph.by_distance,
    )
    for make in makers:
        found = make(fabric)
        if found is not None and _fits(found.points):
            return found
    return graph.circle(fabric)


def own_coordinates(fabric: Fabric) -> Layout | None:
    """The last coordinate along x, the one before along y; links past other nodes are bowed."""
    points = grid.flat(grid.coordinates(fabric))
    if points is None:
        return None
    least = spacing(points)
    if not least:
        return None
    points = points / least
    width, height = np.ptp(points, axis=0)
    if 0 < height < FLATTEST * width:
        points[:, 1] *= min(3.0, FLATTEST * width / height)
    links = fabric.links
    lengths = np.hypot(*(points[links["from"]] - points[links["to"]]).T)
    if not min(width, height) and lengths.max(initial=1) > 1.01 * lengths.min(initial=1):
        return None  # all on a line that links would run along
    if width > WIDEST and (fabric.nodes["rank"] < 0).any():
        return None
    ends = zip(links["from"].tolist(), links["to"].tolist(), strict=True)
    bows = [
        min(0.4, 0.16 + 0.04 * float(np.hypot(*(points[b] - points[a]))))
        if something_between(points, points[a], points[b], 0.33)
        else 0.0
        for a, b in ends
    ]
    return Layout(points, bows=np.array(bows))


def _fits(points: Points) -> bool:
    """Whether no two nodes stand at one place, and none is far from all others."""
    if not len(points) or not np.isfinite(points).all():
        return False
    least = spacing(points)
    return least > 0 and float(np.ptp(points, axis=0).max()) <= SPARSEST * max(len(points), 4) * least
