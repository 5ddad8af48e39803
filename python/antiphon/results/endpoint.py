"""What the parts of an endpoint did."""

from __future__ import annotations

from antiphon.results.base import Result
from antiphon.results.record import APART, record, says
from antiphon.results.table import Table


@record
class EndpointUse(Result):
    """What the parts of an endpoint did while something was communicated, and what limits it
    (docs/explanation/endpoints.md).

    >>> import antiphon
    >>> run = antiphon.rails("ace:4x4x4", "8MiB", scheduler="phased", endpoint="ace:memory_gb_per_s=40")
    >>> run.endpoint_use.limit
    'memory_gb_per_s'
    """

    limit: str = says(
        "what limits: an option of the endpoint, a dimension such as ``dim2`` (of a fabric ``links``), or ``latency``"
        " where nothing does half of the time."
    )
    parts: Table = says(
        "``part``, the ``option`` that says how much of it there is, ``busy`` (share of the time in which it works; of"
        " ``fsms`` and ``sram`` the mean share in use), ``waiting`` (chunks that wait for it, mean; on fabrics the"
        " share of the time in which any waits, where known), ``limits`` (share of the time in which it works, or"
        " chunks wait for it while those that have it go on)."
    )
    timeline: Table = says(
        "equal windows from ``start_ns`` on: the share in which each part works, or chunks wait for it, and in which"
        " something is ``under_way``; empty on fabrics.",
        APART,
    )

    headline = "EndpointUse: the limit is {0.limit}"
