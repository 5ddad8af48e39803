"""The best configuration that was found of a fabric."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.results.record import APART, Record, says

if TYPE_CHECKING:
    from antiphon._core import Schedule


@dataclass(frozen=True)
class Configured(Record):
    """A configuration of a fabric, and what it does for a collective.

    >>> import antiphon
    >>> found = antiphon.configure("aries:4x4", "ring", "1MiB")
    >>> antiphon.simulate(found.fabric, found.schedule, system="aries").time_ns == found.time_ns
    True

    Attributes:
        fabric: the configured fabric, as a specification that every function takes.
        algorithm: the best of those asked for; that of the schedule if there was one.
        collective: what is computed.
        bytes: full buffer size.
        system: the platform.
        fidelity: at which it was timed.
        time_ns: how long it takes.
        given_ns: how long the best of the algorithms takes on the fabric as it was given; None if none applies there.
        bound_ns: no configuration and no algorithm is faster.
        binding: what that is by: ``ports`` of the routers, ``wires`` across a cut, ``latency``.
        simulated: how many schedules were simulated.
        changes: how many of them with changes of configuration between phases; None without ``switch``.
        ended: why the search ended: at the ``bound``, at ``no-better``, at ``rates``, where near the best only what
            lowers the bound by rates was planned, after all ``steps``, or it was ``greedy``.
        schedule: what was timed, proven.
    """

    fabric: str
    algorithm: str
    collective: str
    bytes: int
    system: str
    fidelity: str
    time_ns: float
    given_ns: float | None = field(metadata=says("given_ns speedup"))
    bound_ns: float = field(metadata=says("lower_bound_ns=bound_ns"))
    binding: str = field(metadata=says("lower_bound_by=binding efficiency"))
    simulated: int
    changes: int | None = field(metadata=says("simulated_changes=changes"))
    ended: str
    schedule: Schedule = field(metadata=APART)

    @property
    def speedup(self) -> float | None:
        """Time on the fabric as it was given over time on the configured one; None if nothing applies there."""
        return None if self.given_ns is None else self.given_ns / self.time_ns

    @property
    def efficiency(self) -> float:
        """Bound over time."""
        return self.bound_ns / self.time_ns
