"""Single faults of a cluster, and what a collective takes with each: whichever is near to what was measured may be why.

A fault is a cluster with less: what the library is expected to reach on it follows as on a healthy one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from antiphon.expectation.bounds import cuts_us
from antiphon.expectation.reached import expected
from antiphon.library import nccl
from antiphon.library.cluster import Cluster

ASYMPTOTE = 1 << 26
"""Buffers of fewer bytes do not tell faults of links apart."""
NEAR = 1.1
"""A fault explains times that differ from its own by less than this factor."""
PCIE_GB_PER_S = {"v100": 12.0, "a100": 24.0, "mi250": 24.0}
"""What NCCL counts on of 16 lanes (src/graph/topo.h): Gen3 12, Gen4 24, Gen5, which all others have, 48."""

Fault = Callable[[Cluster], Cluster | None]


def _gpu(cluster: Cluster, share: float) -> Cluster:
    return replace(
        cluster, gpu_gb_per_s=cluster.gpu_gb_per_s * share, gpu_raw_gb_per_s=cluster.gpu_raw_gb_per_s * share
    )


def _nic(cluster: Cluster, share: float) -> Cluster | None:
    if cluster.boxes == 1:
        return None
    return replace(
        cluster, nic_gb_per_s=cluster.nic_gb_per_s * share, nic_raw_gb_per_s=cluster.nic_raw_gb_per_s * share
    )


def _staged(cluster: Cluster) -> Cluster | None:
    """Data goes from the NIC to the host and from there to the GPU behind the same PCIe switch: both ways cross its
    upstream link twice (github.com/NVIDIA/nccl, issue 465)."""
    if cluster.boxes == 1:
        return None
    return _nic(cluster, min(1.0, PCIE_GB_PER_S.get(cluster.gpu, 48.0) / 2 / cluster.nic_gb_per_s))


def _pcie(cluster: Cluster) -> Cluster:
    rate = PCIE_GB_PER_S.get(cluster.gpu, 48.0)
    return replace(_gpu(cluster, rate / cluster.gpu_gb_per_s), links_per_gpu=1, nvls=False, sharp=False)


FAULTS: dict[str, Fault] = {
    "no NVLS": lambda box: replace(box, nvls=False) if box.nvls else None,
    "one NIC or rail lost": lambda box: _nic(box, 1 - 1 / box.nics_per_box) if box.nics_per_box > 1 else None,
    # Rings and trees give every NIC the same share, so one of half the rate halves all.
    "half a NIC": lambda box: _nic(box, 0.5),
    "no GPUDirect": _staged,
    "a GPU link down": lambda box: _gpu(box, 1 - 1 / box.links_per_gpu),
    "PCIe only": _pcie,
    # Switches of a rail share its load over the planes that are left, of two.
    "one plane of a rail": lambda box: _nic(box, 1 - 1 / (2 * box.nics_per_box)),
}
"""What is left of a cluster with each fault; None where it cannot have it."""
RING = "ring instead of tree"
SHAPED, SHAPE = 1 << 20, 0.3
"""Where large sizes take alike, those from here on tell faults apart: their mean deviation counts by this weight."""
LATER = 0.002
"""Added for each place in the table: where faults look alike, the commoner one is first."""


def causes_of(
    cluster: Cluster, collective: str, library: str, floor_us: float | None, times_us: Mapping[int, float]
) -> list[dict[str, Any]]:
    """The faults that explain the largest sizes of a log better than a healthy cluster does, most likely first: each
    ``fault`` and its ``expected_us`` at the largest size. None where no size is large enough."""
    large = [size for size in times_us if size >= max(ASYMPTOTE, max(times_us) // 8)]
    if not large or cluster.gpus_per_box == 1:  # Fugaku has none of these parts
        return []
    shape = [size for size in times_us if size >= SHAPED]
    healthy = {size: expected(cluster, collective, size, library, floor_us).time_us for size in shape}

    def away(expected_us: Mapping[int, float]) -> float:
        return abs(statistics.median(math.log(times_us[size] / expected_us[size]) for size in large))

    def unlike(expected_us: Mapping[int, float]) -> float:
        return statistics.fmean(abs(math.log(times_us[size] / expected_us[size])) for size in shape)

    found = []
    for place, (fault, curves) in enumerate(faults_of(cluster, collective, library, floor_us, healthy).items()):
        nearest = min(curves, key=away)
        if away(nearest) < min(math.log(NEAR), away(healthy)):
            order = away(nearest) + SHAPE * unlike(nearest) + LATER * place
            found.append((order, {"fault": fault, "expected_us": nearest[max(large)]}))
    return [cause for _, cause in sorted(found, key=lambda each: each[0])]


def faults_of(
    cluster: Cluster, collective: str, library: str, floor_us: float | None, healthy_us: Mapping[int, float]
) -> dict[str, list[dict[int, float]]]:
    """What each size takes with each fault: as the library's model says, and as the fullest links do, since the model
    rounds rates to those of channels. Where neither is slower the fault is left out."""
    found: dict[str, list[dict[int, float]]] = {}
    for fault, change in FAULTS.items():
        if (worse := change(cluster)) is not None:
            found[fault] = [
                {size: expected(worse, collective, size, library, floor_us).time_us for size in healthy_us},
                {
                    size: us * _fullest(worse, collective) / _fullest(cluster, collective)
                    for size, us in healthy_us.items()
                },
            ]
    if library == "nccl" and collective in nccl.COLLECTIVES:
        found[RING] = [{size: us * _ring_over_best(cluster, collective, size) for size, us in healthy_us.items()}]
    slower = {fault: [each for each in curves if _slower(each, healthy_us)] for fault, curves in found.items()}
    return {fault: curves for fault, curves in slower.items() if curves}


def _slower(curve: Mapping[int, float], healthy_us: Mapping[int, float]) -> bool:
    """Whether the largest size takes longer by more than noise."""
    largest = max(curve)
    return curve[largest] / healthy_us[largest] > 1.02


def _fullest(cluster: Cluster, collective: str) -> float:
    """What the fullest links take for a buffer, relative to other clusters."""
    return max(cuts_us(cluster, collective, 1 << 30, raw=False).values())


def _ring_over_best(cluster: Cluster, collective: str, size: int) -> float:
    """The time of the best ring over that of the best tree, by the library's model; 1 where no tree is chosen."""
    found = nccl.choices(cluster, collective, size)
    if "tree" not in found[0].algorithm:
        return 1.0
    return next(each.time_us for each in found if each.algorithm == "ring") / found[0].time_us
