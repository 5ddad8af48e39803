"""One training: what was asked, and its times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from antiphon._core import System
from antiphon.results import Energy, Iteration, Result, Table
from antiphon.results.record import APART, ASKED, PLATFORM, Part, said, says

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Training(Result):
    """One model trained on one fabric with one algorithm.

    >>> import antiphon
    >>> training = antiphon.train("alexnet", "ring:4", "ring", batch=32)
    >>> training.global_batch, training.layers.height
    (128, 5)

    Attributes:
        model: name of the workload.
        fabric: specification of the fabric or rails.
        group: ranks of the whole fabric that take part; None if all do.
        algorithm: the algorithm of its collectives.
        system: the platform.
        fidelity: at which the collectives were simulated.
        compute: the compute model, with all its parameters.
        overlap: ``none``, ``layerwise``, ``ccube`` or ``both``.
        bucket: whose gradients are reduced together: ``table``, ``layer`` or a size.
        blocking: whether weight gradients wait for the exchange of the layer's input gradient.
        in_flight: ``serial``: exchanges run one after the other; ``shared``: they share the links.
        order: which exchange goes first where several are under way.
        contention: when computation lacks what the endpoint takes: ``dynamic`` or ``static``.
        memory_bound: share of measured times that memory bandwidth decides; None if not given.
        batch: samples on each rank that trains, in one iteration.
        dataset: samples of an epoch.
        ranks: ranks of the fabric.
        excluded_ranks: ranks that do not train.
        model_parallel: ranks that every layer is divided over.
        gradient_bytes: all gradients that are reduced in an iteration.
        iteration: the times of one iteration.
        iterations: of one epoch: ``ceil(dataset / (batch * training ranks))`` (TTO paper, Eq. 1).
        layers: per layer, its name (``layer``), ``forward_ns``, ``input_gradient_ns``,
            ``weight_gradient_ns`` and ``gradient_bytes``.
        energy: what the exchanges of an iteration take, with static power, if it was asked for.
    """

    model: str
    fabric: str
    group: list[int] | None
    algorithm: str
    system: System = field(metadata=PLATFORM)
    fidelity: str
    compute: str
    overlap: str
    bucket: str
    blocking: bool
    in_flight: str
    order: str = field(metadata=says("order unroll=iteration.count"))
    contention: str
    memory_bound: float | None
    batch: int = field(metadata=says("batch global_batch"))
    dataset: int
    ranks: int
    excluded_ranks: list[int]
    model_parallel: int
    gradient_bytes: int
    iteration: Iteration = field(
        metadata=says(
            "iteration_ns forward_ns=iteration.forward_ns backward_ns=iteration.backward_ns"
            " aggregation_ns=iteration.aggregation_ns compute_ns communication_ns exposed_communication_ns"
            " exposed_model_ns exposed_data_ns turnaround_ns bubbles_ns overlapped_communication_ns"
        )
    )
    iterations: int = field(metadata=says("iterations epoch_ns samples_per_s against=_against"))
    layers: Table = field(metadata=APART)
    energy: Energy | None = field(default=None, metadata=ASKED)

    shown = ("model", "fabric", "algorithm", "iteration_ns", "compute_ns", "exposed_communication_ns", "epoch_ns")
    row = "trainings"
    headline = (
        "Training {0.model} on {0.fabric} with {0.algorithm}: iteration {0.iteration_ns:,.1f} ns,"
        " {0.exposed_communication_ns:,.1f} ns exposed"
    )

    @property
    def tables(self) -> dict[str, Table]:
        """``trainings``: one row, what ``to_dict`` has; then ``layers``, ``exchanges`` and ``computations``."""
        return super().tables | self.iteration.tables

    def plot(self) -> Figure:
        """What is computed and exchanged when, in one iteration (extra ``plots``)."""
        return self.iteration.plot(f"{self.model} on {self.fabric} with {self.algorithm}")

    @property
    def iteration_ns(self) -> float:
        """Time of one iteration."""
        return self.iteration.time_ns

    compute_ns = Part(float, "iteration", "Time of one iteration spent computing.")
    communication_ns = Part(float, "iteration", "Sum of the times of all collectives of one iteration.")
    exposed_communication_ns = Part(float, "iteration", "Time of one iteration in which nothing is computed.")
    exposed_model_ns = Part(float, "iteration", "Of this, between layers.")
    exposed_data_ns = Part(float, "iteration", "Of this, for gradients: at the end, or in a chained forward pass.")
    turnaround_ns = Part(float, "iteration", "Of this with a chained forward pass, until the first layer has its own.")
    bubbles_ns = Part(float, "iteration", "Of this with a chained forward pass, while later layers wait for theirs.")

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
        """As documented in docs/json.md, without its tables; ``against`` these baselines."""
        return super().to_dict() | {"against": self._against(baselines)}

    def _against(self, baselines: Iterable[Training] = ()) -> list[dict[str, Any]]:
        times = "iteration_ns communication_ns exposed_communication_ns iterations epoch_ns"
        return [
            said(baseline, f"algorithm endpoint=system.endpoint {times}")
            | {"gain_ns": self.gain_ns(baseline), "speedup": self.speedup(baseline)}
            | said(baseline, "energy?")
            for baseline in baselines
        ]
