"""Multi-dimensional networks: collectives scheduled over their dimensions."""

from __future__ import annotations

from typing import SupportsIndex

from antiphon._core import Fabric, Schedule, System
from antiphon._core import advise_rails as core_advise_rails
from antiphon._core import rails as core_rails
from antiphon._core import rails_messages as core_rails_messages
from antiphon.arguments import expect
from antiphon.given import as_system
from antiphon.names import Collective, Queue, Scheduler
from antiphon.platforms import read_endpoint
from antiphon.results import RailsAdvice, RailsRun


def rails(
    topology: str,
    bytes: str | SupportsIndex = 100000000,
    collective: Collective | str = "all-reduce",
    scheduler: Scheduler | str = "search",
    intra: Queue | str | None = None,
    *,
    chunks: SupportsIndex | str | None = None,
    sharing: SupportsIndex = 1,
    offload: bool = False,
    fixed_delay: bool = False,
    threshold: SupportsIndex = 16,
    jitter_ns: float | None = None,
    enforced: bool = True,
    seed: SupportsIndex = 1,
    endpoint: str = "system",
    energy: bool = False,
    system: str | System = "ideal",
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
        intra: queue policy (``rails_queues()``); None: the scheduler's own, ``fifo``, ``scf``, ``tail`` (or another
            with which Themis is faster than the search).
        chunks: equal parts of the buffer, or ``best``: the fewest that are about as fast as any; None: parts of the
            size of the endpoint's chunks, 64 where it has none.
        sharing: chunks that share a dimension at a time, 1 to 8.
        offload: whether switches reduce and multicast.
        fixed_delay: whether Themis counts a dimension's latency as load from the start.
        threshold: Themis takes loads for equal that differ by less than one part of so many of a chunk; 0: none are.
        jitter_ns: also time every NPU by itself, each noticing chunks up to this much late.
        enforced: whether NPUs then keep to the order of the run without jitter.
        seed: of the search and the jitter.
        endpoint: what stands between an NPU's memory and its links (``endpoints()``, docs/endpoints.md), or a file of
            ``calibrate``; the chunk submitted first goes first, unless ``intra`` says otherwise.
        energy: also what it takes (docs/energy.md).
        system: preset, file or System with the energies that count for it; times do not depend on it.

    Raises:
        AntiphonError: ``bad-spec``, ``unknown-name``, ``bad-size``, ``not-applicable``, ``too-large``; ``stalled`` with
            the cycle of NPUs that wait for each other.
    """
    expect("energy", energy, bool)
    return core_rails(
        topology,
        bytes,
        collective,
        scheduler,
        intra,
        chunks=chunks,
        sharing=sharing,
        offload=offload,
        fixed_delay=fixed_delay,
        threshold=threshold,
        jitter_ns=jitter_ns,
        enforced=enforced,
        seed=seed,
        endpoint=read_endpoint(endpoint),
        energy=energy,
        platform=as_system(system),
    )


def rails_messages(
    topology: str,
    bytes: str | SupportsIndex = 100000000,
    collective: Collective | str = "all-reduce",
    scheduler: Scheduler | str = "search",
    intra: Queue | str | None = None,
    *,
    chunks: SupportsIndex | str = 16,
    slices: SupportsIndex = 1,
    seed: SupportsIndex = 1,
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
        intra: as in ``rails``.
        chunks: as in ``rails``.
        slices: parts of a chunk that follow each other through the steps of a stage.
        seed: of the search.

    Raises:
        AntiphonError: as ``rails``; ``too-large`` past the limits of fabrics and schedules.
    """
    return core_rails_messages(topology, bytes, collective, scheduler, intra, chunks=chunks, slices=slices, seed=seed)


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
