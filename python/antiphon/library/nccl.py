"""NCCL's cost model: for every algorithm and protocol a latency and a bandwidth; the least time is chosen.

Facts of NCCL 2.30.7 (github.com/NVIDIA/nccl, src/graph/tuning.cc, search.cc); formulas are ours. Times are us, rates
GB/s. Not modelled: several operations in one group, user buffers that are registered, PCIe between GPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from antiphon.errors import AntiphonError
from antiphon.library.cluster import Cluster

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce")
PROTOCOLS = ("LL", "LL128", "Simple")
MOST_CHANNELS = 32

GENERATION = {"v100": 0, "a100": 1, "h100": 2, "h200": 2, "h800": 2, "b200": 3, "gb200": 3}
"""Column of the tables below."""
INSIDE: tuple[tuple[float, ...], ...] = (
    (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
)
"""Bandwidths that a channel may have in a box."""
BETWEEN: tuple[tuple[float, ...], ...] = (
    (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2),
    (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2),
    (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2),
    (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2),
)
"""The same between boxes."""
NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)
LL_MOST = ((39, 39, 20.4), (87.7, 22.5, 19), (141, 45, 35), (282, 90, 70))
"""Rows: V100, A100, H100, Blackwell (several boxes: Intel, AMD). Columns: one box, two, more. As the tables below."""
RING_LL128_CHANNEL = (20, 20, 36.7, 40)
TREE_LL128_CHANNEL = ((20, 20, 20), (20, 20, 20), (36.7, 36.7, 29), (55.6, 31.67, 20))
TREE_CHANNEL = ((26.5, 18.5, 10), (24, 23.6, 17.8), (38.7, 41.4, 36), (70, 42.8, 24))
NVLS_TREE_CHANNEL = ((26.5, 18.5, 10), (24, 23.6, 17.8), (0, 57.7, 45.5), (0, 96, 80))
BASE = {"tree": (6.8, 14, 8.4), "ring": (6.6, 14, 8.4), "pat": (8, 8, 8)}
NVLINK = {
    "tree": (0.6, 1.25, 4),
    "ring": (0.6, 1.9, 3.4),
    "nvls": (0, 0, 25),
    "collnet_direct": (0, 0, 3.7),
    "collnet_chain": (0, 0, 2.8),
}
"""Latency of a step by protocol."""
NETWORK = {
    "tree": (5, 8.5, 14),
    "ring": (2.7, 4, 14),
    "nvls": (0, 0, 18),
    "nvls_tree": (0, 0, 20.9),
    "collnet_direct": (0, 0, 31),
    "collnet_chain": (0, 0, 30),
    "pat": (0, 0, 14),
}
TREE_CORRECTION = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1),
    (0.9,) * 7 + (0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 1),
)
"""Factors of a tree's bandwidth by protocol and log2(bytes / 64); the last one for all beyond."""


