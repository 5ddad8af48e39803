"""What the core returns: plain, frozen, picklable records; tables are dicts of numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    import pandas as pd

Column: TypeAlias = "np.ndarray[tuple[int], np.dtype[Any]]"
Table: TypeAlias = dict[str, Column]
"""Column name to array; all arrays of a table have the same length."""


class _ByValue:
    """Equality over dataclass fields that copes with tables and NaN."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return all(_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _equal(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    return a == b


@dataclass(frozen=True)
class Proof:
    """What was proven about a schedule.

    Attributes:
        complete: every rank that must ends complete; false only for schedules with known gaps.
        conflict_free: the schedule claims that no two messages share a link in a step, and does.
        lanes: number of lanes proven; every chunk of a lane goes the same way.
        transfers: number of transfers followed.
        gaps: for a schedule with known gaps, what is missing, in one line; empty otherwise.
    """

    complete: bool
    conflict_free: bool
    lanes: int
    transfers: int
    gaps: str


@dataclass(frozen=True)
class Bound:
    """Lower bounds on the time of a collective, in nanoseconds; each holds for every schedule.

    Attributes:
        time_ns: the largest of all.
        binding: name of the bound that is largest.
        volume_ns: least total traffic over total link rate.
        cut_ns: the most loaded cut between two groups of ranks.
        latency_ns: distance of the farthest ranks.
        strength_ns: AllReduce on symmetric fabrics without switches; None elsewhere.
    """

    time_ns: float
    binding: str
    volume_ns: float
    cut_ns: float
    latency_ns: float
    strength_ns: float | None


@dataclass(frozen=True)
class Algorithm:
    """One algorithm that is known.

    Attributes:
        name: as in specifications ``name[:key=value,...]``.
        summary: what it does, in one line.
        options: (key, meaning) of each option.
        source: paper or origin.
        collectives: names of the collectives it can do.
    """

    name: str
    summary: str
    options: list[tuple[str, str]]
    source: str
    collectives: list[str]


@dataclass(frozen=True, eq=False)
class Stats(_ByValue):
    """Figures of a schedule that need no simulation.

    Attributes:
        phases: (name, steps) of each phase.
        steps: steps over all phases.
        transfers: transfers in the schedule.
        messages: transfers times chunks.
        used_links_percent: share of links in use in the steady state.
        lanes: per lane ``reduce_height``, ``copy_height``: most transfers that a contribution,
            or a result, goes through.
        links: per link ``bytes`` on the wire, without headers.
    """

    phases: list[tuple[str, int]]
    steps: int
    transfers: int
    messages: int
    used_links_percent: float
    lanes: Table
    links: Table


@dataclass(frozen=True, eq=False)
class SimulationResult(_ByValue):
    """The outcome of one simulated collective; times in nanoseconds.

    Attributes:
        fidelity: ``alpha-beta`` or ``packet``.
        proof: the proof made before the schedule was timed.
        time_ns: from the start to the last rank's finish.
        first_chunk_ns: completion of the first complete chunk.
        last_chunk_ns: completion of the last chunk.
        link_utilization_mean: share of link time in use over the whole run, 0 to 1.
        packet_hops: packets times links they crossed.
        flit_hops: flits, headers included, times links they crossed.
        events: events the engine processed.
        links: row ``i`` is link ``i`` of the fabric: ``from``, ``to`` (nodes), ``busy_ns``,
            ``utilization`` (0 to 1), ``bytes`` (without headers), ``packets``.
        ranks: row ``i`` is rank ``i``: ``finish_ns``, ``sent_bytes``, ``received_bytes``,
            ``reduce_ns`` (time spent adding).
        chunks: ``lane``, ``chunk``, ``complete_ns``.
        timeline: mean utilization of all links in equal windows: ``start_ns``, ``utilization``.
    """

    fidelity: str
    proof: Proof
    time_ns: float
    first_chunk_ns: float
    last_chunk_ns: float
    link_utilization_mean: float
    packet_hops: int
    flit_hops: int
    events: int
    links: Table
    ranks: Table
    chunks: Table
    timeline: Table

    def __repr__(self) -> str:
        return (
            f"<SimulationResult {self.fidelity}: {self.time_ns:.1f} ns,"
            f" {self.link_utilization_mean:.1%} mean link utilization>"
        )

    def links_frame(self) -> pd.DataFrame:
        """The table of links as a DataFrame (needs pandas)."""
        return _frame(self.links, "link")

    def ranks_frame(self) -> pd.DataFrame:
        """The table of ranks as a DataFrame (needs pandas)."""
        return _frame(self.ranks, "rank")

    def chunks_frame(self) -> pd.DataFrame:
        """The table of chunks as a DataFrame (needs pandas)."""
        return _frame(self.chunks, None)

    def timeline_frame(self) -> pd.DataFrame:
        """Utilization over time as a DataFrame (needs pandas)."""
        return _frame(self.timeline, None)


def _frame(table: Table, index: str | None) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        message = "tables as DataFrames need pandas; install it, or use the dict of numpy arrays"
        raise AntiphonError(message, "not-applicable") from None
    frame: pd.DataFrame = pd.DataFrame(table)
    frame.index.name = index
    return frame
