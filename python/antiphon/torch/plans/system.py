"""The carrier as a platform, so that plans can be timed before they run."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon._core import Fabric, Schedule, System, lower_bound, simulate

PACKET_BYTES = 32 << 10
"""Most payload of one packet of the carrier."""
HEADER_BYTES = 32
"""Header of a packet of the carrier."""
TCP_HAND_OFF_NS = 5000.0
"""Software cost of a message over TCP."""
SHARED_HAND_OFF_NS = 1000.0
"""Software cost of a message over shared memory."""
SHARED_LATENCY_NS = 2000.0
"""Links of less latency are shared memory: no TCP connection answers so soon."""
ADDITION_GB_PER_S = 8.0
"""Rate at which one core adds what came to what it has, in 1e9 bytes per second."""


def carrier_system(fabric: Fabric) -> System:
    """The carrier on a measured fabric.

    Rates of links are what TCP delivers, as the probe measures them: frames and their headers are in them already.
    """
    latencies = fabric.links["latency_ns"]
    shared = len(latencies) > 0 and bool((latencies < SHARED_LATENCY_NS).all())
    return System("generic").with_(
        name="carrier",
        packet_payload_bytes=PACKET_BYTES,
        flit_bytes=HEADER_BYTES,
        header_flits=1,
        hand_off_ns=SHARED_HAND_OFF_NS if shared else TCP_HAND_OFF_NS,
        reduce_rate_gb_per_s=ADDITION_GB_PER_S,
    )


def bound_s(
    fabric: Fabric,
    collective: str,
    bytes: int,
    root: int = 0,
    ranks: Sequence[int] | None = None,
    system: System | None = None,
) -> float:
    """Seconds that no schedule of a collective takes less than.

    Args:
        fabric: the whole, measured.
        collective: such as ``all-reduce``.
        bytes: of the full buffer.
        root: rank in the group, for broadcast and reduce.
        ranks: the group's, as numbered in the fabric; None: all.
        system: what carries; None: ``carrier_system``.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-size`` or ``bad-spec``.
    """
    system = system or carrier_system(fabric)
    group = fabric if ranks is None else fabric.group(list(ranks))
    return lower_bound(group, collective, bytes, system, root, fidelity="packet").time_ns / 1e9


def predicted_s(fabric: Fabric, schedule: Schedule, system: System | None = None) -> float:
    """Seconds that a schedule takes by simulation in packets on the fabric that it is for, a group or whole.

    Raises:
        AntiphonError: ``not-proven``, ``stalled`` or ``too-large``.
    """
    return simulate(fabric, schedule, system or carrier_system(fabric), "packet").time_ns / 1e9
