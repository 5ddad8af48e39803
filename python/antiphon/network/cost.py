"""What a network costs to build."""

from __future__ import annotations

from antiphon._core import Fabric, System
from antiphon._core import cost as core_cost
from antiphon.given import as_fabric, as_system
from antiphon.results import FabricCost


def cost(fabric: str | Fabric, system: str | System = "generic") -> FabricCost:
    """What a fabric costs to build: ports, wires, what crosses its middle, edge of a chip, area of routers.

    Links have lengths where the fabric says ``pitch=`` or a file does. A router has the published area of that of
    ``area``, with a datapath as wide as the fastest link needs at the routers' clock: its area is a constant and a part
    in proportion to that rate. A rank on a switch alone has no router. A group costs what its whole fabric does.

    >>> found = cost("torus:4x4:pitch=2mm,io=100GB/s")
    >>> found.ports, found.link_gb_per_s, found.wire_mm, found.longest_link_mm, found.bisection_gb_per_s
    (4, 25.0, 192.0, 6.0, 200.0)

    Args:
        fabric: specification or Fabric.
        system: preset, file or System: rates of links that have none, the routers, and what a chip's edge carries.

    Raises:
        AntiphonError: for mistakes in the arguments.
    """
    return core_cost(as_fabric(fabric), as_system(system))
