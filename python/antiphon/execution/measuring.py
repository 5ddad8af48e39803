"""A collective run on real data, checked and timed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from antiphon._core import Executor, Fabric, Schedule
from antiphon.arguments import expect, shown
from antiphon.calibration.result import Calibration
from antiphon.collective.matrix import Matrix
from antiphon.collective.schedules import as_schedule, build
from antiphon.collective.tuning import size_range
from antiphon.errors import AntiphonError, harmless
from antiphon.execution.launch import launch
from antiphon.execution.measure import Measured, Plan, measure_rank
from antiphon.execution.mpi import MpiCarrier, in_job, last_words
from antiphon.execution.numbers import ELEMENTS
from antiphon.execution.prediction import MemoryRates
from antiphon.execution.result import Measurement
from antiphon.execution.threads import measure_threads
from antiphon.given import as_fabric
from antiphon.names import Collective

TRANSPORTS = ("mpi", "threads", "cuda")
"""What can carry messages: MPI between processes, this process's memory between threads, or GPUs' thread blocks."""
LARGEST_TOTAL = 1 << 34
"""Bytes of all ranks' buffers together."""
MOST_RANKS = 256
"""Processes that are started, or threads."""


def measure(
    fabric: str | Fabric,
    algorithm: str | Schedule | os.PathLike[str],
    collective: Collective | str = "all-reduce",
    sizes: str | Sequence[int] = "64MiB",
    *,
    root: int = 0,
    matrix: Matrix | None = None,
    element: str = "float32",
    transport: str = "mpi",
    warmup: int = 1,
    iterations: int = 5,
    timeout_s: float = 8.0,
    calibration: Calibration | str | os.PathLike[str] | None = None,
    progress: Callable[[float], object] | None = None,
) -> Measurement:
    """Runs a collective on real data, compares every element with the definition, and times it, out of place and in
    place.

    >>> measure("mesh:2x2", "ring", sizes="4KiB,64KiB", transport="threads").correct
    True

    With transport ``mpi`` a process is started for every rank of the fabric; in a job that ``mpirun`` started, its
    processes are the ranks, and all must call this. The fabric says who sends what to whom; the messages take the way
    that this machine has. Numbers that are added are whole and small enough for exact sums. Every run is checked and
    starts when all ranks are ready; its clock stands still while data are made and compared. In place, a rank's data
    start where results come (as in the NCCL tests); out of place they are copied there first, which counts.

    Args:
        fabric: specification or Fabric.
        algorithm: ``name[:key=value,...]``, or a Schedule or file ``*.json``, which says the collective and its size.
        collective: what to compute.
        sizes: full buffer sizes in bytes: a list, or text such as ``1KiB..1MiB``, doubling.
        root: of a broadcast or reduce.
        matrix: for an all-to-all, instead of sizes: bytes from every rank to every other one, as ``build`` takes it.
        element: type of the numbers: float32, float64, float16, bfloat16, int32 or int64.
        transport: ``mpi``, ``threads``, or ``cuda``: the GPUs of this machine.
        warmup: runs before the timed ones, beside a first one.
        iterations: timed runs; the time is their mean on the slowest rank.
        timeout_s: a rank to which nothing happens for so long gives up.
        calibration: of this machine, or the file that ``antiphon calibrate --out`` wrote: also predict the times.
        progress: called about ten times a second; what it raises ends the run.

    Raises:
        AntiphonError: ``missing-extra`` without MPI or CUDA for Python; ``not-applicable`` without a GPU, or for types
            that it does not add; ``not-proven`` for a schedule that is wrong, before it runs;
            ``stalled`` if a rank is killed or hangs, with its number and what another waited for; ``too-large`` past
            256 ranks or 16 GiB of buffers; as ``build``.
    """
    network = as_fabric(fabric)
    expect("element", element, str)
    expect("transport", transport, str)
    if element not in ELEMENTS:
        raise AntiphonError(f"element type '{element:.40}': one of {', '.join(ELEMENTS)}", "unknown-name")
    if transport not in TRANSPORTS:
        raise AntiphonError(f"transport '{transport:.40}': one of {', '.join(TRANSPORTS)}", "unknown-name")
    for name, number, least in (("warmup", warmup, 0), ("iterations", iterations, 1)):
        expect(name, number, int)
        if not least <= number <= 1_000_000:
            raise AntiphonError(f"{name} {shown(number)}: {least} to 1,000,000", "bad-size")
    expect("timeout_s", timeout_s, int, float)
    if not 0.5 <= timeout_s <= 86_400:
        raise AntiphonError(f"timeout_s {shown(timeout_s)}: 0.5 to 86,400 seconds", "bad-size")
    if network.ranks > MOST_RANKS:
        raise AntiphonError(f"{network.ranks} ranks; at most {MOST_RANKS} are run on one machine", "too-large")
    schedules = _schedules(network, algorithm, collective, sizes, root, matrix)
    for schedule in schedules:
        _check(network, schedule, element)
    if transport == "cuda" and calibration is not None:
        raise AntiphonError("calibration: times of a GPU's thread blocks are not predicted by one", "not-applicable")
    rates = None if calibration is None else MemoryRates.of(calibration)
    plan = Plan(element, warmup, iterations)
    if transport == "cuda":
        from antiphon.execution.cuda.carrier import measure_cuda

        measured = measure_cuda(schedules, plan, timeout_s, progress)
    elif transport == "threads":
        measured = measure_threads(schedules, plan, progress)
    elif in_job():
        measured = _joined(schedules, plan, timeout_s)
    else:
        measured = launch(schedules, plan, timeout_s, progress)
    predicted = [None if rates is None else rates.predicted_ns(each, transport) for each in schedules]
    return Measurement.of(network, schedules, plan, transport, measured, predicted)


