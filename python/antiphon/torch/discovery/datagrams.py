"""Datagrams at a low rate over each cable: how many are lost, and whether full-sized ones pass.

TCP hides what is lost, and loses some itself when it fills a cable; few datagrams on an idle cable are lost by the
cable alone.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from antiphon.torch.discovery.cables import Cable, End, zoned
from antiphon.torch.discovery.meeting import Meeting

COUNT, PAUSE_S = 600, 0.002
"""Small ones each way, and the time between them. Of a cable that loses 5 %, more than 1 % of them are lost but once in
100,000 tries."""
EVERY = 20
"""So many small ones for one of full size."""
SETTLE_S = 0.2
HEAD = struct.Struct("!8sI")
MAGIC = b"antiphon"
HEADERS_BYTES = {socket.AF_INET: 28, socket.AF_INET6: 48}
"""Of IP and UDP."""
WHOLE = {socket.AF_INET: (socket.IPPROTO_IP, 10, 2), socket.AF_INET6: (socket.IPPROTO_IPV6, 23, 2)}
"""Options of Linux by which packets are not cut: IP_MTU_DISCOVER, IPV6_MTU_DISCOVER; always."""
BUFFER_BYTES, MOST_BYTES = 4 << 20, (1 << 16) - 1
"""Of a socket's queue, and of a packet of IP."""


@dataclass
class Arrived:
    """What came over a cable: there, to the end with the higher rank, and back.

    Attributes:
        small: parts of the small datagrams.
        whole: parts of those as large as the MTU allows.
    """

    small: list[float] = field(default_factory=lambda: [0.0, 0.0])
    whole: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def is_sound(self) -> bool:
        """Whether full-sized packets come wherever small ones do. Where none do, a firewall may stop them.

        >>> Arrived([0.0, 0.0], [0.0, 0.0]).is_sound, Arrived([1.0, 1.0], [1.0, 0.0]).is_sound
        (True, False)
        """
        return all(whole or not small for small, whole in zip(self.small, self.whole, strict=True))


def arrived(meeting: Meeting, cables: Sequence[Cable]) -> dict[int, Arrived]:
    """Sends datagrams both ways over all cables between hosts; all ranks call it with the same.

    Returns:
        What came over each.
    """
    rank = meeting.rank
    own = [cable for cable in cables if rank in cable.ranks and cable.kind == "network"]
    ends = {cable.number: _Port(cable.end(rank), cable.end(cable.neighbour(rank))) for cable in own}
    try:
        ports = meeting.exchange("datagrams: ports", {number: end.number for number, end in ends.items()})
        for cable in own:
            ends[cable.number].connect(ports[cable.neighbour(rank)][str(cable.number)])
        meeting.barrier("datagrams: ready")
        start = time.monotonic()
        for turn in range(COUNT):
            for end in ends.values():
                end.send(turn)
                end.receive()
            time.sleep(max(0.0, start + (turn + 1) * PAUSE_S - time.monotonic()))
        meeting.barrier("datagrams: sent")
        time.sleep(SETTLE_S)
        for end in ends.values():
            end.receive()
    finally:
        for end in ends.values():
            end.close()
    found = {cable.number: Arrived() for cable in cables if cable.kind == "network"}
    highs = {cable.number: cable.high.rank for cable in cables}
    for of, told in enumerate(meeting.exchange("datagrams: came", {number: end.came for number, end in ends.items()})):
        for text, (small, whole) in told.items():
            way = int(of != highs[int(text)])
            found[int(text)].small[way] = small / COUNT
            found[int(text)].whole[way] = whole * EVERY / COUNT
    return found


class _Port:
    """A socket at an end of a cable; what cannot be sent or received is lost."""

    def __init__(self, own: End, other: End) -> None:
        self._own, self._other = own, other
        self._family = socket.AF_INET6 if ":" in own.address else socket.AF_INET
        mtu_bytes = min(MOST_BYTES, *(end.interface.mtu_bytes for end in (own, other) if end.interface))
        self._whole = bytes(mtu_bytes - HEADERS_BYTES[self._family] - HEAD.size)
        self._came: tuple[set[int], set[int]] = (set(), set())
        self._socket = socket.socket(self._family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._socket.setsockopt(*WHOLE[self._family])
        self.number = 0
        with suppress(OSError):
            if own.is_tied and own.interface:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, own.interface.name.encode())
            self._socket.bind(self._at(own.address, 0))
            self.number = self._socket.getsockname()[1]

    @property
    def came(self) -> tuple[int, int]:
        """How many small and how many whole ones."""
        return len(self._came[0]), len(self._came[1])

    def connect(self, port: int) -> None:
        """Only the other end's datagrams come from now on."""
        with suppress(OSError):
            self._socket.connect(self._at(self._other.address, port))

    def send(self, turn: int) -> None:
        head = HEAD.pack(MAGIC, turn)
        for more in (b"", self._whole) if turn % EVERY == 0 else (b"",):
            with suppress(OSError):
                self._socket.send(head + more)

    def receive(self) -> None:
        """Takes what has come."""
        with suppress(OSError):
            while True:
                got = self._socket.recv(1 << 16)
                if len(got) >= HEAD.size and got.startswith(MAGIC):
                    self._came[len(got) > HEAD.size].add(HEAD.unpack_from(got)[1])

    def close(self) -> None:
        self._socket.close()

    def _at(self, address: str, port: int) -> tuple[str, int]:
        return zoned(self._own, address) if self._family == socket.AF_INET6 else address, port
