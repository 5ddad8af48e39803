"""Training: the time of an iteration and of an epoch, with exchanges proven and simulated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from antiphon._core import (
    Fabric,
    Schedule,
    System,
    TrainingPlan,
    Workload,
    advise_rails,
    algorithms,
    build,
    default_batch,
    iterations,
    simulate_flights,
)
from antiphon.arguments import expect, shown
from antiphon.comparison import known_names, split_specs
from antiphon.errors import AntiphonError
from antiphon.files import read_text
from antiphon.results import ByValue, Iteration, Table
from antiphon.timing import CollectiveTime, Progress, Timed, Timer, simulator

IMAGENET = 1_281_167
"""Training images of ImageNet, the data set of the TTO paper's epochs."""
LARGEST_TABLE = 1 << 28
"""Workload tables are read whole; larger files are refused."""
RAILS = "rails:"
"""Before the topology of a multi-dimensional network where a fabric could be."""
BUCKETS = ("layerwise", "both")
"""Overlap policies that reduce gradients in buckets."""
CHAINED = ("ccube", "both")
"""Overlap policies with which the next forward pass runs behind the exchange of gradients."""
IN_FLIGHT = ("serial", "shared")
"""Whether exchanges on a fabric run one after the other, or share its links."""
MOST_SAMPLES = (1 << 32) - 1
"""Samples of an iteration, and ranks of a model, as counts go in the core."""
MOST_TIMED = 4096
"""Collectives of different sizes that are simulated for one iteration."""


@dataclass(frozen=True, eq=False)
class Training(ByValue):
    """One model trained on one fabric with one algorithm.

    Attributes:
        model: name of the workload.
        fabric: specification of the fabric or rails.
        algorithm: the algorithm of its collectives.
        system: the platform.
        fidelity: at which the collectives were simulated.
        compute: the compute model, with all its parameters.
        overlap: ``none``, ``layerwise``, ``ccube`` or ``both``.
        bucket: whose gradients are reduced together: ``table``, ``layer`` or a size.
        blocking: whether weight gradients wait for the exchange of the layer's input gradient.
        in_flight: ``serial``: exchanges run one after the other; ``shared``: they share the links.
        batch: samples on each rank that trains, in one iteration.
        dataset: samples of an epoch.
        ranks: ranks of the fabric.
        excluded_ranks: ranks that do not train.
        model_parallel: ranks that every layer is divided over.
        gradient_bytes: all gradients that are reduced in an iteration.
        iterations: of one epoch: ``ceil(dataset / (batch * training ranks))`` (TTO paper, Eq. 1).
        iteration: the times of one iteration.
        layers: per layer, its name (``layer``), ``forward_ns``, ``input_gradient_ns``,
            ``weight_gradient_ns`` and ``gradient_bytes``.
    """

    model: str
    fabric: str
    group: list[int] | None
    algorithm: str
    system: System
    fidelity: str
    compute: str
    overlap: str
    bucket: str
    blocking: bool
    in_flight: str
    batch: int
    dataset: int
    ranks: int
    excluded_ranks: list[int]
    model_parallel: int
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
    def exposed_model_ns(self) -> float:
        """Of this, between layers."""
        return self.iteration.exposed_model_ns

    @property
    def exposed_data_ns(self) -> float:
        """Of this, for gradients: at the end, or where it is chained in the forward pass."""
        return self.iteration.exposed_data_ns

    @property
    def turnaround_ns(self) -> float:
        """Of this with a chained forward pass, until the first layer has its gradients."""
        return self.iteration.turnaround_ns

    @property
    def bubbles_ns(self) -> float:
        """Of this with a chained forward pass, while later layers wait for theirs."""
        return self.iteration.bubbles_ns

    @property
    def overlapped_communication_ns(self) -> float:
        """Communication behind which something is computed; of collectives in flight together, all."""
        return self.communication_ns - self.exposed_communication_ns

    @property
    def epoch_ns(self) -> float:
        """Time of one epoch."""
        return self.iterations * self.iteration_ns

    @property
    def global_batch(self) -> int:
        """Samples of one iteration on all ranks."""
        return self.batch * ((self.ranks - len(self.excluded_ranks)) // self.model_parallel)

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of all ranks; None if an iteration takes no time."""
        return self.global_batch / self.iteration_ns * 1e9 if self.iteration_ns else None

    def speedup(self, baseline: Training) -> float | None:
        """How many times shorter an epoch is than a baseline's; None if it takes no time."""
        return baseline.epoch_ns / self.epoch_ns if self.epoch_ns else None

    def gain_ns(self, baseline: Training) -> float:
        """Time that one epoch saves over a baseline's, negative if it loses (TTO paper, Eq. 2)."""
        return baseline.epoch_ns - self.epoch_ns

    def to_dict(self, baselines: Iterable[Training] = ()) -> dict[str, Any]:
        """The training as documented in docs/json.md, without its tables."""
        return {
            "model": self.model,
            "fabric": self.fabric,
            "group": self.group,
            "algorithm": self.algorithm,
            "system": self.system.name,
            "fidelity": self.fidelity,
            "compute": self.compute,
            "overlap": self.overlap,
            "bucket": self.bucket,
            "blocking": self.blocking,
            "in_flight": self.in_flight,
            "batch": self.batch,
            "global_batch": self.global_batch,
            "dataset": self.dataset,
            "ranks": self.ranks,
            "excluded_ranks": self.excluded_ranks,
            "model_parallel": self.model_parallel,
            "gradient_bytes": self.gradient_bytes,
            "iteration_ns": self.iteration_ns,
            "forward_ns": self.iteration.forward_ns,
            "backward_ns": self.iteration.backward_ns,
            "aggregation_ns": self.iteration.aggregation_ns,
            "compute_ns": self.compute_ns,
            "communication_ns": self.communication_ns,
            "exposed_communication_ns": self.exposed_communication_ns,
            "exposed_model_ns": self.exposed_model_ns,
            "exposed_data_ns": self.exposed_data_ns,
            "turnaround_ns": self.turnaround_ns,
            "bubbles_ns": self.bubbles_ns,
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
                    "speedup": self.speedup(baseline),
                }
                for baseline in baselines
            ],
        }


