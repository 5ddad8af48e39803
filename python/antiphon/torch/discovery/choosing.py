"""From pairs of interfaces to the cables that are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from antiphon.torch.discovery.cables import Cable, End, Kind
from antiphon.torch.discovery.management import Port
from antiphon.torch.discovery.records import Host, natural
from antiphon.torch.discovery.subnets import Pair


@dataclass(frozen=True)
class Choice:
    """What is known of the wiring before anything is joined.

    Attributes:
        sure: pairs that addresses alone tell to be cables.
        tries: pairs that may be cables; those that answer are.
        management: pairs of the management network.
    """

    sure: tuple[Pair, ...]
    tries: tuple[Pair, ...]
    management: tuple[Pair, ...]


def choose(pairs: Sequence[Pair], shared: Collection[Port], *, with_management: bool) -> Choice:
    """Sorts pairs of interfaces.

    Args:
        pairs: all that may be joined.
        shared: interfaces of the management network.
        with_management: whether it carries data like any cable.
    """
    apart = set() if with_management else set(shared)
    management = [pair for pair in pairs if any(port in apart for port in _ports(pair))]
    rest = [pair for pair in pairs if not any(port in apart for port in _ports(pair))]
    # Of several partners at one host only one is at the other end of the cable; over a switch all are, and any will do.
    partners = Counter((port, _other(pair, port)) for pair in rest for port in _ports(pair))

    def is_sure(pair: Pair) -> bool:
        if pair.is_local:
            return False
        return all(port in shared or partners[port, _other(pair, port)] == 1 for port in _ports(pair))

    sure = [pair for pair in rest if is_sure(pair)]
    tries = [replace(pair, is_try=True) for pair in rest if not is_sure(pair)]
    return Choice(matched(sure), tuple(tries), matched(sorted(management, key=_slowest_last)))


def final(choice: Choice, answered: Iterable[int], hosts: Sequence[Host]) -> list[Pair]:
    """The pairs that are joined.

    Args:
        choice: what was known.
        answered: places in `choice.tries` of those that answered.
        hosts: of the job. One that nothing else joins to the others uses the management network.
    """
    found = [*choice.sure, *matched([choice.tries[place] for place in sorted(answered)])]
    joined = {number for pair in found for number in pair.hosts}
    alone = {host.number for host in hosts} - joined
    return found + [pair for pair in choice.management if alone & set(pair.hosts)]


def matched(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Pairs such that no interface has two partners at the same host, the first of each."""
    taken: set[tuple[Port, int]] = set()
    kept = []
    for pair in pairs:
        wanted = {(port, _other(pair, port)) for port in _ports(pair)}
        if not wanted & taken:
            taken |= wanted
            kept.append(pair)
    return tuple(kept)


def cables(hosts: Sequence[Host], pairs: Sequence[Pair], *, shared_memory: bool) -> list[Cable]:
    """The cables between ranks, numbered from 0.

    Pairs of interfaces come first, in the order of hosts and interfaces, then pairs of ranks of one host. A host with
    several ranks gives its cables to them in turn.
    """
    turns: Counter[int] = Counter()
    found: list[tuple[End, End, Kind]] = []
    for pair in sorted(pairs, key=_order):
        ends = []
        for number, interface, address in zip(pair.hosts, pair.interfaces, pair.addresses, strict=True):
            ranks = hosts[number].ranks
            rank = ranks[turns[number] % len(ranks)]
            ends.append(End(rank, hosts[number].name, interface, address, pair.is_try))
            turns[number] += 1
        low, high = sorted(ends, key=lambda end: end.rank)
        found.append((low, high, "network"))
    kind: Kind = "memory" if shared_memory else "loopback"
    for host in hosts:
        within = [End(rank, host.name, None, "" if shared_memory else "127.0.0.1") for rank in host.ranks]
        found.extend((low, high, kind) for place, low in enumerate(within) for high in within[place + 1 :])
    return [Cable(number, low, high, of) for number, (low, high, of) in enumerate(found)]


def _ports(pair: Pair) -> tuple[Port, Port]:
    (first, second), (one, other) = pair.hosts, pair.interfaces
    return (first, one.name), (second, other.name)


def _other(pair: Pair, port: Port) -> int:
    return pair.hosts[1] if pair.hosts[0] == port[0] else pair.hosts[0]


def _slowest_last(pair: Pair) -> int:
    return -min(each.speed_mbit for each in pair.interfaces)


def _order(pair: Pair) -> tuple[object, ...]:
    return pair.hosts, *(natural(each.name) for each in pair.interfaces)
