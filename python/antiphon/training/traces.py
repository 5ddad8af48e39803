"""Files of Chakra execution traces: one for each rank, ``PREFIX.RANK.et``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.files import write_together

FIRST = ".0.et"
"""How the file of the first rank ends."""
GROUPS = ".groups.json"
"""How the file beside traces ends that says which ranks are in which group."""


def trace_files(trace: str | os.PathLike[str], ranks: int, fabric: str) -> list[str]:
    """The files of the traces of all ranks of a fabric.

    Args:
        trace: their prefix, one of them, or a folder that has those of one prefix.
        ranks: of the fabric.
        fabric: its name, for messages.

    Raises:
        AntiphonError: ``bad-file`` if there are none, too few or too many.
    """
    prefix = prefix_of(trace)
    files = [Path(f"{prefix}.{rank}.et") for rank in range(ranks + 1)]
    try:
        missing = next((rank for rank, file in enumerate(files) if not file.exists()), ranks + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise AntiphonError(f"{shown(prefix)}: no traces there: {why}", "bad-file") from None
    if missing == 0:
        message = f"{prefix}{FIRST}: there is no such file; traces are given by their prefix, PREFIX for PREFIX{FIRST}"
        raise AntiphonError(message, "bad-file")
    if missing < ranks:
        message = f"{files[missing]}: there is no such file; each of the {ranks:,} ranks of {fabric} needs a trace"
        raise AntiphonError(message, "bad-file")
    if missing > ranks:
        raise AntiphonError(f"{files[ranks]}: {fabric} has {ranks:,} ranks, 0 to {ranks - 1:,}", "bad-file")
    return [str(file) for file in files[:ranks]]


def prefix_of(trace: str | os.PathLike[str]) -> str:
    """What the names of all files of a trace begin with.

    >>> prefix_of("traces/llama.3.et")
    'traces/llama'

    Raises:
        AntiphonError: ``bad-file`` for a folder that has not the traces of exactly one prefix.
    """
    expect("trace", trace, str, os.PathLike)
    text = os.fspath(trace)
    try:
        if not os.path.isdir(text):
            return re.sub(r"\.\d+\.et$", "", text)
        found = sorted(name for name in os.listdir(text) if name.endswith(FIRST))
    except (OSError, ValueError) as error:
        raise AntiphonError(f"{shown(text)}: cannot be read: {error}", "bad-file") from None
    if len(found) != 1:
        what = "no traces" if not found else f"traces of several prefixes, such as {found[0]} and {found[1]}"
        raise AntiphonError(f"{text}: the folder has {what}; give PREFIX for PREFIX{FIRST}", "bad-file")
    return os.path.join(text, found[0].removesuffix(FIRST))


def write_traces(prefix: str, ranks: int, write: Callable[[int], bytes], groups: str | None) -> list[str]:
    """Writes the traces of all ranks, and which ranks are in which group where they name groups; all or nothing.

    Raises:
        AntiphonError: ``bad-file``, and what ``write`` raises.
    """

    def files() -> Iterator[tuple[str, bytes]]:
        if groups is not None:
            yield prefix + GROUPS, groups.encode()
        for rank in range(ranks):
            yield f"{prefix}.{rank}.et", write(rank)

    write_together(files())
    names = [f"{prefix}.{rank}.et" for rank in range(ranks)]
    return [*names, prefix + GROUPS] if groups is not None else names
