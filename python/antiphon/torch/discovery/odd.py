"""What is odd about a wiring: each cable beside its ends, its other way, its twins and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

from antiphon.torch.discovery.examining import Examined
from antiphon.torch.discovery.findings import Finding
from antiphon.torch.discovery.records import natural
from antiphon.view.text import format_bit_rate

SLOW = 0.75
"""Below this part of the other way, or of the other cables, a rate is odd; measurements differ by a few percent."""
LOSES = 0.01
"""Idle cables lose nothing."""
CLAIMS = 0.5
CLAIMED_MBIT = 10_000
"""Up to this rate one connection fills a cable, so less than half of what its interfaces claim is odd."""
LOCAL = ("169.254.", "fe80:")
"""Addresses that say nothing of the wiring begin with this."""
SMALL_BYTES = 1500
SMALL = "MTU 1500: larger packets cost less, if both ports can (ip link set dev PORT mtu 9000)"


class Odd(NamedTuple):
    """A cable or a host, and what is odd about it and what to do."""

    link: str
    what: str


def odd(examined: Examined) -> list[Odd]:
    """All that is odd, cable by cable."""
    found = [*_missing(examined), *_misplaced(examined.findings)]
    network = [each for each in examined.findings if each.is_cable]
    shared = [each.cable for each in network if each.is_management]
    own = [each for each in network if not each.is_management]
    found += [Odd(cable.name, "management network: data go over it, since no cable joins a host") for cable in shared]
    small = [Odd(each.cable.name, SMALL) for each in own if set(_mtus_bytes(each)) == {SMALL_BYTES}]
    found += [Odd("all cables", SMALL)] if len(own) == len(small) > 1 else small
    for each in own:
        found += [Odd(each.cable.name, what) for what in (*_sizes(each), *_losses(each), *_rates(each, own))]
    for part in examined.parts[1:]:
        first = ", ".join(examined.parts[0])
        found.append(Odd(", ".join(part), f"no route: no cable leads to {first}; no job runs on all of them"))
    return found


def _missing(examined: Examined) -> Iterator[Odd]:
    """Of ports without a carrier."""
    for pair in examined.unplugged:
        hosts = [examined.hosts[number] for number in pair.hosts]
        ends = list(zip(hosts, pair.interfaces, pair.addresses, strict=True))
        dark = [(host, port, address) for host, port, address in ends if port in host.unplugged]
        shown = dark[:1] if pair.is_local else ends
        name = " - ".join(f"{host.name} {port.name} {address}" for host, port, address in shown)
        where = "at both ends" if len(dark) == 2 and not pair.is_local else f"at {dark[0][0].name} {dark[0][1].name}"
        yield Odd(name, f"no carrier {where}: the cable is missing or broken, or a port is down (ip link)")


def _misplaced(findings: Sequence[Finding]) -> Iterator[Odd]:
    """Cables that are not where addresses or their twins are."""
    strays = [each for each in findings if each.is_stray]
    for each in strays:
        first, second = _ends(each)
        what = f"in another port than its addresses say: {first} is cabled to {second}; swap cables back"
        yield Odd(each.cable.name, what)
    placed = {end.port for each in strays for end in each.cable.ends}
    for each in findings:
        if each.trouble and not any(end.port in placed for end in each.cable.ends):
            what = f"no answer ({each.trouble}), though both ports have a carrier: look where the cable leads"
            yield Odd(each.cable.name, what)
    twins = [each.cable for each in findings if each.is_cable and not each.is_stray]
    for one, other in combinations(twins, 2):
        pairs = list(zip(one.ends, other.ends, strict=True))
        if all(first.host == second.host for first, second in pairs):
            turns = {natural(first.port[1]) < natural(second.port[1]) for first, second in pairs}
            # Addresses that pair them say that it is meant.
            if len(turns) == 2 and all(end.address.startswith(LOCAL) for end in (*one.ends, *other.ends)):
                yield Odd(one.name, f"crossed with its twin {other.name}: each is in the other's port")


def _sizes(each: Finding) -> Iterator[str]:
    first, second = _mtus_bytes(each)
    if first != second:
        at, other = _ends(each)
        yield f"MTU {first} at {at}, {second} at {other}: set them alike"
    for way in (0, 1):
        if each.lost[way] < 1 and not each.arrived.whole[way]:
            size = min(first, second)
            yield f"no packet of {size} bytes comes from {_ends(each)[way]}: something between has a lower MTU"


def _losses(each: Finding) -> Iterator[str]:
    for way in (0, 1):
        if LOSES < each.lost[way] < 1:
            start, end = _ends(each)[way], _ends(each)[1 - way]
            yield f"loses {each.lost[way]:.1%} of the packets from {start} to {end}: look at the cable and its plugs"


def _rates(each: Finding, network: Sequence[Finding]) -> Iterator[str]:
    """A slow way, or both."""
    if max(each.lost) > LOSES or not min(each.rates):
        return  # that is why it is slow
    best, least = max(each.rates), min(each.rates)
    if least < SLOW * best:
        way = each.rates.index(least)
        start, end = _ends(each)[way], _ends(each)[1 - way]
        yield f"one direction slow: {_rate(least)} from {start} to {end}, {_rate(best)} back"
    # Cables of one kind are alike; of two kinds, those that claim the same.
    claims = _speeds_mbit(each)
    claimed = min(claims)
    like = [max(other.rates) for other in network if other is not each and min(_speeds_mbit(other)) == claimed]
    if like and best < SLOW * median(like):
        yield f"slow both ways: {_rate(best)}, the other cables {_rate(median(like))} ({best / median(like):.0%})"
    elif 0 < claimed <= CLAIMED_MBIT and best * 8e-6 < CLAIMS * claimed:
        yield f"slow both ways: {_rate(best)} of {format_bit_rate(claimed * 1e6)} that its interfaces claim"
    if len(set(claims)) == 2 and claimed:
        first, second = (format_bit_rate(speed * 1e6) for speed in claims)
        yield f"its interfaces claim different rates: {first} and {second}"


def _ends(each: Finding) -> list[str]:
    return [" ".join(end.port) for end in each.cable.ends]


def _mtus_bytes(each: Finding) -> list[int]:
    return [end.interface.mtu_bytes for end in each.cable.ends if end.interface]


def _speeds_mbit(each: Finding) -> list[int]:
    return [end.interface.speed_mbit for end in each.cable.ends if end.interface]


def _rate(bytes_per_s: float) -> str:
    return format_bit_rate(8 * bytes_per_s)
