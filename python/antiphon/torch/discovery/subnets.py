"""Which interfaces of two hosts may be joined by a cable: those with a common subnet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_interface

from antiphon.torch.discovery.records import Host, Interface

Subnet = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Pair:
    """Two interfaces that may be joined, the first of the host with the lower number.

    Attributes:
        hosts: their numbers.
        interfaces: one of each.
        addresses: one of each, without mask and zone.
        is_local: whether the addresses are of links only, which say nothing of the wiring.
        is_try: whether only an answer tells that it is a cable.
    """

    hosts: tuple[int, int]
    interfaces: tuple[Interface, Interface]
    addresses: tuple[str, str]
    is_local: bool = False
    is_try: bool = False


def of(address: str) -> Subnet | None:
    """The subnet of an address with its mask, if others can be in it; none for addresses of links.

    >>> of("10.0.0.1/30"), of("10.0.0.1/32"), of("fe80::1/64")
    (IPv4Network('10.0.0.0/30'), None, None)
    """
    parsed = ip_interface(address)
    single = parsed.network.prefixlen == parsed.network.max_prefixlen
    return None if single or parsed.ip.is_link_local else parsed.network


def subnets(interface: Interface) -> list[Subnet]:
    """Those of an interface, addresses of links left out."""
    return [found for found in map(of, interface.addresses) if found is not None]


def common(first: Interface, second: Interface, *, is_local: bool) -> tuple[str, str] | None:
    """An address of each in the same subnet, IPv4 before IPv6; None if they have none.

    Addresses of links hold on any link; of them, IPv6 first, whose zone says which interface is meant.

    >>> second = Interface("eth1", ("fe80::2/64", "10.0.0.2/24"))
    >>> common(Interface("eth0", ("10.0.0.1/24",)), second, is_local=False)
    ('10.0.0.1', '10.0.0.2')
    """
    for version in (6, 4) if is_local else (4, 6):
        for own in _addresses(first, version, is_local):
            for other in _addresses(second, version, is_local):
                # Equal addresses are of bridges within each host.
                if own.network == other.network and own.ip != other.ip:
                    return str(own.ip), str(other.ip)
    return None


def pairs(hosts: Sequence[Host]) -> list[Pair]:
    """All pairs of interfaces that may be joined, in the order of hosts and interfaces.

    Addresses of links count only at interfaces that have no subnet in common with any other host.
    """
    sure = _all(hosts, is_local=False)
    placed = {(host, each.name) for pair in sure for host, each in zip(pair.hosts, pair.interfaces, strict=True)}
    local = [
        pair
        for pair in _all(hosts, is_local=True)
        if not any((host, each.name) in placed for host, each in zip(pair.hosts, pair.interfaces, strict=True))
    ]
    return sure + local


def _all(hosts: Sequence[Host], is_local: bool) -> list[Pair]:
    found = []
    for low in hosts:
        for high in hosts[low.number + 1 :]:
            for first in low.interfaces:
                for second in high.interfaces:
                    addresses = common(first, second, is_local=is_local)
                    if addresses is not None:
                        found.append(Pair((low.number, high.number), (first, second), addresses, is_local))
    return found


def _addresses(interface: Interface, version: int, is_local: bool) -> list[IPv4Interface | IPv6Interface]:
    parsed = [ip_interface(each) for each in interface.addresses]
    return [
        each
        for each in parsed
        if each.version == version
        and each.ip.is_link_local == is_local
        and each.network.prefixlen < each.network.max_prefixlen
    ]
