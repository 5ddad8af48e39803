"""One rank of a chained iteration: it computes, exchanges gradients, and computes again, layer by layer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from antiphon._core import Executor, Schedule
from antiphon.execution.layers import Range, dealt, layer_parts

if TYPE_CHECKING:
    import numpy as np

    from antiphon.execution.mpi import MpiCarrier

    Array = np.ndarray[Any, np.dtype[Any]]

ELEMENT, ITEMSIZE = "float32", 4
PERIOD = 9
"""Gradients repeat after so many numbers; they are -4 to 4, so that sums are exact."""
PRODUCT = 128
"""Rows and columns of the matrices whose products keep a rank busy."""
WARM_UP_RUNS = 1
CALIBRATED = 200
"""Products that are timed before."""


class Gate:
    """Layers of one rank whose gradients are final."""

    def __init__(self, layers: int, chained: bool) -> None:
        self.chained, self.final = chained, [threading.Event() for _ in range(layers)]

    def told(self, layers: Sequence[int]) -> None:
        """Layers are final."""
        for layer in layers if self.chained else ():
            self.final[layer].set()

    def over(self) -> None:
        """The exchange is over."""
        for each in self.final:
            each.set()


class Compute:
    """Takes the time of computations: asleep, as if an accelerator did them, or with products of matrices.

    Attributes:
        busy: whether it computes.
    """

    def __init__(self, busy: bool) -> None:
        import numpy as np

        self.busy, self.until_ns = busy, 0.0
        self.factor = np.ones((PRODUCT, PRODUCT), np.float32)
        self.product = np.empty_like(self.factor)
        self.product_ns = 0.0
        if busy:
            self._multiply(CALIBRATED)  # the first are slower
            start = time.perf_counter_ns()
            self._multiply(CALIBRATED)
            self.product_ns = (time.perf_counter_ns() - start) / CALIBRATED

    def begin(self) -> None:
        """From now on times are taken."""
        self.until_ns = time.perf_counter_ns()

    def take(self, duration_ns: float) -> None:
        """Takes so long, from the end of what was before or, if that was waited for, from now."""
        if self.busy:
            self._multiply(round(duration_ns / self.product_ns))
            return
        self.until_ns += duration_ns
        left_ns = self.until_ns - time.perf_counter_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)

    def _multiply(self, times: int) -> None:
        import numpy as np

        for _ in range(times):
            np.matmul(self.factor, self.factor, out=self.product)


class ChainedRank:
    """A rank with weights and gradients.

    Attributes:
        parts: where each layer's gradients lie in the rank's memory.
        gradients: the memory, of 32-bit floating-point numbers.
    """

    def __init__(
        self, schedule: Schedule, rank: int, layers: Sequence[dict[str, Any]], chained: bool, busy: bool
    ) -> None:
        """Of an all-reduce; a layer has ``gradient_bytes``, ``forward_ns`` and ``backward_ns``."""
        import numpy as np

        self.ranks, self.rank, self.layers = schedule.ranks, rank, layers
        pieces = dealt(schedule, ITEMSIZE)
        self.parts: list[list[Range]] = layer_parts(pieces, [each["gradient_bytes"] for each in layers])
        # The number in the model of every number of the memory.
        self.numbers = np.empty(schedule.bytes // ITEMSIZE, np.int64)
        first = 0
        for each in pieces:
            place, count = each.place // ITEMSIZE, each.bytes // ITEMSIZE
            self.numbers[place : place + count] = np.arange(first, first + count)
            first += count
        self.gradients = np.empty(len(self.numbers), np.float32)
        self.weights = np.zeros_like(self.gradients)
        self.chained, self.compute = chained, Compute(busy)
        self.iterations = 0

    def prepare(self) -> None:
        """Makes the gradients of the next iteration."""
        self.gradients[:] = _gradient(self.numbers, self.rank, self.iterations)
        self.iterations += 1
        self.gate = Gate(len(self.layers), self.chained)

    def backward(self) -> None:
        """The backward pass."""
        self.compute.begin()
        self.compute.take(sum(each["backward_ns"] for each in self.layers))

    def forward(self) -> None:
        """Every layer's part of the optimizer's step, and its forward pass, as soon as its gradients are there."""
        for layer, part, final in zip(self.layers, self.parts, self.gate.final, strict=True):
            if not final.is_set():
                final.wait()
                self.compute.begin()
            for start, end in part:
                own = slice(start // ITEMSIZE, end // ITEMSIZE)
                self.weights[own] -= self.gradients[own]
            self.compute.take(layer["forward_ns"])

    def run(self, exchange: Callable[[Callable[[Sequence[int]], None]], object]) -> tuple[int, int]:
        """An iteration, with an exchange in this thread that calls what it is given with layers that are final.

        Returns:
            When it began and ended, as `time.time_ns` has it.
        """
        start_ns = time.time_ns()
        self.backward()
        forward = threading.Thread(target=self.forward, daemon=True)
        forward.start()
        try:
            exchange(self.gate.told)
        finally:
            self.gate.over()
            forward.join()
        return start_ns, time.time_ns()

    def wrong(self) -> int:
        """Weights that are not what all iterations and ranks together make them."""
        import numpy as np

        right = np.zeros_like(self.weights)
        for iteration in range(self.iterations):
            for rank in range(self.ranks):
                right -= _gradient(self.numbers, rank, iteration)
        return int((self.weights != right).sum())


def _gradient(numbers: Array, rank: int, iteration: int) -> Array:
    import numpy as np

    found: Array = ((numbers + 5 * rank + 2 * iteration) % PERIOD - PERIOD // 2).astype(np.float32)
    return found


def in_threads(ranks: Sequence[ChainedRank], execution: Any, threads: int) -> tuple[int, int]:
    """An iteration of all ranks, in this process: the exchange begins when all backward passes are over.

    Returns:
        When it began and ended, as `time.time_ns` has it.
    """
    begin = threading.Barrier(len(ranks) + 1)

    def work(rank: ChainedRank) -> None:
        rank.backward()
        begin.wait()
        rank.forward()

    workers = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in ranks]
    start_ns = time.time_ns()
    for worker in workers:
        worker.start()
    begin.wait()
    try:
        arrays = [rank.gradients for rank in ranks]
        execution.run(arrays, threads, ranks[0].parts, lambda rank, layer: ranks[rank].gate.told([layer]))
    finally:
        for rank in ranks:
            rank.gate.over()
    for worker in workers:
        worker.join()
    return start_ns, time.time_ns()


def chained_rank(
    carrier: MpiCarrier, schedules: Sequence[Schedule], chain: dict[str, Any], started: Callable[[Executor], object]
) -> Iterator[dict[str, Any]]:
    """Runs iterations as one rank of an MPI job, each schedule ``started`` with what is at work on it."""
    for schedule, is_chained in zip(schedules, chain["chained"], strict=True):
        executor = Executor(schedule, carrier.rank, ELEMENT)
        rank = ChainedRank(schedule, carrier.rank, chain["layers"], is_chained, chain["busy"])
        executor.watch(rank.parts)
        started(executor)

        def once(rank: ChainedRank = rank, executor: Executor = executor) -> tuple[int, int]:
            rank.prepare()
            carrier.sum(0)
            start_ns, end_ns = rank.run(lambda told: carrier.run(executor, rank.gradients.view("uint8"), told))
            return -round(carrier.max(-start_ns)), round(carrier.max(end_ns))

        times = list(timed(chain["iterations"], WARM_UP_RUNS, once))
        yield {"times_ns": times, "right": carrier.sum(rank.wrong()) == 0}


def timed(runs: int, warmup: int, once: Callable[[], tuple[int, int]]) -> Iterator[float]:
    """Times of runs in ns, after some that do not count."""
    for number in range(-warmup, runs):
        start_ns, end_ns = once()
        if number >= 0:
            yield float(end_ns - start_ns)
