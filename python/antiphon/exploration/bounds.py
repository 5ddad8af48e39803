"""What no run of a design can be better than: found before it is simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antiphon._core import Fabric, System, least_energy
from antiphon.collective.result import ALL_RANKS, REFUSALS
from antiphon.collective.schedules import Heartbeat, build, lower_bound
from antiphon.errors import AntiphonError
from antiphon.platforms import read_system
from antiphon.studies.jobs import Job, Record


@dataclass(frozen=True)
class Least:
    """The least time and energy of a collective on a fabric, whatever does it.

    Attributes:
        time_ns: no schedule takes less time.
        dynamic_j: nor less energy, beside static power.
        static_w: static power.
    """

    time_ns: float
    dynamic_j: float
    static_w: float

    @classmethod
    def of(cls, fabric: Fabric, collective: str, size: int, system: System, fidelity: str) -> Least:
        """Of a collective for all ranks."""
        bound = lower_bound(fabric, collective, size, system, fidelity=fidelity)
        return cls(bound.time_ns, *least_energy(fabric, collective, size, system))

    @property
    def energy_j(self) -> float:
        """No schedule takes less energy."""
        return self.dynamic_j + self.static_w * self.time_ns * 1e-9

    def of_schedule(self, found: Record) -> Least:
        """The same of one schedule, of which the record of a ``LeastPoint`` is known."""
        own = found["dynamic_j"]
        time_ns = max(self.time_ns, found["least_ns"])
        return Least(time_ns, self.dynamic_j if own is None else max(self.dynamic_j, own), self.static_w)


@dataclass(frozen=True)
class LeastPoint(Job):
    """The least time of a schedule, and the energy of its messages: what a run is not below.

    Attributes:
        changes: parameters of the system that are replaced.
    """

    fabric: str
    algorithm: str
    collective: str
    bytes: int
    system: str
    changes: tuple[tuple[str, Any], ...]
    fidelity: str

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Builds and proves the schedule; what does not fit the fabric is a record that says so."""
        try:
            fabric, system = Fabric(self.fabric), read_system(self.system, dict(self.changes))
            schedule = build(fabric, self.algorithm, self.collective, self.bytes, system, progress=progress)
            if schedule.bound_of != ALL_RANKS:
                return serving_some(schedule.bound_of)
            # With several protocols a run sends what that of the fastest makes of its messages.
            energy = schedule.dynamic_energy(fabric, system).dynamic_j if system.protocols == "none" else None
            return {"least_ns": schedule.least_ns(fabric, system, self.fidelity), "dynamic_j": energy}
        except AntiphonError as error:
            if error.code not in REFUSALS:
                raise
            return {"refused": {"reason": error.message, "code": error.code}}


def serving_some(bound_of: str) -> Record:
    """The record of what does not serve all ranks where the fabric has them, and cannot be compared."""
    what = "it places ranks on other nodes" if bound_of == "placement" else "it leaves ranks out"
    return {"refused": {"reason": f"{what}; only designs that serve all ranks are compared", "code": "not-applicable"}}
