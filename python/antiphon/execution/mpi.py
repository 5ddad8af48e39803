"""Messages of one rank carried by MPI: by mpi4py, from and to the rank's memory where that is one piece."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    import numpy as np

    from antiphon._core import Executor

    Array = np.ndarray[Any, np.dtype[Any]]

PAUSE_S, BUSY_POLLS = 50e-6, 200
"""How long a rank with nothing to do sleeps, and after how many looks: others may need its core."""

SLACK = 10
"""How many times as long ranks wait for each other between runs as within."""


JOBS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
"""Where MPI's launchers say which process this is, and of how many: Open MPI; MPICH, Intel MPI, Slurm."""


def in_job() -> bool:
    """Whether ``mpirun`` started this process."""
    return any(rank in os.environ and size in os.environ for rank, size in JOBS)


def job_rank() -> int:
    """The number of this process in a job that ``mpirun`` started; 0 without one."""
    return next((int(os.environ[rank]) for rank, _ in JOBS if os.environ.get(rank, "").isdigit()), 0)


class MpiCarrier:
    """This process as one rank of an MPI job."""

    def __init__(self, timeout_s: float) -> None:
        """Joins the job; all its processes must. Raises AntiphonError: ``missing-extra``."""
        try:
            from mpi4py import MPI
        except ImportError as error:
            what = f"running by MPI needs mpi4py and an MPI library ({error}): pip install 'antiphon[mpi]'"
            raise AntiphonError(what, "missing-extra") from None
        self.mpi = MPI
        self.comm = MPI.COMM_WORLD.Dup()
        self.rank, self.ranks = self.comm.Get_rank(), self.comm.Get_size()
        self.timeout_s = timeout_s

    def run(self, executor: Executor, memory: Array, told: Callable[[Sequence[int]], object] = lambda _: None) -> None:
        """Carries all messages of a rank, from the first to the last, and tells which watched parts are final.

        Raises:
            AntiphonError: ``stalled`` if nothing happens for ``timeout_s``, naming the message that it waits for.
        """
        import numpy as np

        comm, byte = self.comm, self.mpi.BYTE
        requests: list[Any] = []
        # Of every request: its token, what to apply when it is done, and what must live until then.
        tokens: list[tuple[int, Array | None, object]] = []
        barrier, opened, idle, last = None, 0, 0, time.monotonic()
        executor.restart()
        has_changed = True
        while not executor.is_done or barrier is not None:
            if has_changed:
                for token, peer, start, stop, packed in executor.sends(memory):
                    data = memory[start:stop] if packed is None else packed
                    requests.append(comm.Isend([data, byte], peer))
                    tokens.append((token, None, data))
                for token, peer, start, stop, in_place in executor.receives():
                    data = memory[start:stop] if in_place else np.empty(stop - start, np.uint8)
                    requests.append(comm.Irecv([data, byte], peer))
                    tokens.append((token, None if in_place else data, data))
                if barrier is None and executor.reached > opened:
                    barrier = comm.Ibarrier()
            done = self.mpi.Request.Testsome(requests) if requests else None
            if done:
                executor.happened([tokens[at][:2] for at in done])
                for at in sorted(done, reverse=True):
                    del requests[at], tokens[at]
            has_changed = executor.apply(memory) or bool(done)
            if has_changed and (found := executor.final_parts()):
                told(found)
            if barrier is not None and barrier.Test():
                barrier, opened, has_changed = None, opened + 1, True
                executor.open(opened)
            if has_changed:
                idle, last = 0, time.monotonic()
                continue
            idle += 1
            if idle > BUSY_POLLS:
                time.sleep(PAUSE_S)
                if time.monotonic() - last > self.timeout_s:
                    what = executor.waits_for() or "the others"
                    message = f"rank {self.rank} waited {self.timeout_s:g} s for {what}"
                    raise AntiphonError(f"{message}; --timeout allows more", "stalled")
            else:
                time.sleep(0)

    def max(self, value: float) -> float:
        """The largest of all ranks' values."""
        return self._of_all(value, self.mpi.MAX)

    def sum(self, value: int) -> int:
        """The sum of all ranks' values."""
        return int(self._of_all(value, self.mpi.SUM))

    def _of_all(self, value: float, op: Any) -> float:
        import numpy as np

        own, found = np.array([value], np.float64), np.empty(1, np.float64)
        request, idle, last = self.comm.Iallreduce(own, found, op=op), 0, time.monotonic()
        while not request.Test():
            idle += 1
            time.sleep(PAUSE_S if idle > BUSY_POLLS else 0)
            # Others may still make and compare data, which takes longer than a run.
            if time.monotonic() - last > SLACK * self.timeout_s:
                message = f"rank {self.rank} waited {SLACK * self.timeout_s:g} s for the others"
                raise AntiphonError(f"{message}; --timeout allows more", "stalled")
        return float(found[0])

    def abort(self) -> None:
        """Ends all processes of the job."""
        self.mpi.COMM_WORLD.Abort(1)


@contextmanager
def last_words(say: Callable[[], object]) -> Iterator[None]:
    """Within it, this process says what it waits for, and ends, when MPI ends it because another one has ended."""

    def end(*_: object) -> None:
        say()
        os._exit(1)

    # Only there are signals heard.
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)
