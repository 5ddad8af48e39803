"""A node of an emulated fabric: ``python -m antiphon.execution.testbed.node FOLDER NODE``, in a network namespace of
its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from antiphon._core import Executor, Fabric, Node, Schedule
from antiphon.errors import AntiphonError
from antiphon.execution.job import Part
from antiphon.execution.numbers import Data
from antiphon.execution.testbed import network
from antiphon.execution.testbed.control import Line

ELEMENT = "int32"
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
    line.say("wired")
    line.hear("join")
    node = Node(*network.addresses(fabric, cables, number), network.PACKET_BYTES, JOIN_S)
    line.say("joined")
    (probe_bytes,) = line.hear("probe")
    line.say("probed", node.probe(probe_bytes))
    rank = part.task["ranks"][number]
    for schedule, patience_s in iter(lambda: line.hear("run"), [None, None]):
        _run(node, schedules[schedule], rank if rank >= 0 else None, line, patience_s)


def _run(node: Node, schedule: Schedule, rank: int | None, line: Line, patience_s: float) -> None:
    """Runs a schedule once: says when it began, when its rank was done, and how many elements are wrong."""
    data = None
    if rank is not None:
        data = Data(schedule, Executor(schedule, rank, ELEMENT), rank, in_place=True)
        data.reset()
    times = [0, 0]

    def tell(*news: object) -> None:
        if news == ("done",):
            times[1] = time.time_ns()
        line.say(*news)

    def listen() -> None:
        while True:
            for word, *rest in line.waiting():
                if word == "begin":
                    times[0] = time.time_ns()
                    node.begin()
                elif word == "open":
                    node.open(*rest)
                else:
                    node.end()
                    return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    node.run(schedule, rank, data.memory if data else None, ELEMENT, patience_s, tell)
    listener.join()
    line.say("ran", *times, data.wrong() if data else 0)


def batch(tool: str, commands: str) -> None:
    """Has ``ip`` or ``tc`` carry out commands."""
    subprocess.run([tool, "-batch", "-"], input=commands, text=True, capture_output=True, check=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
