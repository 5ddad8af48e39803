"""Connections that nobody asked for: ``hostile.py COUNT SEED WIDE,... ADDRESS...``, at a host of the lab.

Waits for listeners on the addresses, which it finds among the sockets of all processes in the lab, and connects to them
until there were enough. Prints how long each connection lasted, and what it did; and who listened at wide addresses
until the input ended.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 5.0
LISTENS = "0A"
HANG_UP = struct.pack("ii", 1, 0)


def readable(address: str) -> str:
    """An address as the kernel lists it; any of IPv6 is any of IPv4, too."""
    words = [bytes.fromhex(address[first : first + 8])[::-1] for first in range(0, len(address), 8)]
    return socket.inet_ntoa(words[-1]) if len(words) == 1 or words[0] == words[1] == bytes(4) else address


def listeners(addresses: list[str]) -> set[tuple[str, int]]:
    """Addresses and ports at which some process in the lab listens; ``0.0.0.0`` as it is."""
    found = set()
    seen = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            network = (folder / "ns" / "net").readlink()
            if network in seen:
                continue
            seen.add(network)
            texts = [(folder / "net" / file).read_text("ascii") for file in ("tcp", "tcp6")]
            lines = [line for text in texts for line in text.splitlines()[1:]]
        except OSError:
            continue
        for line in lines:
            local, state = line.split()[1], line.split()[3]
            address, port = local.split(":")
            name = readable(address)
            if state == LISTENS and name in addresses:
                found.add((name, int(port, 16)))
    return found


def visit(kind: int, to: tuple[str, int], chance: random.Random) -> dict[str, object]:
    """One connection, until the other end closes it or patience ends."""
    names = ["silent", "noise", "huge-length", "zeros", "http", "hang-up", "slow", "gone"]
    name = names[kind % len(names)]
    start = time.monotonic()
    closed = True
    try:
        with socket.create_connection(to, timeout=PATIENCE_S) as at:
            if name == "gone":
                return {"kind": name, "closed": True, "seconds": 0.0}
            if name == "hang-up":
                at.sendall(b"x")
                at.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HANG_UP)
                return {"kind": name, "closed": True, "seconds": 0.0}
            texts = {
                "noise": chance.randbytes(1 << 16),
                "huge-length": b"\xff" * 64,
                "zeros": bytes(1 << 16),
                "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            }
            at.sendall(texts.get(name, b""))
            at.settimeout(0.05)
            while True:
                if time.monotonic() - start > PATIENCE_S:
                    closed = False
                    break
                try:
                    if name == "slow":
                        at.sendall(b"\x01")
                    if not at.recv(1 << 16):
                        break
                except TimeoutError:
                    continue
    except OSError:
        pass  # it was closed while we wrote
    return {"kind": name, "closed": closed, "seconds": time.monotonic() - start}


def main(count: int, seed: int, wide: list[str], addresses: list[str]) -> None:
    """Visits listeners from the moment at which there are any."""
    chance = random.Random(seed)
    with suppress(OSError):  # they listen for some milliseconds only, while their processes keep the cores busy
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    print("ready", flush=True)
    there: list[tuple[str, int]] = []
    seen: set[tuple[str, int]] = set()
    while not there and not select.select([sys.stdin], [], [], 0.002)[0]:
        now = listeners(wide + addresses)
        there, seen = sorted(each for each in now if each[0] in addresses), seen | now
    with suppress(OSError):  # else it would keep ranks from running until others take them for dead
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    found: list[dict[str, object]] = []
    visits = []
    for kind in range(count if there else 0):
        to = chance.choice(there)
        visits.append(threading.Thread(target=lambda kind=kind, to=to: found.append(visit(kind, to, chance))))
        visits[-1].start()
        time.sleep(chance.uniform(0, 0.02))
    while not select.select([sys.stdin], [], [], 0.3)[0]:
        seen |= listeners(wide)
    for each in visits:
        each.join()
    print(json.dumps({"wide": [each for each in seen if each[0] in wide], "visits": found}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4:])
