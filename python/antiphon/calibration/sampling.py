"""Rates of works that run at the same time, over the time in which all of them do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, wait
from typing import NamedTuple, Protocol

import numpy as np

from antiphon.errors import AntiphonError
from antiphon.parallel import check


class Lane(Protocol):
    """Work of one thread, done piece by piece."""

    def begin(self) -> None:
        """Makes ready for pieces that are timed together."""
        ...

    def piece(self) -> float:
        """Does the next piece, or puts it behind those under way; returns its amount, in 1e9 bytes or operations."""
        ...

    def ends(self, noted: Sequence[float], /) -> Sequence[float]:
        """When it began, and when each piece since then ended, in seconds on a clock of all lanes; ``noted`` is when
        ``begin`` and ``piece`` returned."""
        ...


class Done(NamedTuple):
    """What one lane had done at which time: it began with nothing."""

    times: Sequence[float]
    amounts: Sequence[float]


def rates(sides: Sequence[Sequence[Done]]) -> list[float]:
    """The rate of each side, a sum over its lanes, between the last beginning and the first end of all lanes; a piece
    that lies partly in between counts in proportion.

    >>> slow, fast = Done([0.0, 4.0], [0.0, 8.0]), Done([1.0, 2.0, 3.0], [0.0, 5.0, 10.0])
    >>> rates([[slow], [fast, fast]])
    [2.0, 10.0]

    Raises:
        AntiphonError: ``bad-size`` if some ended before others began.
    """
    lanes = [lane for side in sides for lane in side]
    start, end = max(lane.times[0] for lane in lanes), min(lane.times[-1] for lane in lanes)
    if end <= start:
        raise AntiphonError("a sample is too short for works to run at the same time; give more seconds", "bad-size")

    def amount(lane: Done) -> float:
        first, last = np.interp([start, end], lane.times, lane.amounts)
        return float(last - first)

    return [sum(map(amount, side)) / (end - start) for side in sides]


def together(pool: Executor, sides: Sequence[Sequence[Lane]], seconds: float) -> list[float]:
    """Runs all lanes at the same time, each in a thread of a pool of ``antiphon.parallel.threads`` that has enough of
    them, for ``seconds`` from the last beginning, and at least a piece each; the rate of each side."""
    count = sum(map(len, sides))
    begun: list[float] = []

    def run(lane: Lane) -> Done:
        lane.begin()
        noted, amounts = [time.perf_counter()], [0.0]
        begun.append(noted[0])
        while True:
            amounts.append(amounts[-1] + lane.piece())
            noted.append(time.perf_counter())
            check()
            if len(begun) == count and noted[-1] >= max(begun) + seconds:
                return Done(lane.ends(noted), amounts)

    futures = [[pool.submit(run, lane) for lane in side] for side in sides]
    every = [future for side in futures for future in side]
    wait(every, return_when=FIRST_EXCEPTION)
    for future in every:
        if future.done():
            future.result()
    return rates([[future.result() for future in side] for side in futures])
