"""A node of an emulated fabric: ``python -m antiphon.execution.testbed.node FOLDER NODE``, in a network namespace of
its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from antiphon._core import Carrier, Executor, Fabric, Joiner, Plan, Schedule
from antiphon.errors import AntiphonError
from antiphon.execution.chain import rank as chained
from antiphon.execution.job import Part
from antiphon.execution.numbers import Data
from antiphon.execution.testbed import network
from antiphon.execution.testbed.control import Line

if TYPE_CHECKING:
    from antiphon.execution.layers import Range
    from antiphon.execution.measure import Array

    Parts = Sequence[Sequence[Range]]
    Told = Callable[[Sequence[int]], object]

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
    works: dict[int, Work] = {}
    for number, patience_s in iter(lambda: line.hear("run"), [None, None]):
        if rank < 0:
            line.say("ready")
            line.hear("begin")
            line.say("ran", 0, 0, 0)
            continue
        if number not in works:
            works[number] = _work(fabric, schedules[number], rank, part.task["chain"], number)
        _run(carrier, works[number], line, patience_s)
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


class Work(Protocol):
    """What a rank does in every run of a schedule."""

    plan: Plan
    element: str

    def prepare(self) -> Array:
        """Makes the data of the next run."""
        ...

    def run(self, exchange: Callable[[Parts, Told], object]) -> tuple[int, int]:
        """Runs, with an exchange of the data; when it began and ended."""
        ...

    def wrong(self) -> int:
        """Numbers that are wrong after it."""
        ...


class Alone:
    """The collective of a schedule."""

    element = ELEMENT

    def __init__(self, fabric: Fabric, schedule: Schedule, rank: int) -> None:
        self.plan = Plan(fabric, schedule, rank)
        self.data = Data(schedule, Executor(schedule, rank, ELEMENT), rank, in_place=True)

    def prepare(self) -> Array:
        self.data.reset()
        return self.data.memory

    def run(self, exchange: Callable[[Parts, Told], object]) -> tuple[int, int]:
        start_ns = time.time_ns()
        exchange([], lambda _: None)
        return start_ns, time.time_ns()

    def wrong(self) -> int:
        return self.data.wrong()


class Chained:
    """An iteration of training, with the schedule as its exchange."""

    element = chained.ELEMENT

    def __init__(self, fabric: Fabric, schedule: Schedule, rank: int, chain: dict[str, Any], number: int) -> None:
        self.plan = Plan(fabric, schedule, rank)
        self.rank = chained.ChainedRank(schedule, rank, chain["layers"], chain["chained"][number], chain["busy"])

    def prepare(self) -> Array:
        self.rank.prepare()
        return self.rank.gradients.view("uint8")

    def run(self, exchange: Callable[[Parts, Told], object]) -> tuple[int, int]:
        return self.rank.run(lambda told: exchange(self.rank.parts, told))

    def wrong(self) -> int:
        return self.rank.wrong()


def _work(fabric: Fabric, schedule: Schedule, rank: int, chain: dict[str, Any] | None, number: int) -> Work:
    """A schedule is proven once, and run some times."""
    return Alone(fabric, schedule, rank) if chain is None else Chained(fabric, schedule, rank, chain, number)


def _run(carrier: Carrier, work: Work, line: Line, patience_s: float) -> None:
    """Runs once: says when it began, when the rank was done, and how many numbers are wrong."""
    global _sequence
    _sequence += 1
    memory = work.prepare()
    line.say("ready")
    line.hear("begin")

    def exchange(parts: Parts, told: Told) -> None:
        operation = carrier.collective(work.plan, 0, _sequence, [(0, memory)], work.element, "sum", parts)
        while not operation.done:
            try:
                carrier.drive([operation], 1.0)
            except AntiphonError as error:
                if error.code != "time-limit" or carrier.quiet_s() < patience_s:
                    continue
                message = f"waited {patience_s:.0f} s for {carrier.waits_for(operation)}"
                raise AntiphonError(message, "stalled") from None
            if found := operation.final_parts():
                told(found)
        if operation.failure is not None:
            raise AntiphonError(operation.failure, "stalled")

    start_ns, end_ns = work.run(exchange)
    line.say("ran", start_ns, end_ns, work.wrong())


_sequence = 0
"""Runs so far, the same at all nodes."""


def batch(tool: str, commands: str) -> None:
    """Has ``ip`` or ``tc`` carry out commands."""
    subprocess.run([tool, "-batch", "-"], input=commands, text=True, capture_output=True, check=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
