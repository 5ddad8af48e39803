"""What joined cables can do: round trips, and rates all at once and one by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from antiphon.errors import AntiphonError
from antiphon.torch.discovery.cables import SEVERAL_STREAMS, Cable
from antiphon.torch.discovery.colouring import rounds
from antiphon.torch.discovery.joining import JoinerLike
from antiphon.torch.discovery.meeting import Meeting

AT_ONCE_S = 0.6
ALONE_S, LEAST_ALONE_S, ALL_ALONE_S = 0.3, 0.03, 0.9
"""Of a round in which cables are loaded one by one: at most, at least, and all rounds together."""
FAST_BYTES_PER_S, SEVERAL_S, GAIN = 0.5e9, 0.3, 1.1
"""From this rate on several connections are tried, for so long; they stay if they carry so many times as much."""
WITHIN_S = 0.1
"""For all cables within hosts."""
NOISE = 1.05
"""Rates of cables that are made alike differ by less."""
DIFFERS = 0.9
"""Below this part of its own rate a cable is slowed by the others that carry at the same time."""


@dataclass
class Measured:
    """What was measured of a cable; rates in bytes a second, to the end with the higher rank and back.

    Attributes:
        round_trip_s: the least.
        at_once: rates while all cables were loaded.
        alone: rates while no other cable of its ranks was; zeros if that was not tried.
        streams: connections that are kept.
    """

    round_trip_s: float = 0.0
    at_once: list[float] = field(default_factory=lambda: [0.0, 0.0])
    alone: list[float] = field(default_factory=lambda: [0.0, 0.0])
    streams: int = 1

    def rate(self, way: int) -> float:
        """The rate to plan with: its own, unless the hosts cannot keep that up on all cables at once."""
        alone, at_once = self.alone[way], self.at_once[way]
        # A short load on few bytes may say too little, never too much.
        return max(alone, at_once) if not at_once or at_once >= DIFFERS * alone else at_once


def probe(
    joiner: JoinerLike, meeting: Meeting, cables: Sequence[Cable], streams: int | None = None
) -> dict[int, Measured]:
    """Measures joined cables; all ranks call it with the same.

    Args:
        joiner: of this rank.
        meeting: of all ranks.
        cables: joined.
        streams: connections of a cable; None: one, or several where they carry more.

    Returns:
        What is known of each cable, the same at all ranks.

    Raises:
        AntiphonError: ``stalled`` if a cable breaks, naming it, or a rank does not come.
    """
    rank = meeting.rank
    network = {cable.number for cable in cables if cable.kind == "network"}
    within = {cable.number for cable in cables} - network
    own = [cable for cable in cables if rank in cable.ranks]

    def load(
        what: str, numbers: Collection[int], seconds: float, connections: int = streams or 1
    ) -> list[tuple[int, float]]:
        meeting.barrier(what)
        loaded = [cable.number for cable in own if cable.number in numbers]
        return joiner.rates(loaded, seconds, connections) if loaded else []

    try:
        meeting.barrier("round trips")
        trips = joiner.round_trips([(cable.number, cable.neighbour(rank)) for cable in own])
        at_once = load("rates at once", network, AT_ONCE_S) if network else []
        at_once += load("rates within hosts", within, WITHIN_S) if within else []
        alone = []
        turns = rounds({cable.number: cable.ranks for cable in cables if cable.number in network})
        seconds = min(ALONE_S, ALL_ALONE_S / max(1, len(turns)))
        if len(turns) == 1:
            alone = at_once[: len([cable for cable in own if cable.number in network])]
        elif seconds >= LEAST_ALONE_S:
            for turn, numbers in enumerate(turns):
                alone += load(f"rates one by one, {turn + 1}", numbers, seconds)
        found = gathered(cables, meeting.exchange("rates", [trips, at_once, alone]))
        fast = [number for number in network if max(found[number].at_once) >= FAST_BYTES_PER_S and streams is None]
        if fast:
            several = load("rates of several connections", fast, SEVERAL_S, SEVERAL_STREAMS)
            again = gathered(cables, meeting.exchange("rates again", [[], several, []]))
            for number in fast:
                if min(again[number].at_once) >= GAIN * min(found[number].at_once):
                    found[number].at_once, found[number].streams = again[number].at_once, SEVERAL_STREAMS
        meeting.barrier("measured")
    except AntiphonError as error:
        raise named(error, cables) from None
    for cable in own:
        if streams is None and cable.kind == "network":
            joiner.keep(cable.number, found[cable.number].streams)
    return found


def levelled(cables: Sequence[Cable], measured: Mapping[int, Measured]) -> dict[int, list[float]]:
    """Rates to plan with, there and back, in bytes a second.

    Rates that differ by no more than measurements do are equal: plans are better for fabrics of equal links. Of cables
    within a host, which are all the same, only the load of the processors makes them differ.
    """
    found = {cable.number: [measured[cable.number].rate(way) for way in (0, 1)] for cable in cables}
    groups: dict[str, list[tuple[int, int]]] = {}
    for cable in cables:
        group = "" if cable.kind == "network" else cable.low.host
        groups.setdefault(group, []).extend([(cable.number, 0), (cable.number, 1)])
    for group, places in groups.items():
        waiting = sorted(places, key=lambda place: found[place[0]][place[1]])
        while waiting:
            least = found[waiting[0][0]][waiting[0][1]]
            alike = [(number, way) for number, way in waiting if group or found[number][way] <= NOISE * least]
            middle = median(found[number][way] for number, way in alike)
            for number, way in alike:
                found[number][way] = middle
            waiting = waiting[len(alike) :]
    return found


def gathered(cables: Sequence[Cable], told: Sequence[Sequence[Sequence[tuple[int, float]]]]) -> dict[int, Measured]:
    """What all ranks measured, by cable.

    Args:
        cables: all.
        told: by each rank its round trips, rates at once and rates alone. A rate is that of what came in.
    """
    found = {cable.number: Measured() for cable in cables}
    highs = {cable.number: cable.high.rank for cable in cables}
    for rank, (trips, at_once, alone) in enumerate(told):
        for number, seconds in trips:
            found[number].round_trip_s = seconds
        for number, rate in at_once:
            found[number].at_once[rank != highs[number]] = rate
        for number, rate in alone:
            found[number].alone[rank != highs[number]] = rate
    return found


def named(error: AntiphonError, cables: Sequence[Cable]) -> AntiphonError:
    """The error with the name of the cable instead of its number, where it has one."""
    for cable in reversed(cables):
        head = f"cable {cable.number}"
        if error.message.startswith(head) and not error.message[len(head) :][:1].isdigit():
            again = "; look at this cable and its two interfaces, or leave them out by ANTIPHON_EXCLUDE"
            return AntiphonError(f"cable {cable.name}{error.message[len(head) :]}{again}", error.code)
    return error
