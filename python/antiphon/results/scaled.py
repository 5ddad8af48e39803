"""A collective on more ranks than a schedule lists."""

from __future__ import annotations

from antiphon.results.base import Result
from antiphon.results.record import record, says
from antiphon.results.table import Table


@record
class AtScale(Result):
    """A collective that was proven, bounded and timed without a list of all its messages, by each algorithm.

    >>> import antiphon
    >>> found = antiphon.at_scale("torus:4x4", "1MiB", "all-gather")
    >>> found.ranks, bool(found.runs["messages"][0] > 0)
    (16, True)
    """

    fabric: str = says("the fabric's specification.")
    ranks: int = says("ranks of the fabric.")
    collective: str = says("what is computed.")
    bytes: int = says("full buffer size.")
    system: str = says("name of the platform.")
    fidelity: str = says("in how much detail it was timed.")
    runs: Table = says(
        "the fastest first: ``algorithm``, ``time_ns``, ``bound_ns``, which no schedule is below, and what is"
        " ``binding`` there, ``efficiency``, that bound over the time, ``algorithm_bandwidth_gb_per_s``, ``messages``"
        " of all ranks, ``dynamic_j``, the energy of what moves, what is ``in_place`` of a list, and ``proof``, what"
        " was checked."
    )
    refused: Table = says("algorithms that do not apply: ``algorithm``, ``reason``, ``code``.")

    headline = "AtScale {0.collective} on {0.fabric}: {0.ranks:,} ranks, {0.runs.height} ways"
