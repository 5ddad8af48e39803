"""What ``antiphon discover`` looks at beside what a job does: ports without a carrier, cables in other ports than the
addresses say, lost datagrams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_interface
from itertools import combinations, product

from antiphon._core import Joiner
from antiphon.torch.discovery import machine
from antiphon.torch.discovery.cables import Cable
from antiphon.torch.discovery.choosing import cables, matched
from antiphon.torch.discovery.connecting import JOIN_S, Tried, answered, try_cables
from antiphon.torch.discovery.datagrams import arrived
from antiphon.torch.discovery.findings import Finding, findings
from antiphon.torch.discovery.joining import JoinerMaker, join
from antiphon.torch.discovery.management import management
from antiphon.torch.discovery.meeting import Meeting, StoreLike
from antiphon.torch.discovery.probing import probe
from antiphon.torch.discovery.records import Host, Interface, Record
from antiphon.torch.discovery.saving import LOG
from antiphon.torch.discovery.settings import Settings
from antiphon.torch.discovery.subnets import Pair, common, pairs
from antiphon.torch.discovery.wiring import numbered, reached

MOST_TRIES = 4096
"""Pairs of ports without a cable that are tried with each other."""


@dataclass(frozen=True)
class Examined:
    """The wiring of a job.

    Attributes:
        hosts: in order.
        findings: of each cable that was tried, and of those in other ports than the addresses say.
        unplugged: pairs of ports that addresses join and of which one has no carrier.
        parts: names of the hosts that cables join to each other; more than one where the wiring falls apart.
    """

    hosts: list[Host]
    findings: list[Finding]
    unplugged: list[Pair]
    parts: list[list[str]]


def examine(store: StoreLike, rank: int, size: int, *, timeout_s: float, settings: Settings) -> Examined:
    """Finds the wiring of a job and what is odd about it. All ranks call it; arguments and errors as `connect`."""
    meeting = Meeting(store, rank, size, timeout_s)
    with meeting.failing_together():
        return examine_as(machine.record(rank, settings), meeting, settings, Joiner)


def examine_as(record: Record, meeting: Meeting, settings: Settings, make: JoinerMaker) -> Examined:
    """As `examine`, for a host as it is described."""
    # Linux answers for an address at any port, so that a swapped cable seems right unless connections keep to ports.
    tried = try_cables(record, meeting, settings, make, is_tied=True)
    strays = _strays(tried, meeting, settings)
    joined = tried.joined + strays
    came = arrived(meeting, joined)
    # What lets no full-sized packet through would stop the others, too.
    sound = [cable for cable in joined if cable.kind != "network" or came[cable.number].is_sound]
    measured = probe(tried.joiner, meeting, sound, settings.streams)
    links = numbered(tried.joined)
    found = findings(tried.wanted + strays, tried.failed, links, measured, tried.apart, came, strays)
    return Examined(tried.hosts, found, unplugged(tried.hosts), _parts(tried.hosts, tried.joined))


def _strays(tried: Tried, meeting: Meeting, settings: Settings) -> list[Cable]:
    """Cables between ports that no cable joined, whatever their addresses; they are joined, too."""
    taken = {end.port for cable in tried.joined for end in cable.ends} | tried.apart
    free = [[port for port in host.interfaces if (host.name, port.name) not in taken] for host in tried.hosts]
    tries = [
        Pair((low.number, high.number), ports, addresses, is_try=True)
        for low, high in combinations(tried.hosts, 2)
        for ports in product(free[low.number], free[high.number])
        for addresses in _addresses(*ports)
    ]
    if len(tries) > MOST_TRIES and meeting.rank == 0:
        LOG.warning("of %s pairs of ports without a cable only the first %s are tried", len(tries), MOST_TRIES)
    tries = tries[:MOST_TRIES]
    there = answered(tries, tried.hosts, meeting, tried.make(), "ports without a cable")
    chosen = matched([tries[place] for place in sorted(there)])
    made = [cable for cable in cables(tried.hosts, chosen, shared_memory=True) if cable.kind == "network"]
    first = len(tried.wanted)
    strays = [replace(cable, number=first + place) for place, cable in enumerate(made)]
    failed = join(tried.joiner, meeting, strays, JOIN_S, "cables in other ports", settings.streams)
    return [cable for cable in strays if cable.number not in failed]


def _addresses(first: Interface, second: Interface) -> Iterator[tuple[str, str]]:
    """One of each that a connection which keeps to both ports may use: of links, or else any two alike."""
    alike = common(first, second, is_local=True)
    if alike is not None:
        yield alike
        return
    for own, other in product(first.addresses, second.addresses):
        low, high = ip_interface(own).ip, ip_interface(other).ip
        if low.version == high.version and low != high and not low.is_link_local and not high.is_link_local:
            yield str(low), str(high)
            return


def unplugged(hosts: Sequence[Host]) -> list[Pair]:
    """Pairs of ports that addresses join and of which one has no carrier; of a port with link-local ones, one."""
    every = [replace(host, interfaces=host.interfaces + host.unplugged) for host in hosts]
    apart = management(every)
    found, seen = [], Counter[tuple[int, str]]()
    for pair in pairs(every):
        ports = list(zip(pair.hosts, pair.interfaces, strict=True))
        dark = [(number, port.name) for number, port in ports if port in hosts[number].unplugged]
        if dark and not apart.intersection((number, port.name) for number, port in ports):
            if not pair.is_local or not seen[dark[0]]:
                found.append(pair)
            seen.update(dark)
    return found


def _parts(hosts: Sequence[Host], joined: Sequence[Cable]) -> list[list[str]]:
    """The hosts that cables join, in order."""
    found: list[list[str]] = []
    for host in hosts:
        if not any(host.name in part for part in found):
            there = reached(host.ranks[0], joined)
            found.append([each.name for each in hosts if there.intersection(each.ranks)])
    return found
