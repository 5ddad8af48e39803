"""What a rank tells the others about its host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from antiphon.errors import AntiphonError


@dataclass(frozen=True)
class Interface:
    """A network interface that is up.

    Attributes:
        name: as the host calls it.
        addresses: with their masks and without zones: ``10.0.0.1/24``, ``fe80::1/64``.
        speed_mbit: what it says of itself, in Mbit/s; 0 if nothing.
        mtu_bytes: its largest packet.
    """

    name: str
    addresses: tuple[str, ...]
    speed_mbit: int = 0
    mtu_bytes: int = 1500


@dataclass(frozen=True)
class Record:
    """A rank and the host that it runs on.

    Attributes:
        rank: in the job.
        identity: equal at ranks that share a host, its network and its memory, and at no others.
        host: the host's name.
        interfaces: that may be used.
        toward_master: the address of this host by which it reaches the rendezvous; "" if that is unknown or itself.
        settings: variables that all ranks must have alike.
        excluded: interfaces that are left alone because the user says so.
        unplugged: those that have an address and no carrier.
        default_route: the interface that leads to all other addresses; "" for none.
    """

    rank: int
    identity: str
    host: str
    interfaces: tuple[Interface, ...]
    toward_master: str
    settings: dict[str, str]
    excluded: tuple[str, ...] = ()
    unplugged: tuple[Interface, ...] = ()
    default_route: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Record:
        """What `plain` made."""
        ports = {
            key: tuple(Interface(**{**each, "addresses": tuple(each["addresses"])}) for each in plain[key])
            for key in ("interfaces", "unplugged")
        }
        return cls(**{**plain, **ports, "excluded": tuple(plain["excluded"])})


@dataclass(frozen=True)
class Host:
    """A host of the job.

    Attributes:
        number: in the order of the lowest ranks.
        name: different at every host.
        ranks: that run on it, in order.
        interfaces: in the order of their names.
        toward_master: as in `Record`.
        unplugged: as in `Record`.
        default_route: as in `Record`.
    """

    number: int
    name: str
    ranks: tuple[int, ...]
    interfaces: tuple[Interface, ...]
    toward_master: str
    unplugged: tuple[Interface, ...] = ()
    default_route: str = ""


def check_alike(records: Sequence[Record]) -> None:
    """Refuses variables that differ between ranks.

    Raises:
        AntiphonError: ``bad-spec``, naming the variable and two ranks.
    """
    first = records[0]
    for record in records[1:]:
        for variable, value in first.settings.items():
            other = record.settings.get(variable, "unknown")
            if other != value:
                what = f"{variable} is {value} at rank {first.rank} ({first.host}), {other} at rank {record.rank}"
                raise AntiphonError(f"{what} ({record.host}); set it alike at all ranks", "bad-spec")


def hosts_of(records: Sequence[Record]) -> list[Host]:
    """The hosts of all ranks; what a host has is what its lowest rank saw, so that all ranks decide alike."""
    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda each: each.rank):
        found.setdefault(record.identity, []).append(record)
    names = unique([group[0].host for group in found.values()])
    return [
        Host(
            number,
            name,
            tuple(each.rank for each in group),
            tuple(sorted(group[0].interfaces, key=lambda each: natural(each.name))),
            group[0].toward_master,
            tuple(sorted(group[0].unplugged, key=lambda each: natural(each.name))),
            group[0].default_route,
        )
        for number, (name, group) in enumerate(zip(names, found.values(), strict=True))
    ]


def node_names(hosts: Sequence[Host], size: int) -> list[str]:
    """Names of the ranks: of the host, with a number where it has several.

    >>> node_names([Host(0, "a", (0, 1), (), ""), Host(1, "b", (2,), (), "")], 3)
    ['a.0', 'a.1', 'b']
    """
    names = [""] * size
    for host in hosts:
        for place, rank in enumerate(host.ranks):
            names[rank] = host.name if len(host.ranks) == 1 else f"{host.name}.{place}"
    return unique(names)


def unique(names: Sequence[str]) -> list[str]:
    """Names with a number behind those that were there already.

    >>> unique(["a", "a", "a-2", "b"])
    ['a', 'a-2', 'a-2-2', 'b']
    """
    taken: list[str] = []
    for wanted in names:
        kept = "".join(each if each.isprintable() else "?" for each in wanted)[:100] or "host"
        name, number = kept, 2
        while name in taken:
            name, number = f"{kept}-{number}", number + 1
        taken.append(name)
    return taken


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which eth2 comes before eth10."""
    parts: list[str] = []
    for each in name:
        if parts and parts[-1][-1].isdecimal() == each.isdecimal():
            parts[-1] += each
        else:
            parts.append(each)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
