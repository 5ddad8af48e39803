"""Layouts of what is no grid: by distances, and on a circle."""

from __future__ import annotations

import math

import numpy as np

from antiphon._core import Fabric
from antiphon.view.drawing.geometry import Layout, Points, something_between, spacing

NUDGE, PASSES = 0.01, 200
"""By so much nodes that would lie on each other differ at first; then distances are made right so often."""
MOST_BY_DISTANCE = 128
"""Nodes; more take long."""
CLOSEST = 0.35
"""Nodes that come nearer to each other, as a part of a link's length, are drawn on a circle instead."""


def by_distance(fabric: Fabric) -> Layout | None:
    """Places such that distances are about as many links as there are between nodes, of a fabric that has few links
    for its nodes; else they would lie in a heap."""
    count = len(fabric.nodes["rank"])
    edges = sorted({(min(a, b), max(a, b)) for a, b in zip(fabric.links["from"], fabric.links["to"], strict=True)})
    if not 4 <= count <= MOST_BY_DISTANCE or not 0 < len(edges) <= 2 * count or _ring(count, edges):
        return None
    points = distances(count, [(int(a), int(b)) for a, b in edges])
    lengths = [float(np.hypot(*(points[a] - points[b]))) for a, b in edges]
    if spacing(points) < CLOSEST * max(lengths) / 2:
        return None
    points /= spacing(points)
    ends = zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True)
    bows = [0.3 if something_between(points, points[a], points[b], 0.33) else 0.0 for a, b in ends]
    return Layout(points - points.min(axis=0), np.array(bows))


def _ring(count: int, edges: list[tuple[int, int]]) -> bool:
    """Whether the nodes in order are a ring."""
    return edges == sorted((min(n, (n + 1) % count), max(n, (n + 1) % count)) for n in range(count))


def distances(count: int, edges: list[tuple[int, int]]) -> Points:
    """Places whose distances are about as many edges as there are between nodes. A ring becomes a circle, a mesh a
    grid: classical scaling (Torgerson 1952), then majorization of stress (de Leeuw 1977)."""
    far = np.full((count, count), float(count))
    np.fill_diagonal(far, 0)
    for one, other in edges:
        far[one, other] = far[other, one] = 1
    for by in range(count):
        far = np.minimum(far, far[:, by : by + 1] + far[by : by + 1])
    centred = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-centred @ far**2 @ centred / 2)
    turn = 2 * np.pi * np.arange(count) / count
    points: Points = NUDGE * np.stack([np.sin(turn), np.cos(turn)], axis=1)
    found = (vectors * np.sqrt(np.maximum(values, 0)))[:, :-3:-1]
    points[:, : found.shape[1]] += found
    for _ in range(PASSES):
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        pull = far / np.where(apart > 0, apart, np.inf)
        points = (pull.sum(axis=1, keepdims=True) * points - pull @ points) / count
    return np.asarray(points - points.min(axis=0))


def circle(fabric: Fabric) -> Layout:
    """All nodes on a circle, the first on top."""
    return Layout(on_circle(len(fabric.nodes["rank"])), radius=0.24)


def on_circle(count: int, apart: float = 1.0) -> Points:
    """Places on a circle, the first on top, neighbours at least so far apart."""
    angle = np.arange(count) * (2 * np.pi / max(count, 1))
    radius = max(1.0, 0.5 / math.sin(math.pi / max(count, 3))) * apart
    points = radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    return np.asarray(points - points.min(axis=0))
