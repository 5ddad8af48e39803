"""Which of several figures no other beats: the Pareto front of time, energy and area, all the less the better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Figures = tuple[float, ...]
DIGITS = 12
"""Significant ones of figures that are compared: sums of the same parts may differ in the last."""


def compared(figures: Iterable[float]) -> Figures:
    """Figures as they are compared."""
    return tuple(float(f"{figure:.{DIGITS}g}") for figure in figures)


def undominated(figures: Sequence[Figures]) -> NDArray[np.bool_]:
    """Which are dominated by none: no other is at least as good in all, and better in one. Equal ones stay.

    O(points times the front).

    >>> undominated([(1, 2), (2, 1), (2, 2), (1, 2)]).tolist()
    [True, True, False, True]
    """
    points = np.asarray(figures, np.float64)
    kept = np.zeros(len(points), bool)
    left = np.lexsort(points.T[::-1]) if len(points) else np.empty(0, int)  # what dominates a point comes before it
    while len(left):
        kept[left[0]] = True
        left = left[1:][~_dominated(points[left[1:]], points[left[0]])]
    return kept


def dominated(figures: Sequence[Figures], others: Sequence[Figures]) -> NDArray[np.bool_]:
    """Which of some figures one of the others dominates. O(figures times the front of the others).

    >>> dominated([(1, 2), (2, 2)], [(1, 2), (3, 1)]).tolist()
    [False, True]
    """
    points = np.asarray(figures, np.float64)
    found = np.zeros(len(points), bool)
    if len(points) and len(others):
        for other in np.asarray(others, np.float64)[undominated(others)]:
            found |= _dominated(points, other)
    return found


def _dominated(points: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    no_worse: NDArray[np.bool_] = np.all(points >= other, axis=1)
    better: NDArray[np.bool_] = np.any(points > other, axis=1)
    return no_worse & better
