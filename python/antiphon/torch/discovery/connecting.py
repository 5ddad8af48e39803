"""From a rank and a store to joined cables and the fabric that they make."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from antiphon._core import Fabric, Joiner
from antiphon.errors import AntiphonError
from antiphon.torch.discovery import machine
from antiphon.torch.discovery.cables import Cable, End
from antiphon.torch.discovery.choosing import Choice, cables, choose, final
from antiphon.torch.discovery.findings import Finding, findings
from antiphon.torch.discovery.given import assigned, fabric_of, text_of
from antiphon.torch.discovery.joining import JoinerLike, JoinerMaker, join
from antiphon.torch.discovery.management import Port, management
from antiphon.torch.discovery.meeting import Meeting, StoreLike
from antiphon.torch.discovery.probing import FAST_BYTES_PER_S, Measured, probe
from antiphon.torch.discovery.records import Host, Record, check_alike, hosts_of, node_names
from antiphon.torch.discovery.saving import LOG, place, save
from antiphon.torch.discovery.settings import Settings
from antiphon.torch.discovery.subnets import Pair, pairs
from antiphon.torch.discovery.wiring import Links, check_connected, document, numbered

SECRET_BYTES = 32
TRY_S = 2.0
"""Ports that answer do so at once; the others never."""
JOIN_S = 5.0
"""Until a cable that should be there is given up."""


@dataclass(frozen=True)
class Connected:
    """A rank that is joined to its neighbours.

    Attributes:
        fabric: a node a rank, in their order; the same at all ranks.
        wires: the connections, for ``antiphon._core.Carrier``.
        findings: what was seen of each cable that was tried; the same at all ranks.
    """

    fabric: Fabric
    wires: Any
    findings: list[Finding]


def connect(store: StoreLike, rank: int, size: int, *, timeout_s: float, settings: Settings) -> Connected:
    """Finds the wiring of a job, joins its cables and measures them. All ranks call it.

    Args:
        store: of this job alone, in which all ranks meet.
        rank: of this process.
        size: number of ranks.
        timeout_s: all together takes no longer.
        settings: what the user asks.

    Raises:
        AntiphonError: ``stalled`` if ranks do not come or no cables join them, with their names; ``bad-spec`` for
            settings that differ between ranks; ``bad-file`` for a given fabric that is not what is there;
            ``missing-extra``.
    """
    meeting = Meeting(store, rank, size, timeout_s)
    with meeting.failing_together():
        return connect_as(machine.record(rank, settings), meeting, settings, Joiner)


def connect_as(record: Record, meeting: Meeting, settings: Settings, make: JoinerMaker) -> Connected:
    """As `connect`, for a host as it is described.

    Args:
        record: of this rank.
        meeting: of all ranks.
        settings: what the user asks.
        make: makes a joiner of a node and a secret.
    """
    rank = meeting.rank
    tried = try_cables(record, meeting, settings, make)
    hosts, joined = tried.hosts, tried.joined
    given = _given(meeting, settings)
    names = node_names(hosts, meeting.size)
    check_connected(names, hosts, tried.wanted, tried.failed, joined, tried.tries)
    measured: dict[int, Measured] = {}
    if given is None:
        measured = probe(tried.joiner, meeting, joined, settings.streams)
        text, links = _agreed(meeting, names, joined, measured), numbered(joined)
        fabric = Fabric.from_text(text, name=f"{meeting.size} ranks on {len(hosts)} hosts")
        if rank == 0:
            save(text, settings.save or place([host.name for host in hosts]))
    else:
        text, path = given
        fabric = fabric_of(text, path, meeting.size)
        links = assigned(fabric, path, joined)
        for cable in joined:
            rates = [fabric.links["rate_gb_per_s"][link] for link in links.get(cable.number, ()) if link is not None]
            if rank in cable.ranks and settings.streams is None and max(rates, default=0) * 1e9 < FAST_BYTES_PER_S:
                tried.joiner.keep(cable.number, 1)
    ports = [
        (cable.number, cable.neighbour(rank), *_ways(links, cable, rank), cable.name)
        for cable in joined
        if rank in cable.ranks and cable.number in links
    ]
    wires = tried.joiner.wires(ports)
    return Connected(fabric, wires, findings(tried.wanted, tried.failed, links, measured, tried.apart))


@dataclass(frozen=True)
class Tried:
    """What joins the ranks, before it is measured.

    Attributes:
        hosts: of the job.
        management: interfaces of the management network.
        joiner: that has the joined cables.
        make: makes another.
        wanted: cables that the addresses promise, with those within hosts.
        failed: of them those that did not come about, with the reason.
        tries: how many pairs of ports were tried whose addresses do not tell whether a cable joins them.
    """

    hosts: list[Host]
    management: set[Port]
    joiner: JoinerLike
    make: Callable[[], JoinerLike]
    wanted: list[Cable]
    failed: dict[int, str]
    tries: int

    @property
    def joined(self) -> list[Cable]:
        """Cables that came about."""
        return [cable for cable in self.wanted if cable.number not in self.failed]

    @property
    def apart(self) -> frozenset[tuple[str, str]]:
        """Hosts and interfaces of the management network, by name."""
        return frozenset((self.hosts[number].name, name) for number, name in self.management)


def try_cables(
    record: Record, meeting: Meeting, settings: Settings, make: JoinerMaker, *, is_tied: bool = False
) -> Tried:
    """The first half of `connect_as`: joins what the addresses promise, tied to the interfaces or not."""
    rank = meeting.rank
    if rank == 0:
        meeting.tell("secret", secrets.token_hex(SECRET_BYTES))
    records = _records(meeting.exchange("host", record.plain()))
    check_alike(records)
    secret = bytes.fromhex(meeting.hear("secret", 0))
    again = partial(make, rank, secret)
    hosts = hosts_of(records)
    shared = management(hosts)
    choice = choose(pairs(hosts), shared, with_management=settings.management)
    answering = answered(choice.tries, hosts, meeting, again(), "ports that may be joined")
    chosen = [replace(pair, is_try=pair.is_try or is_tied) for pair in final(choice, answering, hosts)]
    if rank == 0:
        _tell_unused(choice, chosen, hosts)
        # Hosts differ in their names, so a name must be known at one of them only.
        for unknown in sorted(settings.exclude - {name for each in records for name in each.excluded}):
            LOG.warning("ANTIPHON_EXCLUDE names %s, but no host has such an interface (ip link)", unknown)
    wanted = cables(hosts, chosen, shared_memory=settings.shared_memory)
    joiner = again()
    failed = join(joiner, meeting, wanted, JOIN_S, "cables", settings.streams)
    return Tried(hosts, shared, joiner, again, wanted, failed, len(choice.tries))


def _records(told: list[Any]) -> list[Record]:
    try:
        return [Record.from_plain(plain) for plain in told]
    except (TypeError, KeyError, AttributeError):
        what = "ranks tell each other things of different versions; use one version of Antiphon at all ranks"
        raise AntiphonError(what, "stalled") from None


def _tell_unused(choice: Choice, chosen: list[Pair], hosts: list[Host]) -> None:
    """A line of the log: networks that could carry data and do not."""
    unused = [
        " - ".join(f"{hosts[host].name} {port.name}" for host, port in zip(pair.hosts, pair.interfaces, strict=True))
        for pair in choice.management
        if pair not in chosen
    ]
    if unused:
        more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
        LOG.info("no data goes over the management network (%s%s); ANTIPHON_MANAGEMENT=1 uses it", unused[0], more)


def _given(meeting: Meeting, settings: Settings) -> tuple[str, str] | None:
    """The text and the path of the fabric that the user gives, as rank 0 reads it."""
    if settings.fabric is None:
        return None
    if meeting.rank == 0:
        meeting.tell("given fabric", [text_of(settings.fabric), str(settings.fabric)])
    text, path = meeting.hear("given fabric", 0)
    return text, path


def answered(tries: Sequence[Pair], hosts: Sequence[Host], meeting: Meeting, joiner: JoinerLike, what: str) -> set[int]:
    """Which of the pairs that may be cables are: the lowest rank of each host tries them with one connection each."""
    if not tries:
        return set()
    tried = []
    for number, pair in enumerate(tries):
        low, high = (
            End(hosts[host].ranks[0], hosts[host].name, interface, address, pair.is_try)
            for host, interface, address in zip(pair.hosts, pair.interfaces, pair.addresses, strict=True)
        )
        tried.append(Cable(number, low, high))
    return {cable.number for cable in tried} - set(join(joiner, meeting, tried, TRY_S, what, 1))


def _agreed(meeting: Meeting, names: list[str], joined: list[Cable], measured: dict[int, Measured]) -> str:
    """The text of the fabric as rank 0 makes it, so that no rank rounds otherwise."""
    if meeting.rank == 0:
        meeting.tell("fabric", document(names, joined, measured))
    return str(meeting.hear("fabric", 0))


def _ways(links: Links, cable: Cable, rank: int) -> tuple[int | None, int | None]:
    """The links that leave a rank over a cable and that come."""
    there, back = links[cable.number]
    return (there, back) if cable.low.rank == rank else (back, there)
