"""What ranks tell each other through the store of a job, with a limit on all waiting."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from antiphon.errors import AntiphonError

SHORTEST_S, LONGEST_S = 0.0005, 0.02
"""Time between two looks at the store."""
STORE_ERRORS = (RuntimeError, ConnectionError, TimeoutError)
"""What stores of PyTorch raise when they are gone."""
NAMED = 8
"""Ranks that an error names."""


class StoreLike(Protocol):
    """What is used of ``torch.distributed.Store``."""

    def get(self, key: str, /) -> bytes:
        """A value; waits for it."""
        ...

    def set(self, key: str, value: str, /) -> None:
        """Sets a value."""
        ...

    def add(self, key: str, amount: int, /) -> int:
        """Adds to a counter; its new value."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Whether all have a value."""
        ...


class Meeting:
    """The ranks of a job, at one store.

    Args:
        store: of this job alone.
        rank: of this process.
        size: number of ranks.
        timeout_s: all that follows takes no longer.
    """

    def __init__(self, store: StoreLike, rank: int, size: int, timeout_s: float) -> None:
        self.rank, self.size = rank, size
        self._store = store
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Time that is left."""
        return max(0.0, self._until - time.monotonic())

    def tell(self, what: str, value: object) -> None:
        """Tells all ranks a value, which JSON can hold."""
        self._store.set(_key(what, self.rank), json.dumps(value))

    def hear(self, what: str, rank: int) -> Any:
        """The value that a rank tells.

        Raises:
            AntiphonError: ``stalled`` if it does not come; what another rank failed with.
        """
        return self.hear_of(what, [rank])[0]

    def hear_of(self, what: str, ranks: Sequence[int]) -> list[Any]:
        """The values that ranks tell.

        Raises:
            AntiphonError: as `hear`, naming the ranks that are late.
        """
        keys = [_key(what, rank) for rank in ranks]
        self._wait(keys, list(ranks), what)
        return [json.loads(self._store.get(key)) for key in keys]

    def exchange(self, what: str, value: object) -> list[Any]:
        """The values of all ranks.

        Raises:
            AntiphonError: as `hear_of`.
        """
        self.tell(what, value)
        return self.hear_of(what, range(self.size))

    def barrier(self, what: str) -> None:
        """Waits until all ranks are here.

        Raises:
            AntiphonError: as `hear_of`.
        """
        here = f"discovery/{what}/here"
        self._store.set(_key(what, self.rank), "here")
        if self._store.add(here, 1) == self.size:
            self._store.set(f"{here}/all", "yes")
        self._wait([f"{here}/all"], list(range(self.size)), what)

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """What fails here ends the others, too, with the same message."""
        try:
            yield
        except AntiphonError as error:
            if not getattr(error, "is_told", False):
                with suppress(RuntimeError):
                    self._store.set("discovery/failed", json.dumps([self.rank, error.message, error.code]))
            raise
        except STORE_ERRORS as error:
            said = (str(error).splitlines() or ["no reason"])[0]
            what = f"the store of the job, at MASTER_ADDR, does not answer: {said}; look whether rank 0 still runs"
            raise AntiphonError(what, "stalled") from None

    def _wait(self, keys: list[str], ranks: list[int], what: str) -> None:
        pause = SHORTEST_S
        while not self._store.check(keys):
            if self._store.check(["discovery/failed"]):
                rank, message, code = json.loads(self._store.get("discovery/failed"))
                error = AntiphonError(message if message.startswith("rank ") else f"rank {rank}: {message}", code)
                error.is_told = True  # type: ignore[attr-defined]
                raise error
            if not self.left_s:
                late = [rank for rank in ranks if not self._store.check([_key(what, rank)])]
                raise AntiphonError(self._late(late, what), "stalled")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_S)

    def _late(self, ranks: list[int], what: str) -> str:
        names = ", ".join(map(str, ranks[:NAMED])) + (f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else "")
        who = f"{'rank' if len(ranks) == 1 else 'ranks'} {names or 'unknown'}"
        limit = f"within {self._timeout_s:g} s"
        return f"{who} did not come to discovery ({what}) {limit}; look whether the process runs and what it printed"


def _key(what: str, rank: int) -> str:
    return f"discovery/{what}/{rank}"
