"""Who drives the carrier: whoever waits, and a thread for what nobody waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.torch.failures import failure, timed_out
from antiphon.torch.recovery import Kept
from antiphon.torch.staging import Arrival
from antiphon.torch.work import Request, Work

POLL_S = 1e-4
"""How often a copy from a GPU is looked at."""
CLOSING_S = 5.0
"""How long the end of a group waits for a thread that drives."""


class Worker:
    """Drives all that a process has under way, one thread at a time: the one that has the lead.

    A call that waits while nothing else is under way drives in its own thread. What nobody waits for is driven by a
    thread of this worker. What is chained to a future may wait itself: it runs without the lead, which another thread
    takes.
    """

    def __init__(self, carrier: Any) -> None:
        self.carrier = carrier
        self.lead = threading.Lock()
        self.works: list[Work] = []  # all that is under way, in the order of the calls
        self.bell = threading.Condition()
        self.idle, self.rung, self.closed = 0, False, False
        self.threads: list[threading.Thread] = []

    def direct(self, request: Request, name: str, limit_s: float) -> Any:
        """Runs one operation in this thread, if nothing else is under way; else gives None, and nothing is begun.

        Raises:
            torch.distributed.DistBackendError: it failed, or took longer than ``limit_s``.
        """
        if self.works or self.closed or not self.lead.acquire(blocking=False):
            return None
        operation = None
        try:
            operation = request()
            self.carrier.drive([operation], limit_s)
        except AntiphonError as error:
            if operation is not None:
                self.carrier.give_up(operation)
            if error.code == "time-limit":
                raise timed_out(name, limit_s, str(error)) from None
            raise failure(error, name) from None
        finally:
            self.lead.release()
            if self.works:
                self._ring()
        if operation.failure is not None:
            raise failure(operation.failure, name)
        if not operation.done:  # another call came, or an early one woke this
            work = Work(self, name, [], limit_s)
            next(work.steps)
            work.waiting = [operation]
            self.begin(work, alone=False)
            work.wait()
        return operation

    def begin(self, work: Work, *, alone: bool) -> None:
        """Begins work, after all that was begun before.

        Args:
            work: prepared.
            alone: nobody will wait for it now, so that a thread must drive it.
        """
        self.works.append(work)
        if self.closed:
            self._abandon()
        elif self.lead.locked():
            self.carrier.wake()
        elif alone:
            self._ring()

    def finish(self, work: Work, limit_s: float | None, over: threading.Event | None = None) -> None:
        """Waits until work is done, or ``over`` is set, which its end sets too; drives meanwhile if nobody else does.

        Raises:
            torch.distributed.DistBackendError: after ``limit_s``; the work goes on.
        """
        over = over or work.over
        until_s = None if limit_s is None else time.monotonic() + limit_s
        while not over.is_set() and work in self.works and self.lead.acquire(blocking=False):
            self._turn(over, until_s)
            if until_s is not None and time.monotonic() >= until_s:
                break
        if not over.wait(None if until_s is None else max(0.0, until_s - time.monotonic())):
            raise timed_out(work.name, limit_s or 0.0)

    def close(self) -> None:
        """Ends what is under way with an error, and the threads."""
        with self.bell:
            self.closed = True
            self.bell.notify_all()
        if self.carrier is not None:
            self.carrier.wake()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(timeout=CLOSING_S)
        self._abandon()

    def _abandon(self) -> None:
        works, self.works = self.works, []
        for work in works:
            work.error = failure("its process group was destroyed before it was done", work.name)
            work.end()
            work.settle()

    def _ring(self) -> None:
        """Makes a thread drive what is under way."""
        with self.bell:
            if self.closed or self.rung:
                return
            self.rung = True
            if self.idle:
                self.bell.notify()
                return
            thread = threading.Thread(target=self._serve, name="antiphon", daemon=True)
            self.threads = [*(each for each in self.threads if each.is_alive()), thread]
        thread.start()

    def _serve(self) -> None:
        """A thread's life: it drives while there is something under way and nobody else does."""
        while True:
            with self.bell:
                self.idle += 1
                while not self.rung and not self.closed:
                    self.bell.wait()
                self.idle -= 1
                self.rung = False
            while not self.closed and self.works and self.lead.acquire(blocking=False):
                self._turn(None, None)
            if self.closed:
                return

    def _turn(self, over: threading.Event | None, until_s: float | None) -> None:
        """Drives until some work has ended or ``over`` is set, at most until ``until_s``; with the lead, which it gives
        back."""
        ended: list[Work] = []
        try:
            while self.works and not self.closed and not ended:
                ended = [work for work in list(self.works) if self._advance(work)]
                if over is not None and over.is_set():
                    break
                now_s = time.monotonic()
                if not ended and (until_s is None or now_s < until_s):
                    self._drive(now_s, until_s)
                elif not ended:
                    break
        finally:
            for work in ended:
                self.works.remove(work)
                for each in _carried(each for each in work.waiting if not each.done):
                    self.carrier.give_up(each)
                for each in work.waiting:
                    if isinstance(each, Kept):
                        each.forget()
                work.end()
            self.lead.release()
        # What is chained to a future may wait for the rest; and a call that has what it wanted drives no more.
        if self.works and (over is None or over.is_set() or any(work.future is not None for work in ended)):
            self._ring()
        for work in ended:
            work.settle()

    def _advance(self, work: Work) -> bool:
        """Takes work as far as it goes without waiting; whether it has ended."""
        if work.error is not None:
            return True
        try:
            if work.requests is not None:
                work.waiting, work.requests = [request() for request in work.requests], None
            for each in work.waiting:
                if isinstance(each, Kept):
                    each.advance()
                elif work.told is not None and (parts := each.final_parts()):
                    work.told(parts)
            while all(each.done and each.failure is None for each in work.waiting):
                work.waiting = [request() for request in work.steps.send(work.waiting)]
        except StopIteration:
            return True
        except AntiphonError as error:
            work.error = failure(error, work.name)
            return True
        except Exception as error:  # whatever it is, whoever waits gets it
            work.error = error
            return True
        reason = next((each.failure for each in work.waiting if each.failure is not None), None)
        if reason is not None:
            work.error = failure(reason, work.name)
        elif time.monotonic() >= work.deadline_s:
            work.error = timed_out(work.name, work.limit_s, work.hint)
        return work.error is not None

    def _drive(self, now_s: float, until_s: float | None) -> None:
        """Lets the carrier run until an operation is done, there is new work, or the first time limit is over."""
        waiting = [each for work in self.works for each in work.waiting if not each.done]
        operations = _carried(waiting)
        limits_s = [work.deadline_s - now_s for work in self.works]
        if until_s is not None:
            limits_s.append(until_s - now_s)
        if len(operations) < len(waiting):
            limits_s.append(POLL_S)
        limit_s = max(0.0, min(limits_s, default=0.0))
        if not operations:
            time.sleep(min(limit_s, POLL_S))
            return
        try:
            self.carrier.drive(operations, limit_s)
        except AntiphonError as error:
            if error.code == "time-limit":
                self.works[0].hint = str(error)  # it names what the first one waits for
            else:
                self._drive_first(limit_s)

    def _drive_first(self, limit_s: float) -> None:
        """Drives the first work that waits for the carrier, alone: two on the same numbers take turns."""
        for work in self.works:
            operations = _carried(each for each in work.waiting if not each.done)
            if operations:
                try:
                    self.carrier.drive(operations, limit_s)
                except AntiphonError as error:
                    if error.code != "time-limit":
                        work.error = failure(error, work.name)
                return


def _carried(waiting: Iterable[Any]) -> list[Any]:
    """The operations of the carrier among what work waits for."""
    carried = (each.operation if isinstance(each, Kept) else each for each in waiting)
    return [each for each in carried if not isinstance(each, Arrival)]
