"""A flit-level network under synthetic traffic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

from antiphon._core import Fabric, System
from antiphon._core import noc as core_noc
from antiphon.arguments import expect
from antiphon.given import as_fabric, as_system
from antiphon.names import Routing
from antiphon.parallel import cores_of
from antiphon.results import NocResult


def noc(
    fabric: str | Fabric,
    traffic: str = "uniform",
    rate: float = 0.1,
    *,
    packet_flits: SupportsIndex = 1,
    routing: Routing | str | None = None,
    link_cycles: SupportsIndex = 1,
    latency_cycles: SupportsIndex = 0,
    warm_up_cycles: SupportsIndex | None = None,
    cycles: SupportsIndex | None = None,
    seed: SupportsIndex = 1,
    progress: Callable[[float], object] | None = None,
    energy: bool = False,
    system: str | System = "generic",
    jobs: int | None = 1,
    # routers: make tables
    vcs: SupportsIndex = 4,
    vc_depth: SupportsIndex = 8,
    switching: str = "wormhole",
    allocator: str = "islip",
    iterations: SupportsIndex = 1,
    routing_cycles: SupportsIndex = 1,
    vc_allocation_cycles: SupportsIndex = 1,
    switch_allocation_cycles: SupportsIndex = 1,
    traversal_cycles: SupportsIndex = 1,
    credit_cycles: SupportsIndex = 1,
    input_speedup: SupportsIndex = 1,
    output_speedup: SupportsIndex = 1,
    internal_speedup: SupportsIndex = 1,
    output_queue_flits: SupportsIndex | float | None = None,
    ejection: str = "switched",
    # end of routers
) -> NocResult:
    """The flit-level network of a fabric under synthetic traffic (docs/noc.md).

    >>> result = noc("mesh:4x4", "transpose", 0.2, warm_up_cycles=500, cycles=1000)
    >>> result.stable, result.packet_latency_cycles.mean > result.hops_mean
    (True, True)

    Args:
        fabric: specification or Fabric: one router a node, one terminal a rank.
        traffic: pattern of destinations (``traffic_patterns()``), ``hotspot:rank=N,share=X``.
        rate: flits offered per rank and cycle, above 0 and at most 1.
        packet_flits: flits of every packet.
        routing: ``xy``, ``yx`` or ``minimal``; None: ``xy`` on grids, ``minimal`` elsewhere.
        link_cycles: cycles that a link takes for one flit.
        latency_cycles: cycles that a flit travels after that.
        warm_up_cycles: cycles before the measurement; None: until latency and throughput settle.
        cycles: cycles measured, rounded up to 500; None: until the mean latency is known well.
        seed: seed of all random numbers.
        progress: called about ten times a second with the share done, 0 to 1; the run may end well before 1.
        energy: also what the whole run takes, warm-up included (docs/energy.md).
        system: preset, file or System with the energies, the size of a flit and the clock that count for it.
        jobs: cores that the run uses if its network is large and busy enough, all for None; its result is the same.

    The others are parameters of the routers (``router_parameters()``).

    Raises:
        AntiphonError: ``bad-size``, ``bad-spec`` or ``unknown-name`` for wrong parameters, ``not-applicable`` for
            traffic or routing the fabric cannot have, ``too-large``, and ``stalled`` with the cycle of buffers if the
            network deadlocks.
        KeyboardInterrupt: on Ctrl-C, within about a tenth of a second.
    """
    arguments: dict[str, Any] = locals()
    expect("energy", energy, bool)
    arguments["jobs"] = cores_of(jobs)
    arguments["platform"] = as_system(arguments.pop("system"))
    return core_noc(as_fabric(arguments.pop("fabric")), **arguments)
