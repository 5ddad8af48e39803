"""How long a run on this machine should take, by what its memory was measured to do."""

from __future__ import annotations

import os
from dataclasses import dataclass

from antiphon._core import Schedule
from antiphon.calibration.result import Calibration
from antiphon.errors import AntiphonError
from antiphon.files import parse_json, read_text

LARGEST_FILE = 1 << 24
REDUCE_ACCESSES, COPY_ACCESSES = 3, 2
"""Bytes that the memory moves for a byte that is added: two operands and the sum; for one that is copied."""


@dataclass(frozen=True)
class MemoryRates:
    """What all cores together do alone, in GB/s of bytes read and written (docs/how-to/calibrate.md)."""

    reduce: float
    copy: float

    @classmethod
    def of(cls, calibration: Calibration | str | os.PathLike[str]) -> MemoryRates:
        """Of a calibration, or the file of ``antiphon calibrate --out``.

        Raises:
            AntiphonError: ``bad-file``.
        """
        if isinstance(calibration, Calibration):
            return cls(calibration.rate("reduce"), calibration.rate("copy"))
        path = os.fspath(calibration)
        try:
            document = parse_json(read_text(path, LARGEST_FILE))
            rows, cores = document["measured"], document["machine"]["cores"]
            alone = {row["work"]: row["rate"] for row in rows if not row["beside"] and row["cores"] == cores}
            return cls(float(alone["reduce"]), float(alone["copy"]))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            if isinstance(error, AntiphonError):
                raise
            raise AntiphonError(f"{path}: is not what antiphon calibrate --out writes", "bad-file") from None

    def predicted_ns(self, schedule: Schedule, transport: str) -> float:
        """The time in which the memory, which all ranks share, moves what a schedule sends.

        By MPI every message is copied once more, into memory that processes share. Latency, and caches where the data
        fit in, are left out.
        """
        transfers = schedule.transfers
        moved = transfers["message_bytes"] * transfers["chunks"]
        added = float(moved[transfers["reduces"]].sum())
        copied = float(moved.sum()) - added
        if transport == "mpi":
            copied += added + copied
        return added * REDUCE_ACCESSES / self.reduce + copied * COPY_ACCESSES / self.copy
