"""What an emulated fabric consists of: a pair of virtual Ethernet devices for every two opposite links, its addresses,
and the commands that make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from antiphon._core import Fabric
from antiphon.errors import AntiphonError

MTU_BYTES = 9000
PACKET_BYTES = 8912
"""Data of a packet: with its header it fills a frame (the system ``testbed``)."""
BURST_S, LEAST_BURST_BYTES = 2.5e-3, 80_000
"""What a shaper lets pass at once after a pause: so long at its rate, but more than the kernel hands over at once (64
KiB). With less it would have to wake up in time more exactly than it can; with more, predictions without it would be
too slow."""
QUEUE_BYTES = 1 << 20
MOST_NODES, MOST_CABLES = 64, 256


@dataclass(frozen=True)
class Cable:
    """A pair of devices between two nodes, with the links that it carries."""

    number: int
    ends: tuple[int, int]
    links: tuple[int, ...]

    def device(self, node: int) -> str:
        """The name of the end at a node."""
        return f"v{self.number}{'ab'[self.ends.index(node)]}"

    def address(self, node: int) -> str:
        """The address of the end at a node, in a network of the two."""
        base = (10 << 24) + 4 * self.number + 1 + self.ends.index(node)
        return ".".join(str(base >> shift & 255) for shift in (24, 16, 8, 0))


def cables(fabric: Fabric) -> list[Cable]:
    """The cables of a fabric.

    Raises:
        AntiphonError: ``not-applicable`` for parallel links and links with rates of their own; ``too-large``.
    """
    links = fabric.links
    ends = list(zip(links["from"].tolist(), links["to"].tolist(), strict=True))
    if len(set(ends)) < len(ends):
        raise AntiphonError(f"{fabric.name} has parallel links, which are not emulated", "not-applicable")
    if len(set(links["speed"].tolist())) > 1 or not all(rate != rate for rate in links["rate_gb_per_s"].tolist()):
        raise AntiphonError(f"{fabric.name} has links of unlike rates, which are not emulated", "not-applicable")
    of_pair: dict[tuple[int, int], list[int]] = {}
    for number, (start, end) in enumerate(ends):
        of_pair.setdefault((min(start, end), max(start, end)), []).append(number)
    if max(map(max, ends), default=0) >= MOST_NODES or len(of_pair) > MOST_CABLES:
        message = f"{fabric.name}: at most {MOST_NODES} nodes and {MOST_CABLES} pairs of links are emulated"
        raise AntiphonError(message, "too-large")
    return [Cable(number, pair, tuple(links)) for number, (pair, links) in enumerate(of_pair.items())]


def making(cables: list[Cable], namespaces: Mapping[int, int | str]) -> str:
    """Commands for ``ip -batch`` that make all cables and put their ends into the nodes' namespaces, each by its name
    or by a process in it."""
    lines = []
    for cable in cables:
        first, second = cable.ends
        lines.append(f"link add name {cable.device(first)} type veth peer name {cable.device(second)}")
        lines += [f"link set {cable.device(node)} netns {namespaces[node]}" for node in cable.ends]
    return "\n".join(lines) + "\n"


def addressing(cables: list[Cable], node: int) -> str:
    """Commands for ``ip -batch`` that set up a node's ends."""
    lines = ["link set lo up"]
    for cable in cables:
        if node in cable.ends:
            device = cable.device(node)
            lines.append(f"link set {device} mtu {MTU_BYTES} up")
            lines.append(f"address add {cable.address(node)}/30 dev {device}")
    return "\n".join(lines) + "\n"


def shaping(cables: list[Cable], node: int, bits_per_s: int) -> str:
    """Commands for ``tc -batch`` that limit what leaves a node."""
    devices = [cable.device(node) for cable in cables if node in cable.ends]
    return "".join(f"qdisc add dev {device} root {shaper(bits_per_s)}\n" for device in devices)


def shaper(bits_per_s: int) -> str:
    """What limits a device to a rate, for ``tc``."""
    burst = max(LEAST_BURST_BYTES, int(bits_per_s / 8 * BURST_S))
    return f"tbf rate {bits_per_s}bit burst {burst} limit {QUEUE_BYTES}"
