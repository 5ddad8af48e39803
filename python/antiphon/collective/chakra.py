"""Schedules as Chakra execution traces, for custom collectives of ASTRA-sim: a file for each rank."""

from __future__ import annotations

import json
import os

from antiphon._core import Schedule, chakra_files
from antiphon.errors import AntiphonError
from antiphon.files import check_prefix, write_together

CHAKRA = "chakra"
"""The name of the format."""
ENDING = ".et"
"""How its files end."""


def write_chakra(schedule: Schedule, prefix: str | os.PathLike[str] | None) -> str:
    """Writes the traces ``PREFIX.0.et``, ``PREFIX.1.et``, ... of a schedule, all or nothing.

    Returns what an ASTRA-sim system file says to use them, as JSON.

    Raises:
        AntiphonError: ``bad-file``; ``not-applicable`` for what a trace cannot say; ``too-large``, ``not-proven``.
    """
    if prefix is None:
        raise TypeError("chakra is a file for each rank: give their prefix as path")
    text = check_prefix(prefix, "path")
    write_together(named_files(text, chakra_files(schedule)))
    return json.dumps({f"{schedule.collective}-implementation-custom": [text]})


def named_files(prefix: str, contents: list[bytes]) -> list[tuple[str, bytes]]:
    """Names and contents of the files of all ranks.

    >>> named_files("ring", [b"a", b"b"])
    [('ring.0.et', b'a'), ('ring.1.et', b'b')]
    """
    return [(f"{prefix}.{rank}{ENDING}", content) for rank, content in enumerate(contents)]


def refuse_traces(path: str) -> None:
    """Refuses a file that is a trace where a schedule is read.

    Raises:
        AntiphonError: ``not-applicable``, saying what can be done with it.
    """
    if path.lower().endswith(ENDING):
        message = f"{path}: a Chakra trace does not say which data its messages carry, so there is nothing to prove"
        raise AntiphonError(f"{message}; antiphon replay times it", "not-applicable")
