"""What a library should reach: its model, and for AllToAll, of which it has none, the links."""

from __future__ import annotations

import math
from dataclasses import replace

from antiphon.errors import AntiphonError
from antiphon.expectation.bounds import cuts_us
from antiphon.library import measured
from antiphon.library.cluster import Cluster
from antiphon.library.measured import Expected

WITHOUT_SWITCH = ("v100", "fugaku")
"""Where most pairs have no link of their own, and messages of an AllToAll share those of others."""


def expected(
    cluster: Cluster, collective: str, size: int, library: str = "nccl", floor_us: float | None = None
) -> Expected:
    """As ``library.measured.expected``; an AllToAll launches and ramps up as an AllGather, and fills its fullest links.

    Raises:
        AntiphonError: as that, and ``not-applicable`` for an AllToAll where pairs have no links.
    """
    if collective != "all-to-all":
        return measured.expected(cluster, collective, size, library, floor_us)
    if cluster.gpu in WITHOUT_SWITCH:
        raise AntiphonError(f"all-to-all is not modelled on {cluster.name}: pairs share links", "not-applicable")
    like = measured.expected(cluster, "all-gather", size, library, floor_us)
    link_us = max(cuts_us(cluster, collective, size, raw=False).values())
    ramp_us = measured.START_US + measured.RAMP_US * math.sqrt(link_us / (link_us + measured.RAMP_HALF_US))
    time_us = max(like.floor_us, ramp_us + link_us)
    bus = size * (cluster.ranks - 1) / cluster.ranks / time_us / 1e3
    return replace(
        like,
        time_us=time_us,
        algorithm="send",
        protocol="",
        bus_gb_per_s=bus,
        ramp_us=ramp_us,
        link_us=link_us,
        choice=None,
    )
