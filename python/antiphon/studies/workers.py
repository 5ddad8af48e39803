"""Worker processes: a run that takes too long, or takes its process with it, costs no other run."""

from __future__ import annotations

import itertools
import os
import queue
import select
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, ParamSpec, TypeVar

from antiphon.studies.identity import build_id
from antiphon.studies.running import OverTime

GRACE_S = 1.0
"""Work ends by itself when its time is over; its process is killed when it has not this much later."""
ATTEMPTS = 3
"""Times that work is started whose process dies, before it is given up."""

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
_Task = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class WorkerLost(Exception):
    """Every process that was given a piece of work died of it."""


class Workers(Executor):
    """Processes on this machine, each with one piece of work at a time.

    ``concurrent.futures.ProcessPoolExecutor`` ends for good when a process dies. Here another takes its place, so that
    work can be given a time limit that holds whatever it does.
    """

    def __init__(self, count: int, limit_s: float | None = None) -> None:
        """Starts ``count`` processes when there is work for them; one that takes ``limit_s`` and a little more for a
        piece of work is killed."""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._wait_s = None if limit_s is None else limit_s + GRACE_S
        self._ended = threading.Event()
        self._attempts = ATTEMPTS
        self._servants = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]
        resource_tracker.ensure_running()  # beginning it unblocks signals in some versions of Python
        for servant in self._servants:
            servant.start()

    def submit(
        self, work: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        if self._ended.is_set():
            raise RuntimeError("these workers were shut down")
        future: Future[Result] = Future()
        self._tasks.put((future, work, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._attempts = 1
            with suppress(queue.Empty):
                while task := self._tasks.get_nowait():
                    task[0].cancel()
        self._ended.set()
        for _ in self._servants:
            self._tasks.put(None)
        if wait:
            for servant in self._servants:
                servant.join()

    def __exit__(self, failure: object, *_: object) -> None:
        """Waits for what was submitted; not if the block failed: what is under way then ends with this process."""
        self.shutdown(wait=failure is None, cancel_futures=failure is not None)

    def _serve(self) -> None:
        """Gives one process after the other what there is to do."""
        # Ctrl-C is for the main thread, and not for the processes that this one begins.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        process = _Process()
        while task := self._tasks.get():
            future, *call = task
            if not future.set_running_or_notify_cancel():
                continue
            answer: Any = None
            error: Exception | None = None
            for attempt in itertools.count(1):
                try:
                    answer, error = process.do(call, self._wait_s)
                except (EOFError, OSError):
                    status = process.end()
                    process = _Process()
                    error = WorkerLost(f"its process ended with status {status}, out of memory perhaps")
                    if attempt < self._attempts:
                        continue
                except Exception as problem:  # late, or not to be sent
                    if isinstance(problem, OverTime):
                        process.end()
                        process = _Process()
                    error = problem
                break
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
        process.end()


class _Process:
    """A process that does as it is told; it starts with the first piece of work."""

    _pipe: Any = None

    def do(self, call: list[Any], wait_s: float | None) -> tuple[Any, Exception | None]:
        """What comes of work.

        Raises:
            OverTime: if it does not come in time.
            EOFError: if the process died.
        """
        if self._pipe is None:
            context = get_context("spawn")
            ours, theirs = context.Pipe()
            self._pipe = ours
            self._process = context.Process(target=_work, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._pipe.recv()  # it is there: starting is no part of the work
            self._answered = select.poll()
            self._answered.register(self._pipe.fileno(), select.POLLIN)
        self._pipe.send(call)
        if not self._answered.poll(None if wait_s is None else 1000 * wait_s):
            raise OverTime
        answer: tuple[Any, Exception | None] = self._pipe.recv()
        return answer

    def end(self) -> int | None:
        """Ends the process; returns its exit status."""
        if self._pipe is None:
            return None
        self._pipe.close()
        self._process.kill()
        self._process.join()
        return self._process.exitcode


def _work(pipe: Connection) -> None:
    """The life of a worker: as long as its parent's."""
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
    build_id()  # once, and no part of the work
    pipe.send(None)
    with suppress(EOFError, OSError):
        while True:
            work, args, kwargs = pipe.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = (work(*args, **kwargs), None)
            except Exception as error:
                answer = (None, error)
            pipe.send(answer)
