"""One training: what was asked, and its times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from antiphon._core import System
from antiphon.results import Energy, Iteration, Result, Table
from antiphon.results.record import APART, ASKED, PLATFORM, Part, record, said, says
from antiphon.training.memory import Memory

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@record
class Training(Result):
    """One model trained on one fabric with one algorithm.

    >>> import antiphon
    >>> training = antiphon.train("alexnet", "ring:4", "ring", batch=32)
    >>> training.global_batch, training.layers.height
    (128, 5)
    """

    model: str = says("name of the workload.")
    fabric: str = says("specification of the fabric or rails.")
    group: list[int] | None = says("ranks of the whole fabric that take part; None if all do.")
    algorithm: str = says("the algorithm of its collectives.")
    system: System = says("the platform.", PLATFORM)
    fidelity: str = says("at which the collectives were simulated.")
    compute: str = says("the compute model, with all its parameters.")
    overlap: str = says("``none``, ``layerwise``, ``ccube`` or ``both``.")
    bucket: str = says("whose gradients are reduced together: ``table``, ``layer`` or a size.")
    blocking: bool = says("whether weight gradients wait for the exchange of the layer's input gradient.")
    in_flight: str = says("``serial``: exchanges run one after the other; ``shared``: they share the links.")
    order: str = says("which exchange goes first where several are under way.", "order unroll=iteration.count")
    contention: str = says("when computation lacks what the endpoint takes: ``dynamic`` or ``static``.")
    memory_bound: float | None = says("share of measured times that memory bandwidth decides; None if not given.")
    batch: int = says("samples on each rank that trains, in one iteration.", "batch global_batch")
    dataset: int = says("samples of an epoch.")
    ranks: int = says("ranks of the fabric.")
    excluded_ranks: list[int] = says("ranks that do not train.")
    model_parallel: int = says("ranks that every layer is divided over.")
    gradient_bytes: int = says("all gradients that are reduced in an iteration.")
    iteration: Iteration = says(
        "the times of one iteration.",
        "iteration_ns forward_ns=iteration.forward_ns backward_ns=iteration.backward_ns"
        " aggregation_ns=iteration.aggregation_ns compute_ns communication_ns exposed_communication_ns"
        " exposed_model_ns exposed_data_ns turnaround_ns bubbles_ns overlapped_communication_ns"
        " endpoint_use?=iteration.endpoint_use",
    )
    iterations: int = says(
        "of one epoch: ``ceil(dataset / (batch * training ranks))`` (TTO paper, Eq. 1).",
        "iterations epoch_ns samples_per_s against=_against",
    )
    layers: Table = says(
        "per layer, its name (``layer``), ``forward_ns``, ``input_gradient_ns``, ``weight_gradient_ns`` and"
        " ``gradient_bytes``.",
        APART,
    )
    memory: Memory = says("what a rank holds.")
    energy: Energy | None = says(
        "what the exchanges of an iteration take, with static power, if it was asked for.",
        ASKED,
        default=None,
    )

    slow: str | None = says(
        "ranks that take longer to compute, as in ``0,1:1.04``; None if not given.", "slow?", default=None
    )
    relays: Table | None = says(
        "a row for every ``rank`` that is ``slow`` or passes on ``streams``, and how many times as long it computes"
        " beside an exchange (``slowdown``); None if ``relay_processors`` is 0 and no rank is slow.",
        "relays?",
        default=None,
    )

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
    exposed_model_ns = Part(float, "iteration", "Exposed time between layers.")
    exposed_data_ns = Part(float, "iteration", "Exposed time for gradients: at the end, or in a chained forward pass.")
    turnaround_ns = Part(
        float, "iteration", "With a chained forward pass, exposed time until the first layer has its gradients."
    )
    bubbles_ns = Part(
        float, "iteration", "With a chained forward pass, exposed time while later layers wait for theirs."
    )

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
        """As documented in docs/reference/json.md, without its tables; ``against`` these baselines."""
        return super().to_dict() | {"against": self._against(baselines)}

    def _against(self, baselines: Iterable[Training] = ()) -> list[dict[str, Any]]:
        times = "iteration_ns communication_ns exposed_communication_ns iterations epoch_ns"
        return [
            said(baseline, f"algorithm endpoint=system.endpoint {times}")
            | {"gain_ns": self.gain_ns(baseline), "speedup": self.speedup(baseline)}
            | said(baseline, "energy?")
            for baseline in baselines
        ]
