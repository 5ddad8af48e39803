"""Work on all cores: the core computes without Python's lock, so threads suffice."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from antiphon.arguments import shown
from antiphon.errors import AntiphonError

Item = TypeVar("Item")
Result = TypeVar("Result")

_thread = threading.local()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check() -> None:
    """To be called now and then by work of ``in_parallel``.

    Raises:
        KeyboardInterrupt: if others have failed or the user wants no more.
    """
    stopped = getattr(_thread, "stopped", None)
    if stopped is not None and stopped.is_set():
        raise KeyboardInterrupt


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item], jobs: int | None = None) -> list[Result]:
    """What ``work`` returns for every item, in their order; ``jobs`` items at a time, by default as many as cores.

    Raises:
        AntiphonError: ``bad-size`` if ``jobs`` is no whole number of at least 1.
        Exception: the first, in the order of items, that ``work`` has raised; what is under way then ends at its next
            ``check``.
    """
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        message = f"jobs is {shown(jobs)}; give a whole number of at least 1, or None for all cores"
        raise AntiphonError(message, "bad-size")
    count = min(cores() if jobs is None else jobs, len(items))
    if count <= 1:
        return [work(item) for item in items]
    stopped = threading.Event()

    def enter() -> None:
        _thread.stopped = stopped

    pool = ThreadPoolExecutor(count, initializer=enter)
    try:
        futures = [pool.submit(work, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future.done():
                future.result()
        return [future.result() for future in futures]
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
