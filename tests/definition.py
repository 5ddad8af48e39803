"""What the definitions of collectives say, on numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import antiphon


def defined(schedule: antiphon.Schedule, before: Sequence[np.ndarray], rank: int) -> list[tuple[slice, np.ndarray]]:
    """What a rank must end with, and where, if the ranks have these arrays before."""
    size, ranks, kind = before[0].itemsize, schedule.ranks, schedule.collective
    # What is only copied may be no number.
    total = np.sum(before, axis=0, dtype=before[0].dtype) if "reduce" in kind else before[0]

    def shard(of: int, part: int = 0) -> slice:
        start, length = antiphon.shard(schedule.bytes, ranks, of)
        base = part * schedule.bytes
        return slice((base + start) // size, (base + start + length) // size)

    if kind == "all-reduce" or (kind == "reduce" and rank == schedule.root):
        return [(slice(0, total.size), total)]
    if kind == "reduce":
        return []
    if kind == "broadcast":
        return [(slice(0, total.size), before[schedule.root or 0])]
    if kind == "reduce-scatter":
        return [(shard(rank), total[shard(rank)])]
    if kind == "all-gather":
        return [(shard(each), before[each][shard(each)]) for each in range(ranks)]
    assert kind == "all-to-all"
    places = [shard(rank, each) for each in range(ranks)]
    return [(place, before[each][place]) for each, place in enumerate(places)]
