"""Recursive doubling: partners swap all they have and add, so that N ranks are done after log2 N steps.

Thakur, Rabenseifner and Gropp, IJHPCA 2005, section 4.5: least latency, for small data.
"""

from __future__ import annotations

from antiphon._core import Fabric, Schedule, ScheduleBuilder

NAME = "recursive-doubling"


def recursive_doubling(fabric: Fabric, bytes: int) -> Schedule:
    """The all-reduce of a buffer of ``bytes`` bytes on any number of ranks.

    Ranks past the largest power of two first add theirs to a partner's, and get the sum at the end.
    """
    ranks = fabric.ranks
    core = 1 << (ranks.bit_length() - 1)
    folded = range(ranks - core)
    builder = ScheduleBuilder(fabric, "all-reduce", bytes, NAME)
    lane = builder.lane(0, bytes)
    step = 0
    for rank in folded:
        builder.reduce(core + rank, rank, lane, step)
    step += bool(folded)
    for bit in range(core.bit_length() - 1):
        swaps = [builder.reduce(rank, rank ^ 1 << bit, lane, step) for rank in range(core)]
        for rank, swap in enumerate(swaps):
            # What comes may be added only when what was there is sent.
            builder.apply_after(swaps[rank ^ 1 << bit], swap, "sent")
        step += 1
    for rank in folded:
        builder.copy(rank, core + rank, lane, step)
    return builder.finish()
