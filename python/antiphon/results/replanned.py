"""A schedule after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.results.record import APART, Record, record, says

if TYPE_CHECKING:
    from antiphon._core import Fabric, Schedule


@record
class Replanned(Record):
    """A schedule for what is left of a fabric, and how good it is.

    >>> import antiphon
    >>> before = antiphon.build("mesh:4x4", "optimal", "all-gather", "16MiB", "ideal")
    >>> found = antiphon.replan(before, "mesh:4x4", "5-6", system="ideal")
    >>> antiphon.verify(found.fabric, found.schedule).complete, found.share_of_optimum > 0.99
    (True, True)
    """

    fabric: Fabric = says("what is left.", "fabric=fabric.name")
    schedule: Schedule = says(
        "what was found for it, proven.",
        "algorithm=schedule.algorithm collective=schedule.collective bytes=schedule.bytes"
        " matrix_bytes=schedule.matrix_bytes",
    )
    kept: int = says("trees of the plan before, or for an all-to-all plans of paths, that still reach all ranks.")
    mended: int = says("those that do not, for which others were found; both are 0 if it was planned anew.")
    share_of_optimum: float = says("how near to the optimum it is in rates, as its certificate proves, 0 to 1.")
    certified_ns: float = says("no schedule for what is left takes less time.")
    certified_before_ns: float | None = says(
        "none for the intact fabric did; None if the schedule before had no certificate."
    )
    # The same call says the same: without the times that it took.
    planning_ms: float = says("time to find plan and prices.", APART)
    lowering_ms: float = says("time to make a schedule of the plan.", APART)
    proof_ms: float = says("time to prove the schedule and to check its certificate.", APART)
