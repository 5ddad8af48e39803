"""A schedule after a failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from antiphon.results.record import APART, Record, says

if TYPE_CHECKING:
    from antiphon._core import Fabric, Schedule


@dataclass(frozen=True)
class Replanned(Record):
    """A schedule for what is left of a fabric, and how good it is.

    >>> import antiphon
    >>> before = antiphon.build("mesh:4x4", "optimal", "all-gather", "16MiB", "ideal")
    >>> found = antiphon.replan(before, "mesh:4x4", "5-6", system="ideal")
    >>> antiphon.verify(found.fabric, found.schedule).complete, found.share_of_optimum > 0.99
    (True, True)

    Attributes:
        fabric: what is left.
        schedule: what was found for it, proven.
        kept: trees of the plan before, or for an all-to-all plans of paths, that still reach
            all ranks.
        mended: those that do not, for which others were found; both are 0 if it was planned anew.
        share_of_optimum: how near to the optimum it is in rates, as its certificate proves, 0 to 1.
        certified_ns: no schedule for what is left takes less time.
        certified_before_ns: none for the intact fabric did; None if the schedule before had no certificate.
        planning_ms: time to find plan and prices.
        lowering_ms: time to make a schedule of the plan.
        proof_ms: time to prove the schedule and to check its certificate.
    """

    fabric: Fabric = field(metadata=says("fabric=fabric.name"))
    schedule: Schedule = field(
        metadata=says(
            "algorithm=schedule.algorithm collective=schedule.collective bytes=schedule.bytes"
            " matrix_bytes=schedule.matrix_bytes"
        )
    )
    kept: int
    mended: int
    share_of_optimum: float
    certified_ns: float
    certified_before_ns: float | None
    # The same call says the same: without the times that it took.
    planning_ms: float = field(metadata=APART)
    lowering_ms: float = field(metadata=APART)
    proof_ms: float = field(metadata=APART)
