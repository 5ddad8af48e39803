"""The fabric that joined cables make."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite

from antiphon.errors import AntiphonError
from antiphon.torch.discovery.cables import Cable
from antiphon.torch.discovery.probing import Measured, levelled
from antiphon.torch.discovery.records import Host

DIGITS = 3
"""Of measured numbers; more of them would be noise."""
LEAST_RATE = 1e-9
"""In GB/s, of a cable over which nothing came while it was measured."""
SHOWN = 6
"""Cables and interfaces that an error names."""

Links = dict[int, tuple[int | None, int | None]]
"""Of each cable the links there, to the higher rank, and back."""


def document(names: Sequence[str], cables: Sequence[Cable], measured: Mapping[int, Measured]) -> str:
    """The fabric as JSON, schema antiphon-fabric/1: a node a rank, two links a cable, there and back."""
    links: list[dict[str, object]] = []
    rates, trips = levelled(cables, measured), _trips(cables, measured)
    for cable in cables:
        for way, (start, end) in enumerate([cable.ranks, cable.ranks[::-1]]):
            links.append(
                {
                    "from": start,
                    "to": end,
                    "rate_gb_per_s": max(LEAST_RATE, rounded(rates[cable.number][way] / 1e9)),
                    "latency_ns": rounded(trips[cable.number] / 2 * 1e9),
                    "dimension": cable.dimension(start),
                    "both": False,
                }
            )
    nodes = ",\n".join(f"    {json.dumps({'name': name})}" for name in names)
    lines = ",\n".join(f"    {json.dumps(link)}" for link in links)
    return f'{{\n  "schema": "antiphon-fabric/1",\n  "nodes": [\n{nodes}\n  ],\n  "links": [\n{lines}\n  ]\n}}\n'


def numbered(cables: Sequence[Cable]) -> Links:
    """The links of cables in the order of `document`."""
    return {cable.number: (2 * place, 2 * place + 1) for place, cable in enumerate(cables)}


def rounded(number: float) -> float:
    """A number with few digits.

    >>> rounded(24.98765), rounded(float("inf"))
    (25.0, 0.0)
    """
    return float(f"{number:.{DIGITS}g}") if isfinite(number) else 0.0


def check_connected(
    names: Sequence[str],
    hosts: Sequence[Host],
    cables: Sequence[Cable],
    failed: Mapping[int, str],
    joined: Sequence[Cable],
    tries: int = 0,
) -> None:
    """Refuses ranks that cables do not join, directly or over others.

    Args:
        names: of the ranks.
        hosts: of the job.
        cables: that were tried.
        failed: those that did not come about, with the reason.
        joined: the others.
        tries: pairs of ports that might have been cables and were tried.

    Raises:
        AntiphonError: ``stalled``, with both parts and what was tried.
    """
    part = reached(0, joined)
    rest = [rank for rank in range(len(names)) if rank not in part]
    if not rest:
        return
    other = reached(rest[0], joined)
    tried = [
        f"{cable.name}: {failed.get(cable.number, 'not joined')}"
        for cable in cables
        if len({rank in part for rank in cable.ranks}) == 2
    ]
    if not tried:
        ports = [_ports(host) for host in hosts if len(hosts) <= SHOWN or set(host.ranks) & {0, rest[0]}]
        tried = [f"no interface of one part shares a subnet with one of the other: {'; '.join(ports)}"]
    if tries:
        tried.append(f"{tries} pairs of ports were tried whose addresses do not tell whether a cable joins them")
    what = f"no cable joins {_listed(names, part)} to {_listed(names, other)}; tried: {_few(tried)}"
    how = "check cables and addresses (ip address), or let ANTIPHON_MANAGEMENT=1 use the management network"
    if any(set(host.ranks) & part and set(host.ranks) & other for host in hosts):
        how = "ranks of one host need a temporary folder in common; ANTIPHON_SHARED_MEMORY=0 joins them over 127.0.0.1"
    raise AntiphonError(f"{what}; {how}", "stalled")


def reached(start: int, joined: Sequence[Cable]) -> set[int]:
    """The ranks that cables lead to from one, itself too."""
    neighbours: dict[int, set[int]] = {}
    for cable in joined:
        low, high = cable.ranks
        neighbours.setdefault(low, set()).add(high)
        neighbours.setdefault(high, set()).add(low)
    found, waiting = {start}, [start]
    while waiting:
        for rank in neighbours.get(waiting.pop(), set()) - found:
            found.add(rank)
            waiting.append(rank)
    return found


def _trips(cables: Sequence[Cable], measured: Mapping[int, Measured]) -> dict[int, float]:
    """Round trips in seconds; within a host that of its fastest cable, for they are all the same."""
    found = {cable.number: measured[cable.number].round_trip_s for cable in cables}
    least: dict[str, float] = {}
    for cable in cables:
        if cable.kind != "network":
            least[cable.low.host] = min(found[cable.number], least.get(cable.low.host, float("inf")))
    return {
        cable.number: least.get(cable.low.host, 0) if cable.kind != "network" else found[cable.number]
        for cable in cables
    }


def _listed(names: Sequence[str], ranks: set[int]) -> str:
    ordered = sorted(ranks)
    return f"{'rank' if len(ordered) == 1 else 'ranks'} " + _few([f"{rank} ({names[rank]})" for rank in ordered], ", ")


def _ports(host: Host) -> str:
    ports = [f"{each.name} {each.addresses[0]}" for each in host.interfaces]
    return f"{host.name} has {', '.join(ports) or 'no interface that is up'}"


def _few(texts: Sequence[str], between: str = "; ") -> str:
    more = f"{between}and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return between.join(texts[:SHOWN]) + more
