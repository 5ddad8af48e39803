"""What is expected of a collective on a GPU cluster, size by size, beside what was measured."""

from __future__ import annotations

from antiphon.expectation.fitting import system_toml
from antiphon.library.cluster import Cluster
from antiphon.results import Result, Table
from antiphon.results.record import record, says

VERDICTS = ("launch floor", "ramp", "link-limited", "too slow")
"""What is said of a size."""


@record
class Expectation(Result):
    """What a collective should take on a GPU cluster, and whether what was measured is good (docs/how-to/expect.md).

    >>> import antiphon
    >>> found = antiphon.expect("dgx-h100:1", "all-reduce", "1KiB,1GiB")
    >>> found.rows["verdict"].tolist()
    ['launch floor', 'link-limited']
    """

    cluster: str = says("what was asked about.")
    boxes: int = says("boxes that take part.")
    ranks: int = says("GPUs that take part.")
    collective: str = says("what they do.")
    library: str = says("what does it: ``nccl``, ``rccl`` or ``none``, or the name of a system.")
    bus_factor: float = says("bus bandwidth over bytes a second, as nccl-tests counts it.")
    floor_us: float = says("what the smallest buffer takes.")
    floor_from: str = says("where that is from: ``log``, ``library`` or ``system``.")
    place: str = says("which column of a log counts: ``in place`` or ``out of place``; empty without a log.")
    rows: Table = says(
        "a row a size, ``bytes`` as nccl-tests counts them: ``bound_us``, which nothing can beat; ``expected_us``, and"
        " the ``algorithm`` and ``protocol`` that should be chosen; ``limit``, ``launch`` or the kind of link that is"
        " full; ``measured_us``, NaN where nothing was measured; ``share``, expected over measured time; the"
        " ``verdict``: ``launch floor``, ``ramp``, ``link-limited`` or ``too slow``."
    )
    causes: Table = says(
        "single faults that explain the largest size, the likeliest first: ``fault``, and its ``expected_us`` there."
    )
    notes: list[str] = says("what speaks against the comparison, and what was taken where nothing was said.")

    headline = "Expectation of {0.collective} on {0.cluster}: {0.verdict}"

    @property
    def slow(self) -> list[int]:
        """Sizes that are too slow."""
        return [row["bytes"] for row in self.rows.rows() if row["verdict"] == "too slow"]

    @property
    def below(self) -> list[int]:
        """Sizes that took less than their bound: another machine, or other bytes."""
        return [row["bytes"] for row in self.rows.rows() if row["measured_us"] < row["bound_us"]]

    @property
    def verdict(self) -> str:
        """In a few words, of all sizes."""
        measured = [row for row in self.rows.rows() if row["measured_us"] == row["measured_us"]]
        if not measured:
            return "nothing measured"
        if self.below:
            return f"{len(self.below)} of {len(measured)} sizes below the bound"
        return f"{len(self.slow)} of {len(measured)} sizes too slow" if self.slow else "as expected"

    def system_toml(self) -> str:
        """The file of a system that launches and moves data as in the log, for ``System`` and ``--system``.

        Raises:
            AntiphonError: ``bad-size`` if fewer than two sizes were measured, or links were faster than the cluster's.
        """
        times = {row["bytes"]: row["measured_us"] for row in self.rows.rows() if row["measured_us"] > 0}
        cluster = Cluster.parse(self.cluster).group(self.ranks // self.boxes, self.boxes)
        return system_toml(cluster, self.collective, times)
