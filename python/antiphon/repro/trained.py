"""Training whose collectives are runs of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from antiphon._core import Fabric
from antiphon.collective.timing import CollectiveTime
from antiphon.results import Table
from antiphon.studies import Record
from antiphon.training.result import Training

CHUNKS = {"lane": np.int64, "chunk": np.uint64, "complete_ns": np.float64}
"""The columns of a table of chunks that training reads."""
DONE: Record = {"time_ns": 0.0, "excluded_ranks": [], "tables": {"chunks": [dict.fromkeys(CHUNKS, 0)]}}
"""A collective that takes no time."""


def sizes(train: Callable[..., Training]) -> list[int]:
    """Bytes of the collectives of a training: one in which they take no time tells them."""
    found: list[int] = []

    def note(_fabric: Fabric, _algorithm: str, _collective: str, size: int) -> CollectiveTime:
        found.append(size)
        return timed(DONE)

    train(collectives=note)
    return found


def timed(record: Record) -> CollectiveTime:
    """A collective as it was run, with its chunks if they were kept."""
    rows = record.get("tables", {}).get("chunks", [])
    chunks = Table({name: np.array([each[name] for each in rows], kind) for name, kind in CHUNKS.items()})
    return CollectiveTime(record["time_ns"], record["excluded_ranks"], chunks if rows else None)


def trained(train: Callable[..., Training], records: Iterable[Record]) -> Training:
    """The training with the times of its collectives, taken from records in the order of ``sizes``."""
    left = iter(records)
    return train(collectives=lambda *_asked: timed(next(left)))
