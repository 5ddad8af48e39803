"""What a run takes, and how large what it runs on is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from antiphon import plot
from antiphon.errors import AntiphonError
from antiphon.results.base import Result
from antiphon.results.record import APART, record, says
from antiphon.results.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("links", "routers", "interfaces", "reductions", "memory")
"""The dynamic parts of an energy, in the order of tables."""


@record
class Energy(Result):
    """Energy and power of a run (docs/explanation/energy.md). Parts are whole attojoules (1e-18 J), so that they sum
    exactly.

    >>> import antiphon
    >>> schedule = antiphon.build("mesh:2x2", "ring", bytes="1MiB")
    >>> energy = antiphon.simulate("mesh:2x2", schedule, "tto", energy=True).energy
    >>> energy.links_aj + energy.routers_aj + energy.interfaces_aj + energy.reductions_aj == energy.dynamic_aj
    True
    >>> energy.lower_bound_j <= energy.total_j
    True
    """

    links_aj: int = says("what links take.", "total_j dynamic_j static_j links_j=parts_j.links")
    routers_aj: int = says("what routers take.", "routers_j=parts_j.routers")
    interfaces_aj: int = says("what network interfaces take.", "interfaces_j=parts_j.interfaces")
    reductions_aj: int = says("what adding takes.", "reductions_j=parts_j.reductions")
    memory_aj: int = says(
        "reading and writing memory and engines' SRAM; endpoints other than ``npu`` and ``ace`` have none.",
        "memory_j=parts_j.memory",
    )
    static_aj: int = says("static power over the time of the run.", APART)
    time_ns: float = says("how long it took.", "average_power_w")
    peak_power_w: float = says(
        "mean power of the window in which it is largest, one of at most 512; for runs that are not timed message"
        " by message, as docs/explanation/energy.md says."
    )
    lower_bound_aj: int | None = says(
        "no schedule that does the same takes less; None where that is not known.",
        "energy_delay_js lower_bound_j",
    )
    unknown: list[str] = says("parameters of the system that are not known; they count as nothing.")
    system: str = says("the system whose energies counted.")
    links: Table = says(
        "row ``i`` is link ``i`` of the fabric: ``energy_j``; empty where links are not told apart.",
        APART,
    )
    power: Table = says(
        "over time in equal windows, ``start_ns`` and ``power_w``, in training over all iterations; empty where it"
        " is not known.",
        APART,
    )

    def __repr__(self) -> str:
        during = f" in {self.time_ns:,.1f} ns, {self.average_power_w:.4g} W" if self.time_ns else ", dynamic"
        return f"<Energy: {self.total_j:.4g} J{during}>"

    @property
    def dynamic_aj(self) -> int:
        """All parts that do not depend on time."""
        return sum(getattr(self, f"{part}_aj") for part in PARTS)

    @property
    def total_aj(self) -> int:
        """All parts."""
        return self.dynamic_aj + self.static_aj

    @property
    def total_j(self) -> float:
        """All of it, in joules: dynamic and static."""
        return self.total_aj * 1e-18

    @property
    def dynamic_j(self) -> float:
        """All parts that do not depend on time, in joules."""
        return self.dynamic_aj * 1e-18

    @property
    def static_j(self) -> float:
        """Static power over the time, in joules."""
        return self.static_aj * 1e-18

    @property
    def parts_j(self) -> dict[str, float]:
        """The dynamic parts, in joules."""
        return {part: getattr(self, f"{part}_aj") * 1e-18 for part in PARTS}

    @property
    def lower_bound_j(self) -> float | None:
        """No schedule that does the same takes less, in joules; None where that is not known."""
        return None if self.lower_bound_aj is None else self.lower_bound_aj * 1e-18

    @property
    def average_power_w(self) -> float:
        """Energy over time; 0 for a run that takes none."""
        return self.total_j / self.time_ns * 1e9 if self.time_ns else 0.0

    @property
    def energy_delay_js(self) -> float:
        """Energy times time, in joule seconds."""
        return self.total_j * self.time_ns * 1e-9

    def __add__(self, other: Energy) -> Energy:
        """Both at the same time, each by itself; tables, peak and bound are lost."""
        parts = {
            f"{part}_aj": getattr(self, f"{part}_aj") + getattr(other, f"{part}_aj") for part in (*PARTS, "static")
        }
        both = replace(self, **parts, time_ns=max(self.time_ns, other.time_ns), lower_bound_aj=None)
        return replace(both, peak_power_w=both.average_power_w).without_tables()

    def without_tables(self) -> Energy:
        """The same figures without ``links`` and ``power``, which are most of it."""
        return replace(self, links=Table({"energy_j": []}), power=Table({"start_ns": [], "power_w": []}))

    def plot(self) -> Figure:
        """Power over time (extra ``plots``).

        Raises:
            AntiphonError: ``not-applicable`` where it is not known.
        """
        if not self.power.height:
            raise AntiphonError("power over time is not known of this run", "not-applicable")
        points = (self.power["start_ns"].tolist(), self.power["power_w"].tolist())
        return plot.lines("power", {"all": points}, "time", "W")


@record
class Area(Result):
    """Area of a fabric's routers and its ranks' engines, from published constants scaled with counts
    (docs/explanation/energy.md).

    >>> import antiphon
    >>> round(antiphon.area("mesh:8x8").total_mm2, 3)
    8.333
    """

    ports: int = says("ports of a router, with that of its rank; all have as many as the largest.")
    total_mm2: float = says("all parts, in square millimetres.")
    parts: Table = says(
        "``part``, ``count``, ``area_um2`` of one in square micrometres, ``power_mw`` of one (NaN where it is not"
        " published), ``source``."
    )

    headline = "Area: {0.total_mm2:.3f} mm2"


@record
class FabricCost(Result):
    """What a fabric costs to build on a system (docs/explanation/energy.md). A link of length 0 stays on its chip: it
    is no port and no wire.

    >>> import antiphon
    >>> antiphon.cost("mesh:8x8").ports, antiphon.cost("fbfly:8x8").ports
    (4, 14)
    """

    ports: int = says("links out of a node that has most of them; its rank is not counted.")
    link_gb_per_s: float = says("rate of the fastest link, one way.")
    io_gb_per_s: float = says("what a node sends over all its ports together, of the node that sends most.")
    links: int = says("links, one way each.")
    wire_mm: float | None = says("length of all links together, each way; None if no link says its length.")
    longest_link_mm: float | None = says("length of the longest link; None if no link says its length.")
    bisection_gb_per_s: float | None = says(
        "what crosses, one way, the narrowest of the cuts between equal halves that coordinates and numbers of ranks"
        " give; None where a switch has no ranks."
    )
    beachfront_mm: float = says("edge of a chip that the ports of a node take, both ways.")
    router_mm2: float = says("area of a router as wide as the fastest link needs at the routers' clock.")
    area_mm2: float = says("area of all routers.")

    headline = "FabricCost: {0.ports} ports, {0.area_mm2:.3f} mm2"
    row = "cost"
