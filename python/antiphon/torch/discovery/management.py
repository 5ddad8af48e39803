"""Which interfaces belong to the management network, over which hosts are reached but no data should go."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_interface

from antiphon.torch.discovery.records import Host
from antiphon.torch.discovery.subnets import Subnet, subnets

Port = tuple[int, str]
"""The number of a host and the name of its interface."""


def management(hosts: Sequence[Host]) -> set[Port]:
    """The interfaces of the management network.

    A cable joins two hosts. So a subnet that more than two hosts share, most of them by one interface, is no cable.
    Between two hosts it is the interface of the default route, which no cable has; or else that by which the
    rendezvous is reached.
    """
    if len(hosts) == 2 and all(host.default_route for host in hosts):
        return {(host.number, host.default_route) for host in hosts}
    if len(hosts) == 2:
        return {(host.number, each.name) for host in hosts for each in host.interfaces if _holds(host, each.addresses)}
    members: dict[Subnet, list[Port]] = {}
    for host in hosts:
        for interface in host.interfaces:
            for subnet in dict.fromkeys(subnets(interface)):
                members.setdefault(subnet, []).append((host.number, interface.name))
    found: set[Port] = set()
    for ports in members.values():
        counts = [sum(host.number == number for number, _ in ports) for host in hosts]
        sharing = [count for count in counts if count]
        if len(sharing) > 2 and 2 * sharing.count(1) > len(sharing):
            found.update(ports)
    return found


def _holds(host: Host, addresses: Sequence[str]) -> bool:
    return host.toward_master in [str(ip_interface(each).ip) for each in addresses]
