"""Work on all cores: the core computes without Python's lock, so threads suffice."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from antiphon.arguments import shown
from antiphon.errors import AntiphonError

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_JOBS = 256
"""Most threads of a command, or of one run."""
WATCH_S = 0.1
"""How often a thread looks whether another one is to end."""

_thread = threading.local()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check() -> None:
    """Called now and then by work of ``in_parallel``; the core does so by itself.

    Raises:
        KeyboardInterrupt: if others have failed or the user wants no more.
    """
    stopped = getattr(_thread, "stopped", None)
    if stopped is not None and stopped.is_set():
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Work of ``in_parallel`` that calls no ``check``: KeyboardInterrupt is raised in it when it is to end."""
    stopped = getattr(_thread, "stopped", None)
    if stopped is None:  # the main thread, which hears Ctrl-C by itself
        yield
        return
    thread, turn, done = threading.get_ident(), threading.Lock(), threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_S):
            with turn:
                if stopped.is_set() and not done.is_set():
                    import ctypes

                    interrupt = ctypes.py_object(KeyboardInterrupt)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), interrupt)
                    return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        with turn:
            done.set()


class _ThisThread(Executor):
    """Does work when it is given."""

    def submit(self, work: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def threads(jobs: int | None = None) -> Iterator[tuple[Executor, int]]:
    """A pool of ``jobs`` threads, by default as many as cores, and their number; work that is under way at the end of
    the block ends at its next ``check``.

    Raises:
        AntiphonError: ``bad-size`` if ``jobs`` is no whole number of at least 1.
    """
    count = threads_of(jobs)
    if count == 1:
        yield _ThisThread(), 1
        return
    stopped = threading.Event()

    def enter() -> None:
        _thread.stopped = stopped

    pool = ThreadPoolExecutor(count, initializer=enter)
    try:
        yield pool, count
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def in_parallel(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int | None = None,
    memory: Sequence[int] | None = None,
) -> list[Result]:
    """What ``work`` returns for every item, in their order; ``jobs`` items at a time, by default as many as cores.

    They start in their order, but one that would take more ``memory``, in bytes, than those under way leave free waits
    until others are done.

    Raises:
        AntiphonError: ``bad-size`` if ``jobs`` is no whole number of at least 1.
        Exception: the first, in the order of items, that ``work`` has raised; what is under way then ends at its next
            ``check``.
    """
    count = min(threads_of(jobs), len(items))
    if count <= 1:
        return [work(item) for item in items]
    turns = _Turns(memory or [0] * len(items), free_memory())
    futures: list[Future[Result]] = [Future() for _ in items]

    def next_item() -> None:
        with turns.next() as at:
            try:
                futures[at].set_result(work(items[at]))
            except BaseException as error:
                futures[at].set_exception(error)

    with threads(count) as (pool, _count):
        for _ in items:
            pool.submit(next_item)
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future.done():
                future.result()
        return [future.result() for future in futures]


class _Turns:
    """Which item is started next: the first whose memory is free; where nothing is under way, the first."""

    def __init__(self, memory: Sequence[int], free: int) -> None:
        self._left = list(range(len(memory)))
        self._memory = memory
        self._free = free
        self._running = 0
        self._ended = threading.Condition()

    @contextmanager
    def next(self) -> Iterator[int]:
        with self._ended:
            while (at := self._fitting()) is None:
                self._ended.wait()
            self._left.remove(at)
            self._running += 1
            self._free -= self._memory[at]
        try:
            yield at
        finally:
            with self._ended:
                self._running -= 1
                self._free += self._memory[at]
                self._ended.notify_all()

    def _fitting(self) -> int | None:
        if not self._running:
            return self._left[0]
        return next((at for at in self._left if self._memory[at] <= self._free), None)


def free_memory() -> int:
    """Bytes of memory that this process may still take: what the machine has free, within its control group."""
    free = _number("/proc/meminfo", "MemAvailable:") * 1024 or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most, used = (_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    return min(free, most - used) if most else free


def _number(path: str, label: str = "") -> int:
    """The number behind a label in a file of the system; 0 if there is none."""
    try:
        with open(path, encoding="ascii") as file:
            words = file.read().partition(label)[2].split() if label else file.read().split()
        return int(words[0])
    except (OSError, ValueError, IndexError):
        return 0


def threads_of(jobs: int | None) -> int:
    """How many threads ``jobs`` are, as for ``threads``."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        message = f"jobs is {shown(jobs)}; give a whole number of at least 1, or None for all cores"
        raise AntiphonError(message, "bad-size")
    return cores() if jobs is None else jobs


def cores_of(jobs: int | None) -> int:
    """On how many cores one run goes on: as many as ``threads_of`` says, at most ``MOST_JOBS``."""
    return min(threads_of(jobs), MOST_JOBS)
