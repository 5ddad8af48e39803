"""A node of an emulated fabric: ``python -m antiphon.execution.testbed.node FOLDER NODE``, in a network namespace of
its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from antiphon._core import Carrier, Executor, Fabric, Joiner, Plan, Schedule
from antiphon.errors import AntiphonError
from antiphon.execution.job import Part
from antiphon.execution.numbers import Data
from antiphon.execution.testbed import network
from antiphon.execution.testbed.control import Line

ELEMENT = "int32"
SECRET = b"nobody else is in this namespace"
"""Cables lead nowhere else."""
JOIN_S = 20.0
"""Time for all nodes to join their links."""


def main(folder: str, number: int) -> None:
    """Takes part in the job of a folder."""
    part = Part(folder)
    part.beat(number, dict, gone=lambda: os._exit(1))
    line = Line.to_host(Path(folder))
    line.say("hello", number, os.getpid())
    try:
        _serve(part, number, line)
    except AntiphonError as error:
        with suppress(AntiphonError):  # the host may be gone
            line.say("failed", error.code, f"node {number}: {error.message}")
    except subprocess.CalledProcessError as error:
        line.say("failed", "not-applicable", f"node {number}: {error.cmd[0]}: {error.stderr.strip()[:200]}")


def _serve(part: Part, number: int, line: Line) -> None:
    fabric = Fabric.from_json(part.texts[0])
    schedules = [Schedule.from_json(text) for text in part.texts[1:]]
    cables = network.cables(fabric)
    line.hear("wire")
    with suppress(OSError):
        Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")  # its chatter would count
    with suppress(OSError):
        Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle").write_text("0")  # runs do not begin slowly
    batch("ip", network.addressing(cables, number))
    batch("tc", network.shaping(cables, number, part.task["bits_per_s"]))
    own = [cable for cable in cables if number in cable.ends]
    joiner = Joiner(number, SECRET)
    # Of two nodes the lower joins the higher.
    listening = [cable for cable in own if number == max(cable.ends)]
    line.say("wired", {str(cable.number): joiner.listen(cable.address(number)) for cable in listening})
    (ports,) = line.hear("join")
    wires = _joined(joiner, fabric, own, number, ports)
    line.say("joined")
    (probe_s,) = line.hear("probe")
    line.say("probed", [rate for _, rate in joiner.rates([cable.number for cable in own], probe_s, 1)])
    carrier = Carrier(joiner.wires(wires), fabric, number, packet_bytes=network.PACKET_BYTES, spin_us=0.0)
    rank = part.task["ranks"][number]
    for schedule, patience_s in iter(lambda: line.hear("run"), [None, None]):
        _run(carrier, fabric, schedules[schedule], rank if rank >= 0 else None, line, patience_s)
    carrier.close()


def _joined(
    joiner: Joiner, fabric: Fabric, cables: list[network.Cable], node: int, ports: dict[str, int]
) -> list[tuple[int, int, int | None, int | None, str]]:
    """Joins the cables of a node; gives their links, for ``Joiner.wires``.

    Raises:
        AntiphonError: ``stalled`` if one does not come about.
    """
    asked = []
    for cable in cables:
        other = sum(cable.ends) - node
        joins = node < other
        at = f"{cable.address(other)}:{ports[str(cable.number)]}" if joins else ""
        asked.append((cable.number, other, cable.address(node) if joins else "", at, 1))
    for number, why in joiner.join(asked, JOIN_S):
        first, second = next(cable.ends for cable in cables if cable.number == number)
        raise AntiphonError(f"cable between nodes {first} and {second}: {why}", "stalled")
    starts = fabric.links["from"].tolist()
    found = []
    for cable, (_, other, *_rest) in zip(cables, asked, strict=True):
        out = next((link for link in cable.links if starts[link] == node), None)
        back = next((link for link in cable.links if starts[link] == other), None)
        found.append((cable.number, other, out, back, f"cable {cable.ends[0]}-{cable.ends[1]}"))
    return found


def _run(carrier: Carrier, fabric: Fabric, schedule: Schedule, rank: int | None, line: Line, patience_s: float) -> None:
    """Runs a schedule once: says when it began, when its rank was done, and how many elements are wrong."""
    global _sequence
    _sequence += 1
    if rank is None:
        line.say("ready")
        line.hear("begin")
        line.say("ran", 0, 0, 0)
        return
    plan = _plan(fabric, schedule, rank)
    data = Data(schedule, Executor(schedule, rank, ELEMENT), rank, in_place=True)
    data.reset()
    line.say("ready")
    line.hear("begin")
    start = time.time_ns()
    operation = carrier.collective(plan, 0, _sequence, [(0, data.memory)], ELEMENT, "sum")
    while not operation.done:
        try:
            carrier.drive([operation], 1.0)
        except AntiphonError as error:
            if error.code != "time-limit" or carrier.quiet_s() < patience_s:
                continue
            message = f"waited {patience_s:.0f} s for {carrier.waits_for(operation)}"
            raise AntiphonError(message, "stalled") from None
    end = time.time_ns()
    if operation.failure is not None:
        raise AntiphonError(operation.failure, "stalled")
    line.say("ran", start, end, data.wrong())


# A schedule is proven once, and run some times.
_plan = lru_cache(maxsize=8)(Plan)
_sequence = 0
"""Runs so far, the same at all nodes."""


def batch(tool: str, commands: str) -> None:
    """Has ``ip`` or ``tc`` carry out commands."""
    subprocess.run([tool, "-batch", "-"], input=commands, text=True, capture_output=True, check=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
