"""What throughput failures leave."""

from __future__ import annotations

from typing import Any

from antiphon.results.base import Result
from antiphon.results.record import record, says
from antiphon.results.table import Table


@record
class Survival(Result):
    """What throughput of a collective failures leave on a fabric, as a share of the intact one.

    >>> import antiphon
    >>> found = antiphon.survive("ring:4", fail="links", system="ideal")
    >>> round(found.worst, 3), found.links.height  # a ring without a link is a line
    (0.75, 4)

    Throughput is that of large data, by rates of links. Each share lies between ``share``, which a plan that was found
    reaches, and ``certified``, which by the prices of links no plan exceeds. Both are 0 where nothing is left, and may
    be above 1 where what failed was what limits.
    """

    fabric: str = says("the intact fabric's specification or name.")
    system: str = says("the platform.")
    collective: str = says("what is computed among the ranks that are left; the full buffer stays as large.")
    fail: str = says("what fails: ``links`` or ``nodes``, each by itself, ``1``, both, ``2``, pairs, or ``rate:P``.")
    failed_nodes: str = says("what failed nodes do: ``dead``, or ``forward`` what others send.")
    adders_left_out: bool = says("switches of the fabric can add, but only forward in these plans.")
    intact_gb_per_s: float = says("bytes of the full buffer over time on the intact fabric, which a plan reaches.")
    counted: int = says("failures that mean, worst and chance are about.")
    is_sample: bool = says("these are a sample of all there are.")
    mean: float = says("their mean share.")
    mean_certified: float = says("no plans have a higher mean.")
    worst: float = says("the least share.")
    worst_certified: float = says("no plan for that failure exceeds it.")
    target: float = says("the share whose chance is wanted.")
    chance: float = says(
        "the part of the failures that leave at least the target: a plan less than 0.1 % below it counts where no proof"
        " says that none reaches it."
    )
    chance_low: float = says("of a sample, where the 95 % interval (Wilson) of the chance begins; else the chance.")
    chance_high: float = says("where it ends.")
    links: Table = says(
        "each pair of nodes whose links fail by themselves: ``name``, ``share``, ``certified``; ``stopped``, why"
        " nothing is left: ``disconnected``, ``root failed`` or ``fewer than 2 ranks``; node numbers ``from``, ``to``."
    )
    nodes: Table = says("the same for each node, whose number is ``node``.")
    cases: Table = says(
        "each pair or draw: its ``failures``, ``share``, ``certified`` and ``stopped``; a table has names with commas"
        " in ``name``. Empty where each fails by itself.",
        "cases=case_rows",
    )
    spares: Table = says(
        "the same failures if one link pair or node, ``name``, cannot fail, as with a spare: ``gain`` of the mean"
        " share, then ``mean`` and ``worst``; the most useful first."
    )
    planned: int = says("fabrics that were planned; failures that are alike by a symmetry are planned once.")

    headline = "Survival of {0.counted:,} failures on {0.fabric}: mean {0.mean:.1%}, worst {0.worst:.1%}"

    @property
    def case_rows(self) -> list[dict[str, Any]]:
        """The pairs or draws, each with a list of what fails."""
        return [
            {"failures": row["name"].split(",") if row["name"] else []}
            | {"share": row["share"], "certified": row["certified"], "stopped": row["stopped"] or None}
            for row in self.cases.rows()
        ]
