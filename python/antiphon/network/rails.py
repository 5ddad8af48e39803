"""Multi-dimensional networks: collectives scheduled over their dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

from antiphon._core import Fabric, Schedule, System
from antiphon._core import advise_rails as core_advise_rails
from antiphon._core import rails as core_rails
from antiphon._core import rails_messages as core_rails_messages
from antiphon.arguments import expect
from antiphon.declared import takes
from antiphon.given import as_system
from antiphon.names import Collective, Scheduler
from antiphon.platforms import read_endpoint
from antiphon.results import RailsAdvice, RailsRun

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from antiphon._options import RailsOptions


@takes("rails")
def rails(
    topology: str,
    bytes: str | SupportsIndex = 100000000,
    collective: Collective | str = "all-reduce",
    scheduler: Scheduler | str = "search",
    *,
    enforced: bool = True,
    endpoint: str = "system",
    energy: bool = False,
    system: str | System = "ideal",
    **options: Unpack[RailsOptions],
) -> RailsRun:
    """A collective on a multi-dimensional network, chunks scheduled over its dimensions (docs/rails.md).

    >>> run = rails("3D-SW_SW_SW_hetero", "100MB", scheduler="themis")
    >>> run.npus, run.dimensions.height, run.utilization <= run.utilization_bound
    (1024, 3, True)

    Args:
        topology: preset (``rails_topologies()``) or dimensions such as ``ring4@1000/20ns,sw8@800/700ns``: rates in Gb/s
            of one NPU.
        bytes: full buffer size, a number of bytes or text such as ``100MB``.
        collective: ``all-reduce``, ``reduce-scatter``, ``all-gather`` or ``all-to-all``.
        scheduler: in which order chunks use the dimensions (Themis, ISCA 2022; ``search`` is ours).
        enforced: whether NPUs timed with ``jitter_ns`` keep to the order of the run without.
        endpoint: what stands between an NPU's memory and its links (``endpoints()``, docs/endpoints.md), or a file of
            ``calibrate``; the chunk submitted first goes first, unless ``intra`` says otherwise.
        energy: also what it takes (docs/energy.md).
        system: preset, file or System with the energies that count for it; times do not depend on it.

    Raises:
        AntiphonError: ``bad-spec``, ``unknown-name``, ``bad-size``, ``not-applicable``, ``too-large``; ``stalled`` with
            the cycle of NPUs that wait for each other.
    """
    expect("energy", energy, bool)
    platform, endpoint = as_system(system), read_endpoint(endpoint)
    return core_rails(topology, bytes, collective, scheduler, enforced, endpoint, energy, platform, **options)


def rails_messages(
    topology: str,
    bytes: str | SupportsIndex = 100000000,
    collective: Collective | str = "all-reduce",
    scheduler: Scheduler | str = "search",
    *,
    slices: SupportsIndex = 1,
    **options: Unpack[RailsOptions],
) -> tuple[Fabric, Schedule]:
    """The same plan as messages: the expanded fabric, and a schedule to verify and simulate on it.

    >>> fabric, schedule = rails_messages("ring2@1000/20ns,sw2@800/700ns", "1MB", chunks=4)
    >>> fabric.ranks, schedule.bytes
    (4, 1000000)

    Args:
        topology: as in ``rails``; up to some dozens of NPUs.
        bytes: full buffer size, a number of bytes or text.
        collective: as in ``rails``.
        scheduler: as in ``rails``.
        slices: parts of a chunk that follow each other through the steps of a stage.
        options: as in ``rails``; ``chunks`` is 16 by default.

    Raises:
        AntiphonError: as ``rails``; ``too-large`` past the limits of fabrics and schedules.
    """
    options = {"chunks": 16, **options}
    return core_rails_messages(topology, bytes, collective, scheduler, slices, **options)


def advise_rails(topology: str) -> RailsAdvice:
    """What the rates of a multi-dimensional network are good for (Themis, ISCA 2022, section 6.3).

    >>> advice = advise_rails("2D-SW_SW")
    >>> advice.npus, advice.dimensions["binding"].tolist()
    (1024, [True, True])

    Args:
        topology: as in ``rails``.

    Raises:
        AntiphonError: ``bad-spec``, ``unknown-name`` or ``too-large``.
    """
    return core_advise_rails(topology)
