"""The host of an emulated fabric: ``python -m antiphon.execution.testbed.host FOLDER``, in a network namespace where
cables are made. It starts the nodes, and says when what is run. All namespaces end with the processes in them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.execution.job import Part, silent
from antiphon.execution.testbed import network
from antiphon.execution.testbed.control import SOCKET, Line
from antiphon.execution.testbed.node import batch

PROBE_S = 2.0
"""How long all links are probed, at their rate."""
LEAST_PROBE_BYTES = 40 * network.LEAST_BURST_BYTES
"""What arrives at once must be little of it."""
RATE_TOLERANCE = 0.05
"""How far a link may be from its rate under full load."""
START_S = 30.0
NOTICE_S = 0.5
"""By then it is seen that a process was killed whose links are broken."""
WARM_UP_RUNS = 1
"""Runs of each schedule before those that count: connections learn how much they may send, memory is touched."""


def main(folder: str) -> None:
    """Does the job of a folder."""
    part = Part(folder)
    part.beat(network.MOST_NODES, dict, gone=lambda: os._exit(1))
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        _serve(part, Path(folder), nodes)
    except AntiphonError as error:
        culprit = _culprit(Path(folder), nodes) if error.code == "stalled" else ""
        part.add({"code": error.code, "error": culprit + error.message})
    except subprocess.CalledProcessError as error:
        part.add({"code": "not-applicable", "error": f"{error.cmd[0]}: {error.stderr.strip()[:200]}"})
    finally:
        for node in nodes:
            node.kill()


def _culprit(folder: Path, nodes: list[subprocess.Popen[bytes]]) -> str:
    """The node because of which a run does not go on, in words, if one is gone or silent."""
    until = time.monotonic() + NOTICE_S
    while time.monotonic() < until:
        for number, node in enumerate(nodes):
            status = node.poll()
            if status is not None and status < 0:
                return f"node {number} was killed by signal {-status}; "
        time.sleep(0.05)
    hanging = [number for number in silent(folder) if number < len(nodes)]
    return f"node {hanging[0]} hangs; " if hanging else ""


def _serve(part: Part, folder: Path, nodes: list[subprocess.Popen[bytes]]) -> None:
    fabric = Fabric.from_json(part.texts[0])
    cables = network.cables(fabric)
    lines = _started(part, folder, cables, nodes)

    def all_say(*message: object) -> None:
        for line in lines.values():
            line.say(*message)

    def all_hear(word: str) -> dict[int, list[object]]:
        return {number: line.hear(word) for number, line in lines.items()}

    all_say("wire")
    ports: dict[str, int] = {}
    for (of_node,) in all_hear("wired").values():
        ports.update(of_node)  # type: ignore[call-overload]
    all_say("join", ports)
    all_hear("joined")
    rate = part.task["bits_per_s"] / 8
    all_say("probe", max(PROBE_S, LEAST_PROBE_BYTES / rate))
    found = [bytes_per_s / rate for (rates,) in all_hear("probed").values() for bytes_per_s in rates]  # type: ignore[attr-defined]
    # What a frame carries of data, and what of it is the packet's.
    payload = (network.MTU_BYTES - 52) / (network.MTU_BYTES + 14)
    slowest, fastest = min(found) / payload, max(found) / payload
    part.add({"slowest_link": slowest, "fastest_link": fastest})
    if not 1 - RATE_TOLERANCE <= slowest <= fastest <= 1 + RATE_TOLERANCE:
        message = (
            f"under full load links have {slowest:.0%} to {fastest:.0%} of their rate: this machine cannot carry "
            f"{len(found)} of {part.task['bits_per_s'] / 1e6:g} Mbit/s; lower --link-rate"
        )
        raise AntiphonError(message, "not-applicable")
    for _ in range(WARM_UP_RUNS + part.task["repeat"]):
        for number in range(len(part.texts) - 1):
            all_say("run", number, part.task["timeout_s"])
            all_hear("ready")
            all_say("begin")
            ran = all_hear("ran")
            at_ranks = [ran[node] for node, rank in enumerate(part.task["ranks"]) if rank >= 0]
            start, end = min(each[0] for each in at_ranks), max(each[1] for each in at_ranks)  # type: ignore[type-var]
            errors = sum(each[2] for each in at_ranks)  # type: ignore[misc]
            part.add({"schedule": number, "time_ns": end - start, "wrong": errors})  # type: ignore[operator]
    all_say("run", None, None)


def _started(
    part: Part, folder: Path, cables: list[network.Cable], nodes: list[subprocess.Popen[bytes]]
) -> dict[int, Line]:
    """Starts the nodes, each in its namespace, and gives them their cables."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / SOCKET))
    listener.listen(network.MOST_NODES)
    listener.settimeout(START_S)
    module = "antiphon.execution.testbed.node"
    for number in range(len(part.task["ranks"])):
        node = [sys.executable, "-m", module, str(folder), str(number)]
        # A node that is stopped ends with the host, too.
        nodes.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", *node]))
    lines: dict[int, Line] = {}
    pids: dict[int, int] = {}
    for _ in nodes:
        try:
            connection, _address = listener.accept()
        except TimeoutError:
            raise AntiphonError(f"only {len(lines)} of {len(nodes)} nodes started", "stalled") from None
        line = Line(connection)
        number, pid = line.hear("hello")
        lines[number], pids[number] = line, pid
    batch("ip", network.making(cables, pids))
    return lines


if __name__ == "__main__":
    main(sys.argv[1])
