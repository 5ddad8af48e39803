"""Layouts of grids: meshes, tori, flattened butterflies, bypass wires."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antiphon._core import Fabric
from antiphon.view.drawing.geometry import Frame, Layout, Points, something_between

DEPTH = 0.8
"""A step along the third dimension goes so far to the right and up."""
DEEPEST = 8
"""Where the first dimension is longer, a shorter one is the third."""
TILES = 1.7
"""Between copies of a grid side by side, along a fourth dimension and more."""


def coordinates(fabric: Fabric) -> list[NDArray[np.float64]]:
    """The coordinates of the nodes from 0 on, the slowest first, without leading ones that are all alike."""
    nodes = fabric.nodes
    names = sorted((name for name in nodes if name.startswith("coord_")), key=lambda name: int(name[6:]))
    found = [np.asarray(nodes[name] - nodes[name].min(), dtype=np.float64) for name in names]
    while len(found) > 1 and not found[0].any():
        found.pop(0)
    return found


def flat(coords: list[NDArray[np.float64]]) -> Points | None:
    """The last coordinate along x and the one before along y; further ones lay slices out side by side."""
    if not coords or not all(np.isfinite(column).all() for column in coords):
        return None
    points = np.zeros((len(coords[0]), 2))
    size = [1.0, 1.0]
    for place, column in enumerate(reversed(coords)):
        axis = place % 2
        points[:, axis] += column * size[axis]
        size[axis] *= float(column.max()) + TILES
    return points


def lattice(fabric: Fabric) -> Layout | None:
    """Of nodes at whole coordinates without switches. Wrap-around links are drawn in two halves, and links past other
    nodes are bowed; a third dimension goes to the right and up, further ones lay copies out side by side."""
    coords = coordinates(fabric)
    if len(coords) < 2 or any((column % 1).any() for column in coords):
        return None
    sizes = [int(column.max()) + 1 for column in coords]
    if len(coords[0]) != int(np.prod(sizes)):
        return None
    steps = _steps(sizes)
    points = sum(column[:, None] * step for column, step in zip(coords, steps, strict=True))
    links = fabric.links
    start, end = links["from"], links["to"]
    bypass = np.array([str(label).endswith("-bypass") for label in links["dimension"]], dtype=bool)
    moves = np.stack([column[end] - column[start] for column in coords])
    along = (moves != 0).sum(axis=0)
    bows, halves = np.zeros(len(start)), np.zeros((len(start), 2))
    for move, size, step in zip(moves, sizes, steps, strict=True):
        lengths = np.abs(move)
        between = (lengths > 1) & (lengths < size - 1)
        far = (lengths == size - 1) & (lengths > 1) & ~bypass
        if not between[~bypass].any():  # a ring: what is not one step goes around
            halves[far] = -np.sign(move[far])[:, None] * step
        else:
            bypassing = (lengths > 1) & (along == 1)
            bows[bypassing] = _bow(lengths[bypassing], size)
        over = bypass & (lengths > 1)
        bows[over] = _bow(lengths[over], size)
    clique = bool((bows > 0).any())
    points = np.asarray(points)
    if len(sizes) > 3:  # links to the next copy pass nodes of this one
        for link in np.flatnonzero((bows == 0) & ~halves.any(axis=1)).tolist():
            if something_between(points, points[start[link]], points[end[link]], 0.3):
                bows[link] = 0.35
    return Layout(points, bows, halves, radius=0.2 if clique else 0.27)


def _bow(lengths: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """How far links bow: the longer, the further, all within the gap between rows."""
    return 0.26 + 0.22 * (lengths - 2) / max(size - 3, 1)


def _steps(sizes: list[int]) -> list[Points]:
    """How far a step along each dimension goes."""
    order = list(range(len(sizes)))[::-1]  # x, y, depth, further ones
    if len(order) > 2:
        depth = order[2] if sizes[order[2]] <= DEEPEST else min(order[:3], key=lambda axis: sizes[axis])
        order[:3] = [axis for axis in order[:3] if axis != depth] + [depth]
    deep = sizes[order[2]] if len(order) > 2 else 1
    pitch = 1.0 if deep == 1 else DEPTH * deep + 0.2
    steps = [np.zeros(2) for _ in sizes]
    extent = [0.0, 0.0]
    for place, axis in enumerate(order):
        if place < 2:
            steps[axis][place] = pitch
            extent[place] = pitch * (sizes[axis] - 1)
        elif place == 2:
            steps[axis][:] = DEPTH, -DEPTH
            extent = [each + DEPTH * (deep - 1) for each in extent]
        else:
            side = (place + 1) % 2
            steps[axis][side] = extent[side] + TILES
            extent[side] += steps[axis][side] * (sizes[axis] - 1)
    return steps


def cells(fabric: Fabric) -> tuple[Points, list[Frame]]:
    """Of a heat map: a cell for each node. Grids are slices side by side, whatever else there is stands in rows."""
    coords = coordinates(fabric)
    count = len(fabric.nodes["rank"])
    whole = bool(coords) and not any((column % 1).any() for column in coords)
    if len(coords) >= 2 and whole and count == int(np.prod([column.max() + 1 for column in coords])):
        points = np.stack(coords[:-3:-1], axis=1)
        wide, tall = points.max(axis=0) + TILES
        slices = np.zeros(count, dtype=np.int64)  # numbered through
        for column in coords[:-2]:
            slices = slices * int(column.max() + 1) + column.astype(np.int64)
        across = max(1, round(float(np.sqrt(1.4 * (slices.max() + 1) * tall / wide))))
        points = points + np.stack([slices % across * wide, slices // across * tall], axis=1)
        return points, _framed(points, coords, slices)
    ranks = fabric.nodes["rank"] >= 0
    points = np.zeros((count, 2))
    top = 0.0
    for which in (ranks, ~ranks):
        members = np.flatnonzero(which)
        across = max(int(np.ceil(np.sqrt(1.6 * len(members)))), 1)
        points[members, 0] = np.arange(len(members)) % across
        points[members, 1] = np.arange(len(members)) // across + top
        top += np.ceil(len(members) / across) + 1
    return points, []


def _framed(points: Points, coords: list[NDArray[np.float64]], slices: NDArray[np.int64]) -> list[Frame]:
    """A frame around each slice, if there are several."""
    if len(coords) < 3:
        return []
    frames = []
    for number in range(int(slices.max()) + 1):
        inside = points[slices == number]
        low, high = inside.min(axis=0) - 0.6, inside.max(axis=0) + 0.6
        frames.append(Frame(float(low[0]), float(low[1]), float(high[0]), float(high[1])))
    return frames
