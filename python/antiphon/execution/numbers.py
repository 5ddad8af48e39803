"""Numbers to run collectives on: small whole ones, so that every order of adding them gives the same sum."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from antiphon._core import Executor

    Array = np.ndarray[Any, np.dtype[Any]]

ELEMENTS = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
"""Types of numbers, and their bytes."""
LARGEST_EXACT = {"float16": 2048, "bfloat16": 256}
"""Whole numbers up to these are all exact."""
BLOCK_BYTES = 1 << 20
"""A whole number of elements of every type."""


def filled(element: str, ranks: int, rank: int, start: int, stop: int) -> Array:
    """What a rank has in bytes ``start`` to ``stop`` of its memory before a collective, as bytes.

    The numbers differ from rank to rank and from place to place, and the sum of all ranks' is exact in the type.
    """
    import numpy as np

    data = np.empty(stop - start, np.uint8)
    for first, end in _blocks(start, stop):
        data[first - start : end - start] = _as_bytes(element, _numbers(element, ranks, rank, first, end))
    return data


def _blocks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Parts that are made one after the other: numbers take several times the memory of the data."""
    for first in range(start, stop, BLOCK_BYTES):
        yield first, min(first + BLOCK_BYTES, stop)


def _numbers(element: str, ranks: int, rank: int, start: int, stop: int) -> Array:
    import numpy as np

    size = ELEMENTS[element]
    below = max(2, LARGEST_EXACT.get(element, 1 << 20) // ranks)
    places = np.arange(start // size, stop // size, dtype=np.int64)
    return (places * 7 + rank * 13 + (places >> 8)) % below


def _as_bytes(element: str, numbers: Array) -> Array:
    """Whole numbers in a type, as bytes."""
    import numpy as np

    if element == "bfloat16":
        # The upper half of a float32; the lower one of these is 0.
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return numbers.astype(element).view(np.uint8)


def wrong(executor: Executor, element: str, ranks: int, excluded: Collection[int], memory: Array) -> int:
    """Elements of a rank's memory that are not what the definition of the collective says, without excluded ranks."""
    import numpy as np

    size, count = ELEMENTS[element], 0
    adding = [rank for rank in range(ranks) if rank not in excluded]
    for start, stop, of in executor.outputs:
        for first, end in _blocks(start, stop):
            if of is not None:
                expected = filled(element, ranks, of, first, end)
            else:
                total = sum(_numbers(element, ranks, rank, first, end) for rank in adding)
                expected = _as_bytes(element, np.asarray(total))
            is_wrong = (memory[first:end] != expected).reshape(-1, size).any(axis=1)
            count += int(np.count_nonzero(is_wrong))
    return count
