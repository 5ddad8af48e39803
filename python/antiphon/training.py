"""Training: the time of an iteration and of an epoch, with exchanges proven and simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from antiphon._core import (
    Fabric,
    System,
    TrainingPlan,
    Workload,
    algorithms,
    build,
    default_batch,
    iterations,
)
from antiphon.errors import AntiphonError
from antiphon.files import read_text
from antiphon.results import ByValue, Iteration, Table
from antiphon.timing import Progress, Timer, simulator

IMAGENET = 1_281_167
"""Training images of ImageNet, the data set of the TTO paper's epochs."""
LARGEST_TABLE = 1 << 28
"""Workload tables are read whole; larger files are refused."""
MOST_TIMED = 4096
"""Collectives of different sizes that are simulated for one iteration."""


@dataclass(frozen=True, eq=False)
class Training(ByValue):
    """One model trained on one fabric with one algorithm.

    Attributes:
        model: name of the workload.
        fabric: the fabric's specification.
        algorithm: the algorithm of its collectives.
        system: the platform.
        fidelity: at which the collectives were simulated.
        compute: the compute model, with all its parameters.
        overlap: ``none`` or ``layerwise``.
        bucket: whose gradients are reduced together: ``table``, ``layer`` or a size.
        batch: samples on each rank that trains, in one iteration.
        dataset: samples of an epoch.
        ranks: ranks of the fabric.
        excluded_ranks: ranks that do not train.
        gradient_bytes: all gradients that are reduced in an iteration.
        iterations: of one epoch: ``ceil(dataset / (batch * training ranks))`` (TTO paper, Eq. 1).
        iteration: the times of one iteration.
        layers: per layer, its name (``layer``), ``forward_ns``, ``input_gradient_ns``,
            ``weight_gradient_ns`` and ``gradient_bytes``.
    """

    model: str
    fabric: str
    algorithm: str
    system: System
    fidelity: str
    compute: str
    overlap: str
    bucket: str
    batch: int
    dataset: int
    ranks: int
    excluded_ranks: list[int]
    gradient_bytes: int
    iterations: int
    iteration: Iteration
    layers: Table

    @property
    def iteration_ns(self) -> float:
        """Time of one iteration."""
        return self.iteration.time_ns

    @property
    def compute_ns(self) -> float:
        """Time of one iteration spent computing."""
        return self.iteration.compute_ns

    @property
    def communication_ns(self) -> float:
        """Sum of the times of all collectives of one iteration."""
        return self.iteration.communication_ns

    @property
    def exposed_communication_ns(self) -> float:
        """Time of one iteration in which nothing is computed."""
        return self.iteration.exposed_communication_ns

    @property
    def overlapped_communication_ns(self) -> float:
        """Communication behind which something is computed."""
        return self.communication_ns - self.exposed_communication_ns

    @property
    def epoch_ns(self) -> float:
        """Time of one epoch."""
        return self.iterations * self.iteration_ns

    @property
    def global_batch(self) -> int:
        """Samples of one iteration on all ranks."""
        return self.batch * (self.ranks - len(self.excluded_ranks))

    @property
    def samples_per_s(self) -> float:
        """Throughput of all ranks."""
        return self.global_batch / max(self.iteration_ns, 1e-3) * 1e9

    def gain_ns(self, baseline: Training) -> float:
        """Time that one epoch saves over a baseline's, negative if it loses (TTO paper, Eq. 2)."""
        return baseline.epoch_ns - self.epoch_ns

    def to_dict(self, baselines: Iterable[Training] = ()) -> dict[str, Any]:
        """The training as documented in docs/json.md, without its tables."""
        return {
            "model": self.model,
            "fabric": self.fabric,
            "algorithm": self.algorithm,
            "system": self.system.name,
            "fidelity": self.fidelity,
            "compute": self.compute,
            "overlap": self.overlap,
            "bucket": self.bucket,
            "batch": self.batch,
            "global_batch": self.global_batch,
            "dataset": self.dataset,
            "ranks": self.ranks,
            "excluded_ranks": self.excluded_ranks,
            "gradient_bytes": self.gradient_bytes,
            "iteration_ns": self.iteration_ns,
            "forward_ns": self.iteration.forward_ns,
            "backward_ns": self.iteration.backward_ns,
            "aggregation_ns": self.iteration.aggregation_ns,
            "compute_ns": self.compute_ns,
            "communication_ns": self.communication_ns,
            "exposed_communication_ns": self.exposed_communication_ns,
            "overlapped_communication_ns": self.overlapped_communication_ns,
            "iterations": self.iterations,
            "epoch_ns": self.epoch_ns,
            "samples_per_s": self.samples_per_s,
            "against": [
                {
                    "algorithm": baseline.algorithm,
                    "iteration_ns": baseline.iteration_ns,
                    "communication_ns": baseline.communication_ns,
                    "exposed_communication_ns": baseline.exposed_communication_ns,
                    "iterations": baseline.iterations,
                    "epoch_ns": baseline.epoch_ns,
                    "gain_ns": self.gain_ns(baseline),
                    "speedup": baseline.epoch_ns / self.epoch_ns,
                }
                for baseline in baselines
            ],
        }


