"""Stand-ins for a store, for joiners and for wiring, with which discovery runs over threads."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from antiphon.errors import AntiphonError

WAIT_S = 0.5
"""Until a stand-in gives a cable up."""


class DictStore:
    """A store in this process."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._changed = threading.Condition()

    def get(self, key: str) -> bytes:
        with self._changed:
            assert self._changed.wait_for(lambda: key in self.values, 10), key
            return self.values[key].encode()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self.values[key] = value
            self._changed.notify_all()

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = int(self.values.get(key, 0)) + amount
            self.values[key] = str(total)
            self._changed.notify_all()
            return total

    def check(self, keys: list[str]) -> bool:
        with self._changed:
            return all(key in self.values for key in keys)


@dataclass
class Wiring:
    """What joins hosts: which two addresses reach each other, and what is measured between them.

    Attributes:
        reaches: of two addresses.
        rates: bytes a second by the address that sends; others have `rate`.
        gain: how many times as much several connections carry.
        broken: an address whose cables break under load.
    """

    reaches: Callable[[str, str], bool] = lambda _own, _other: True
    rates: Mapping[str, float] = field(default_factory=dict)
    rate: float = 1e9
    gain: float = 1.0
    broken: str = ""
    listening: dict[str, Standin] = field(default_factory=dict)
    loads: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)


class Standin:
    """A joiner of a node in some wiring."""

    def __init__(self, wiring: Wiring, node: int, secret: bytes) -> None:
        assert len(secret) == 32
        self.wiring, self.node, self.secret = wiring, node, secret
        self.places: list[str] = []
        self.came: dict[int, tuple[bool, str]] = {}
        self.joined: dict[int, tuple[int, str, str]] = {}
        self.dropped: list[int] = []
        self.kept: dict[int, int] = {}

    def listen(self, address: str) -> int:
        with self.wiring.changed:
            port = 1000 + len(self.wiring.listening)
            full = f"[{address}]" if ":" in address else address
            self._take(f"{full}:{port}")
            return port

    def listen_local(self, path: str) -> None:
        with self.wiring.changed:
            self._take(path)

    def join(self, cables: list[tuple[int, int, str, str, int]], timeout_s: float) -> list[tuple[int, str]]:
        until = time.monotonic() + min(timeout_s, WAIT_S)
        failed = []
        with self.wiring.changed:
            for number, neighbour, own, other, _ in cables:
                if not other:
                    continue
                at = self.wiring.listening.get(unzoned(other))
                is_joined = (
                    at is not None and at.secret == self.secret and self.wiring.reaches(plain(own), plain(other))
                )
                if at is not None:
                    assert at.node == neighbour
                    at.came[number] = is_joined, own
                    self.wiring.changed.notify_all()
                if is_joined:
                    self.joined[number] = neighbour, own, other
                else:
                    failed.append((number, "connection refused"))
            for number, neighbour, _, other, _ in cables:
                if other:
                    continue
                left = max(0.0, until - time.monotonic())
                self.wiring.changed.wait_for(lambda number=number: number in self.came, left)  # type: ignore[misc]
                is_joined, far = self.came.get(number, (False, ""))
                if is_joined:
                    self.joined[number] = neighbour, "", far
                else:
                    failed.append((number, "nobody joined it"))
        return failed

    def round_trips(self, cables: list[tuple[int, int]]) -> list[tuple[int, float]]:
        assert {number for number, _ in cables} == set(self.joined)
        return [(number, 2e-5) for number, neighbour in cables if self.node < neighbour]

    def keep(self, cable: int, streams: int) -> None:
        self.kept[cable] = streams

    def rates(self, cables: list[int], seconds: float, streams: int) -> list[tuple[int, float]]:
        assert 0 < seconds < 1
        self.wiring.loads.append((self.node, tuple(cables)))
        gain = self.wiring.gain if streams > 1 else 1.0
        found = []
        for number in cables:
            _, own, other = self.joined[number]
            sender = plain(other or own)
            if self.wiring.broken and self.wiring.broken in (sender, plain(own)):
                raise AntiphonError(f"cable {number} broke while it was probed: reset", "stalled")
            found.append((number, gain * self.wiring.rates.get(sender, self.wiring.rate)))
        return found

    def drop_cable(self, cable: int) -> None:
        self.dropped.append(cable)

    def wires(self, ports: list[tuple[int, int, int | None, int | None, str]]) -> Any:
        assert all(number in self.joined and self.joined[number][0] == neighbour for number, neighbour, *_ in ports)
        return ports

    def _take(self, place: str) -> None:
        self.places.append(place)
        self.wiring.listening[unzoned(place)] = self


def together(size: int, work: Callable[[int], Any]) -> list[Any]:
    """What each rank returns, or the error that it raises."""
    outcomes: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            outcomes[rank] = work(rank)
        except AntiphonError as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30
    for thread in threads:
        thread.join(until - time.monotonic())
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    return outcomes


def unzoned(place: str) -> str:
    """Where somebody listens, without the zone, which each end numbers by itself.

    >>> unzoned("[fe80::1%3]:80")
    '[fe80::1]:80'
    """
    return re.sub(r"%\d+", "", place)


def plain(address: str) -> str:
    """An address without port and zone.

    >>> plain("[fe80::1%3]:80"), plain("10.0.0.1%2:80"), plain("10.0.0.1")
    ('fe80::1', '10.0.0.1', '10.0.0.1')
    """
    if address.startswith("["):
        address = address[1:].partition("]")[0]
    elif address.count(":") == 1:
        address = address.partition(":")[0]
    return address.partition("%")[0]
