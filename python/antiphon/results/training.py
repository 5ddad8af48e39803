"""One iteration of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon import plot
from antiphon.results.base import Result
from antiphon.results.endpoint import EndpointUse
from antiphon.results.record import record, says
from antiphon.results.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PASSES = ("forward", "input gradient", "weight gradient")
"""What the numbers of passes mean."""


@record
class Iteration(Result):
    """One iteration of training; times in nanoseconds, means if several follow each other.

    >>> import antiphon
    >>> iteration = antiphon.train("alexnet", "ring:4", "ring").iteration
    >>> iteration.time_ns == iteration.compute_ns + iteration.exposed_communication_ns
    True
    """

    count: int = says("iterations that follow each other.")
    time_ns: float = says("all of one.")
    forward_ns: float = says("time in which a forward pass is computed, in whatever stream.")
    backward_ns: float = says("time in which only gradients are computed.")
    aggregation_ns: float = says("adding up the gradients of a rank's PEs.")
    communication_ns: float = says("sum of all exchanges.")
    exposed_communication_ns: float = says("time in which nothing is computed.")
    exposed_model_ns: float = says("the part of it between layers.")
    exposed_data_ns: float = says("the part of it for gradients.")
    turnaround_ns: float = says(
        "with overlap ``ccube`` or ``both``, the part of it until the first layer has its gradients."
    )
    bubbles_ns: float = says(
        "with overlap ``ccube`` or ``both``, the part of it in which later layers wait for theirs."
    )
    buffer_bytes: int | None = says(
        "the most of exchanges at a time that is on its way to a rank, or waits there, to be added; None if not known."
    )
    exchanges: Table = says(
        "per collective ``kind``, ``bytes``, ``pass`` it follows, ``first_layer`` and ``last_layer`` it is for,"
        " ``ready_ns``, ``start_ns``, ``finish_ns``."
    )
    computations: Table = says(
        "in their order, ``layer`` (its number), ``pass`` (0 forward, 1 input gradient, 2 weight gradient),"
        " ``stream``, ``ready_ns`` (what it waits for from exchanges and other streams is there), ``start_ns``,"
        " ``finish_ns``."
    )
    network: Table = says(
        "on rails, in equal windows from ``start_ns`` on, the share of time in which links of ``dim1``, ``dim2``,"
        " ... are busy; empty on fabrics."
    )
    endpoint_use: EndpointUse | None = says(
        "on rails, what the parts of the endpoint did while something was exchanged, and what limits; None on fabrics"
        " and at ``system``.",
        "endpoint_use?",
        default=None,
    )

    headline = "Iteration: {0.time_ns:,.1f} ns, {0.exposed_communication_ns:,.1f} ns exposed"

    def plot(self, title: str = "One iteration") -> Figure:
        """What is computed and exchanged when (extra ``plots``)."""
        tracks: dict[str, list[plot.Block]] = {"computing": [], "exchanging": []}
        done, sent = self.computations, self.exchanges
        for number, start, finish in zip(done["pass"], done["start_ns"], done["finish_ns"], strict=True):
            tracks["computing"].append((float(start), float(finish - start), PASSES[number]))
        for kind, start, finish in zip(sent["kind"], sent["start_ns"], sent["finish_ns"], strict=True):
            tracks["exchanging"].append((float(start), float(finish - start), str(kind)))
        return plot.spans(title, tracks)

    @property
    def forward(self) -> Table:
        """The forward passes of ``computations``, each layer's first."""
        rows = (self.computations["pass"] == 0).nonzero()[0]
        rows = rows[: int(self.computations["layer"].max()) + 1]
        return Table({name: column[rows] for name, column in self.computations.items() if name != "pass"})

    @property
    def compute_ns(self) -> float:
        """Time spent computing."""
        return self.forward_ns + self.backward_ns + self.aggregation_ns
