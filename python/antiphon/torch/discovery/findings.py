"""What discovery saw of each cable, for people and for messages that name a link."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from antiphon.torch.discovery.cables import Cable
from antiphon.torch.discovery.datagrams import Arrived
from antiphon.torch.discovery.probing import Measured
from antiphon.torch.discovery.wiring import Links

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """A cable that was tried. Pairs are of the end with the lower rank and the other; of rates, there and back.

    Attributes:
        name: for people, with hosts, interfaces and addresses.
        kind: ``network``, ``memory`` or ``loopback``.
        ranks: that it joins.
        hosts: their names.
        interfaces: their names; "" within a host.
        addresses: at which it is joined; "" for memory.
        mtus_bytes: of the interfaces; 0 within a host.
        speeds_mbit: what the interfaces say of themselves; 0 for nothing.
        links: numbers in the fabric, there and back; None where the fabric does not use it.
        is_management: whether it runs over the management network.
        round_trip_s: the least; 0 if it was not measured.
        at_once_bytes_per_s: while all cables were loaded; zeros if not measured.
        alone_bytes_per_s: while no other cable of its ranks was; zeros if not measured.
        trouble: why it is not joined; "" if it is.
        lost: parts of small datagrams that did not come; zeros if none were sent.
        is_whole: whether packets of full size came.
        is_stray: whether it joins other ports than the addresses say.
    """

    name: str
    kind: str
    ranks: tuple[int, int]
    hosts: tuple[str, str]
    interfaces: tuple[str, str]
    addresses: tuple[str, str]
    mtus_bytes: tuple[int, int]
    speeds_mbit: tuple[int, int]
    links: tuple[int | None, int | None]
    is_management: bool
    round_trip_s: float
    at_once_bytes_per_s: tuple[float, float]
    alone_bytes_per_s: tuple[float, float]
    trouble: str
    lost: tuple[float, float] = (0.0, 0.0)
    is_whole: tuple[bool, bool] = (True, True)
    is_stray: bool = False

    @property
    def rates(self) -> tuple[float, float]:
        """What each way carries, in bytes a second."""
        return _pair([max(pair) for pair in zip(self.at_once_bytes_per_s, self.alone_bytes_per_s, strict=True)])


def findings(
    cables: Sequence[Cable],
    failed: Mapping[int, str],
    links: Links,
    measured: Mapping[int, Measured],
    management: frozenset[tuple[str, str]],
    came: Mapping[int, Arrived] | None = None,
    strays: Collection[Cable] = (),
) -> list[Finding]:
    """One for each cable.

    Args:
        cables: that were tried.
        failed: why some did not come about.
        links: of the others.
        measured: of the others, unless the user gave a fabric.
        management: hosts' names and interfaces of the management network.
        came: of datagrams, if any were sent.
        strays: those of the cables that join other ports than the addresses say.
    """
    found = []
    for cable in cables:
        ends = (cable.low, cable.high)
        number = measured.get(cable.number, Measured())
        arrived = (came or {}).get(cable.number, Arrived([1.0, 1.0], [1.0, 1.0]))
        found.append(
            Finding(
                cable.name,
                cable.kind,
                cable.ranks,
                (cable.low.host, cable.high.host),
                _pair([end.interface.name if end.interface else "" for end in ends]),
                (cable.low.address, cable.high.address),
                _pair([end.interface.mtu_bytes if end.interface else 0 for end in ends]),
                _pair([end.interface.speed_mbit if end.interface else 0 for end in ends]),
                links.get(cable.number, (None, None)),
                any(end.interface is not None and (end.host, end.interface.name) in management for end in ends),
                number.round_trip_s,
                _pair(number.at_once),
                _pair(number.alone),
                failed.get(cable.number, ""),
                _pair([1 - part for part in arrived.small]),
                _pair([part > 0 for part in arrived.whole]),
                cable in strays,
            )
        )
    return found


def _pair(values: Sequence[T]) -> tuple[T, T]:
    first, second = values
    return first, second
