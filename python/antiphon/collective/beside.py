"""Other traffic beside a collective."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import SupportsIndex

from antiphon._core import Fabric, Schedule, System, parse_bytes
from antiphon._core import beside as core_beside
from antiphon.arguments import expect, shown
from antiphon.collective.schedules import as_schedule, named
from antiphon.collective.timing import Progress
from antiphon.errors import AntiphonError
from antiphon.files import read_text
from antiphon.given import as_fabric, as_system
from antiphon.names import Fidelity
from antiphon.results import BesideRun

PRECEDENCES = ("fair", "traffic", "collective")
"""What goes first on a link that both need."""
LARGEST_FILE = 1 << 24
"""Files of messages are read whole; larger ones are refused."""
COLUMNS = ["time_ns", "from", "to", "bytes"]
"""The first line of a file of messages."""
MOST_MESSAGES = 1 << 16
"""Messages of a file."""
LOAD = 0.1
MESSAGE = "64KiB"
"""What holds for patterns unless something else is given."""


def beside(
    fabric: str | Fabric,
    schedule: str | os.PathLike[str] | Schedule,
    traffic: str | os.PathLike[str] = "uniform",
    *,
    load: float | str | None = None,
    message: str | SupportsIndex | None = None,
    regular: bool = False,
    seed: int = 1,
    precedence: str = "fair",
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    progress: Progress | None = None,
) -> BesideRun:
    """Times a collective alone, other traffic alone, and both together on the same links.

    The traffic is messages between ranks, such as those of memories or activations. It starts with the collective, and
    that of a pattern goes on until the collective is over.

    >>> from antiphon import build
    >>> schedule = build("mesh:4x4", "combs", bytes="1MiB")
    >>> run = beside("mesh:4x4", schedule, "uniform", load=0.3, message="4KiB")
    >>> run.slowdown > 1, run.traffic_slowdown > 1
    (True, True)

    Args:
        fabric: specification or Fabric.
        schedule: of the collective, for all ranks of the fabric: a Schedule, or a file ``*.json``
            (docs/reference/schedule.md) or of another tool (docs/reference/formats.md).
        traffic: pattern of destinations (``traffic_patterns()``), ``hotspot:rank=N,share=X``, or a file ``*.csv`` of
            messages: a line ``time_ns,from,to,bytes``, then a line for each.
        load: of a pattern: the share of time for which it alone keeps busy the link that it needs most, from 0 to below
            1, or what each rank sends, such as ``5GB/s``; default 0.1
        message: of a pattern: size of every message; default 64KiB
        regular: of a pattern: each rank sends at equal intervals; at random times otherwise.
        seed: seed of times and destinations.
        precedence: what goes first on a link that both need: ``traffic``, ``collective``, or ``fair``: the collective
            and each message have equal shares.
        system: preset, file or System.
        fidelity: in how much detail.
        progress: called with a title and the share done of each run.

    Raises:
        AntiphonError: as ``simulate``; ``unknown-name`` or ``not-applicable`` for patterns; ``bad-size`` for a load
            that a link cannot carry; ``bad-file`` for a file; ``bad-spec`` for what a file says already; ``too-large``
            for more than 65,536 messages.
    """
    expect("traffic", traffic, str, os.PathLike)
    expect("load", load, float, int, str, type(None))
    expect("regular", regular, bool)
    network, platform = as_fabric(fabric), as_system(system)
    plan = as_schedule(schedule, network)
    heartbeat = None if progress is None else partial(progress, f"{plan.algorithm} beside {os.fspath(traffic)}")
    name = os.fspath(traffic)
    if name.lower().endswith(".csv"):
        if load is not None or message is not None or regular:
            raise AntiphonError("load, message and regular are for patterns: leave them out with a file", "bad-spec")
        messages = _read_messages(name)
        return core_beside(network, plan, None, messages, precedence, platform, fidelity, heartbeat)
    offered = LOAD if load is None else load
    if not isinstance(offered, str):
        if not 0 <= offered < 1:
            what = f"load is {shown(offered)}; expected a share from 0 to below 1, or a rate as text, such as 5GB/s"
            raise AntiphonError(what, "bad-size")
        offered = f"{float(offered):.12f}"
    size = parse_bytes(MESSAGE if message is None else message)
    pattern = (name, offered, size, regular, seed)
    return core_beside(network, plan, pattern, [], precedence, platform, fidelity, heartbeat)


def _read_messages(path: str) -> Sequence[tuple[float, int, int, int]]:
    """The messages of a CSV file."""
    lines = read_text(path, LARGEST_FILE).splitlines()
    found = []
    with named(path):
        if not lines or [cell.strip() for cell in lines[0].split(",")] != COLUMNS:
            raise AntiphonError(f"the first line is not {','.join(COLUMNS)}", "bad-file")
        for number, line in enumerate(lines[1:], 2):
            if not line.strip():
                continue
            cells = [cell.strip() for cell in line.split(",")]
            try:
                at, sender, receiver, size = cells
                found.append((float(at), _rank(sender), _rank(receiver), parse_bytes(size)))
            except AntiphonError as error:
                raise AntiphonError(f"line {number}: {error.message}", "bad-file") from None
            except ValueError:
                message = f"line {number}: {shown(line)} is no time in ns, two ranks and a size"
                raise AntiphonError(message, "bad-file") from None
            if len(found) > MOST_MESSAGES:
                raise AntiphonError(f"more than {MOST_MESSAGES:,} messages", "too-large")
    return found


def _rank(text: str) -> int:
    """A number that may be a rank.

    Raises:
        ValueError: for what is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(text)
    return int(text)
