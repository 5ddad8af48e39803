"""The works on a GPU, by PyTorch: communication and computation each on a stream of its own, timed by CUDA events."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any

import numpy as np

from antiphon.calibration.device import (
    COMPUTATION,
    FLOAT_BYTES,
    GEMM,
    LOOKUP,
    LOOKUP_ROWS,
    ROW_FLOATS,
    Machine,
    buffer_bytes,
)
from antiphon.calibration.sampling import Lane, together
from antiphon.errors import AntiphonError

AHEAD = 4
"""Pieces under way at a time, so that the GPU never waits for Python."""
PIECE_MS = 1.0
"""About how long a piece takes: calls enough that starting it does not count."""
LEAST_S = 0.02
"""The shortest sample: many pieces."""
SPINS, SPIN_CYCLES = 10, 50_000_000
"""How often, and for how many cycles, the clock is watched: it rises from that of a GPU that has nothing to do."""
SM_BYTES_PER_CYCLE = 64
"""What an SM reads in a cycle by the ACE paper, section III."""


class CudaLane:
    """Calls that go into a stream, a piece of several at a time. A piece is a CUDA graph: the calls of short ones from
    Python take longer than the GPU needs for them."""

    def __init__(self, torch: Any, stream: Any, call: Callable[[], object], amount: float) -> None:
        self.torch, self.stream = torch, stream
        self.origin = _now(torch)
        self.events: list[Any] = []
        calls = self._calls_of_piece(call)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for _ in range(calls):
                call()
        self.amount = amount * calls
        self.begin()
        self.piece()  # the first is slower

    def begin(self) -> None:
        self.events = [self._event()]

    def piece(self) -> float:
        with self.torch.cuda.stream(self.stream):
            self.graph.replay()
        self.events.append(self._event())
        if len(self.events) > AHEAD:
            self.events[-1 - AHEAD].synchronize()
        return self.amount

    def ends(self, _noted: Sequence[float] = ()) -> Sequence[float]:
        self.stream.synchronize()
        return [self.origin.elapsed_time(event) / 1e3 for event in self.events]

    def _event(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(self.stream)
        return event

    def _calls_of_piece(self, call: Callable[[], object]) -> int:
        """How often to call until it takes long enough, by doubling; the first call loads what is called."""
        calls = 1
        with self.torch.cuda.stream(self.stream):
            call()
            while True:
                start = self._event()
                for _ in range(calls):
                    call()
                end = self._event()
                end.synchronize()
                if start.elapsed_time(end) >= PIECE_MS:
                    return calls
                calls *= 2


class Cuda:
    """Two buffers on the current GPU, ``a`` and ``b``."""

    def __init__(self, pool: Executor, size: int | None, gemm: int) -> None:
        torch = _torch()
        self.pool, self.torch = pool, torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        cache = getattr(properties, "L2_cache_size", None)
        self.size = buffer_bytes(size, cache, gemm, torch.cuda.mem_get_info()[0], properties.name)
        count = self.size // FLOAT_BYTES
        a, b = (torch.ones(count, dtype=torch.float32, device="cuda") for _ in range(2))
        rows = b.view(-1, ROW_FLOATS)
        indices = torch.randint(len(rows), (max(len(rows), LOOKUP_ROWS),), device="cuda")
        batches = indices[: len(indices) // LOOKUP_ROWS * LOOKUP_ROWS].split(LOOKUP_ROWS)
        taken = torch.empty((LOOKUP_ROWS, ROW_FLOATS), dtype=torch.float32, device="cuda")
        total = torch.empty((), dtype=torch.float32, device="cuda")
        factor = torch.ones((gemm, gemm), dtype=torch.float32, device="cuda")
        product = torch.empty_like(factor)
        turn = 0

        def look_up() -> None:
            nonlocal turn
            torch.index_select(rows, 0, batches[turn % len(batches)], out=taken)
            turn += 1

        works: dict[str, tuple[float, Callable[[], object]]] = {
            "read": (self.size, lambda: torch.sum(a, dim=0, out=total)),
            "write": (self.size, lambda: a.fill_(1)),
            "copy": (2 * self.size, lambda: a.copy_(b)),
            "reduce": (3 * self.size, lambda: a.add_(b)),
            LOOKUP: (2 * LOOKUP_ROWS * ROW_FLOATS * FLOAT_BYTES, look_up),
            GEMM: (2 * gemm**3, lambda: torch.mm(factor, factor, out=product)),
        }
        torch.cuda.synchronize()  # the buffers are there before other streams use them
        streams = {True: torch.cuda.Stream(), False: torch.cuda.Stream()}
        self._lanes = {
            name: CudaLane(torch, streams[name in COMPUTATION], call, amount / 1e9)
            for name, (amount, call) in works.items()
        }
        clock = _clock_ghz(torch)
        self.core_gb_per_s = SM_BYTES_PER_CYCLE * clock
        self.machine = Machine(
            device="cuda",
            name=properties.name,
            cores=properties.multi_processor_count,
            cache_bytes=cache,
            clock_ghz=round(clock, 3),
            gemm_cores=None,
            platform=platform.platform(),
            python=platform.python_version(),
            library=f"torch {torch.__version__}, CUDA {torch.version.cuda}",
            numpy=np.__version__,
        )

    def lanes(self, work: str) -> Sequence[Lane]:
        return [self._lanes[work]]

    def core(self) -> Sequence[Lane]:
        return []

    def rates(self, sides: Sequence[Sequence[Lane]], seconds: float) -> list[float]:
        origin = _now(self.torch)  # near, since PyTorch has the time between events in single precision
        for side in sides:
            for lane in side:
                assert isinstance(lane, CudaLane)
                lane.origin = origin
        return together(self.pool, sides, max(seconds, LEAST_S))


def _torch() -> Any:
    """PyTorch, which has a GPU.

    Raises:
        AntiphonError: ``missing-extra`` without PyTorch, ``not-applicable`` without a GPU.
    """
    try:
        import torch
    except (ImportError, OSError):
        message = "measuring a GPU needs PyTorch; install it with: pip install 'antiphon[torch]'"
        raise AntiphonError(message, "missing-extra") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not torch.cuda.is_available():
            message = f"PyTorch {torch.__version__} finds no GPU here; measure the CPU with --device cpu"
            raise AntiphonError(message, "not-applicable")
    return torch


def _now(torch: Any) -> Any:
    """An event that has happened."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    event.synchronize()
    return event


def _clock_ghz(torch: Any) -> float:
    """The clock of an SM, by a kernel that waits for so many cycles; the fastest of several times."""
    times = [_now(torch)]
    for _ in range(SPINS):
        torch.cuda._sleep(SPIN_CYCLES)
        times.append(_now(torch))
    return float(SPIN_CYCLES / (min(start.elapsed_time(end) for start, end in pairwise(times)) * 1e6))
