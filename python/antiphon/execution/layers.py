"""Where the layers of a model lie in the memory of a rank, so that those which are needed first are final first.

The chunks of a schedule are dealt out to the layers in turn: the first chunks of all lanes, then the second ones, as
C-Cube (HPCA 2023, section IV) deals chunks to its two trees. So a schedule that completes the chunks of every lane in
order completes layers in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from antiphon._core import Schedule
from antiphon.errors import AntiphonError

Range = tuple[int, int]
"""First byte and end."""


@dataclass(frozen=True)
class Piece:
    """Bytes of the model that lie together in a rank's memory.

    Attributes:
        first: byte in the model, whose layers follow each other.
        place: byte in the memory.
        bytes: how many.
    """

    first: int
    place: int
    bytes: int


def dealt(schedule: Schedule, itemsize: int) -> list[Piece]:
    """The chunks of a schedule in the order in which they are dealt out, with numbers of ``itemsize`` bytes.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:2", "overlapped-tree:trees=2,chunk=8", bytes=32)
    >>> [(piece.first, piece.place) for piece in dealt(schedule, 4)]
    [(0, 0), (8, 16), (16, 8), (24, 24)]
    """
    chunks = schedule.chunk_ranges(itemsize)
    # Lanes of more chunks take more turns.
    share = (chunks["chunk"] + 1) / schedule.lanes["chunks"][chunks["lane"]]
    order = np.lexsort((chunks["lane"], share))
    places, sizes = chunks["first"][order], (chunks["end"] - chunks["first"])[order]
    firsts = np.cumsum(sizes) - sizes
    return [Piece(*each) for each in zip(firsts.tolist(), places.tolist(), sizes.tolist(), strict=True)]


def layer_parts(pieces: Sequence[Piece], sizes: Sequence[int]) -> list[list[Range]]:
    """For each layer, in order, the ranges of a rank's memory that hold it: the layer-chunk table of C-Cube.

    Args:
        pieces: of all chunks.
        sizes: bytes of each layer, whole numbers all of them.

    Raises:
        AntiphonError: ``bad-size`` if they are not those of the pieces together.
    """
    whole = sum(piece.bytes for piece in pieces)
    if sum(sizes) != whole or min(sizes, default=0) < 0:
        raise AntiphonError(f"layers of {sum(sizes)} bytes in memory of {whole}; give layers that fill it", "bad-size")
    parts: list[list[Range]] = []
    rest = iter(pieces)
    place = left = 0
    for size in sizes:
        ranges: list[Range] = []
        while size:
            if not left:
                piece = next(rest)
                place, left = piece.place, piece.bytes
            taken = min(size, left)
            if ranges and ranges[-1][1] == place:
                ranges[-1] = (ranges[-1][0], place + taken)
            else:
                ranges.append((place, place + taken))
            size, place, left = size - taken, place + taken, left - taken
        parts.append(ranges)
    return parts
