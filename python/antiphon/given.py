"""Specifications and objects, either of which functions take."""

from __future__ import annotations

from antiphon._core import Fabric, System, collective_name
from antiphon.arguments import expect
from antiphon.platforms import read_system


def as_fabric(fabric: str | Fabric) -> Fabric:
    """A fabric, or that of a specification.

    >>> as_fabric("mesh:2x2").ranks
    4

    Raises:
        AntiphonError: as ``Fabric``.
        TypeError: for anything else.
    """
    expect("fabric", fabric, str, Fabric)
    return Fabric(fabric) if isinstance(fabric, str) else fabric


def as_collective(collective: str) -> str:
    """The name of a collective whose words may be joined by ``_`` or by nothing.

    >>> as_collective("all_reduce"), as_collective("allreduce")
    ('all-reduce', 'all-reduce')

    Raises:
        AntiphonError: ``unknown-name``.
        TypeError: for anything but text.
    """
    expect("collective", collective, str)
    return collective_name(collective)


def as_system(system: str | System) -> System:
    """A system, or that of a preset or file.

    >>> as_system("tto").name
    'tto'

    Raises:
        AntiphonError: ``unknown-name``, ``bad-file``.
        TypeError: for anything else.
    """
    expect("system", system, str, System)
    return read_system(system) if isinstance(system, str) else system
