"""RCCL's cost model on MI300X, which is of NCCL's shape with numbers of its own.

Facts of ROCm/rccl 0cbce2a (October 2024; src/graph/tuning.cc, its fifth table, and rome_models.cc); formulas are ours.
Times are us, rates GB/s. PAT is off and LL128 is not built; other GPUs use tables that are not modelled.
"""

from __future__ import annotations

import math

from antiphon.errors import AntiphonError
from antiphon.library.cluster import Cluster
from antiphon.library.nccl import Choice, bus_factor, check

BASE = {"LL": 12, "Simple": 17}
XGMI = {"ring": {"LL": 0.8, "Simple": 2.1}, "tree": {"LL": 0.9, "Simple": 2.3}}
"""Latency of a step in a box."""
NETWORK = {"ring": {"LL": 9.5, "Simple": 320}, "tree": {"LL": 10.5, "Simple": 25}}
SHARE = {"ring": {"LL": (0.08, 0.08), "Simple": (1, 1)}, "tree": {"LL": (0.06, 0.06), "Simple": (0.11, 0.59)}}
"""Of the bandwidth of all rings: up to two boxes, more."""
CORRECTION = {
    ("tree", "LL"): (0.1,) * 6 + (1, 1, 1, 1, 1, 0.6, 1, 0.9, 1, 1) + (0.1,) * 11,
    ("tree", "Simple"): (0.1,) * 15 + (0.7, 1, 1, 1, 1, 1, 0.7, 0.7, 0.5, 0.6, 0.6, 0.6),
    ("ring", "LL"): (0.1,) * 11 + (1, 0.2, 1, 0.4, 0.4, 0.1, 0.2, 0.2) + (0.1,) * 8,
    ("ring", "Simple"): (0.1,) * 22 + (1, 0.8, 1, 1, 1),
}
"""Factors of the bandwidth by log2(bytes / 64); those of rings between boxes only."""


def choices(cluster: Cluster, collective: str, bytes: int) -> list[Choice]:
    """As ``antiphon.library.nccl.choices``, of RCCL.

    >>> choose(Cluster.parse("mi300x:1"), "all-reduce", 1 << 30).channels
    7

    Raises:
        AntiphonError: ``not-applicable`` or ``bad-size``.
    """
    check(cluster, collective, bytes)
    if cluster.gpu != "mi300x":
        raise AntiphonError(f"RCCL's tables are modelled for mi300x, not for {cluster.gpu}", "not-applicable")
    n, k, p = cluster.ranks, cluster.boxes, cluster.ranks_per_box
    twice = 2 if collective == "all-reduce" else 1
    link = cluster.gpu_gb_per_s / cluster.links_per_gpu
    # In a box a ring for every link of a GPU to another one that takes part.
    channels = p - 1 if k == 1 else max(1, cluster.nics_per_box * p // cluster.gpus_per_box)
    bus = channels * (
        link if k == 1 else min(cluster.gpu_gb_per_s / channels, cluster.nic_gb_per_s / cluster.oversubscription)
    )
    post = 0 if k == 1 else 1 if cluster.intel else 2
    found = []
    for algorithm in ("ring", "tree") if twice == 2 else ("ring",):
        for protocol, base in BASE.items():
            if (algorithm, protocol, k) == ("tree", "Simple", 1):
                continue
            inside = XGMI[algorithm][protocol]
            outside = NETWORK["tree" if p == 1 else algorithm][protocol]
            share = SHARE[algorithm][protocol][k > 2]
            if algorithm == "tree":
                latency = 2 * ((p - 1) * inside + int(math.log2(k)) * outside)
                rate = bus * share / 2
            else:
                rate = bus * share / bus_factor(collective, n)
                if collective in ("broadcast", "reduce"):
                    latency = outside if k > 1 else inside
                    rate *= 1.65 if protocol == "LL" and k == 1 else 1
                else:
                    inside = max(inside, post * (3 if protocol == "Simple" else 1))
                    latency = twice * ((n - k) * inside + (k - 1) * outside)
            if algorithm == "tree" or k > 1:
                factors = CORRECTION[algorithm, protocol]
                rate *= factors[min(max(bytes.bit_length() - 7, 0), len(factors) - 1)]
            time_us = base + latency + bytes / (1000 * rate)
            at_bus = bus_factor(collective, n) * bytes / (1000 * time_us)
            found.append(Choice(algorithm, protocol, channels, time_us, at_bus, base + latency, rate))
    return sorted(found, key=lambda choice: choice.time_us)


def choose(cluster: Cluster, collective: str, bytes: int) -> Choice:
    """The fastest of ``choices``."""
    return choices(cluster, collective, bytes)[0]
