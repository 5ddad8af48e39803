"""Schedules: made by algorithms, read from files, proven, bounded and timed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import SupportsIndex

from antiphon._core import Fabric, Schedule, System, format_of
from antiphon._core import build as core_build
from antiphon._core import formats as core_formats
from antiphon._core import load as core_load
from antiphon._core import lower_bound as core_lower_bound
from antiphon._core import simulate as core_simulate
from antiphon._core import verify as core_verify
from antiphon.arguments import expect, shown
from antiphon.collective.chakra import refuse_traces
from antiphon.collective.matrix import Matrix, amount
from antiphon.errors import AntiphonError
from antiphon.files import LARGEST_SCHEDULE, read_text, trace_to
from antiphon.given import as_fabric, as_system
from antiphon.names import Collective, Fidelity
from antiphon.parallel import cores_of
from antiphon.results import Bound, Proof, SimulationResult

Heartbeat = Callable[[float], object]
"""Called about ten times a second with the share done, 0 to 1; an exception it raises ends the work."""


@contextmanager
def named(path: str) -> Iterator[None]:
    """Puts the name of a file in front of what is wrong with it."""
    try:
        yield
    except AntiphonError as error:
        message = error.message if error.message.startswith(f"{path}: ") else f"{path}: {error.message}"
        raise AntiphonError(message, error.code) from None


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Whether a file is in a format of another tool, by its beginning.

    Raises:
        AntiphonError: ``bad-file`` if it cannot be read, or is XML of no known format.
    """
    path = os.fspath(path)
    refuse_traces(path)
    text = read_text(path, LARGEST_SCHEDULE)
    with named(path):
        return format_of(text) is not None


def read_schedule(
    path: str | os.PathLike[str],
    fabric: Fabric | None,
    bytes: str | SupportsIndex | None = None,
    placement: Sequence[int] | None = None,
    *,
    routed: bool = True,
) -> Schedule:
    """The schedule of a file for a fabric: of JSON (docs/reference/schedule.md), which says what is done, or of a
    format of another tool (docs/reference/formats.md), which says nothing of ``bytes`` and ``placement``. Where it is
    not ``routed``, the routes of JSON may be of another fabric.

    Raises:
        AntiphonError: naming the file: ``bad-file``, ``too-large``; as ``Schedule.from_json`` and ``load``.
    """
    path = os.fspath(path)
    text = read_text(path, LARGEST_SCHEDULE)
    with named(path):
        if format_of(text) is not None:
            size = "64MiB" if bytes is None else bytes
            return core_load(text, fabric, size, None if placement is None else list(placement))
        if bytes is not None or placement is not None:
            what = "the placement" if bytes is None else "the size"
            raise AntiphonError(f"{what} is what the schedule says; leave it out", "bad-spec")
        return Schedule.from_json(text, fabric if routed else None)


def as_schedule(
    schedule: str | os.PathLike[str] | Schedule,
    fabric: Fabric,
    name: str = "schedule",
    bytes: int | None = None,
    *,
    routed: bool = True,
) -> Schedule:
    """A schedule, or that of a file ``*.json`` or of another tool, such as ``*.xml``, which is of ``bytes``.

    Raises:
        AntiphonError: ``bad-spec`` for other text; as ``read_schedule``.
        TypeError: for anything else; ``name`` is that of the argument.
    """
    expect(name, schedule, str, os.PathLike, Schedule)
    if isinstance(schedule, Schedule):
        return schedule
    if not os.fspath(schedule).lower().endswith((".json", *(suffix for _, _, suffix, _ in core_formats()))):
        message = f"{name} {shown(schedule)} is no file *.json; build(fabric, algorithm) makes a schedule"
        raise AntiphonError(message, "bad-spec")
    return read_schedule(schedule, fabric, bytes if is_foreign(schedule) else None, routed=routed)


def build(
    fabric: str | Fabric,
    algorithm: str,
    collective: Collective | str = "all-reduce",
    bytes: str | SupportsIndex | None = None,
    system: str | System = "generic",
    root: int = 0,
    progress: Heartbeat | None = None,
    *,
    matrix: Matrix | None = None,
) -> Schedule:
    """The schedule of an algorithm on a fabric.

    Chunks are cut to suit the packets of ``system``: simulate with the same, or short packets may be padded on another.

    >>> schedule = build("mesh:4x4", "tto:chunk=96KiB", bytes="1MiB")
    >>> schedule.collective, schedule.bytes, schedule.ranks
    ('all-reduce', 1048576, 16)

    Args:
        fabric: specification or Fabric.
        algorithm: ``name[:key=value,...]`` or ``Algorithm``.
        collective: what to compute.
        bytes: full buffer size, a number of bytes or text; default: 64 MiB.
        system: preset, file or System.
        root: rank that a Broadcast starts from, or a Reduce ends at.
        progress: called about ten times a second with the share done, 0 to 1; an exception it raises ends the work.
        matrix: for an all-to-all, instead of ``bytes``: what each rank, by row, has for each other one, by column:
            an array, rows of sizes, or a CSV file (docs/reference/cli.md).

    Raises:
        AntiphonError: ``not-applicable`` with the reason if the algorithm does not fit, ``unknown-name`` with the
            nearest known one, ``bad-spec``, ``bad-size``, ``too-large``.
    """
    fabric = as_fabric(fabric)
    size, sizes = amount(bytes, matrix, fabric)
    return core_build(fabric, algorithm, collective, size, as_system(system), root, progress, sizes)


