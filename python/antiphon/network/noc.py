"""A flit-level network under synthetic traffic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from antiphon._core import Fabric, System
from antiphon._core import noc as core_noc
from antiphon.arguments import expect
from antiphon.declared import takes
from antiphon.given import as_fabric, as_system
from antiphon.parallel import cores_of
from antiphon.results import NocResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from antiphon._options import NocOptions


@takes("noc", "routers")
def noc(
    fabric: str | Fabric,
    traffic: str = "uniform",
    rate: float = 0.1,
    *,
    progress: Callable[[float], object] | None = None,
    energy: bool = False,
    system: str | System = "generic",
    jobs: int | None = 1,
    **options: Unpack[NocOptions],
) -> NocResult:
    """The flit-level network of a fabric under synthetic traffic (docs/explanation/noc.md).

    >>> result = noc("mesh:4x4", "transpose", 0.2, warm_up_cycles=500, cycles=1000)
    >>> result.stable, result.packet_latency_cycles.mean > result.hops_mean
    (True, True)

    Args:
        fabric: specification or Fabric: one router a node, one terminal a rank.
        traffic: pattern of destinations (``traffic_patterns()``), ``hotspot:rank=N,share=X``.
        rate: flits offered per rank and cycle, above 0 and at most 1.
        progress: called about ten times a second with the share done, 0 to 1; the run may end well before 1.
        energy: also what the whole run takes, warm-up included (docs/explanation/energy.md).
        system: preset, file or System with the energies, the size of a flit and the clock that count for it.
        jobs: cores that the run uses if its network is large and busy enough, all for None; its result is the same.

    Raises:
        AntiphonError: ``bad-size``, ``bad-spec`` or ``unknown-name`` for wrong parameters, ``not-applicable`` for
            traffic or routing the fabric cannot have, ``too-large``, and ``stalled`` with the cycle of buffers if the
            network deadlocks.
        KeyboardInterrupt: on Ctrl-C, within about a tenth of a second.
    """
    expect("energy", energy, bool)
    return core_noc(as_fabric(fabric), traffic, rate, progress, energy, as_system(system), cores_of(jobs), **options)