@dataclass(frozen=True)
class Choice:
    """What a library's model says of one algorithm and protocol."""

    algorithm: str
    protocol: str
    channels: int
    time_us: float
    bus_gb_per_s: float
    """At this size, as nccl-tests counts it."""
    latency_us: float
    """The part of the time that does not grow with the size."""
    algorithm_gb_per_s: float
    """Bytes by the part of the time that does."""


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth by algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
    return {"all-reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "reduce": 1.0}.get(collective, (ranks - 1) / ranks)


def check(cluster: Cluster, collective: str, bytes: int) -> None:
    """Refuses what no library's model covers."""
    if collective not in COLLECTIVES:
        raise AntiphonError(
            f"no library's model covers {collective[:40]}; it covers {', '.join(COLLECTIVES)}", "not-applicable"
        )
    if cluster.ranks < 2:
        raise AntiphonError(f"{cluster.name}: a collective of one GPU moves nothing", "not-applicable")
    if not isinstance(bytes, int) or bytes <= 0:
        raise AntiphonError(f"bytes is {bytes!r}; a library's model needs a whole number above 0", "bad-size")


def choices(cluster: Cluster, collective: str, bytes: int) -> list[Choice]:
    """Every algorithm and protocol that NCCL would consider, fastest first.

    >>> [best, *_] = choices(Cluster.parse("dgx-a100:1"), "all-reduce", 1 << 20)
    >>> best.algorithm, best.protocol, round(best.time_us, 1)
    ('ring', 'LL', 35.9)

    Args:
        cluster: of NVIDIA's GPUs.
        collective: one of ``COLLECTIVES``.
        bytes: as nccl-tests counts: the whole buffer, of an AllGather that of its result.

    Raises:
        AntiphonError: ``not-applicable`` or ``bad-size``.
    """
    check(cluster, collective, bytes)
    if cluster.gpu not in GENERATION:
        raise AntiphonError(f"NCCL does not run on {cluster.gpu}: ask for the library rccl", "not-applicable")
    return sorted(_Model(cluster, collective).choices(bytes), key=lambda choice: choice.time_us)


def choose(cluster: Cluster, collective: str, bytes: int) -> Choice:
    """The fastest of ``choices``."""
    return choices(cluster, collective, bytes)[0]


class _Model:
    """Latencies and bandwidths of one collective on one cluster: n ranks, k boxes, p ranks in each."""

    def __init__(self, cluster: Cluster, collective: str) -> None:
        self.cluster, self.collective = cluster, collective
        self.n, self.k, self.p = cluster.ranks, cluster.boxes, cluster.ranks_per_box
        self.row = GENERATION[cluster.gpu]
        self.column = min(self.k, 3) - 1
        self.reduces = collective == "all-reduce"
        self.factor = bus_factor(collective, self.n)
        self.inside, self.between, self.channels = _channels(cluster, self.row)
        # Of NVLS, a channel between boxes: heads share NICs if there are fewer.
        nic = _nic(cluster) * min(1, cluster.nics_per_box / cluster.gpus_per_box)
        self.outside = max((each for each in BETWEEN[self.row] if each <= nic), default=0)
        self.bus = self.channels * (self.inside if self.k <= 2 else self.between)

    def choices(self, bytes: int) -> list[Choice]:
        found = []
        for algorithm, protocol, channels, latency_us, gb_per_s in self._paths():
            rate = gb_per_s
            place = PROTOCOLS.index(protocol)
            if algorithm == "tree":
                corrections = TREE_CORRECTION[place]
                rate *= corrections[min(max(bytes.bit_length() - 7, 0), len(corrections) - 1)]
            plateau = bytes / (self.channels * self.n) >= 64
            latency = latency_us
            if algorithm == "ring" and protocol == "Simple" and self.k > 1 and self.reduces and plateau:
                latency *= 1.9 if self.row == 0 else 1.4
            time_us = latency + bytes / (1000 * rate)
            bus = self.factor * bytes / (1000 * time_us)
            found.append(Choice(algorithm, protocol, channels, time_us, bus, latency, rate))
        return found

    def _paths(self) -> list[tuple[str, str, int, float, float]]:
        """Algorithm, protocol, channels, latency and algorithm bandwidth, as far as they do not depend on the size."""
        paths = [self._ring(place) for place in range(3)]
        if self.reduces:
            paths += [self._tree(place) for place in range(3)]
        paths += self._switched()
        if self.collective in ("all-gather", "reduce-scatter") and self.p == 1:
            log = int(math.log2(self.k))
            latency = BASE["pat"][2] + log * NETWORK["tree"][2] / 3.5 + 2.8 * self.n
            paths.append(("pat", "Simple", self.channels, latency, 0.75 * self.bus))
        return paths

    def _step(self, algorithm: str, place: int) -> float:
        """Latency of a step between boxes. With one rank a box it is wholly seen: a tree's."""
        return NETWORK["tree" if self.p == 1 else algorithm][place]

    def _ring(self, place: int) -> tuple[str, str, int, float, float]:
        bus: float = self.bus
        if place == 0:
            cpu = self.row if self.k == 1 else 0 if self.cluster.intel else 1
            bus = min(bus / 2, LL_MOST[cpu][self.column])
        elif place == 1:
            bus = min(0.92 * bus, self.channels * RING_LL128_CHANNEL[self.row])
        step = NVLINK["ring"][place]
        if self.collective in ("broadcast", "reduce"):
            latency = step if self.k == 1 else NETWORK["ring"][place]  # chunks stream: one step is seen
        else:
            twice = 2 if self.reduces else 1
            outside = twice * (self.k - 1)
            if self.k > 1:
                post = 1.0 if self.cluster.intel else 2.0
                step = max(step, 3 * post if place == 2 else post)
            latency = (twice * (self.n - 1) - outside) * step + outside * self._step("ring", place)
        return "ring", PROTOCOLS[place], self.channels, BASE["ring"][place] + latency, bus / self.factor

    def _tree(self, place: int) -> tuple[str, str, int, float, float]:
        bus = min(0.92 * self.bus, self.channels * TREE_CHANNEL[self.row][self.column])
        if place == 0:
            cpu = self.row if self.k == 1 else 0 if self.cluster.intel else 1
            bus = min(bus / 3.8, LL_MOST[cpu][self.column])
        elif place == 1:
            share = 7 / 9 if self.k == 1 else 120 / 128
            bus = min(share * bus, self.channels * TREE_LL128_CHANNEL[self.row][self.column])
        if self.k == 1:
            bus *= 0.85  # a plain tree
        hops = (self.p - 1) * NVLINK["tree"][place] + int(math.log2(self.k)) * self._step("tree", place)
        return "tree", PROTOCOLS[place], self.channels, BASE["tree"][place] + 2 * hops, bus / 2

    def _switched(self) -> list[tuple[str, str, int, float, float]]:
        """Algorithms in which switches reduce or multicast."""
        if self.collective in ("broadcast", "reduce"):
            return []
        paths = []
        heads = min(self.p, 32)
        efficiency = NVLS_EFFICIENCY[self.row]
        if self.cluster.nvls and heads > 1 and efficiency:
            channel = next(each for each in INSIDE[self.row] if each * heads <= self.cluster.gpu_gb_per_s)
            inside = channel * efficiency * (heads - 1) / heads
            inside *= 2 if self.reduces else (self.p - 1) / self.p
            if self.k == 1 or (self.cluster.sharp and self.outside):
                rate = heads * (inside if self.k == 1 else min(inside, self.outside))
                latency = NVLINK["nvls"][2] + (0 if self.k == 1 else self._step("nvls", 2))
                paths.append(("nvls", "Simple", heads, latency, rate / self.factor if self.reduces else rate))
            if self.k > 1 and self.reduces and self.outside:
                outside = self.outside * (2 if self.k == 2 else 1)
                rate = heads * min(inside, outside, NVLS_TREE_CHANNEL[self.row][self.column])
                latency = NVLINK["nvls"][2] + 2 * int(math.log2(self.k)) * self._step("nvls_tree", 2)
                paths.append(("nvls_tree", "Simple", heads, latency, rate / self.factor))
        if self.cluster.sharp and self.k > 1:
            paths += self._collnet()
        return paths

    def _collnet(self) -> list[tuple[str, str, int, float, float]]:
        paths = []
        bus = self.channels * self.inside
        if self.p <= 8:
            if self.reduces:
                ratio = self.p / self.channels
                rate = bus / (ratio - (ratio - 1) / 2) * (0.85 if self.row >= 2 else 1) / 2
            else:
                rate = self.p * min(self.inside, 0.9 * self.between)
            latency = 2 * (min(1, self.p - 1) * NVLINK["collnet_direct"][2] + 0.4 * (self.p - 1))
            latency += self._step("collnet_direct", 2)
            paths.append(("collnet_direct", "Simple", self.channels, latency, rate))
        if self.reduces:
            latency = 2 * (self.p - 1) * NVLINK["collnet_chain"][2] + self._step("collnet_chain", 2)
            paths.append(("collnet_chain", "Simple", self.channels, latency, bus / 2))
        return paths


def _nic(cluster: Cluster) -> float:
    return cluster.nic_gb_per_s / cluster.oversubscription


def _channels(cluster: Cluster, row: int) -> tuple[float, float, int]:
    """GB/s of a channel of a ring in a box and between boxes, and how many: most bandwidth, then fewest channels."""
    rate = cluster.gpu_gb_per_s
    if cluster.boxes == 1:
        link = rate / cluster.links_per_gpu if row == 0 else rate  # of V100s, a channel has one link
        total, channel = max(
            (each * min(MOST_CHANNELS, int(rate / each)), each) for each in INSIDE[row] if each <= link
        )
        channels = round(total / channel)
        # Channels of much bandwidth are two of half.
        if channel >= (50 if row >= 2 and channels > 4 else 25):
            channel, channels = channel / 2, 2 * channels
        return channel, channel, channels
    nics = max(1, cluster.nics_per_box * cluster.ranks_per_box // cluster.gpus_per_box)
    fit = [(each * min(nics, int(rate / each)), each) for each in BETWEEN[row] if each <= _nic(cluster)]
    total, channel = max(fit, default=(0.0, 0.0))
    if not total:
        raise AntiphonError(f"{cluster.name}: its NICs are slower than any that NCCL's model has", "not-applicable")
    return channel, channel, round(total / channel)
