"""Points that are not stored yet, run by an executor: each claimed before, and kept as soon as it is done."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import TYPE_CHECKING, NamedTuple

from antiphon.deadline import OVER_TIME
from antiphon.errors import AntiphonError
from antiphon.parallel import check
from antiphon.plugins import ensure, sources
from antiphon.studies.identity import build_id, described, files_of, key_of
from antiphon.studies.jobs import Job, Record, refusal_of

if TYPE_CHECKING:
    from antiphon.studies.store import Store

Progress = Callable[[int, int], object]
"""Called with the number of points that are done and of all: at the start, when one is done, and every second."""

POLL_S = 0.05
"""Interruptions, and runs that others make, are looked for this often."""
TELL_S = 1.0
"""Progress is told this often, whether there is any or not."""
SHORT_S = 0.02
"""Runs that take less are given to an executor several at a time, and more than it can do at once."""
MOST_TOGETHER = 16
"""Runs that are given to it at a time."""
UNSETTLED = ("internal", "interrupted")
"""Codes of errors that say nothing about the point: a later call runs it again."""


class Outcome(NamedTuple):
    """What came of a point.

    Attributes:
        build: the build that ran it.
        record: its result, or why there is none.
        took_s: how long it took.
    """

    build: str
    record: Record
    took_s: float


class OverTime(Exception):
    """A point took longer than it may."""


def measured(point: Job, limit_s: float | None = None) -> Outcome:
    """Runs a point, wherever this is called; what goes wrong is a record."""
    start = time.monotonic()

    def heartbeat(_share: float) -> None:
        check()
        if limit_s is not None and time.monotonic() - start > limit_s:
            raise OverTime

    try:
        record = point.measure(heartbeat)
    except OverTime:
        record = _over_time(limit_s)
    except AntiphonError as error:
        record = _refusal(error.message, error.code)
    except Exception as error:  # a fault of ours, or a machine that is too small: one point, not the study
        record = _refusal(f"{type(error).__name__}: {error}", "internal")
    return Outcome(build_id(), record, time.monotonic() - start)


def all_measured(
    points: Sequence[Job], limit_s: float | None = None, plugins: Mapping[str, str] | None = None
) -> list[Outcome]:
    """Runs points one after the other, where the plugins of another process are known too."""
    ensure(plugins or {})
    return [measured(point, limit_s) for point in points]


def run_points(
    store: Store,
    points: Mapping[str, Job],
    executor: Executor,
    at_a_time: int,
    *,
    ahead: int = 0,
    limit_s: float | None = None,
    progress: Progress | None = None,
) -> int:
    """Runs points, by their keys, that the store does not have; returns how many.

    The executor has ``at_a_time`` pieces of work, each a point. Where points are short and ``ahead`` is not 0, it has
    this many more, so that it is never idle, and a piece is several points. What other processes are running now is
    waited for, and not counted.

    Raises:
        AntiphonError: ``bad-file`` if the store cannot be written, or a file changed while a point that names it was
            run; ``interrupted`` if the executor ended.
    """
    waiting = deque(store.missing(points, limit_s))
    elsewhere: list[str] = []
    again: deque[list[str]] = deque()
    under_way: dict[Future[list[Outcome]], list[str]] = {}
    finished: queue.SimpleQueue[Future[list[Outcome]]] = queue.SimpleQueue()
    done, made, most, size = len(points) - len(waiting), 0, at_a_time, 1
    told, told_at = -1, 0.0
    try:
        while waiting or under_way or elsewhere or again:
            check()
            if progress is not None and (done != told or time.monotonic() - told_at > TELL_S):
                told, told_at = done, time.monotonic()
                progress(done, len(points))
            outcomes: dict[str, Outcome] = {}
            for future in _taken(finished) if under_way else ():
                keys = under_way.pop(future)
                if found := _outcomes(future, len(keys), limit_s):
                    outcomes.update(zip(keys, found, strict=True))
                else:
                    again.extend([key] for key in keys)
            wrong = ""
            with store.together(sum(outcome.took_s for outcome in outcomes.values())):
                for key, outcome in outcomes.items():
                    if problem := _problem(key, points[key], outcome):
                        wrong = problem
                        continue
                    store.keep(key, points[key], outcome.record, _again_above_s(outcome.record, limit_s))
                    done, made = done + 1, made + 1
                if ahead and outcomes:
                    longest = max(outcome.took_s for outcome in outcomes.values())
                    most = at_a_time + (ahead if longest < SHORT_S else 0)
                    size = max(min(int(SHORT_S / max(longest, 1e-6)), MOST_TOGETHER), 1)
                pieces: list[list[str]] = []
                while (again or waiting) and len(under_way) + len(pieces) < most:
                    if again:
                        pieces.append(again.popleft())
                        continue
                    claims = _claimed(store, waiting, size, limit_s)
                    pieces += [claims[True]] if claims[True] else []
                    elsewhere += claims[False]
                    done += len(claims[None])
            if wrong:
                raise AntiphonError(wrong, "bad-file")
            for piece in pieces:
                future = executor.submit(all_measured, [points[key] for key in piece], limit_s, sources())
                under_way[future] = piece
                future.add_done_callback(finished.put)
            if elsewhere and not waiting and not under_way:
                time.sleep(POLL_S)
                waiting, elsewhere = deque(elsewhere), []
    except BrokenExecutor as error:
        why = str(error) or "it cancelled a point"
        raise AntiphonError(f"the executor ended: {why}; points that are done are kept", "interrupted") from None
    finally:
        for future in under_way:
            future.cancel()
        store.release()
    store.sync()
    if progress is not None and done != told:
        progress(done, len(points))
    return made


def _claimed(store: Store, waiting: deque[str], size: int, limit_s: float | None) -> dict[bool | None, list[str]]:
    """Points that are claimed now, at most ``size``, those that others have claimed, and those that are made."""
    claims: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    while waiting and len(claims[True]) < size:
        key = waiting.popleft()
        claims[store.claim(key, limit_s)].append(key)
    return claims


def _taken(finished: queue.SimpleQueue[Future[list[Outcome]]]) -> list[Future[list[Outcome]]]:
    """What is finished, after a while at the latest."""
    taken = []
    try:
        taken.append(finished.get(timeout=POLL_S))
        while True:
            taken.append(finished.get_nowait())
    except queue.Empty:
        return taken


def _outcomes(future: Future[list[Outcome]], count: int, limit_s: float | None) -> list[Outcome]:
    """What came of points, wherever they were run; nothing if it is not known of which of them.

    Raises:
        BrokenExecutor: if the executor ended.
    """
    if future.cancelled():
        raise BrokenExecutor
    error = future.exception()
    if error is None:
        return [Outcome(*each) for each in future.result()]
    if isinstance(error, BrokenExecutor):
        raise error
    if count > 1:
        return []
    if isinstance(error, OverTime):
        return [Outcome(build_id(), _over_time(limit_s), limit_s or 0.0)]
    # It could not be sent, or who ran it died.
    return [Outcome(build_id(), _refusal(f"{type(error).__name__}: {error}", "internal"), 0.0)]


def _problem(key: str, point: Job, outcome: Outcome) -> str:
    """Why an outcome cannot be kept as that of its point; empty if it can."""
    if outcome.build != build_id():
        return f"a worker runs Antiphon {outcome.build}, this process {build_id()}: install the same everywhere"
    if files_of(point) and key_of(point) != key:
        return f"a file changed while it was used: {described(point)[1]}"
    return ""


def _again_above_s(record: Record, limit_s: float | None) -> float | None:
    """Whom a record will not do: who gives the run more than so many seconds; None if it does for all."""
    refused = refusal_of(record)
    code = refused["code"] if refused else None
    return limit_s if code == OVER_TIME else 0.0 if code in UNSETTLED else None


def _refusal(reason: str, code: str) -> Record:
    """The record of a point that gave no result."""
    return {"refused": {"reason": " ".join(reason.split()), "code": code}}


def _over_time(limit_s: float | None) -> Record:
    return _refusal(f"it took longer than {limit_s:g} s; give it more with a larger time limit", OVER_TIME)
