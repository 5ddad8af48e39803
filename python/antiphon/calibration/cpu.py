"""The works on a CPU, by numpy: its loops over large arrays and its matrix products run without Python's lock."""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np

from antiphon.calibration import machine
from antiphon.calibration.device import (
    FLOAT_BYTES,
    GEMM,
    LOOKUP,
    LOOKUP_ROWS,
    ROW_FLOATS,
    Machine,
    buffer_bytes,
    check_gemm,
)
from antiphon.calibration.sampling import Lane, together
from antiphon.parallel import check, cores

PIECE = 1 << 22
"""Numbers of a buffer that a thread works on at a time: 16 MiB, so that Python's own work does not count."""
SMALL = 512
"""Dimension of a matrix product that takes next to no time."""
TRIAL_S = 0.1
"""From a product that takes this long others can be judged."""
PATIENCE_S = 0.5
"""How long threads are waited for that still spin after a matrix product; those of OpenBLAS do for 2^28 cycles."""
NAP_S = 0.01
"""A few ticks of the system, which counts processor time by them."""

Piece = tuple[Callable[[], object], float]
"""What is done, and its amount."""
Progress = Callable[[str, float], object]
"""Called with what is done and the share of it."""


class CpuLane:
    """Goes through its pieces again and again."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.turn = 0

    def begin(self) -> None:
        pass

    def piece(self) -> float:
        work, amount = self.pieces[self.turn % len(self.pieces)]
        self.turn += 1
        work()
        return amount

    def ends(self, noted: Sequence[float]) -> Sequence[float]:
        return noted


class Cpu:
    """Two buffers in memory, ``a`` and ``b``; every core has its part of both."""

    core_gb_per_s = None

    def __init__(self, pool: Executor, size: int | None, gemm: int, seconds: float, told: Progress) -> None:
        cache = machine.caches()
        self.pool = pool
        self.size = buffer_bytes(size, cache, gemm, machine.free_memory(), "this machine")
        self.machine = Machine(
            device="cpu",
            name=machine.processor(),
            cores=cores(),
            cache_bytes=cache,
            clock_ghz=None,
            gemm_cores=None,
            platform=platform.platform(),
            python=platform.python_version(),
            library=machine.blas(),
            numpy=np.__version__,
        )
        self.a, self.b = (np.empty(self.size // FLOAT_BYTES, np.float32) for _ in range(2))
        # By all threads: memory is near the core that writes to it first.
        pieces = [piece for part in self._parts() for piece in _pieces(part)]
        for number, _ in enumerate(pool.map(self._fill, pieces)):
            told("buffers", (number + 1) / len(pieces))
        self.rows = self.b.reshape(-1, ROW_FLOATS)
        random = np.random.default_rng(1)
        self.indices = random.integers(0, len(self.rows), max(len(self.rows), LOOKUP_ROWS), np.intp)
        self.gemm = gemm
        self.factors = np.ones((gemm, gemm), np.float32), np.ones((gemm, gemm), np.float32)
        self.product = np.empty((gemm, gemm), np.float32)
        check_gemm(gemm, self._estimate(), seconds)
        self._count_cores()
        self.multiplying = CpuLane([(self._multiply, 2 * gemm**3 / 1e9)])
        self.multiplied = True

    def lanes(self, work: str) -> Sequence[Lane]:
        if work == GEMM:
            return [self.multiplying]
        if work == LOOKUP:
            return [CpuLane(self._lookups(core)) for core in range(self.machine.cores)]
        return [CpuLane(self._do(work, part)) for part in self._parts()]

    def core(self) -> Sequence[Lane]:
        return [CpuLane(self._do("read", slice(0, len(self.a))))]

    def rates(self, sides: Sequence[Sequence[Lane]], seconds: float) -> list[float]:
        multiplies = any(lane is self.multiplying for side in sides for lane in side)
        if self.multiplied and not multiplies:
            _settle()
        self.multiplied = multiplies
        return together(self.pool, sides, seconds)

    def _parts(self) -> list[slice]:
        """The part of each core."""
        bounds = [len(self.a) * core // self.machine.cores for core in range(self.machine.cores + 1)]
        return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]

    def _fill(self, piece: slice) -> None:
        check()
        for buffer in (self.a, self.b):
            buffer[piece].fill(1)

    def _do(self, work: str, part: slice) -> list[Piece]:
        """A work on a part of the buffers, piece by piece, and the bytes of each that are read and written."""
        times, do = WORKS[work]
        return [
            (partial(do, self.a[piece], self.b[piece]), times * self.a[piece].nbytes / 1e9) for piece in _pieces(part)
        ]

    def _lookups(self, core: int) -> list[Piece]:
        """Rows of the table ``b`` at random, copied into a small array."""
        taken = np.empty((LOOKUP_ROWS, ROW_FLOATS), np.float32)
        starts = range(0, len(self.indices) - LOOKUP_ROWS + 1, LOOKUP_ROWS)
        first = len(starts) * core // self.machine.cores

        def take(start: int) -> Callable[[], object]:
            indices = self.indices[start : start + LOOKUP_ROWS]
            # Out of range is nothing, but to look for it first would double the work.
            return lambda: np.take(self.rows, indices, axis=0, out=taken, mode="clip")

        return [(take(start), 2 * taken.nbytes / 1e9) for start in (*starts[first:], *starts[:first])]

    def _multiply(self) -> None:
        np.matmul(*self.factors, out=self.product)

    def _estimate(self) -> float:
        """About how many seconds a matrix product takes, by smaller ones."""
        part = min(self.gemm, SMALL)
        while True:
            factor, start = self.factors[0][:part, :part], time.perf_counter()
            np.matmul(factor, factor)
            taken = time.perf_counter() - start
            if part == self.gemm or taken > TRIAL_S:
                return taken * (self.gemm / part) ** 3
            part = min(2 * part, self.gemm)

    def _count_cores(self) -> None:
        """Notes how many cores the matrix product keeps busy."""
        processor, start = time.process_time(), time.perf_counter()
        while True:
            self._multiply()
            check()
            passed = time.perf_counter() - start
            if passed > 0.02:
                break
        busy = round((time.process_time() - processor) / passed, 1)
        self.machine = replace(self.machine, gemm_cores=busy)


def _pieces(part: slice) -> list[slice]:
    """A part of a buffer, piece by piece."""
    return [slice(start, min(start + PIECE, part.stop)) for start in range(part.start, part.stop, PIECE)]


WORKS: dict[str, tuple[int, Callable[..., object]]] = {
    # A product of two vectors, but not the library's, which would use threads of its own.
    "read": (2, lambda a, b: np.einsum("i,i->", a, b)),
    "write": (1, lambda a, _b: a.fill(1)),
    "copy": (2, lambda a, b: np.copyto(a, b)),
    "reduce": (3, lambda a, b: np.add(a, b, out=a)),
}
"""How often each byte of a buffer is read or written, and what does it."""


def _settle() -> None:
    """Waits until nothing of this process runs."""
    until = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < until:
        processor = time.process_time()
        time.sleep(NAP_S)
        if time.process_time() - processor < NAP_S / 3:
            return
