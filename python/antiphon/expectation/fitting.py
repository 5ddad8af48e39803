"""A system that launches and moves data as in a log, and what it says of other sizes.

Measured times are the least of lines ``launch + bytes / rate``, as if a library had a protocol for each: those through
neighbouring corners of the times' concave hull. They meet times by construction, so that is no agreement.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from antiphon._core import System
from antiphon.errors import AntiphonError
from antiphon.expectation.bounds import cuts_us
from antiphon.library.cluster import Cluster

MOST_LINES = 8
"""Protocols that a system may have."""
TEMPLATE = """\
# Written by antiphon expect --fit: {what}.
# A protocol a line: name:launch in ns:latency of a step in ns:share of the rates of links.
preset = "generic"
header_flits = 0
# Launches have the steps: links add none up to this latency.
link_latency_ns = 3000
hand_off_ns = 0
protocols = "{protocols}"
"""


class Line(NamedTuple):
    """``launch_us + bytes * us_per_byte``."""

    launch_us: float
    us_per_byte: float

    def us(self, size: int) -> float:
        return self.launch_us + size * self.us_per_byte


def lines_of(times_us: Mapping[int, float]) -> list[Line]:
    """The lines of the concave hull of times by size, at most eight, steepest first; of those left out each raises the
    others' least time by less than any that stays.

    Raises:
        AntiphonError: ``bad-size`` if times do not grow between two sizes.
    """
    hull: list[tuple[int, float]] = []
    for x, y in sorted(times_us.items()):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) <= (y - hull[-2][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((x, y))
    slopes = [((b - a) / (y - x), x, a) for (x, a), (y, b) in pairwise(hull)]
    lines = [Line(max(a - slope * x, 0.0), slope) for slope, x, a in slopes if slope > 0]
    if not lines:
        raise AntiphonError("--fit needs a log with two sizes of which the larger takes longer", "bad-size")

    def raised(line: Line) -> float:
        others = [each for each in lines if each is not line]
        return max(least_us(others, size) / least_us(lines, size) for size in times_us)

    while len(lines) > MOST_LINES:
        lines.remove(min(lines, key=raised))
    return lines


def least_us(lines: list[Line], size: int) -> float:
    """The least of the lines."""
    return min(line.us(size) for line in lines)


def system_toml(cluster: Cluster, collective: str, times_us: Mapping[int, float]) -> str:
    """A system file with these lines as protocols, whose shares are of what the cluster's links allow at best.

    Raises:
        AntiphonError: ``bad-size`` as ``lines_of``, and for links that were faster than the preset's.
    """
    whole = _us_per_byte(cluster, collective)
    protocols = []
    for number, line in enumerate(lines_of(times_us)):
        share = whole / line.us_per_byte
        if share > 1:
            hint = f": say {cluster.name.split(':')[0]}:{cluster.boxes}:raw" if "raw" not in cluster.name else ""
            raise AntiphonError(f"--fit: links reached {share:.3f} of the rates of {cluster.name}{hint}", "bad-size")
        protocols.append(f"l{number}:{line.launch_us * 1e3:.0f}:0:{share:.6f}")
    what = f"{collective} on {cluster.ranks} GPUs of {cluster.name}"
    return TEMPLATE.format(what=what, protocols="+".join(protocols))


def of_system(system: System, cluster: Cluster, collective: str, size: int) -> tuple[float, str]:
    """What a system with protocols says: the least time in us, of rings where messages have steps, whose links are used
    at best; and the protocol.

    Raises:
        AntiphonError: ``not-applicable`` for a system without protocols, and for steps between boxes.
    """
    if system.protocols == "none":
        what = f"system {system.name} has no protocols, so no costs of a GPU's library"
        raise AntiphonError(f"{what}; give one that has, such as h100-nccl, or a file of --fit", "not-applicable")
    steps = {"all-reduce": 2 * (cluster.ranks - 1), "broadcast": 1, "reduce": 1}.get(collective, cluster.ranks - 1)
    moved_us = size * _us_per_byte(cluster, collective)
    found = []
    for protocol in system.protocols.split("+"):
        name, *numbers = protocol.split(":")
        launch_ns, step_ns, share = map(float, numbers)
        if step_ns and cluster.boxes > 1:
            what = f"steps of system {system.name} are of rings in one box"
            raise AntiphonError(f"{what}, not of {cluster.boxes:,}; give a file of --fit", "not-applicable")
        found.append(((system.launch_ns + launch_ns + steps * step_ns) / 1e3 + moved_us / share, name))
    return min(found)


def _us_per_byte(cluster: Cluster, collective: str) -> float:
    """What links need at best, at the rates of the fabric of the cluster's name."""
    gigabyte = 10**9
    return max(cuts_us(cluster, collective, gigabyte, raw="raw" in cluster.name).values()) / gigabyte
