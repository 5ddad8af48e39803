"""What discovery saw of each cable, for people and for messages that name a link."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from antiphon.torch.discovery.cables import Cable
from antiphon.torch.discovery.datagrams import Arrived
from antiphon.torch.discovery.probing import Measured
from antiphon.torch.discovery.wiring import Links


@dataclass(frozen=True)
class Finding:
    """A cable that was tried. Pairs are of the end with the lower rank and the other.

    Attributes:
        cable: with both ends.
        links: numbers in the fabric, there and back; None where the fabric does not use it.
        is_management: whether it runs over the management network.
        measured: its round trip and rates; zeros if it was not.
        trouble: why it is not joined; "" if it is.
        arrived: of datagrams; all, if none were sent.
        is_stray: whether it joins other ports than the addresses say.
    """

    cable: Cable
    links: tuple[int | None, int | None]
    is_management: bool
    measured: Measured
    trouble: str
    arrived: Arrived = field(default_factory=lambda: Arrived([1.0, 1.0], [1.0, 1.0]))
    is_stray: bool = False

    @property
    def is_cable(self) -> bool:
        """Whether it joins two hosts, and came about."""
        return self.cable.kind == "network" and not self.trouble

    @property
    def lost(self) -> tuple[float, float]:
        """Parts of small datagrams that did not come."""
        there, back = self.arrived.small
        return 1 - there, 1 - back

    @property
    def rates(self) -> tuple[float, float]:
        """What it carries there and back, in bytes a second."""
        there, back = map(max, zip(self.measured.at_once, self.measured.alone, strict=True))
        return there, back


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
        is_management = any(end.port in management for end in cable.ends)
        taken, number = links.get(cable.number, (None, None)), measured.get(cable.number, Measured())
        sent = {"arrived": came[cable.number]} if came and cable.number in came else {}
        trouble, is_stray = failed.get(cable.number, ""), cable in strays
        found.append(Finding(cable, taken, is_management, number, trouble, is_stray=is_stray, **sent))
    return found
