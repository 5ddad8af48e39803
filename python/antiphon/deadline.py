"""A time after which work stops, and what there is counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from antiphon.arguments import shown
from antiphon.errors import AntiphonError

OVER_TIME = "time-limit"
"""The code of an error about work that a time limit ended."""
LONGEST_S = 1e9
"""No time limit is longer."""


class OverTime(AntiphonError):
    """A time limit was over."""


def check_limit(limit_s: float | None) -> None:
    """Refuses what is no time limit.

    Raises:
        AntiphonError: ``bad-size``.
    """
    if limit_s is not None and not (isinstance(limit_s, int | float) and 0 < limit_s <= LONGEST_S):
        what = f"time_limit_s is {shown(limit_s)}; give seconds, above 0 and at most {LONGEST_S:g}"
        raise AntiphonError(what, "bad-size")


def refuse_late(count: int, of: int, what: str) -> None:
    """Ends a command whose time limit left out some of what it stores.

    Raises:
        OverTime: with the code ``time-limit``.
    """
    if count:
        message = f"the time limit left out {count:,} of {of:,} {what}; a call with a larger one runs only these"
        raise OverTime(message, OVER_TIME)


class Deadline:
    """So many seconds from now; never, if there is no limit.

    Raises:
        AntiphonError: ``bad-size`` for what is no number of seconds.
    """

    def __init__(self, limit_s: float | None) -> None:
        check_limit(limit_s)
        self.limit_s = limit_s
        self.end = None if limit_s is None else time.monotonic() + limit_s

    def check(self) -> None:
        """Ends what is at work when it has passed.

        Raises:
            OverTime: with the code ``time-limit``.
        """
        if self.end is not None and time.monotonic() > self.end:
            raise OverTime(f"the time limit of {self.limit_s:g} s was over", OVER_TIME)

    def watching(self, progress: Callable[..., object] | None) -> Callable[..., object] | None:
        """A callback that checks the time before it passes on what it is told; none where there is nothing to do."""
        if self.end is None:
            return progress

        def told(*arguments: Any) -> None:
            self.check()
            if progress is not None:
                progress(*arguments)

        return told
