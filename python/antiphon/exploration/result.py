"""What came of an exploration."""

from __future__ import annotations

from typing import Any

from antiphon.results.base import Result
from antiphon.results.record import APART, Record, record, says
from antiphon.results.table import Table

OBJECTIVES = ("time_ns", "energy_j", "area_mm2")
"""What is to be least."""


@record
class Refused(Record):
    """Designs of an algorithm on a fabric that have no result.

    Attributes:
        count: of them, which differ in values of axes.
    """

    name: str = says("of the fabric in the space.")
    fabric: str = says("the first of the fabrics.")
    algorithm: str = says("the algorithm; empty if none can run there.")
    reason: str = says("why.")
    code: str = says("the code of the error.")
    count: int = says("how many designs that are, which differ in values of axes.")


@record
class Exploration(Result):
    """The designs of a space that no other beats in time, energy and area, each with a proven schedule.

    >>> import antiphon
    >>> fabrics = {"ring": "ring:4", "mesh": "mesh:2x2"}
    >>> found = antiphon.explore({"fabrics": fabrics, "algorithms": "ring", "bytes": "64KiB"})
    >>> found.simulated, found.pruned, len(found.front)
    (2, 0, 2)
    """

    name: str = says("of the file of the space.")
    collectives: list[str] = says("what is computed.")
    sizes: list[int] = says("full buffer sizes.", "bytes=sizes")
    system: str = says("the platform.")
    fidelity: str = says("at which designs are timed.")
    designs: int = says("how many the space has: fabrics with values of axes and an algorithm.")
    repeated: int = says("further ones that repeat others, as axes give values twice; they count once.")
    simulated: int = says("those that were simulated, now or by an earlier call.")
    pruned: int = says("those that were not, as a simulated one is better than their bounds.")
    over: int = says("those that miss a constraint by their cost, their bounds or their run.")
    refused: int = says("those that have no result, such as algorithms that do not apply.")
    runs: int = says("how many runs were made by this call; others were stored.", APART)
    front_columns: list[str] = says("what designs have besides fabric and algorithm.", APART)
    points: Table = says("a row for each simulated design.")
    sensitivity: Table = says("a row for each parameter: how good the front is if that is twice as good.")
    refusals: list[Refused] = says("those without a result, by reason.")
    every: Table = says("a row for each design: how it ended, and its bounds.", APART)

    @property
    def headline(self) -> str:  # type: ignore[override]
        """What ``repr`` says."""
        return f"Exploration: {len(self.front)} of {self.designs} designs on the front"

    @property
    def front(self) -> list[dict[str, Any]]:
        """Rows of ``points`` that no other beats, the fastest first."""
        return [row for row in self.points.rows() if row["on_front"]]
