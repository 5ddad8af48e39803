"""What a rank's memory holds before and after a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon._core import Executor, Schedule

if TYPE_CHECKING:
    import numpy as np

ELEMENTS = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
"""Types of numbers, and their bytes."""
STALE = 255
"""What every byte holds that nobody may read."""


class Data:
    """One rank's memory, as bytes, for any number of runs."""

    def __init__(self, schedule: Schedule, executor: Executor, rank: int, in_place: bool) -> None:
        """In place, the rank's own data are there before a run; else the run copies them (``load``)."""
        import numpy as np

        self.memory: np.ndarray[tuple[int], np.dtype[np.uint8]] = np.empty(executor.memory_bytes, np.uint8)
        self._executor, self._in_place = executor, in_place
        self._place, self._own = slice(*executor.input), executor.own()
        self._rest = 0 if rank in schedule.excluded else STALE  # it may add what is its own

    def reset(self) -> None:
        """Before a run: nothing of the last one is left."""
        self.memory[:] = self._rest
        if self._in_place:
            self.memory[self._place] = self._own

    def load(self) -> None:
        """What a run begins with: out of place, the rank's data come into its memory."""
        if not self._in_place:
            self.memory[self._place] = self._own

    def wrong(self) -> int:
        """After a run: elements that are not what the collective defines."""
        return self._executor.wrong(self.memory)
