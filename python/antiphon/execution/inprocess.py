"""Schedules run in this process, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from antiphon._core import Execution, Schedule
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.parallel import cores

if TYPE_CHECKING:
    import numpy as np


def execute(
    schedule: Schedule,
    arrays: Sequence[np.ndarray[Any, np.dtype[Any]]],
    *,
    threads: int | None = None,
    on_final: Callable[[int, int, int], object] | None = None,
) -> None:
    """Runs a schedule on arrays, one a rank, in place, by threads that copy from one rank's array straight into
    another's.

    >>> import numpy as np
    >>> import antiphon
    >>> schedule = antiphon.build("mesh:2x2", "ring", bytes="1KiB")
    >>> arrays = [np.full(256, rank, dtype=np.float32) for rank in range(4)]
    >>> antiphon.execute(schedule, arrays)
    >>> bool(all((array == 6).all() for array in arrays))
    True

    A rank starts with its data where they belong in the whole: for an all-gather its shard is at
    ``antiphon.shard(bytes, ranks, rank)``. For an all-to-all an array is ``ranks`` times as long: what rank ``r`` sends
    lies in part ``r`` of its array, and what it gets from rank ``s`` comes to the same place in part ``s``. The array
    of a rank that the schedule excludes must be all 0: it may add it to what it passes on. Ctrl-C ends a run, and
    leaves the arrays half done.

    Args:
        schedule: is proven first; one that is wrong, or leaves gaps, is refused. The last few are remembered.
        arrays: of shape (bytes / itemsize,), all float32, float64, float16, int32, int64, or uint16 for bfloat16;
            contiguous and writable. Sums of integers wrap around.
        threads: default: as many as cores, at most one a rank.
        on_final: called in this thread with ``rank, first, end`` as soon as the bytes ``first`` to ``end`` of a rank's
            array, a chunk, are not written any more; they may be read, but not changed before the run is over, for
            others may still get them. What it raises ends the run.

    Raises:
        AntiphonError: ``not-proven``; ``bad-spec`` for other arrays; ``bad-size`` if they have another length, or
            ``bytes`` is no whole number of elements; ``too-large`` past 2^26 messages or 2^24 pieces.
    """
    expect("schedule", schedule, Schedule)
    expect("arrays", arrays, list, tuple)
    if threads is None:
        threads = cores()
    expect("threads", threads, int)
    if not 1 <= threads <= 1024:
        raise AntiphonError(f"threads {shown(threads)}: 1 to 1024", "bad-size")
    if on_final is None:
        _prepared(schedule).run(list(arrays), threads)
        return
    tell, itemsize = on_final, getattr(getattr(arrays[0] if arrays else None, "dtype", None), "itemsize", 1)
    chunks = schedule.chunk_ranges(itemsize)
    ranges = list(zip(chunks["first"].tolist(), chunks["end"].tolist(), strict=True))
    parts = [[each] for each in ranges]
    _prepared(schedule).run(list(arrays), threads, parts, lambda rank, part: tell(rank, *ranges[part]))


# Whoever runs a schedule often does not wait for its proof every time.
_prepared = lru_cache(maxsize=8)(Execution)
