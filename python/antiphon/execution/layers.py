"""Where the layers of a model lie in the memory of a rank, so that those which are needed first are final first.

The chunks of a schedule are dealt out to the layers in turn: the first chunks of all lanes, then the second ones, as
C-Cube (HPCA 2023, section IV) deals chunks to its two trees. So a schedule that completes the chunks of every lane in
order completes layers in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon._core import Schedule
from antiphon.errors import AntiphonError

Numbers: TypeAlias = NDArray[np.integer[Any]]
Range = tuple[int, int]
"""First byte and end."""


@dataclass(frozen=True)
class Piece:
    """A chunk in a rank's memory.

    Attributes:
        lane: of the schedule.
        chunk: of the lane.
        place: its first byte in the memory.
        bytes: how many.
    """

    lane: int
    chunk: int
    place: int
    bytes: int


def in_turn(schedule: Schedule, lanes: Numbers, chunks: Numbers) -> Numbers:
    """The order in which chunks of lanes are dealt out, as indices: lanes of more chunks take more turns."""
    share = (chunks + 1) / schedule.lanes["chunks"][lanes]
    return np.lexsort((lanes, share))


def dealt(schedule: Schedule, itemsize: int) -> list[Piece]:
    """The chunks of a schedule in the order in which they are dealt out, with numbers of ``itemsize`` bytes. In this
    order they hold the bytes of the model, whose layers follow each other.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:2", "overlapped-tree:trees=2,chunk=8", bytes=32)
    >>> [piece.place for piece in dealt(schedule, 4)]
    [0, 16, 8, 24]
    """
    chunks = schedule.chunk_ranges(itemsize)
    order = in_turn(schedule, chunks["lane"], chunks["chunk"])
    columns = [chunks["lane"], chunks["chunk"], chunks["first"], chunks["end"] - chunks["first"]]
    return [Piece(*each) for each in zip(*(column[order].tolist() for column in columns), strict=True)]


def shared_out(pieces: Iterable[Piece], sizes: Sequence[int]) -> Iterator[list[tuple[Piece, Range]]]:
    """For each layer, in order, the pieces that have some of it, and which bytes of the memory that is.

    Args:
        pieces: in order.
        sizes: bytes of each layer, whole numbers all of them.

    Raises:
        AntiphonError: ``bad-size`` if they are not those of the pieces together.
    """
    pieces = list(pieces)
    whole = sum(piece.bytes for piece in pieces)
    if sum(sizes) != whole or min(sizes, default=0) < 0:
        raise AntiphonError(f"layers of {sum(sizes)} bytes in memory of {whole}; give layers that fill it", "bad-size")
    at = used = 0
    for size in sizes:
        found = []
        while size:
            piece = pieces[at]
            taken = min(size, piece.bytes - used)
            found.append((piece, (piece.place + used, piece.place + used + taken)))
            size, used = size - taken, used + taken
            if used == piece.bytes:
                at, used = at + 1, 0
        yield found


def layer_parts(pieces: Iterable[Piece], sizes: Sequence[int]) -> list[list[Range]]:
    """For each layer, in order, the ranges of a rank's memory that hold it: the layer-chunk table of C-Cube.

    Raises:
        AntiphonError: as ``shared_out``.
    """
    parts: list[list[Range]] = []
    for found in shared_out(pieces, sizes):
        ranges: list[Range] = []
        for _, (start, end) in found:
            if ranges and ranges[-1][1] == start:
                start = ranges.pop()[0]
            ranges.append((start, end))
        parts.append(ranges)
    return parts
