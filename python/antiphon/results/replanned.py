"""A schedule after a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon._core import Fabric, Schedule


@dataclass(frozen=True)
class Replanned:
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

    fabric: Fabric
    schedule: Schedule
    kept: int
    mended: int
    share_of_optimum: float
    certified_ns: float
    certified_before_ns: float | None
    planning_ms: float
    lowering_ms: float
    proof_ms: float

    def to_dict(self) -> dict[str, Any]:
        """As documented in docs/json.md: what the same call finds every time, so without the times that it took."""
        return {
            "fabric": self.fabric.name,
            "algorithm": self.schedule.algorithm,
            "collective": self.schedule.collective,
            "bytes": self.schedule.bytes,
            "matrix_bytes": self.schedule.matrix_bytes,
            "kept": self.kept,
            "mended": self.mended,
            "share_of_optimum": self.share_of_optimum,
            "certified_ns": self.certified_ns,
            "certified_before_ns": self.certified_before_ns,
        }
