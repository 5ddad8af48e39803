"""Schedules run by thread blocks of one GPU, or of several that read each other's memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from antiphon._core import Executor, Schedule
from antiphon.errors import AntiphonError
from antiphon.execution.cuda.device import GROUP, SHAPES, Gpu, compiled, finish, gpus
from antiphon.execution.cuda.program import Program, flatten, stalled
from antiphon.execution.measure import Measured, Plan, Timing
from antiphon.execution.numbers import ELEMENTS

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

ADDED = ("float32", "float16", "bfloat16", "int32")
"""Types that the kernel adds."""
MOST_WAYS = 64
"""Blocks that serve one queue."""
SPARE_BYTES = 1 << 28
"""Memory that is left to others."""
HEARTBEAT_S = 0.1


def measure_cuda(
    schedules: Sequence[Schedule], plan: Plan, timeout_s: float, progress: Callable[[float], object] | None = None
) -> list[Measured]:
    """Runs schedules one after the other, the ranks spread over all GPUs that reach each other.

    Raises:
        AntiphonError: ``missing-extra``, ``not-applicable`` without a GPU; ``too-large`` for its memory or blocks;
            ``stalled`` after ``timeout_s`` in which nothing came.
    """
    check_element(plan.element)
    all_gpus = gpus()
    try:
        measured = []
        for number, schedule in enumerate(schedules):
            program = flatten(schedule, ELEMENTS[plan.element])
            loaded = Loaded(all_gpus, program, schedule, plan.element, timeout_s)
            timings = []
            for in_place in (False, True):
                spent_ns = wrong = 0.0
                for run in range(-1 - plan.warmup, plan.iterations):
                    share = (number + (in_place + max(run, 0) / plan.iterations) / 2) / len(schedules)
                    taken_ns = loaded.run(in_place, beat(progress, share))
                    spent_ns += taken_ns * (run >= 0)
                    wrong = max(wrong, loaded.wrong())
                timings.append(Timing(spent_ns / plan.iterations, int(wrong)))
            measured.append(Measured(number, *timings))
            loaded.close()
        return measured
    finally:
        for gpu in all_gpus:
            gpu.close()


def check_element(element: str) -> None:
    """Refuses types that the kernel does not add."""
    if element not in ADDED:
        raise AntiphonError(f"GPUs add {', '.join(ADDED)} here, not {element}", "not-applicable")


def beat(progress: Callable[[float], object] | None, share: float) -> Callable[[], object] | None:
    """Tells a share about ten times a second."""
    if progress is None:
        return None
    due = [time.monotonic()]

    def beat() -> None:
        if time.monotonic() >= due[0]:
            due[0] = time.monotonic() + HEARTBEAT_S
            progress(share)

    return beat


class Loaded:
    """A program in the memory of GPUs with the data of its schedule, to be run any number of times.

    A rank's memory is on one GPU. Blocks on the receiver's read what is sent from where it is; so all that is added to
    a memory is added by one GPU.
    """

    def __init__(
        self,
        gpus: Sequence[Gpu],
        program: Program,
        schedule: Schedule,
        element: str,
        timeout_s: float,
        *,
        is_paced: bool = False,
    ) -> None:
        """Where it ``is_paced``, the tasks' cycles count, and a queue has an SM to itself.

        Raises:
            AntiphonError: ``too-large`` if memory or blocks do not suffice, before anything is allocated.
        """
        import numpy as np

        ranks = schedule.ranks
        self.gpus, self.program, self._schedule, self._timeout_s = gpus, program, schedule, timeout_s
        self._homes = [gpus[rank * len(gpus) // ranks] for rank in range(ranks)] + [gpus[0]]
        receiver = np.minimum.reduceat(program.column("to"), program.queues[:-1])
        self._served = [np.flatnonzero([self._homes[to] is gpu for to in receiver]).astype(np.int32) for gpu in gpus]
        self._kernels, self._groups, self.ways = self._shaped(element, is_paced)
        self._executors = [Executor(schedule, rank, element) for rank in range(ranks)]
        self._host = np.empty(self._executors[0].memory_bytes, np.uint8)
        self._check_memory()
        self._marks = [gpu.mark() for gpu in gpus]
        self.memories = [home.allocate(self._host.nbytes) for home in self._homes[:-1]]
        self.memories.append(gpus[0].allocate(program.stage_bytes))
        self._data = [home.upload(each.own()) for home, each in zip(self._homes, self._executors, strict=False)]
        tasks, shared = len(program.tasks), gpus[0]
        blocks = [len(served) * self.ways for served in self._served]
        # Flags, gates, blocks that are there, whether to stop, tasks that have ended.
        self._words = shared.upload(np.zeros(2 * tasks + len(program.gates) + 3, np.uint32))
        gates = self._words + 8 * tasks
        self._arrived, self.stop = gates + 4 * len(program.gates), gates + 4 * len(program.gates) + 4
        self._times = shared.upload(np.zeros(tasks + sum(blocks), np.int64))
        self._launches: list[tuple[Any, Gpu, int, Array]] = []
        first = 0
        for gpu, kernel, served, count in zip(gpus, self._kernels, self._served, blocks, strict=True):
            tables = (program.tasks, program.segments, program.waits, program.queues, served)
            addresses = [gpu.upload(table) for table in (*tables, np.array(self.memories, np.uint64))]
            addresses += [self._words, gates, gpu.upload(program.gates), self._arrived, self.stop, self._times]
            patience = int(timeout_s * gpu.cycles_per_s)
            rest = [tasks, self.ways, first, sum(blocks), 0, patience]
            if count:
                self._launches.append((kernel, gpu, count, np.array([*addresses, *rest], np.int64)))
            first += count
        self.runs = 0

    def _shaped(self, element: str, is_paced: bool) -> tuple[list[Any], int, int]:
        """The kernel on each GPU, groups of a block, and blocks for each queue."""
        most = room = 0
        scope = "gpu" if len(self.gpus) == 1 else "sys"
        for shape in SHAPES[: 1 if is_paced else None]:
            codes = [compiled(gpu.architecture, element, shape, scope) for gpu in self.gpus]
            kernels = [gpu.kernel("carry", code) for gpu, code in zip(self.gpus, codes, strict=True)]
            queues = [max(len(served), 1) for served in self._served]
            rooms = [gpu.room(kernel, GROUP * shape[0]) for gpu, kernel in zip(self.gpus, kernels, strict=True)]
            if is_paced:
                rooms = [min(room, gpu.processors) for room, gpu in zip(rooms, self.gpus, strict=True)]
            ways = min(there // needed for there, needed in zip(rooms, queues, strict=True))
            if ways:
                return kernels, shape[0], 1 if is_paced else min(ways, MOST_WAYS)
            most, room = max(queues), rooms[0]
        what = "links and computing ranks" if is_paced else "pairs of ranks that talk"
        raise AntiphonError(f"{most} {what}; {self.gpus[0].name} serves {room} at once", "too-large")

    def _check_memory(self) -> None:
        program, tables = self.program, 0
        for table in (program.tasks, program.segments, program.waits, program.queues):
            tables += table.nbytes
        for gpu in self.gpus:
            needed = tables + (program.stage_bytes + 24 * len(program.tasks)) * (gpu is self.gpus[0])
            for home, executor in zip(self._homes, self._executors, strict=False):
                start, end = executor.input
                needed += (self._host.nbytes + end - start) * (home is gpu)
            there = gpu.free_bytes() - SPARE_BYTES
            if needed > there:
                message = f"{needed:,} bytes on {gpu.name}, which has {max(there, 0):,} to give: take less data"
                raise AntiphonError(message, "too-large")

    def set_cycles(self, cycles: Array) -> None:
        """For how many cycles each task has its link; where links have a rate."""
        self.program.column("cycles")[:] = cycles
        for _, gpu, _, arguments in self._launches:
            gpu.upload(self.program.tasks, int(arguments[0]))
            arguments[-1] = int(self._timeout_s * gpu.cycles_per_s) + int(cycles.max(initial=0))

    def run(self, in_place: bool = True, progress: Callable[[], object] | None = None) -> float:
        """Runs it on new data; the time in ns by the GPUs' events. Out of place, the ranks' data come from memory of
        their own, which counts.

        Raises:
            AntiphonError: ``stalled``, saying what waits for what; then it cannot be run again.
        """
        import numpy as np

        schedule, size = self._schedule, self._host.nbytes

        def begin() -> None:
            for rank, (home, executor) in enumerate(zip(self._homes, self._executors, strict=False)):
                start, end = executor.input
                home.copy(self.memories[rank] + start, self._data[rank], end - start)

        for rank, home in enumerate(self._homes[:-1]):
            home.fill(self.memories[rank], 0 if rank in schedule.excluded else 255, size)
        if in_place:
            begin()
        for gpu in self.gpus:
            gpu.wait()
            gpu.record(0)
        if not in_place:
            begin()
            if len(self.gpus) > 1:
                for gpu in self.gpus:
                    gpu.wait()
        self.runs += 1
        for kernel, gpu, blocks, arguments in self._launches:
            arguments[-2] = self.runs
            gpu.launch(kernel, blocks, GROUP * self._groups, [arguments], together=True)
        for gpu in self.gpus:
            gpu.record(1)
        finish(self.gpus, self.stop, progress)
        if self.gpus[0].download(self.stop, np.zeros(1, np.uint32))[0]:
            flags = self.gpus[0].download(self._words, np.zeros(len(self.program.tasks), np.uint32))
            what = stalled(self.program, flags == self.runs * self.ways)
            raise AntiphonError(f"nothing came for {self._timeout_s:g} s: {what}", "stalled")
        return max(gpu.elapsed_ns() for gpu in self.gpus)

    def wrong(self) -> int:
        """Elements, on all ranks, that are not what the collective defines."""
        found = 0
        for home, memory, executor in zip(self._homes, self.memories, self._executors, strict=False):
            found += executor.wrong(home.download(memory, self._host))
        return found

    def times(self) -> tuple[Array, Array]:
        """By the first GPU's clock, in ns: when each task ended, and when each block began."""
        import numpy as np

        blocks = sum(len(served) for served in self._served) * self.ways
        count = len(self.program.tasks)
        times = self.gpus[0].download(self._times, np.zeros(count + blocks, np.int64))
        return times[:count], times[count:]

    def close(self) -> None:
        """Gives back its memory."""
        for gpu, mark in zip(self.gpus, self._marks, strict=True):
            gpu.release(mark)