def workload(model: str | Workload) -> Workload:
    """A model by name (``workloads()``), or a table from a file that ends in ``.csv``.

    Raises:
        AntiphonError: ``unknown-name``, or ``bad-file`` with row and column.
    """
    expect("model", model, str, Workload)
    if isinstance(model, Workload):
        return model
    if model.lower().endswith(".csv"):
        return Workload.from_csv(model, read_text(model, LARGEST_TABLE))
    return Workload(model)


def split_fabrics(text: str) -> list[str]:
    """Splits a list of fabrics at commas; dimensions after ``rails:`` belong to it.

    >>> split_fabrics("mesh:4x4,drop=0-1,rails:ring4@1000/20ns,sw8@800/700ns,rails:2D-SW_SW")
    ['mesh:4x4,drop=0-1', 'rails:ring4@1000/20ns,sw8@800/700ns', 'rails:2D-SW_SW']
    """
    fabrics: list[str] = []
    for part in split_specs([text]):
        if fabrics and fabrics[-1].startswith(RAILS) and ":" not in part:
            fabrics[-1] += f",{part}"
        else:
            fabrics.append(part)
    return fabrics


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
    activation_bytes: int = 2,
    model_parallel: int = 1,
    recompute: bool = False,
    blocking: bool = False,
    in_flight: str | None = None,
    exchange: str | None = None,
    fidelity: str = "packet",
    chunks: int | None = None,
    collectives: Timer | None = None,
    progress: Progress | None = None,
) -> Training:
    """The time of training: forward pass, backward pass, AllReduce of the gradients.

    Args:
        model: a name, a CSV file (docs/workloads.md) or a Workload.
        fabric: specification or Fabric, or ``rails:TOPOLOGY``, a multi-dimensional network
            (docs/rails.md) that is timed stage by stage and carries several collectives at a time.
        algorithm: ``name[:key=value,...]`` of the collectives; on rails the scheduler, with its queue
            policy after a colon if it is not the default: ``themis:fifo``.
        system: preset name or System.
        overlap: ``none``: one AllReduce after the backward pass; ``layerwise``: one for each bucket
            of layers as soon as its gradients are there; ``ccube``: one after the backward pass, behind
            whose later chunks the next forward pass runs, layer by layer; ``both``: that behind buckets,
            of which those of early layers go before others that wait.
        bucket: ``table`` (the buckets of the workload's table), ``layer``, or a size to reach.
        batch: samples on each rank (weak scaling), or on the ranks that share a model; default: one
            for each PE of a systolic array, else 32. Measured times are of the batch of their table:
            only counts of samples follow from it.
        global_batch: samples on all ranks together (strong scaling), instead of ``batch``; a multiple
            of the ranks that train, and not for tables of measured times.
        dataset: samples of an epoch.
        compute: ``systolic``, ``roofline`` or ``measured``, ``[:key=value,...]``; default: the
            table's times where it has them, else the system's processor.
        gradient_bytes: bytes of one gradient.
        activation_bytes: bytes of one element of a layer's input or output.
        model_parallel: ranks that every layer is divided over, neighbours in their numbers: ranks 0 to N - 1
            hold one copy. A divisor of the ranks.
        recompute: the backward pass computes each layer's forward pass again.
        blocking: a layer's weight gradient waits for the exchange of its input's gradient, as in ASTRA-sim;
            otherwise only the layer before does.
        in_flight: on a fabric ``serial`` (default): one exchange after the other as they become ready; ``shared``: all
            that are ready share the links, on which the one that was ready first goes first. Rails are always shared.
        exchange: algorithm of collectives that ``algorithm`` does not do, such as all-to-all; on fabrics only,
            default ``direct``.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``; rails have only their own, ``stage``.
        chunks: chunks of every collective; on rails only, default 64.
        collectives: times the collectives instead of ``simulator``: called with fabric, algorithm, collective and
            bytes, it gives what has ``time_ns`` and ``excluded_ranks``, as a ``Run`` has, and for overlap ``ccube`` and
            ``both`` the table ``chunks``.
        progress: called while collectives are simulated.

    Raises:
        AntiphonError: as ``build`` and ``simulate``, or ``rails``; ``not-applicable`` naming the layer
            that the compute model cannot time; ``bad-size`` for counts; ``too-large``.
    """
    work = workload(model)
    expect("fabric", fabric, str, Fabric)
    expect("algorithm", algorithm, str)
    expect("system", system, str, System)
    for name, text in (("compute", compute), ("in_flight", in_flight), ("exchange", exchange)):
        expect(name, text, str, type(None))
    expect("bucket", bucket, str)
    expect("global_batch", global_batch, int, type(None))
    expect("model_parallel", model_parallel, int)
    system = System(system) if isinstance(system, str) else system
    compute = compute or ("measured" if work.measured else system.processor)
    if bucket != "table" and overlap not in BUCKETS:
        message = f"bucket {bucket[:40]}: overlap {overlap} reduces all layers together; use overlap layerwise or both"
        raise AntiphonError(message, "bad-spec")
    if batch is not None and global_batch is not None:
        raise AntiphonError("give either batch (on each rank) or global_batch (on all), not both", "bad-spec")
    for name, count in (("global_batch", global_batch), ("model_parallel", model_parallel)):
        if count is not None and not 1 <= count <= MOST_SAMPLES:
            raise AntiphonError(f"{name} is {shown(count)}; expected 1 to {MOST_SAMPLES:,}", "bad-size")
    if in_flight not in (None, *IN_FLIGHT):
        raise AntiphonError(f"no in_flight '{in_flight[:40]}'; known: {', '.join(IN_FLIGHT)}", "unknown-name")
    network: _Network
    if isinstance(fabric, str) and fabric.startswith(RAILS):
        if in_flight == "serial":
            message = f"{fabric}: exchanges on rails share the dimensions; in_flight serial is for fabrics"
            raise AntiphonError(message, "not-applicable")
        in_flight = "shared"
        if fidelity not in ("packet", "stage"):
            raise AntiphonError(
                f"{fabric} is timed stage by stage; fidelity '{fidelity}' is for fabrics", "not-applicable"
            )
        if exchange is not None:
            message = f"{fabric}: its scheduler does every collective; exchange '{exchange}' is for fabrics"
            raise AntiphonError(message, "not-applicable")
        network = _Rails(fabric, algorithm, 64 if chunks is None else chunks, model_parallel)
    else:
        fabric = Fabric(fabric) if isinstance(fabric, str) else fabric
        if chunks is not None:
            message = f"{fabric.name}: chunks are for rails:...; an algorithm has options of its own, NAME:KEY=VALUE"
            raise AntiphonError(message, "not-applicable")
        if exchange is not None and exchange.partition(":")[0] not in known_names():
            build(fabric, exchange, "all-to-all", 1, system)  # raises, naming the nearest
        in_flight = in_flight or "serial"
        if collectives is not None and (in_flight == "shared" or model_parallel != 1):
            message = "times of collectives by themselves say nothing about those in flight together"
            raise AntiphonError(f"{message}; use in_flight serial, model_parallel 1", "bad-spec")
        how = (fabric, algorithm, exchange or "direct", fidelity, system, model_parallel)
        if in_flight == "shared":
            network = shared = _SharedFabric(*how)
            shared.progress = progress
        else:
            network = serial = _SerialFabric(*how)
            keep_chunks = overlap in CHAINED
            serial.timer = collectives or simulator(system, fidelity, progress, keep_chunks=keep_chunks)
    if global_batch is not None:
        replicas = network.replicas()
        if global_batch % replicas:
            near = max(round(global_batch / replicas), 1) * replicas
            message = (
                f"global_batch {global_batch:,} cannot be divided among {replicas:,} ranks that train; {near:,} can"
            )
            raise AntiphonError(message, "bad-size")
        batch = global_batch // replicas
    if work.measured and compute == "measured" and global_batch is not None:
        message = f"{work.name}: the table's times are of its own batch, so its batch cannot be divided; use batch"
        raise AntiphonError(message, "not-applicable")
    batch = default_batch(compute) if batch is None else batch
    plan = TrainingPlan(
        work, compute, batch, overlap, bucket, gradient_bytes, activation_bytes, model_parallel, recompute, blocking
    )
    iteration = network.run(plan, work.name)
    excluded = network.excluded_ranks
    return Training(
        model=work.name,
        fabric=network.name,
        group=fabric.members if isinstance(fabric, Fabric) else None,
        algorithm=algorithm,
        system=system,
        fidelity=network.fidelity,
        compute=compute,
        overlap=overlap,
        bucket=bucket,
        blocking=blocking,
        in_flight=in_flight,
        batch=batch,
        dataset=dataset,
        ranks=network.ranks,
        excluded_ranks=excluded,
        model_parallel=model_parallel,
        gradient_bytes=int(plan.layers["gradient_bytes"].sum()),
        iterations=iterations(dataset, batch, (network.ranks - len(excluded)) // model_parallel),
        iteration=iteration,
        layers=plan.layers,
    )


class _Network(Protocol):
    """What carries the exchanges of an iteration."""

    name: str
    fidelity: str
    ranks: int
    excluded_ranks: list[int]
    """Known after ``run``."""

    def replicas(self) -> int:
        """Copies of the model that train."""

    def run(self, plan: TrainingPlan, model: str) -> Iteration:
        """The iteration."""


Key = tuple[str, str, int, bool]
"""Of an exchange: algorithm, collective, bytes, and whether it is of gradients."""


class _Fabric(ABC):
    """A fabric, on which every exchange runs in groups of ranks at once: those that a layer is divided over, or, for
    gradients, those that hold the same part of it."""

    def __init__(
        self, fabric: Fabric, algorithm: str, exchange: str, fidelity: str, system: System, model_parallel: int
    ) -> None:
        if fabric.ranks % model_parallel or model_parallel == fabric.ranks:
            message = f"{fabric.name}: layers cannot be divided over {model_parallel:,} of {fabric.ranks:,} ranks"
            raise AntiphonError(f"{message}; use a proper divisor", "not-applicable")
        self.name, self.fidelity, self.ranks = fabric.name, fidelity, fabric.ranks
        self.excluded_ranks: list[int] = []
        self._fabric, self._algorithm, self._exchange = fabric, algorithm, exchange
        self._system, self._divided = system, model_parallel

    def replicas(self) -> int:
        # Whether the algorithm leaves out ranks is known once it is built.
        excluded = build(self._fabric, self._algorithm, "all-reduce", 1 << 20, self._system).excluded
        return (self.ranks - len(excluded)) // self._divided

    def run(self, plan: TrainingPlan, model: str) -> Iteration:
        kinds = _collectives_of(self._algorithm)
        keys: list[Key] = [
            (self._algorithm if kind in kinds else self._exchange, kind, size, gradients)
            for (kind, size), gradients in zip(plan.exchanges, plan.gradients, strict=True)
        ]
        distinct = len(set(keys))
        if distinct > MOST_TIMED:
            message = f"{model}: {distinct:,} collectives of different sizes; larger buckets need fewer"
            raise AntiphonError(f"{message} (at most {MOST_TIMED:,})", "too-large")
        return self._timed(plan, keys, model)

    @abstractmethod
    def _timed(self, plan: TrainingPlan, keys: list[Key], model: str) -> Iteration:
        """The iteration with these exchanges."""

    def _schedules(self, key: Key) -> list[Schedule]:
        """Those of an exchange, one for each group."""
        algorithm, collective, size, gradients = key
        if self._divided == 1:
            return [build(self._fabric, algorithm, collective, size, self._system)]
        count, ranks = self._divided, range(self.ranks)
        if gradients:
            groups = [ranks[part::count] for part in range(count)]
        else:
            groups = [ranks[first : first + count] for first in ranks[::count]]
        schedules = [
            build(self._fabric.group(list(group)), algorithm, collective, size, self._system) for group in groups
        ]
        for schedule in schedules:
            if schedule.excluded:
                message = f"{algorithm} leaves out ranks, which layers divided over ranks cannot"
                raise AntiphonError(message, "not-applicable")
        return schedules


class _SerialFabric(_Fabric):
    """One exchange after another, each proven and simulated by itself."""

    timer: Timer

    def _timed(self, plan: TrainingPlan, keys: list[Key], model: str) -> Iteration:
        timed = {key: self._time(key) for key in dict.fromkeys(keys)}
        self.excluded_ranks = sorted({rank for each in timed.values() for rank in each.excluded_ranks})
        chained = zip(keys, plan.parts, strict=True)
        chunks = [getattr(timed[key], "chunks", None) if parts else None for key, parts in chained]
        return plan.run([timed[key].time_ns for key in keys], chunks)

    def _time(self, key: Key) -> Timed:
        if self._divided == 1:
            return _checked(self.timer(self._fabric, *key[:3]))
        nothing: list[int] = []
        flights = [(schedule, 0.0, nothing, 0) for schedule in self._schedules(key)]
        result = simulate_flights(self._fabric, flights, self._system, self.fidelity)
        return CollectiveTime(result.time_ns, [], result.chunks)


def _checked(timed: Timed) -> Timed:
    """What a timer gave, if it has what is asked of all.

    Raises:
        TypeError: naming what it lacks.
    """
    for name in ("time_ns", "excluded_ranks"):
        if not hasattr(timed, name):
            message = f"collectives gave {type(timed).__name__} without {name}; give antiphon.Run or what has the same"
            raise TypeError(message)
    return timed


class _SharedFabric(_Fabric):
    """Exchanges that are ready share the links."""

    progress: Progress | None

    def _timed(self, plan: TrainingPlan, keys: list[Key], model: str) -> Iteration:
        schedules = {key: self._schedules(key) for key in dict.fromkeys(keys)}
        self.excluded_ranks = sorted({rank for of in schedules.values() for each in of for rank in each.excluded})
        heartbeat = None if self.progress is None else partial(self.progress, f"{model} on {self.name}")
        each = [schedules[key] for key in keys]
        return plan.run_shared(self._fabric, each, self._system, self.fidelity, heartbeat)


class _Rails:
    """A multi-dimensional network: collectives in flight share its dimensions."""

    fidelity = "stage"

    def __init__(self, name: str, algorithm: str, chunks: int, model_parallel: int) -> None:
        self.name, self.excluded_ranks = name, list[int]()
        self.ranks = advise_rails(name).npus
        self._scheduler, _colon, intra = algorithm.partition(":")
        self._intra, self._chunks, self._model_parallel = intra or None, chunks, model_parallel

    def replicas(self) -> int:
        return max(self.ranks // max(self._model_parallel, 1), 1)

    def run(self, plan: TrainingPlan, model: str) -> Iteration:
        return plan.run_on_rails(self.name, self._scheduler, self._intra, self._chunks)


def _collectives_of(algorithm: str) -> list[str]:
    """Collectives that an algorithm does; all if it is not known, so that building it says so."""
    name = algorithm.partition(":")[0]
    return next((known.collectives for known in algorithms() if known.name == name), ["all-reduce", "all-to-all"])