def workload(model: str | Workload) -> Workload:
    """A model by name (``workloads()``), or a table from a file that ends in ``.csv``.

    Raises:
        AntiphonError: ``unknown-name``, or ``bad-file`` with row and column.
    """
    if isinstance(model, Workload):
        return model
    if model.lower().endswith(".csv"):
        return Workload.from_csv(model, read_text(model, LARGEST_TABLE))
    return Workload(model)


def train(
    model: str | Workload,
    fabric: str | Fabric,
    algorithm: str,
    system: str | System = "generic",
    *,
    overlap: str = "none",
    bucket: str = "table",
    batch: int | None = None,
    global_batch: int | None = None,
    dataset: int = IMAGENET,
    compute: str | None = None,
    gradient_bytes: int = 4,
    exchange: str = "direct",
    fidelity: str = "packet",
    collectives: Timer | None = None,
    progress: Progress | None = None,
) -> Training:
    """The time of data-parallel training: forward pass, backward pass, AllReduce of the gradients.

    Args:
        model: a name, a CSV file (docs/workloads.md) or a Workload.
        fabric: specification or Fabric.
        algorithm: ``name[:key=value,...]`` of the collectives.
        system: preset name or System.
        overlap: ``none``: one AllReduce after the backward pass; ``layerwise``: one for each bucket
            of layers as soon as its gradients are there, one after another.
        bucket: ``table`` (the buckets of the workload's table), ``layer``, or a size to reach.
        batch: samples on each rank (weak scaling); default: one for each PE of a systolic array,
            else 32.
        global_batch: samples on all ranks together (strong scaling), instead of ``batch``.
        dataset: samples of an epoch.
        compute: ``systolic``, ``roofline`` or ``measured``, ``[:key=value,...]``; default: the
            table's times where it has them, else the system's processor.
        gradient_bytes: bytes of one gradient.
        exchange: algorithm of collectives that ``algorithm`` does not do, such as all-to-all.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        collectives: times the collectives instead of ``simulator``.
        progress: called while collectives are simulated.

    Raises:
        AntiphonError: as ``build`` and ``simulate``; ``not-applicable`` naming the layer that the
            compute model cannot time; ``bad-size`` for counts; ``too-large``.
    """
    work = workload(model)
    fabric = Fabric(fabric) if isinstance(fabric, str) else fabric
    system = System(system) if isinstance(system, str) else system
    if compute is None:
        compute = "measured" if work.measured else system.processor
    timer = collectives if collectives is not None else simulator(system, fidelity, progress)
    if batch is not None and global_batch is not None:
        raise AntiphonError("give either batch (on each rank) or global_batch (on all), not both", "bad-spec")
    if batch is None:
        batch = default_batch(compute)
    if global_batch is not None:
        # Whether the algorithm leaves out ranks is known once it is built.
        excluded = build(fabric, algorithm, "all-reduce", 1 << 20, system).excluded
        batch = -(-_positive("global_batch", global_batch) // (fabric.ranks - len(excluded)))
    plan = TrainingPlan(work, compute, batch, overlap, bucket, gradient_bytes)
    kinds = _collectives_of(algorithm)
    exchanges = [(algorithm if kind in kinds else exchange, kind, size) for kind, size in plan.exchanges]
    distinct = list(dict.fromkeys(exchanges))
    if len(distinct) > MOST_TIMED:
        message = (
            f"{work.name}: {len(distinct):,} collectives of different sizes to simulate; larger buckets need fewer"
        )
        raise AntiphonError(f"{message} (at most {MOST_TIMED:,})", "too-large")
    timed = {key: timer(fabric, *key) for key in distinct}
    excluded = sorted({rank for key in distinct for rank in timed[key].excluded_ranks})
    return Training(
        model=work.name,
        fabric=fabric.name,
        algorithm=algorithm,
        system=system,
        fidelity=fidelity,
        compute=compute,
        overlap=overlap,
        bucket=bucket,
        batch=batch,
        dataset=dataset,
        ranks=fabric.ranks,
        excluded_ranks=excluded,
        gradient_bytes=sum(size for kind, size in plan.exchanges if kind == "all-reduce"),
        iterations=iterations(dataset, batch, fabric.ranks - len(excluded)),
        iteration=plan.run([timed[key].time_ns for key in exchanges]),
        layers=plan.layers,
    )


def _collectives_of(algorithm: str) -> list[str]:
    """Collectives that an algorithm does; all if it is not known, so that building it says so."""
    name = algorithm.partition(":")[0]
    return next((known.collectives for known in algorithms() if known.name == name), ["all-reduce", "all-to-all"])


def _positive(name: str, number: int) -> int:
    if number < 1:
        raise AntiphonError(f"{name} is {number}; it must be at least 1", "bad-size")
    return number
