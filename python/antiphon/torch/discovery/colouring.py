"""Rounds in which cables are loaded one by one: no rank has two in a round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def rounds(ends: Mapping[int, tuple[int, int]]) -> list[list[int]]:
    """A proper edge colouring: each round is a matching, made from the ranks that have most cables left.

    Args:
        ends: the ranks of each cable.

    >>> rounds({0: (0, 1), 1: (1, 2), 2: (2, 3), 3: (3, 0)})
    [[0, 2], [1, 3]]
    """
    left = dict(ends)
    found = []
    while left:
        degree = Counter(rank for pair in left.values() for rank in pair)
        busy: set[int] = set()
        taken = []
        for cable in sorted(left, key=lambda each: (-sum(degree[rank] for rank in left[each]), each)):
            if not busy & set(left[cable]):
                busy.update(left[cable])
                taken.append(cable)
        for cable in taken:
            del left[cable]
        found.append(sorted(taken))
    return found