def _schedules(
    fabric: Fabric,
    algorithm: str | Schedule | os.PathLike[str],
    collective: str,
    sizes: str | Sequence[int],
    root: int,
    matrix: Matrix | None,
) -> list[Schedule]:
    if not isinstance(algorithm, str) or algorithm.lower().endswith(".json"):
        return [as_schedule(algorithm, fabric, "algorithm")]
    if matrix is not None:
        return [build(fabric, algorithm, collective, root=root, matrix=matrix)]
    expect("sizes", sizes, str, list, tuple, int)
    wanted = size_range(sizes) if isinstance(sizes, str) else [sizes] if isinstance(sizes, int) else list(sizes)
    if not wanted:
        raise AntiphonError("sizes: give at least one", "bad-size")
    return [build(fabric, algorithm, collective, size, root=root) for size in wanted]


def _check(fabric: Fabric, schedule: Schedule, element: str) -> None:
    """Proves a schedule, on the fabric and for the type of numbers, before anything is started."""
    proof = schedule.verify(fabric)
    if not proof.complete:
        raise AntiphonError(f"{schedule.algorithm}: {proof.gaps}; it is not run", "not-proven")
    parts = schedule.ranks if schedule.collective == "all-to-all" else 1
    total = schedule.bytes * parts * schedule.ranks
    if total > LARGEST_TOTAL:
        message = f"{total:,} bytes of buffers on {schedule.ranks} ranks; at most {LARGEST_TOTAL:,} are run"
        raise AntiphonError(message, "too-large")
    Executor(schedule, 0, element)


def _joined(schedules: Sequence[Schedule], plan: Plan, timeout_s: float) -> list[Measured]:
    carrier = MpiCarrier(timeout_s)
    if carrier.ranks != schedules[0].ranks:
        message = f"the job has {carrier.ranks} processes, the fabric {schedules[0].ranks} ranks: start as many"
        raise AntiphonError(message, "bad-size")
    at_work: list[Executor] = []

    def say() -> None:
        what = (at_work[-1].waits_for() if at_work else None) or "the others"
        print(harmless(f"error: rank {carrier.rank} was ended; it waited for {what}"), file=sys.stderr, flush=True)

    try:
        with last_words(say):
            return list(measure_rank(carrier, schedules, plan, at_work.append))
    except AntiphonError as error:
        # The others wait for this one.
        print(f"error: {error.message}", file=sys.stderr, flush=True)
        carrier.abort()
        raise
