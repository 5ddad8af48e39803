"""A cable: what joins two ranks directly."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from antiphon.torch.discovery.records import Interface

Kind = Literal["network", "memory", "loopback"]
LABELS: dict[Kind, str] = {"memory": "shm", "loopback": "lo"}
"""Labels of links that have no interface."""
SEVERAL_STREAMS = 4
"""Connections of a cable at first: one alone does not fill a fast one, as one thread of the kernel copies its bytes."""


@dataclass(frozen=True)
class End:
    """One end of a cable.

    Attributes:
        rank: that it belongs to.
        host: the name of its host.
        interface: None within a host.
        address: without mask and zone; "" for shared memory.
        is_tied: whether connections must keep to the interface, because the address does not tell which one it is.
    """

    rank: int
    host: str
    interface: Interface | None
    address: str
    is_tied: bool = False

    @property
    def port(self) -> tuple[str, str]:
        """The names of its host and its interface; "" within a host."""
        return self.host, self.interface.name if self.interface else ""

    @property
    def key(self) -> str:
        """Where it listens, as its host knows it."""
        return f"{self.port[1]} {self.address}"

    @property
    def label(self) -> str:
        """For people: host, interface, address."""
        name = self.interface.name if self.interface else f"rank {self.rank}"
        return " ".join(part for part in (self.host, name, self.address) if part)


@dataclass(frozen=True)
class Cable:
    """Two ends, the one with the lower rank first; the other one listens.

    Attributes:
        number: equal at both ends.
        low: the end that connects.
        high: the end that listens.
        kind: over a network, through memory, or over loopback.
    """

    number: int
    low: End
    high: End
    kind: Kind = "network"

    @property
    def name(self) -> str:
        """For people.

        >>> end = End(0, "a", Interface("eth1", ("10.0.0.1/30",)), "10.0.0.1")
        >>> Cable(0, end, End(1, "b", Interface("eth0", ("10.0.0.2/30",)), "10.0.0.2")).name
        'a eth1 10.0.0.1 - b eth0 10.0.0.2'
        """
        more = ", shared memory" if self.kind == "memory" else ""
        return f"{self.low.label} - {self.high.label}{more}"

    @property
    def ends(self) -> tuple[End, End]:
        """Both."""
        return self.low, self.high

    @property
    def ranks(self) -> tuple[int, int]:
        """The ranks that it joins."""
        return self.low.rank, self.high.rank

    def end(self, rank: int) -> End:
        """That of a rank."""
        return self.low if self.low.rank == rank else self.high

    def neighbour(self, rank: int) -> int:
        """The rank at the other end."""
        return self.high.rank if self.low.rank == rank else self.low.rank

    def dimension(self, rank: int) -> str:
        """The label of the link that leaves a rank."""
        interface = self.end(rank).interface
        return interface.name if interface else LABELS.get(self.kind, self.kind)

    def streams(self, asked: int | None) -> int:
        """How many connections it is made of until it is measured."""
        if self.kind != "network":
            return 1
        return asked or SEVERAL_STREAMS


def zoned(end: End, address: str) -> str:
    """An address as this host, which has that end, writes it: with the number of the interface where it needs one.

    Raises:
        OSError: the interface is gone.
    """
    if end.interface is None or not (end.is_tied or ip_address(address).is_link_local):
        return address
    return f"{address}%{socket.if_nametoindex(end.interface.name)}"


def remote(end: End, address: str, port: int) -> str:
    """Where the other end listens, as this host, which has `end`, writes it.

    >>> remote(End(0, "a", None, ""), "2001:db8::1", 80)
    '[2001:db8::1]:80'

    Raises:
        OSError: the interface is gone.
    """
    full = zoned(end, address)
    return f"[{full}]:{port}" if ":" in full else f"{full}:{port}"
