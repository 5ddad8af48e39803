"""What tests of plans share: fabrics as discovery measures them, a stand-in for plans, and a store that is slow."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon import Fabric, Schedule, verify

MBIT_300 = 0.0375
"""300 Mbit/s in 1e9 bytes per second."""


def wired(
    nodes: int, cables: Sequence[tuple[int, int]], rates: Sequence[float] = (MBIT_300,), latency_ns: int = 20000
) -> Fabric:
    """A fabric of cables, each two links; rates in 1e9 bytes per second are taken in turn."""
    links = [
        {"from": a, "to": b, "both": False, "rate_gb_per_s": rates[number % len(rates)], "latency_ns": latency_ns}
        for number, cable in enumerate(cables)
        for a, b in (cable, cable[::-1])
    ]
    ranks = [{"name": f"rank {rank}"} for rank in range(nodes)]
    return Fabric.from_json(json.dumps({"schema": "antiphon-fabric/1", "nodes": ranks, "links": links}))


def ring(nodes: int) -> Fabric:
    """As many nodes in a ring."""
    return wired(nodes, [(node, (node + 1) % nodes) for node in range(nodes)])


FABRICS = {
    "pair": wired(2, [(0, 1)]),
    "triangle of different cables": wired(3, [(0, 1), (1, 2), (2, 0)], [0.025, 0.05, 0.0625]),
    "line": wired(4, [(0, 1), (1, 2), (2, 3)]),
    "ring of 6": ring(6),
    "leaf behind a relay": wired(5, [(0, 1), (0, 2), (0, 3), (3, 4)]),
    "clique of 8": wired(8, [(a, b) for a in range(8) for b in range(a)]),
}


@dataclass
class StandIn:
    """A plan without an engine. It is proven, as the real one is."""

    fabric: Fabric
    schedule: Schedule
    rank: int
    hash: int = field(init=False)

    def __post_init__(self) -> None:
        verify(self.fabric, self.schedule)
        self.hash = int.from_bytes(hashlib.sha256(self.schedule.to_json().encode()).digest()[:4], "big")


class SlowStore:
    """A store that every rank shares; what it does takes up to ``delay_s`` seconds."""

    def __init__(self, delay_s: float = 0.0, seed: int = 0) -> None:
        self.values: dict[str, bytes] = {}
        self.delay_s, self.random, self.lock = delay_s, random.Random(seed), threading.Lock()

    def _wait(self) -> None:
        with self.lock:
            delay = self.random.random() * self.delay_s
        time.sleep(delay)

    def set(self, key: str, value: bytes) -> None:
        self._wait()
        self.values[key] = value

    def check(self, keys: list[str]) -> bool:
        self._wait()
        return all(key in self.values for key in keys)

    def get(self, key: str) -> bytes:
        self._wait()
        return self.values[key]
