"""Measures a machine: what collectives do to memory, alone and beside computation."""

from __future__ import annotations

import math
import operator
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

import numpy as np

from antiphon._core import parse_bytes
from antiphon.arguments import expect, shown
from antiphon.calibration.device import COMMUNICATION, COMPUTATION, DEVICES, GEMM, Device
from antiphon.calibration.machine import busy_s
from antiphon.calibration.result import NOISY, Calibration
from antiphon.errors import AntiphonError
from antiphon.names import CalibratedDevice
from antiphon.parallel import cores, threads
from antiphon.results import Table

Case = tuple[str, str]
"""What is measured, and beside what; nothing: alone."""
ONE_CORE: Case = ("read by one core", "")
CASES: tuple[Case, ...] = (
    ONE_CORE,
    *((work, beside) for work in COMMUNICATION for beside in ("", *COMPUTATION)),
    *((work, beside) for work in COMPUTATION for beside in ("", *COMMUNICATION)),
)
"""In the order of the table."""
SAMPLES = 1 + len(COMMUNICATION) + len(COMPUTATION) * (1 + len(COMMUNICATION))
"""Of a round: one core, each work alone, each pair."""
SAMPLE_S = 0.15
"""About how long a sample takes, if there is time for more than the fewest rounds."""
FEWEST, MOST = 3, 31
"""Rounds."""
LONGEST_S = 3600.0
LARGEST_GEMM = 1 << 14


def calibrate(
    device: CalibratedDevice | str = "cpu",
    *,
    seconds: float = 20.0,
    size: str | SupportsIndex | None = None,
    gemm: SupportsIndex = 1000,
    progress: Callable[[str, float], object] | None = None,
) -> Calibration:
    """Measures this machine: memory read, written, copied and reduced, each alone and beside computation, and the
    computation alone and beside each (docs/how-to/calibrate.md).

    >>> calibration = calibrate(seconds=0.05, size="256KiB", gemm=32)
    >>> calibration.rate("reduce", "gemm") > 0
    True

    Computation is a GEMM, bound by arithmetic, and a lookup of rows in a table, bound by memory. All works may use all
    cores; the machine divides them. Samples are taken in rounds, alone and beside in turns.

    Args:
        device: ``cpu``, by numpy, or ``cuda``, the current GPU by PyTorch (extra ``torch``).
        seconds: about how long all of it takes; at least three rounds are made.
        size: bytes of each of two buffers, a number or text such as ``1GiB``; None: four times the last-level caches,
            but at most an eighth of the free memory.
        gemm: dimension of the square matrices, of 4-byte numbers, that are multiplied; 1000 as in the paper.
        progress: called with what is done, buffers and then rounds, and the share of that, 0 to 1.

    Raises:
        AntiphonError: ``unknown-name`` for the device, ``bad-size`` for seconds and sizes that mean nothing,
            ``too-large`` for buffers that do not fit and a GEMM that takes too long, ``missing-extra`` without
            PyTorch, ``not-applicable`` without a GPU.
        KeyboardInterrupt: on Ctrl-C, when the product or the pieces under way are done.
    """
    start = time.perf_counter()
    expect("device", device, str)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_S:
        raise AntiphonError(f"seconds is {shown(seconds)}; give a number above 0, at most {LONGEST_S:g}", "bad-size")
    dimension = _dimension(gemm)
    buffer = None if size is None else parse_bytes(size)
    if device not in DEVICES:
        raise AntiphonError(f"unknown device {shown(device)}; there are: {', '.join(DEVICES)}", "unknown-name")
    told = (lambda _name, _share: None) if progress is None else progress
    # A thread for each core on both sides.
    with threads(2 * cores() + 1) as (pool, _count):
        found: Device
        if device == "cuda":
            from antiphon.calibration.cuda import Cuda

            found = Cuda(pool, buffer, dimension)
        else:
            from antiphon.calibration.cpu import Cpu

            found = Cpu(pool, buffer, dimension, seconds, told)
        rounds = max(FEWEST, min(int(seconds / (SAMPLES * SAMPLE_S)), MOST))
        left = max(seconds - (time.perf_counter() - start), seconds / 2)
        window = left / (SAMPLES * rounds)
        samples: dict[Case, list[float]] = defaultdict(list)
        others = _Others(found)
        for number, cases in enumerate(_rounds(found, rounds, window, start + seconds)):
            for case, rate in cases.items():
                samples[case].append(rate)
            told(f"round {number // SAMPLES + 1} of {rounds}", (number + 1) / (SAMPLES * rounds))
        share = others.share()
    core = found.core_gb_per_s or float(np.median(samples[ONE_CORE]))
    table = Table.of_rows([_row(case, samples, found.machine.cores) for case in CASES if case in samples])
    return Calibration(found.machine, found.size, dimension, len(samples["read", ""]), window, core, share, table)


