"""Files of other tools: schedules written for them, and theirs proven and read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import SupportsIndex, cast

from antiphon._core import Fabric, Schedule
from antiphon._core import export as core_export
from antiphon._core import formats as core_formats
from antiphon._core import load as core_load
from antiphon._core import prove_file as core_prove_file
from antiphon.arguments import expect
from antiphon.collective.chakra import CHAKRA, refuse_traces, write_chakra
from antiphon.collective.schedules import named, read_schedule
from antiphon.errors import AntiphonError
from antiphon.files import LARGEST_SCHEDULE, read_text, written_whole
from antiphon.given import as_fabric
from antiphon.results import FileProof
from antiphon.topologies import TOPOLOGY_FORMATS


def export(
    schedule: Schedule | Fabric,
    path: str | os.PathLike[str] | None = None,
    *,
    format: str = "msccl",
    consumer: str | None = None,
    instances: int = 1,
    channels: int = 1,
    protocol: str = "Simple",
    min_bytes: str | int | None = None,
    max_bytes: str | int | None = None,
) -> str:
    """A schedule in another tool's format, proven as it is written, or a fabric in one for graphs
    (docs/reference/formats.md).

    >>> from antiphon import build
    >>> text = export(build("ring:4", "ring", bytes="1MiB"), consumer="rccl")
    >>> text.splitlines()[0][:18]
    '<algo name="ring" '
    >>> export(Fabric("ring:4"), format="dot").splitlines()[0]
    'digraph "ring:4" {'

    Args:
        schedule: what is written; a Fabric with ``dot`` and ``graphml``.
        path: also a file to write, which ends as files of the format do, such as ``*.xml``; with ``chakra`` the prefix
            of the files of all ranks, and the text is what a system file of ASTRA-sim says to use them.
        format: name of the format.
        consumer: who is to read it, within whose limits it must be; default: the first of the format.
        instances: with ``msccl`` copies of the program, each on channels of its own, for its part of the data.
        channels: with ``msccl`` channels of each, to which lanes are dealt.
        protocol: with ``msccl`` how messages are moved: ``Simple``, ``LL`` or ``LL128``.
        min_bytes: with ``msccl`` the smallest size that it is used for; default: any.
        max_bytes: with ``msccl`` the largest; default: any.

    Raises:
        AntiphonError: ``unknown-name``; ``not-applicable`` for what the format cannot say; ``too-large`` with the
            limit of the consumer; ``bad-size``; ``not-proven``; ``bad-file`` for a file that cannot be written.
    """
    options = (instances, channels, protocol, min_bytes, max_bytes)
    if format in (CHAKRA, *TOPOLOGY_FORMATS) and options != (1, 1, "Simple", None, None):
        raise AntiphonError(f"{format} has no instances, channels, protocol or sizes; msccl has", "not-applicable")
    if format == CHAKRA:
        expect("schedule", schedule, Schedule)
        if consumer is not None:
            raise AntiphonError(f"{format} has no consumers to choose from", "not-applicable")
        return write_chakra(cast(Schedule, schedule), path)
    suffix = extension(format)
    if format in TOPOLOGY_FORMATS:
        expect("schedule", schedule, Fabric)
        if consumer is not None:
            raise AntiphonError(f"{format} has no consumers to choose from", "not-applicable")
        text = TOPOLOGY_FORMATS[format][0](cast(Fabric, schedule))
    else:
        expect("schedule", schedule, Schedule)
        text = core_export(cast(Schedule, schedule), format, consumer, *options)
    if path is not None:
        with written_whole(path, suffix) as file:
            file.write(text)
    return text


def load(
    path: str | os.PathLike[str] | None = None,
    fabric: str | Fabric | None = None,
    *,
    bytes: str | SupportsIndex | None = None,
    placement: Sequence[int] | None = None,
    text: str | None = None,
) -> Schedule:
    """The schedule of a file, in JSON or in a format of another tool, which is known by content
    (docs/reference/formats.md).

    >>> from antiphon import build, verify
    >>> text = export(build("ring:4", "ring", bytes="1MiB"))
    >>> schedule = load(text=text, bytes="1MiB")
    >>> schedule.fabric, verify(schedule.fabric, schedule).complete
    ('fc:4', True)

    Args:
        path: file.
        fabric: specification or Fabric; without one the ranks of another tool's program are fully joined.
        bytes: full buffer size, of which such a program says nothing; default: 64 MiB.
        placement: rank of the fabric for each rank of such a program; default: the same numbers.
        text: instead of a file.

    Raises:
        AntiphonError: ``not-proven`` with the first deadlock, race or wrong chunk; ``not-applicable`` for a right
            program that is no schedule; ``bad-file``, ``bad-size``, ``bad-spec``, ``too-large``.
    """
    network = None if fabric is None else as_fabric(fabric)
    if text is None:
        return read_schedule(_path(path), network, bytes, placement)
    return core_load(text, network, "64MiB" if bytes is None else bytes, None if placement is None else list(placement))


def prove_file(path: str | os.PathLike[str] | None = None, *, text: str | None = None) -> FileProof:
    """Proves a program of another tool's format as it stands: thread blocks, steps and connections.

    >>> from antiphon import build
    >>> prove_file(text=export(build("mesh:2x2", "multitree", bytes="1MiB"))).places
    ['in-place']

    Args:
        path: file.
        text: instead of a file.

    Raises:
        AntiphonError: ``not-proven`` with the first deadlock, race or wrong chunk, naming GPU, thread block and step;
            ``bad-file`` with the line, ``not-applicable`` for operations that the proof does not know, ``too-large``.
    """
    if text is not None:
        return core_prove_file(text)
    path = _path(path)
    refuse_traces(path)
    content = read_text(path, LARGEST_SCHEDULE)
    with named(path):
        return core_prove_file(content)


def consumers() -> dict[str, list[str]]:
    """Who reads each format that is written, by its name; the default is first."""
    return {name: readers for name, _, _, readers in core_formats() if readers}


def extension(format: str) -> str:
    """How files of a format that is written end.

    Raises:
        AntiphonError: ``unknown-name``.
    """
    suffixes = {name: suffix for name, _, suffix, readers in core_formats() if readers}
    suffixes |= {name: suffix for name, (_, suffix) in TOPOLOGY_FORMATS.items()}
    if format in suffixes:
        return suffixes[format]
    known = ", ".join([*suffixes, CHAKRA])
    raise AntiphonError(f"no format '{format[:40]}'; known: {known}", "unknown-name")


def _path(path: str | os.PathLike[str] | None) -> str:
    if path is None:
        raise TypeError("give a path, or text=")
    expect("path", path, str, os.PathLike)
    return os.fspath(path)
