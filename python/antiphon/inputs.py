"""What the command at work reads: no output may replace it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

FILE_IN_NAME = re.compile(r"[\s*@,=:]")
"""What stands around a file in a specification, as in ``box.xml*16@rails``."""

_read: set[tuple[int, int]] | None = None
"""Device and number of files; None in a program, which may replace what it has read."""


@contextmanager
def kept(names: Iterable[str]) -> Iterator[None]:
    """In the block, neither a file in one of these names nor one that is read is written over."""
    global _read
    before, _read = _read, set()
    try:
        for name in names:
            for each in {name, *FILE_IN_NAME.split(name)}:
                with suppress(OSError, ValueError):
                    note(os.stat(each))
        yield
    finally:
        _read = before


def note(status: os.stat_result) -> None:
    """A file is read."""
    if _read is not None:
        _read.add((status.st_dev, status.st_ino))


def has(status: os.stat_result) -> bool:
    """Whether a file was read."""
    return (status.st_dev, status.st_ino) in (_read or ())
