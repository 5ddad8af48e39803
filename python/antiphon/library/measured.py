"""What a real run reaches: a library's choice, corrected by what was measured of it.

Time is the greatest of three: the launch floor of the site, which hides what the GPUs do meanwhile; the library's own
model; and start-up + ramp + bytes / rate of the link, where ``ramp = RAMP_US sqrt(x / (x + RAMP_HALF_US))`` of
``x = bytes / rate`` is what filling all channels costs. START_US, RAMP_US and RAMP_HALF_US were fitted once, on A100
(NDv4, and vTrain on 4 and 8 GPUs), and serve all GPUs and libraries. Besides, there is one constant a generation and
library, fitted on its largest sizes: ``RINGS`` on vTrain (V100, A100) and on 316 GB/s of MI300X; ``NVLS`` on 8 H100
(NVIDIA/nccl issue 1455) and 72 GB200 (coreweave/nccl-tests; B200 takes the same, untested). docs/explanation/library.md
has the errors, and what is held out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from antiphon.errors import AntiphonError
from antiphon.library import nccl, rccl
from antiphon.library.cluster import Cluster
from antiphon.library.nccl import Choice, bus_factor

START_US, RAMP_US, RAMP_HALF_US = 20, 120, 300

LARGE = 1 << 33
"""Bytes from which no library corrects bandwidths."""
RINGS = {"v100": 1.1, "a100": 232 / 240, "mi300x": 45 / 48}
"""What rings reach of the rate that the library counts on; others all of it."""
NVLS = {"h100": 308 / 450, "h200": 308 / 450, "h800": 308 / 450, "b200": 435 / 900, "gb200": 435 / 900}
"""K of ``nvls_gb_per_s`` by the raw rate of a GPU."""

TOFU_SHARE = 0.9
"""What messages reach of a link of Fugaku: fitted on its AllGather of 512 MiB on 2x2x2."""
SUM_GB_PER_S = 19
"""At which an AllReduce's bytes pass a rank of Fugaku, whatever its links: the sums limit."""
STEP_US = 2.9
"""A step on Fugaku: the smallest time that was measured."""


@dataclass(frozen=True)
class Expected:
    """What a run should take, and of what that consists."""

    time_us: float
    algorithm: str
    protocol: str
    bus_gb_per_s: float
    """At this size, as nccl-tests counts it."""
    floor_us: float
    """The launch floor that was given, else the library's own latency."""
    ramp_us: float
    """Start-up and ramp."""
    link_us: float
    """Bytes by the rate of the link that limits."""
    choice: Choice | None
    """The library's own model; None without one."""


def nvls_gb_per_s(k_gb_per_s: float, gpus: int) -> float:
    """Algorithm bandwidth of an AllReduce through a switch that reduces.

    A GPU sends its data once, and once more a share of the sum: bytes (1 + 1/n) (nccl-tests, pull request 239).
    """
    return k_gb_per_s * gpus / (gpus + 1)


def expected(
    cluster: Cluster, collective: str, bytes: int, library: str = "nccl", floor_us: float | None = None
) -> Expected:
    """What a library should reach.

    >>> [round(expected(Cluster.parse("dgx-h100").group(n), "all-reduce", 8 << 30).bus_gb_per_s) for n in (4, 6, 8)]
    [368, 438, 477]

    Args:
        cluster: of a preset, or ``group`` of one.
        collective: one that the library's model covers.
        bytes: as nccl-tests counts.
        library: ``nccl``, ``rccl`` or ``none``: what the links allow, with measured efficiency (Fugaku).
        floor_us: time of the smallest size on the same site; it is the site's, not the fabric's.

    Raises:
        AntiphonError: ``unknown-name``, ``not-applicable`` or ``bad-size``.
    """
    nccl.check(cluster, collective, bytes)
    if library == "none":
        return _bare(cluster, collective, bytes, floor_us)
    if library not in ("nccl", "rccl"):
        raise AntiphonError(f"no library '{library[:40]}'; known: nccl, rccl, none", "unknown-name")
    model = (nccl if library == "nccl" else rccl).choices
    choices = model(cluster, collective, bytes)
    link_us = min(bytes / (1000 * _gb_per_s(cluster, collective, each)) for each in model(cluster, collective, LARGE))
    choice = choices[0]
    # NCCL underrates NVLS on few GPUs, and uses it nevertheless.
    able = [each for each in choices if each.algorithm == "nvls" and choice.protocol == "Simple"] + [choice]
    reached = min(able, key=lambda each: corrected_us(cluster, collective, bytes, each))
    own_us = corrected_us(cluster, collective, bytes, reached)
    ramp_us = START_US + RAMP_US * math.sqrt(link_us / (link_us + RAMP_HALF_US))
    floor = choice.latency_us if floor_us is None else floor_us
    # RCCL's corrections between boxes serve its choice: they are no times.
    time_us = max(floor, own_us if library == "nccl" or cluster.boxes == 1 else 0, ramp_us + link_us)
    bus = bus_factor(collective, cluster.ranks) * bytes / (1000 * time_us)
    return Expected(time_us, reached.algorithm, reached.protocol, bus, floor, ramp_us, link_us, choice)


def corrected_us(cluster: Cluster, collective: str, bytes: int, choice: Choice) -> float:
    """A choice's own time with the measured rate in place of the library's."""
    return choice.latency_us + bytes / (1000 * _gb_per_s(cluster, collective, choice))


def _gb_per_s(cluster: Cluster, collective: str, choice: Choice) -> float:
    """Measured algorithm bandwidth of a choice at large sizes; where nothing was measured the library's own."""
    if choice.algorithm == "nvls" and cluster.boxes == 1 and collective == "all-reduce":
        return nvls_gb_per_s(NVLS[cluster.gpu] * cluster.gpu_raw_gb_per_s, cluster.ranks)
    rate = choice.algorithm_gb_per_s * RINGS.get(cluster.gpu, 1)
    if cluster.boxes == 1 or collective in ("broadcast", "reduce"):
        return rate
    # What leaves a box: NCCL counts a hundredth more on two boxes with few NICs.
    others = (cluster.boxes - 1) / cluster.boxes
    share = others if collective != "all-reduce" else 1 if cluster.sharp else 2 * others
    return min(rate, cluster.nics_per_box * cluster.nic_gb_per_s / share)


def _bare(cluster: Cluster, collective: str, bytes: int, floor_us: float | None) -> Expected:
    """No library: all links of a node busy."""
    factor = bus_factor(collective, cluster.ranks)
    rate = cluster.gpu_gb_per_s
    if cluster.boxes > 1:
        rate = min(rate, cluster.nics_per_box * cluster.nic_gb_per_s / cluster.oversubscription)
    if cluster.gpu == "fugaku":
        rate = min(TOFU_SHARE * rate, SUM_GB_PER_S if collective == "all-reduce" else math.inf)
    link_us = factor * bytes / (1000 * rate)
    floor = floor_us if floor_us is not None else STEP_US * math.ceil(math.log2(cluster.ranks))
    time_us = max(floor, link_us)
    return Expected(time_us, "links", "none", factor * bytes / (1000 * time_us), floor, 0.0, link_us, None)
