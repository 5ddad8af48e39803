"""Times of a step's collectives from a library's model, or from schedules that are proven and simulated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import numpy as np

from antiphon._core import Fabric, System
from antiphon._core import build as core_build
from antiphon._core import simulate as core_simulate
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.given import as_fabric
from antiphon.library import nccl, rccl
from antiphon.library.cluster import Cluster
from antiphon.names import Library
from antiphon.results import SimulationResult

Needed = tuple[str, str, list[int], int, bool, float, float]
"""Kind of group, collective, the first group, boxes it is in, whether it has as many ranks in each, least and most
bytes: ``step_exchanges``."""
Table = tuple[str, str, int, int, list[tuple[float, float]], bool]
"""Kind of group, collective, ranks and boxes of a group, pairs of bytes and seconds, and whether these are of one group
by itself rather than of all at once."""

LEAST_BYTES = 1 << 10
"""From there a library's model is asked at every power of two."""
SIMULATED_BYTES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)
MOST_RANKS = 4096
"""Of a fabric on which schedules are simulated."""


def library_times(fabric: str | Fabric, library: Library | str, needed: Sequence[Needed]) -> list[Table]:
    """What a library's model says of the collectives of groups that it covers; others have no table.

    >>> [(_, _, ranks, boxes, points, _)] = library_times(
    ...     "dgx-h100:2", "nccl", [("tp", "all-reduce", [0, 1, 2, 3], 1, True, 1024, 4096)]
    ... )
    >>> ranks, boxes, [int(bytes) for bytes, _ in points]
    (4, 1, [1024, 2048, 4096])

    Raises:
        AntiphonError: ``unknown-name``, ``bad-spec`` or ``not-applicable`` for a library, or a fabric that libraries
            are not modelled on.
    """
    expect("library", library, str)
    if library not in get_args(Library):
        raise AntiphonError(f"no library {shown(library)}; known: {', '.join(get_args(Library))}", "unknown-name")
    choose = nccl.choose if library == "nccl" else rccl.choose
    # Groups have as many GPUs of a box as they have, whether or not others of it are ranks.
    name = fabric if isinstance(fabric, str) else fabric.name
    whole = Cluster.parse(re.sub(r"[:,]gpus=\d+", "", name))
    found: list[Table] = []
    for kind, collective, group, boxes, is_even, _, most in needed:
        if not is_even:
            continue
        try:
            cluster = whole.group(len(group) // boxes, boxes)
        except AntiphonError as error:
            if error.code != "not-applicable":
                raise
            continue
        sizes = [LEAST_BYTES]
        while sizes[-1] < most:
            sizes.append(2 * sizes[-1])
        points = [(float(size), choose(cluster, collective, size).time_us / 1e6) for size in sizes]
        found.append((kind, collective, len(group), boxes, points, True))
    return found


def schedule_times(fabric: str | Fabric, algorithm: str, needed: Sequence[Needed]) -> list[Table]:
    """How long schedules of an algorithm take on the first group of each kind and size, each proven and simulated in
    packets at up to four sizes; at least what links take if all groups do the same.

    >>> [(_, _, ranks, _, points, _)] = schedule_times(
    ...     "ring:4", "ring", [("dp", "all-reduce", [0, 1, 2, 3], 4, True, 1024, 4096)]
    ... )
    >>> ranks, len(points)
    (4, 1)

    Raises:
        AntiphonError: as ``build`` and ``simulate``, naming the group; ``too-large`` for a fabric of too many ranks.
    """
    expect("algorithm", algorithm, str)
    network = as_fabric(fabric)
    if network.ranks > MOST_RANKS:
        what = (
            f"{network.name:.60}: schedules of steps are simulated on at most {MOST_RANKS:,} ranks; leave algorithm out"
        )
        raise AntiphonError(what, "too-large")
    system, known = System(), dict[tuple[str, tuple[int, ...], int], float]()
    found: list[Table] = []
    for kind, collective, group, boxes, _, _, most in needed:
        ranks = network if group == list(range(network.ranks)) else network.group(group)
        points = []
        for place, size in enumerate(SIMULATED_BYTES):
            if place and SIMULATED_BYTES[place - 1] >= most:
                break
            key = (collective, tuple(group), size)
            if key not in known:
                try:
                    schedule = core_build(ranks, algorithm, collective, size, system, 0, None, None)
                    run = core_simulate(ranks, schedule, system, "packet")
                    known[key] = max(run.time_ns / 1e9, _all_groups_s(network, group, run))
                except AntiphonError as error:
                    what = f"{algorithm:.60} for the {collective} of {kind} groups of {len(group)}: {error.message}"
                    raise AntiphonError(what, error.code) from None
            points.append((float(size), known[key]))
        found.append((kind, collective, len(group), boxes, points, False))
    return found


def _all_groups_s(network: Fabric, group: Sequence[int], run: SimulationResult) -> float:
    """Seconds that links of one rate are busy on average if all ranks are in such groups, which do the same at once: a
    schedule may use links that other groups need, too."""
    links, carried = network.links, run.links
    count = network.ranks / len(group)
    rates = np.nan_to_num(links["rate_gb_per_s"], nan=System().link_rate_gb_per_s) * links["speed"]
    busy_s = 0.0
    for dimension in np.unique(links["dimension"]):
        alike = links["dimension"] == dimension
        busy_s = max(busy_s, count * carried["bytes"][alike].sum() / (1e9 * rates[alike].sum()))
    return busy_s
