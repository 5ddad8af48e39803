"""The best configuration that was found of a fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.results.record import APART, Record, record, says

if TYPE_CHECKING:
    from antiphon._core import Schedule


@record
class Configured(Record):
    """A configuration of a fabric, and what it does for a collective.

    >>> import antiphon
    >>> found = antiphon.configure("aries:4x4", "ring", "1MiB")
    >>> antiphon.simulate(found.fabric, found.schedule, system="aries").time_ns == found.time_ns
    True
    """

    fabric: str = says("the configured fabric, as a specification that every function takes.")
    algorithm: str = says("the best of those asked for; that of the schedule if there was one.")
    collective: str = says("what is computed.")
    bytes: int = says("full buffer size.")
    system: str = says("the platform.")
    fidelity: str = says("at which it was timed.")
    time_ns: float = says("how long it takes.")
    given_ns: float | None = says(
        "how long the best of the algorithms takes on the fabric as it was given; None if none applies there.",
        "given_ns speedup",
    )
    bound_ns: float = says("no configuration and no algorithm is faster.", "lower_bound_ns=bound_ns")
    binding: str = says(
        "what that is by: ``ports`` of the routers, ``wires`` across a cut, ``latency``.",
        "lower_bound_by=binding efficiency",
    )
    simulated: int = says("how many schedules were simulated.")
    changes: int | None = says(
        "how many of them with changes of configuration between phases; None without ``switch``.",
        "simulated_changes=changes",
    )
    ended: str = says(
        "why the search ended: at the ``bound``, at ``no-better``, at ``rates``, where near the best only what"
        " lowers the bound by rates was planned, after all ``steps``, or it was ``greedy``."
    )
    schedule: Schedule = says("what was timed, proven.", APART)

    @property
    def speedup(self) -> float | None:
        """Time on the fabric as it was given over time on the configured one; None if nothing applies there."""
        return None if self.given_ns is None else self.given_ns / self.time_ns

    @property
    def efficiency(self) -> float:
        """Bound over time."""
        return self.bound_ns / self.time_ns
