"""A collective beside other traffic, and on links that vary."""

from __future__ import annotations

from antiphon.results.base import Result
from antiphon.results.record import APART, Record, record, says
from antiphon.results.table import Table


@record
class MessageTimes(Record):
    """How long messages took, from the time at which their senders had them; 0 if there were none.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:4", "ring", bytes="64KiB")
    >>> times = antiphon.beside("ring:4", schedule, "neighbor", message="4KiB").traffic
    >>> times.mean_ns <= times.most_ns
    True
    """

    mean_ns: float = says("the mean.")
    p99_ns: float = says("99 of 100 took at most so long.")
    most_ns: float = says("the longest.")


@record
class BesideRun(Result):
    """A collective and other traffic on one fabric: each alone, and both together.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:4", "ring", bytes="64KiB")
    >>> run = antiphon.beside("ring:4", schedule, "neighbor", message="4KiB", precedence="traffic")
    >>> run.time_ns > run.alone_ns
    True
    """

    fabric: str = says("specification of the fabric.")
    algorithm: str = says("the algorithm of the collective, with its options.")
    collective: str = says("what it computes.")
    bytes: int = says("its full buffer.")
    fidelity: str = says("in how much detail it was timed.")
    precedence: str = says("what goes first on a link that both need.")
    alone_ns: float = says("time of the collective without the traffic.")
    time_ns: float = says(
        "its time beside the traffic.", "time_ns slowdown bandwidth_gb_per_s bandwidth_alone_gb_per_s"
    )
    messages: int = says("messages of the traffic.")
    message_bytes: int = says("their bytes together.")
    traffic_load: float | None = says(
        "share of time for which the pattern alone keeps busy the link that it needs most; None of a file."
    )
    traffic_alone: MessageTimes = says("times of the messages without the collective.")
    traffic: MessageTimes = says("their times beside it.", "traffic traffic_slowdown")
    delivered_alone_bytes: int = says(
        "bytes of messages that had come without the collective at the time when it ends beside them.",
        "traffic_alone_gb_per_s",
    )
    delivered_bytes: int = says("bytes of those that had come beside it.", "traffic_gb_per_s")
    links: Table = says(
        "each link: ``from``, ``to`` (names of nodes), ``busy_ns``, ``collective_bytes``, ``traffic_bytes``.", APART
    )

    headline = "BesideRun {0.algorithm} on {0.fabric}: {0.time_ns:,.1f} ns, {0.slowdown:.3f} times that alone"

    @property
    def slowdown(self) -> float:
        """How many times as long the collective takes as alone; 1 if it takes no time."""
        return self.time_ns / self.alone_ns if self.alone_ns else 1.0

    @property
    def traffic_slowdown(self) -> float:
        """How many times as long messages take on average as without the collective; 1 if there are none."""
        return self.traffic.mean_ns / self.traffic_alone.mean_ns if self.traffic_alone.mean_ns else 1.0

    @property
    def bandwidth_gb_per_s(self) -> float | None:
        """Full buffer over time; None if it takes no time."""
        return self.bytes / self.time_ns if self.time_ns else None

    @property
    def bandwidth_alone_gb_per_s(self) -> float | None:
        """The same without the traffic."""
        return self.bytes / self.alone_ns if self.alone_ns else None

    @property
    def traffic_gb_per_s(self) -> float | None:
        """What messages that have come as a whole bring while the collective runs; None if it takes no time."""
        return self.delivered_bytes / self.time_ns if self.time_ns else None

    @property
    def traffic_alone_gb_per_s(self) -> float | None:
        """What they bring in the same time without it."""
        return self.delivered_alone_bytes / self.time_ns if self.time_ns else None


@record
class Spread(Record):
    """Times of a schedule over all draws, in ns.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:4", "ring", bytes="64KiB")
    >>> spread = antiphon.vary("ring:4", schedule, slow="uniform:0.5..1", draws=10).times
    >>> spread.p5_ns <= spread.p50_ns <= spread.worst_ns
    True
    """

    mean_ns: float = says("the mean.")
    p5_ns: float = says("5 of 100 draws take at most so long.")
    p50_ns: float = says("half of the draws take at most so long.")
    p95_ns: float = says("95 of 100 take at most so long.")
    p99_ns: float = says("99 of 100 take at most so long.")
    worst_ns: float = says("the longest.")


@record
class Variations(Result):
    """A schedule on links whose rates and latencies are drawn: its times, and which links they depend on most.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:4", "ring", bytes="64KiB")
    >>> found = antiphon.vary("ring:4", schedule, slow="uniform:0.5..1", draws=10)
    >>> found.times.p5_ns > found.intact_ns, found.draws.height
    (True, 10)
    """

    fabric: str = says("specification of the fabric.")
    algorithm: str = says("the algorithm of the schedule, with its options.")
    collective: str = says("what it computes.")
    bytes: int = says("its full buffer.")
    fidelity: str = says("in how much detail it was timed.")
    slow: str | None = says("distribution of what rates are multiplied by; None if they do not vary.")
    latency: str | None = says("distribution of what is added to latencies, in ns; None if they do not vary.")
    share: float = says("share of the links that vary.")
    seed: int = says("seed of all draws.")
    intact_ns: float = says("time on the fabric as it is.")
    times: Spread = says("times of the schedule over all draws.")
    replanned: Spread | None = says("the same where each draw has a schedule of its own; None if nobody asked.")
    chance: float = says(
        "a correlation below this may be chance: with links that do not matter at all, the largest of all is above it"
        " in 5 of 100 such questions."
    )
    draws: Table = says("each draw: ``time_ns``, ``replanned_ns`` (NaN if nobody asked).", APART)
    links: Table = says(
        "each link, those on which the time depends most first: ``link`` (its number), ``from``, ``to`` (names of"
        " nodes), ``correlation`` (rank correlation, -1 to 1, of the time with how slow or far it is; NaN where it is"
        " always the same)."
    )

    headline = "Variations of {0.algorithm} on {0.fabric}: {0.times.p50_ns:,.1f} ns, worst {0.times.worst_ns:,.1f} ns"
