"""How large a network is."""

from __future__ import annotations

from antiphon._core import Fabric, System
from antiphon._core import area as core_area
from antiphon.arguments import expect
from antiphon.given import as_fabric, as_system
from antiphon.platforms import read_endpoint
from antiphon.results import Area


def area(fabric: str | Fabric, system: str | System = "aries", endpoint: str | None = None) -> Area:
    """Area of a fabric's routers, one at every rank and switch, and of its ranks' engines if they have some.

    Published areas are scaled with counts: buffers with ports, virtual channels, depth and bytes of a flit, the
    crossbar with the square of the ports and the flit, allocators with the square of what they choose among; engines
    with their SRAM, state machines and adders. Chips are alike: every router has the ports of the largest.

    >>> area("mesh:8x8", endpoint="ace").parts["part"].tolist()[-4:]
    ['engine-alus', 'engine-control', 'engine-sram', 'engine-switch']

    Args:
        fabric: specification or Fabric.
        system: preset, file or System: the routers' virtual channels and depth, the size of a flit. The default is
            the one whose area was published.
        endpoint: replaces that of the system; an ``ace`` has an area.

    Raises:
        AntiphonError: for mistakes in the arguments.
    """
    platform = as_system(system)
    if endpoint is not None:
        expect("endpoint", endpoint, str)
        platform = platform.with_(endpoint=read_endpoint(endpoint))
    return core_area(as_fabric(fabric), platform)