def verify(
    fabric: str | Fabric,
    schedule: str | os.PathLike[str] | Schedule,
    progress: Heartbeat | None = None,
    system: str | System = "generic",
) -> Proof:
    """Proves that every rank ends with the right bytes and that nothing can deadlock.

    >>> verify("ring:4", build("ring:4", "ring", bytes=4096)).complete
    True

    A certificate, which schedules of ``optimal`` have, proves by prices of links how near to the optimum it is.

    >>> verify("ring:4", build("ring:4", "optimal", bytes="1GiB")).share_of_optimum > 0.999
    True

    Args:
        fabric: specification or Fabric that the schedule is for.
        schedule: a Schedule, or a file ``*.json`` (docs/reference/schedule.md) or of another tool
            (docs/reference/formats.md).
        progress: as in ``build``; the share starts again with every property.
        system: preset, file or System: of it only the rates of links count, for certificates.

    Raises:
        AntiphonError: ``not-proven`` with the first counter-example: rank, chunk, step, and what is missing or counted
            twice, or for a certificate that claims more than its prices prove; ``bad-file``.
    """
    fabric = as_fabric(fabric)
    return core_verify(fabric, as_schedule(schedule, fabric), progress, as_system(system))


def lower_bound(
    fabric: str | Fabric,
    collective: Collective | str = "all-reduce",
    bytes: str | SupportsIndex | None = None,
    system: str | System = "generic",
    root: int = 0,
    *,
    matrix: Matrix | None = None,
    fidelity: Fidelity | str | None = None,
) -> Bound:
    """How fast any schedule for all ranks could be.

    >>> bound = lower_bound("mesh:4x4", bytes="1MiB", system="tto")
    >>> bound.binding, round(bound.time_ns)
    ('strength', 28560)

    Args:
        fabric: specification or Fabric.
        collective: what to compute.
        bytes: full buffer size, a number of bytes or text; default: 64 MiB.
        system: preset, file or System: of it only links, packets and hand-offs count.
        root: rank that a Broadcast starts from, or a Reduce ends at.
        matrix: for an all-to-all, instead of ``bytes``: what each rank, by row, has for each other one, by column:
            an array, rows of sizes, or a CSV file (docs/reference/cli.md).
        fidelity: no run at it is faster; for None, no run at any.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-spec``, ``bad-size``, ``not-applicable``.
    """
    fabric = as_fabric(fabric)
    size, sizes = amount(bytes, matrix, fabric)
    return core_lower_bound(fabric, collective, size, as_system(system), root, sizes, fidelity)


def simulate(
    fabric: str | Fabric,
    schedule: str | os.PathLike[str] | Schedule,
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    progress: Heartbeat | None = None,
    *,
    energy: bool = False,
    trace: str | os.PathLike[str] | None = None,
    jobs: int | None = 1,
    playback: bool = False,
) -> SimulationResult:
    """Proves a schedule, then times it.

    >>> result = simulate("ring:4", build("ring:4", "ring", bytes="1MiB"))
    >>> result.links.height, result.ranks.height
    (8, 4)
    >>> bool(result.time_ns == result.ranks["finish_ns"].max())
    True

    Args:
        fabric: specification or Fabric that the schedule is for.
        schedule: a Schedule, or a file ``*.json`` (docs/reference/schedule.md) or of another tool
            (docs/reference/formats.md).
        system: preset, file or System.
        fidelity: in how much detail.
        progress: called about ten times a second with the share done, 0 to 1; an exception it raises ends the run.
        energy: also what the run takes (docs/explanation/energy.md); its time is the same.
        trace: also a file ``*.json`` of what happened when, in Chrome's trace event format (docs/reference/formats.md).
        jobs: cores that a long run in packets uses (docs/reference/simulation.md), all for None; its result is the
            same.
        playback: also what links carried over time, as pages play it; its time is the same.

    Raises:
        AntiphonError: ``not-proven``; ``stalled`` with the chain of waits; ``too-large``, also for a trace of too many
            events; ``bad-file``; ``bad-size`` if ``jobs`` is no whole number of at least 1.
        KeyboardInterrupt: on Ctrl-C, within about a tenth of a second.
    """
    fabric = as_fabric(fabric)
    expect("energy", energy, bool)
    expect("playback", playback, bool)
    program, platform = as_schedule(schedule, fabric), as_system(system)
    with trace_to(trace) as write:
        return core_simulate(fabric, program, platform, fidelity, progress, energy, write, cores_of(jobs), playback)
