"""Logs of nccl-tests and rccl-tests: what was measured, on how many GPUs.

A line is a row if its numbers agree: bytes over time is the bandwidth beside it. So formats need no list: columns came
(``root``, ``#wrong`` for ``error``, times of iterations), and launchers put names before lines.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.files import parse_json, read_bytes

LARGEST_LOG = 1 << 26
"""Bytes of a log that is read."""
LONGEST_LINE = 4096
"""Characters; what is longer is neither a row nor a rank."""
COLLECTIVES = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "alltoall": "all-to-all",
}
"""Collectives by the names of the programs, which end in ``_perf``."""
PROGRAM = re.compile(r"\b([a-z_]+?)_perf(?![a-z])")
RANK = re.compile(r"\bRank +(\d+) +(?:Group +\d+ +)?Pid +\d+ on +(\S+) +device +\d+ +\[[^\]]*\] *(.*)")
RANK_OF_LAUNCHER = re.compile(r"\[\d+(?:,\d+)*\](?:<std(?:out|err)>:?)?")
"""What launchers write before a line, or in it where two writers share it."""
UNITS = 1e3
"""Bytes a microsecond of 1 GB/s."""


@dataclass(frozen=True)
class Timing:
    """A row of a log; None: that was not measured."""

    bytes: int
    out_of_place_us: float | None
    in_place_us: float | None
    bus_factor: float

    @property
    def us(self) -> float:
        """In place, as training jobs reduce, where both were measured."""
        return self.in_place_us or self.out_of_place_us or 0.0


@dataclass
class LoggedRun:
    """One start of a program.

    Attributes:
        collective: by the program's name; empty if the log does not have it.
        ranks: GPUs; 0 if the log does not say.
        hosts: names of hosts.
        device: name of the GPU; empty if the log does not say.
    """

    collective: str = ""
    ranks: int = 0
    hosts: set[str] = field(default_factory=set)
    device: str = ""
    rows: list[Timing] = field(default_factory=list)
    wrong: int = 0
    """Rows whose results were wrong."""

    def add(self, size: int, times_us: Sequence[float | None], bus_factor: float) -> None:
        """A row, if it has a time."""
        if size > 0 and any(times_us):
            self.rows.append(Timing(size, times_us[0], times_us[1], bus_factor))


def read_log(path: str) -> list[LoggedRun]:
    """The runs of a log that have rows.

    Raises:
        AntiphonError: ``bad-file`` for one that cannot be read or has no row, ``too-large`` above 64 MiB.
    """
    content = read_bytes(path, LARGEST_LOG)
    if b"\0" in content:
        raise AntiphonError(f"{path}: is not text; give what nccl-tests or rccl-tests printed", "bad-file")
    text = content.decode("utf-8", "replace")
    try:
        runs = list(_of_json(parse_json(text)) if text.lstrip().startswith("{") else _of_text(text))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise AntiphonError(f"{path}: no JSON of nccl-tests -J or antiphon run{why}", "bad-file") from None
    if not any(run.rows for run in runs):
        line = "has no row of nccl-tests or rccl-tests (size, count, type, ..., time, algbw, busbw)"
        raise AntiphonError(f"{path}: {line}; give what all_reduce_perf or another of them printed", "bad-file")
    return [run for run in runs if run.rows]


def _of_text(text: str) -> Iterator[LoggedRun]:
    run, program, in_place_first = LoggedRun(), "", False
    for line in text.splitlines():
        if len(line) > LONGEST_LINE or " NCCL INFO " in line or " NCCL WARN " in line:
            continue
        named = PROGRAM.search(line) if "_perf" in line else None
        if named:
            program = COLLECTIVES.get(named[1], named[1])
        if run.rows and ("nThread" in line or "# minBytes" in line or (named and program != run.collective)):
            yield run
            run = LoggedRun()
        if named or not run.rows:
            run.collective = program
        if "Rank" in line and (found := RANK.search(line)):
            run.ranks = max(run.ranks, int(found[1]) + 1)
            run.hosts.add(found[2])
            run.device = run.device or found[3].strip()
        elif "out-of-place" in line:
            in_place_first = -1 < line.find("in-place") < line.find("out-of-place")
        elif "#" not in line and (row := _row(line)):
            run.wrong += _is_wrong(line, row)
            swapped = in_place_first and row.in_place_us
            run.rows.append(
                replace(row, out_of_place_us=row.in_place_us, in_place_us=row.out_of_place_us) if swapped else row
            )
    yield run


def _row(line: str) -> Timing | None:
    """What a line says, if it is a row: the first two whole numbers beside each other are bytes and elements."""
    words = RANK_OF_LAUNCHER.sub(" ", line).split()
    start = next((i for i, pair in enumerate(pairwise(words)) if all(map(_whole, pair))), None)
    if start is None or not 0 < (size := int(words[start])) < 1 << 60:
        return None
    numbers = [_number(word) for word in words[start + 2 :]]
    times: list[float] = []
    factor = 0.0
    place = 0
    while place + 2 < len(numbers):
        time, algorithm, bus = numbers[place : place + 3]
        if time and time > 0 and algorithm is not None and bus is not None and _agree(size / time / UNITS, algorithm):
            times.append(time)
            factor = bus / algorithm if algorithm >= 1 else factor  # two decimals say little of less
            place += 2
        place += 1
    if not times:
        return None
    return Timing(size, times[0], times[1] if len(times) > 1 else None, factor)


def _is_wrong(line: str, row: Timing) -> bool:
    """Whether a count of wrong elements, a whole number behind a bandwidth, is not zero."""
    words = line.split()
    times = [time for time in (row.out_of_place_us, row.in_place_us) if time]
    behind = [words[at + 3] for at in range(len(words) - 3) if _number(words[at]) in times and "." in words[at + 2]]
    return any(_whole(word) and int(word) > 0 for word in behind)


def _agree(computed: float, printed: float) -> bool:
    return abs(computed - printed) <= 0.006 + 0.02 * printed


def _whole(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 20


def _number(word: str) -> float | None:
    try:
        return float(word) if word[:1] in "+-.0123456789" else None
    except ValueError:
        return None


def _of_json(document: Any) -> Iterator[LoggedRun]:
    """A report of ``nccl-tests -J``, or what ``antiphon run --json`` printed."""
    if str(document.get("schema", "")).startswith("antiphon-run/"):
        run = LoggedRun(str(document["collective"]), int(document["ranks"]))
        for each in document["runs"]:
            times = [_positive(place["time_ns"]) for place in (each, each["in_place"])]
            run.add(int(each["bytes"]), [time and time / 1e3 for time in times], 0.0)
        yield run
        return
    found = PROGRAM.search(json.dumps(document.get("args", [])))
    devices = document.get("config", {}).get("devices", [])
    run = LoggedRun(COLLECTIVES.get(found[1], found[1]) if found else "")
    run.ranks = max((int(each["rank"]) + 1 for each in devices), default=0)
    run.hosts = {str(each["hostname"]) for each in devices}
    run.device = str(devices[0]["device_info"]) if devices else ""
    for each in document["results"]:
        places = [each.get(name) or {} for name in ("out_of_place", "in_place")]
        factors = [float(one["bus_bw"]) / float(one["alg_bw"]) for one in places if float(one.get("alg_bw", 0)) >= 1]
        times = [_positive(one.get("time", one.get("cpu_time", 0))) for one in places]
        run.add(int(each["size"]), times, factors[0] if factors else 0.0)
    yield run


def _positive(value: Any) -> float | None:
    """A time, or None for what is none."""
    time = float(value)
    return time if 0 < time < math.inf else None