class _Others:
    """What others than this process do on a CPU from now on."""

    def __init__(self, device: Device) -> None:
        self.cores = device.machine.cores if device.machine.device == "cpu" else 0
        self.start = self._now()

    def share(self) -> float | None:
        """Of the time of all cores."""
        (wall, busy, own), (wall_then, busy_then, own_then) = self._now(), self.start
        if not self.cores or busy is None or busy_then is None:
            return None
        others = ((busy - busy_then) - (own - own_then)) / (self.cores * (wall - wall_then))
        return round(min(max(others, 0.0), 1.0), 3)

    @staticmethod
    def _now() -> tuple[float, float | None, float]:
        return time.perf_counter(), busy_s(), time.process_time()


def _rounds(device: Device, rounds: int, window: float, until: float) -> Iterator[dict[Case, float]]:
    """The rates of one sample after the other, for so many rounds, or fewer if the time is over. What a GEMM disturbs
    when it is done comes as far from it as can be."""
    lanes = {work: device.lanes(work) for work in (*COMPUTATION, *COMMUNICATION)}
    core = device.core()
    for number in range(rounds):
        if number >= FEWEST and time.perf_counter() > until:
            return
        yield {ONE_CORE: device.rates([core], window)[0]} if core else {}
        for work in COMMUNICATION:
            yield {(work, ""): device.rates([lanes[work]], window)[0]}
        for work in reversed(COMPUTATION):
            yield {(work, ""): device.rates([lanes[work]], window)[0]}
            for other in COMMUNICATION:
                here, there = device.rates([lanes[work], lanes[other]], window)
                yield {(work, other): here, (other, work): there}


def _row(case: Case, samples: dict[Case, list[float]], all_cores: int) -> dict[str, Any]:
    """The statistics of a case."""
    work, beside = case
    rates = np.array(samples[case])
    q1, rate, q3 = np.quantile(rates, (0.25, 0.5, 0.75))
    slow_q1 = slowdown = slow_q3 = math.nan
    if beside:
        slow_q1, slowdown, slow_q3 = np.quantile(np.array(samples[work, ""]) / rates, (0.25, 0.5, 0.75))
    spread = np.nanmax([(q3 - q1) / rate, (slow_q3 - slow_q1) / slowdown])
    one = case == ONE_CORE
    return {
        "work": "read" if one else work,
        "beside": beside,
        "cores": 1 if one else all_cores,
        "rate": rate,
        "rate_q1": q1,
        "rate_q3": q3,
        "unit": "GFLOP/s" if work == GEMM else "GB/s",
        "slowdown": slowdown,
        "slowdown_q1": slow_q1,
        "slowdown_q3": slow_q3,
        "spread": float(spread),
        "noisy": bool(spread > NOISY),
    }


def _dimension(gemm: SupportsIndex) -> int:
    """That of the matrices.

    Raises:
        AntiphonError: ``bad-size``.
    """
    try:
        dimension = 0 if isinstance(gemm, bool) else operator.index(gemm)
    except TypeError:
        dimension = 0
    if not 1 <= dimension <= LARGEST_GEMM:
        raise AntiphonError(f"gemm is {shown(gemm)}; give a whole number from 1 to {LARGEST_GEMM}", "bad-size")
    return dimension
