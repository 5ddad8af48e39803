"""The best configuration that was found of a fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon._core import Schedule


@dataclass(frozen=True)
class Configured:
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
    given_ns: float | None
    bound_ns: float
    binding: str
    simulated: int
    changes: int | None
    ended: str
    schedule: Schedule

    @property
    def speedup(self) -> float | None:
        """Time on the fabric as it was given over time on the configured one; None if nothing applies there."""
        return None if self.given_ns is None else self.given_ns / self.time_ns

    @property
    def efficiency(self) -> float:
        """Bound over time."""
        return self.bound_ns / self.time_ns

    def to_dict(self) -> dict[str, Any]:
        """As documented in docs/json.md."""
        return {
            "fabric": self.fabric,
            "algorithm": self.algorithm,
            "collective": self.collective,
            "bytes": self.bytes,
            "system": self.system,
            "fidelity": self.fidelity,
            "time_ns": self.time_ns,
            "given_ns": self.given_ns,
            "speedup": self.speedup,
            "lower_bound_ns": self.bound_ns,
            "lower_bound_by": self.binding,
            "efficiency": self.efficiency,
            "simulated": self.simulated,
            "simulated_changes": self.changes,
            "ended": self.ended,
        }
