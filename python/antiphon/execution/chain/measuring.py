"""Chained iterations on real data, measured beside the timing model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any, NamedTuple

from antiphon._core import Execution, Fabric, Schedule, System, TrainingPlan, Workload, build, simulate
from antiphon.arguments import expect, shown
from antiphon.calibration.result import Calibration
from antiphon.errors import AntiphonError, NotApplicable
from antiphon.execution.chain.rank import ELEMENT, WARM_UP_RUNS, ChainedRank, in_threads, timed
from antiphon.execution.measuring import LARGEST_TOTAL, MOST_RANKS
from antiphon.execution.prediction import MemoryRates
from antiphon.execution.result import ChainMeasurement
from antiphon.given import as_fabric
from antiphon.models.given import workload
from antiphon.parallel import cores
from antiphon.results import SimulationResult, Table

BARRIER, OVERLAPPED, RING = "overlapped-tree:overlap=no", "overlapped-tree", "ring"
VARIANTS = (
    ("B", BARRIER, False),
    ("C1", OVERLAPPED, False),
    ("C2", BARRIER, True),
    ("CC", OVERLAPPED, True),
    ("R", RING, False),
)
"""The systems that the C-Cube paper compares (section V): names, algorithms, and whether the forward pass is
chained."""
EMULATED = ("testbed", "cuda")
"""Transports whose links have a rate: an emulated fabric, and a fabric inside a GPU."""
CARRIERS = ("threads", "mpi", *EMULATED)
LONGEST_US = 600e6
"""Computation of an iteration."""


class Variant(NamedTuple):
    """A way to run an iteration."""

    name: str
    schedule: Schedule
    chained: bool


def measure_chain(
    fabric: str | Fabric,
    model: str | Workload,
    algorithm: str | None = None,
    *,
    transport: str = "threads",
    batch: int = 32,
    compute: str | None = None,
    busy: bool = False,
    link_rate: str | None = None,
    iterations: int = 5,
    timeout_s: float = 8.0,
    calibration: Calibration | str | os.PathLike[str] | None = None,
    progress: Callable[[float], object] | None = None,
) -> ChainMeasurement:
    """Runs iterations of training on real gradients: a backward pass, one all-reduce, and a forward pass whose layers
    wait for all gradients or, chained, each for its own; as the C-Cube paper compares them (HPCA 2023, section V).

    >>> from antiphon import Workload
    >>> table = "layer,params,macs,input_elements,output_elements\\na,2000,2000,9,9\\nb,6000,6000,9,9\\n"
    >>> found = measure_chain("ring:4", Workload.from_csv("two", table), iterations=1)
    >>> found.runs["variant"].tolist(), found.correct
    (['B', 'C1', 'C2', 'CC', 'R'], True)

    Gradients are whole numbers, so that the weights of all variants must be equal to the bit, and to the sums computed
    directly; that is checked after all iterations.

    Args:
        fabric: specification or Fabric.
        model: a name, a CSV file (docs/reference/workloads.md) or a Workload.
        algorithm: of the all-reduce; default: the paper's five variants, those that apply: tree with a barrier between
            reduction and broadcast (B), without it (C1), both chained (C2, CC), and a ring (R). With one: it, and it
            chained.
        transport: ``threads``, ``mpi``, ``testbed``: an emulated fabric, or ``cuda``: one inside a GPU, as of
            ``emulate``. There layers compute on SMs that are left; that sums are right is checked, weights are not
            kept.
        batch: samples on each rank, of which computation times are.
        compute: how long layers compute, ``roofline``, ``systolic`` or ``measured``; default: the table's times, else a
            V100's. No accelerator is needed: a rank sleeps meanwhile.
        busy: ranks multiply matrices for as long, instead of sleeping; more ranks than cores then take longer.
        link_rate: of every emulated link, each way, as of ``emulate``.
        iterations: timed ones of each variant, after one that is not; what counts is the median.
        timeout_s: a rank to which nothing happens for so long ends the run.
        calibration: of this machine: predict for threads and MPI, which have no rate of links.
        progress: called about ten times a second; what it raises ends the run.

    Raises:
        AntiphonError: as ``measure`` and ``emulate``; ``bad-size`` for a model without weights.
    """
    whole = as_fabric(fabric)
    expect("transport", transport, str)
    for name, text in (("algorithm", algorithm), ("compute", compute), ("link_rate", link_rate)):
        expect(name, text, str, type(None))
    expect("batch", batch, int)
    expect("busy", busy, bool)
    if transport not in CARRIERS:
        raise AntiphonError(f"transport '{transport:.40}': one of {', '.join(CARRIERS)}", "unknown-name")
    if busy and transport == "cuda":
        raise AntiphonError("busy: on a GPU layers are timed by the clocks of SMs; leave it out", "not-applicable")
    expect("iterations", iterations, int)
    if not 1 <= iterations <= 10_000:
        raise AntiphonError(f"iterations {shown(iterations)}: 1 to 10,000", "bad-size")
    expect("timeout_s", timeout_s, int, float)
    if not 0.5 <= timeout_s <= 86_400:
        raise AntiphonError(f"timeout_s {shown(timeout_s)}: 0.5 to 86,400 seconds", "bad-size")
    if link_rate is not None and transport not in EMULATED:
        raise AntiphonError(f"link_rate: links have no rate by {transport}; use {' or '.join(EMULATED)}", "bad-spec")
    if whole.ranks > MOST_RANKS:
        raise AntiphonError(f"{whole.ranks} ranks; at most {MOST_RANKS} are run on one machine", "too-large")
    work = workload(model)
    compute = compute or ("measured" if work.measured else System("dgx1").processor)
    plans = {
        chained: TrainingPlan(work, compute, batch, overlap="ccube" if chained else "none") for chained in (False, True)
    }
    if any(len(plan.exchanges) > 1 for plan in plans.values()):
        raise AntiphonError(f"{work.name} exchanges more than gradients, which is not run", "not-applicable")
    layers = _layers(plans[False])
    size = sum(each["gradient_bytes"] for each in layers)
    if size == 0:
        raise AntiphonError(f"{work.name} has no weights, so that nothing is exchanged", "bad-size")
    if 2 * size * whole.ranks > LARGEST_TOTAL:
        message = f"{2 * size * whole.ranks:,} bytes of weights and gradients; at most {LARGEST_TOTAL:,} are run"
        raise AntiphonError(message, "too-large")
    computed_us = sum(each["forward_ns"] + each["backward_ns"] for each in layers) / 1e3
    if computed_us > LONGEST_US:
        message = f"{work.name}: an iteration computes for {computed_us / 1e6:,.0f} s; at most {LONGEST_US / 1e6:,.0f}"
        raise AntiphonError(f"{message} are waited for: take a smaller batch", "too-large")
    variants = _variants(whole, algorithm, size)
    rates = None if calibration is None else MemoryRates.of(calibration)
    training = ChainedTraining(whole, variants, layers, busy, link_rate, iterations, timeout_s, progress)
    ways = {"threads": training.in_threads, "mpi": training.by_mpi, "testbed": training.in_namespaces}
    measured, system = ways.get(transport, training.on_gpu)()
    # Variants share schedules.
    simulated = cache(lambda schedule: simulate(whole, schedule, system))
    rows = []
    for variant, (times, is_right) in zip(variants, measured, strict=True):
        row = {"variant": variant.name, "algorithm": variant.schedule.algorithm, "iteration_us": median(times) / 1e3}
        row["predicted_us"] = None
        if transport in EMULATED or rates is not None:
            exchange_ns = None if rates is None else rates.predicted_ns(variant.schedule, transport)
            plan = plans[variant.chained]
            row["predicted_us"] = _predicted_ns(simulated(variant.schedule), variant, plan, exchange_ns) / 1e3
        row |= {"least_us": min(times) / 1e3, "most_us": max(times) / 1e3, "equal": is_right}
        rows.append(row)
    return ChainMeasurement(
        fabric=whole.name,
        model=work.name,
        transport=transport,
        ranks=whole.ranks,
        layers=len(layers),
        gradient_bytes=size,
        compute_us=computed_us,
        iterations=iterations,
        runs=Table.of_rows(rows),
    )


def _layers(plan: TrainingPlan) -> list[dict[str, Any]]:
    of = plan.layers
    backward = of["input_gradient_ns"] + of["weight_gradient_ns"]
    columns = zip(of["gradient_bytes"].tolist(), of["forward_ns"].tolist(), backward.tolist(), strict=True)
    return [dict(zip(("gradient_bytes", "forward_ns", "backward_ns"), each, strict=True)) for each in columns]


def _variants(fabric: Fabric, algorithm: str | None, size: int) -> list[Variant]:
    if algorithm is not None:
        schedule = _built(fabric, algorithm, size)
        return [Variant(schedule.algorithm, schedule, False), Variant(f"{schedule.algorithm} chained", schedule, True)]
    built: dict[str, Schedule | None] = {}
    for _, spec, _ in VARIANTS:
        try:
            built[spec] = built.get(spec) or _built(fabric, spec, size)
        except NotApplicable:
            built[spec] = None
    found = [Variant(name, own, chained) for name, spec, chained in VARIANTS if (own := built[spec]) is not None]
    if not found:
        raise AntiphonError(f"neither trees nor rings are laid on {fabric.name}; give ALGORITHM", "not-applicable")
    return found


def _built(fabric: Fabric, spec: str, size: int) -> Schedule:
    schedule = build(fabric, spec, "all-reduce", size)
    if schedule.excluded:
        raise NotApplicable(f"{spec} leaves out ranks, whose weights would differ", "not-applicable")
    proof = schedule.verify(fabric)
    if not proof.complete:
        raise AntiphonError(f"{schedule.algorithm}: {proof.gaps}; it is not run", "not-proven")
    return schedule


def _predicted_ns(found: SimulationResult, variant: Variant, plan: TrainingPlan, exchange_ns: float | None) -> float:
    """The iteration by the timing model of `train`. Where only the time of an exchange is known, its chunks are
    complete after the shares of it that the fabric would take."""
    chunks = dict(found.chunks)
    if exchange_ns is not None:
        chunks["complete_ns"] = chunks["complete_ns"] * (exchange_ns / found.time_ns)
    return plan.run([exchange_ns or found.time_ns], [chunks if variant.chained else None]).time_ns


Found = tuple[list[tuple[list[float], bool]], System]
"""Of each variant: times of its iterations in ns, and whether all was right; and the system that predicts."""


@dataclass(frozen=True)
class ChainedTraining:
    """Iterations of all variants; arguments as of ``measure_chain``."""

    fabric: Fabric
    variants: Sequence[Variant]
    layers: Sequence[dict[str, Any]]
    busy: bool
    link_rate: str | None
    iterations: int
    timeout_s: float
    progress: Callable[[float], object] | None

    def in_threads(self) -> Found:
        """All ranks in this process."""
        found = []
        for variant in self._told():
            schedule, execution = variant.schedule, Execution(variant.schedule)
            every = range(schedule.ranks)
            ranks = [ChainedRank(schedule, rank, self.layers, variant.chained, self.busy) for rank in every]

            def once(ranks: list[ChainedRank] = ranks, execution: Execution = execution) -> tuple[int, int]:
                for rank in ranks:
                    rank.prepare()
                return in_threads(ranks, execution, cores())

            times = list(timed(self.iterations, WARM_UP_RUNS, once))
            found.append((times, not any(rank.wrong() for rank in ranks)))
        return found, System("ideal")

    def by_mpi(self) -> Found:
        """A process a rank."""
        from antiphon.execution.launch import launched

        task = {"chain": self._task(), "timeout_s": self.timeout_s}
        results = launched(task, self._schedules(), self.timeout_s, self.progress)
        return [(each["times_ns"], each["right"]) for each in results], System("ideal")

    def in_namespaces(self) -> Found:
        """On an emulated fabric."""
        from antiphon.execution.testbed import network
        from antiphon.execution.testbed.emulation import rate_of, run_emulated, testbed

        rate = rate_of("namespaces", self.link_rate)
        network.cables(self.fabric)  # before any work
        how = (rate, self.iterations, self.timeout_s, self.progress, self._task())
        _, runs = run_emulated(self.fabric, self._schedules(), *how)
        return [(times, wrong == 0) for times, wrong in runs], testbed(rate)

    def on_gpu(self) -> Found:
        """On a fabric inside a GPU."""
        from antiphon.execution.cuda.device import Gpu
        from antiphon.execution.cuda.program import Layer
        from antiphon.execution.cuda.testbed import GpuFabric
        from antiphon.execution.testbed.emulation import rate_of

        backward_ns = sum(each["backward_ns"] for each in self.layers)
        forward = [Layer(each["gradient_bytes"], each["forward_ns"]) for each in self.layers]
        gpu, found = Gpu(), []
        try:
            there = GpuFabric(gpu, self.fabric, rate_of("cuda", self.link_rate) / 8e9, self.timeout_s)
            for variant in self._told():
                loaded = there.loaded(variant.schedule, ELEMENT, forward, is_chained=variant.chained)
                runs = [loaded.run() for _ in range(WARM_UP_RUNS + self.iterations)]
                loaded.close()
                times = [backward_ns + run.time_ns for run in runs[WARM_UP_RUNS:]]
                found.append((times, not any(run.wrong for run in runs)))
            return found, there.system
        finally:
            gpu.close()

    def _told(self) -> Iterator[Variant]:
        """The variants, one after the other, with progress."""
        for number, variant in enumerate(self.variants):
            if self.progress is not None:
                self.progress(number / len(self.variants))
            yield variant

    def _schedules(self) -> list[Schedule]:
        return [each.schedule for each in self.variants]

    def _task(self) -> dict[str, Any]:
        """What processes of ranks are told."""
        chained = [each.chained for each in self.variants]
        return {"layers": list(self.layers), "busy": self.busy, "iterations": self.iterations, "chained": chained}
