"""What limits a collective, as records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from antiphon import plot
from antiphon._core import System, format_bytes, parse_bytes
from antiphon.errors import AntiphonError
from antiphon.results import Bound, Result, Table
from antiphon.results.record import PLATFORM, Record, record, says

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@record
class Relieved(Record):
    """A run of the same schedule where one thing is twice as good."""

    name: str = says(
        "``rates`` of links, doubled; ``latency``: that of links, hand-offs, launches and stages of routers, halved;"
        " ``endpoint``: interfaces, memories, buses and engines, twice as fast and twice as many; ``computation``:"
        " additions, twice as fast."
    )
    time_ns: float = says("how long it then takes.")
    saved: float = says("share of the time that this saves; below 0 if it takes longer.")


@record
class SizeLimits(Record):
    """What limits the best algorithm at one size."""

    bytes: int = says("full buffer size.")
    algorithm: str = says("the best algorithm, or that of the schedule.")
    excluded_ranks: list[int] = says("ranks that contribute nothing and need no result.")
    time_ns: float = says("how long it takes.")
    bound: Bound = says(
        "no schedule for the same ranks is faster.",
        "lower_bound_ns=bound.time_ns lower_bound_by efficiency rates_bound_ns latency_bound_ns=bound.latency_ns"
        " endpoint_bound_ns=bound.endpoint_ns computation_bound_ns=bound.computation_ns",
    )
    limits: list[Relieved] = says(
        "each thing that may limit it, what saves most time first.", "limit=limit.name saved=limit.saved limits"
    )

    @property
    def limit(self) -> Relieved:
        """What limits it: what saves most time."""
        return self.limits[0]

    @property
    def lower_bound_by(self) -> str:
        """What the lower bound is by: ``rates``, ``latency``, ``endpoint`` or ``computation``."""
        return self.bound.binds

    @property
    def rates_bound_ns(self) -> float:
        """The largest of the lower bounds by rates of links."""
        return self.bound.by_rates[1]

    @property
    def efficiency(self) -> float | None:
        """Lower bound over time; None if the bound is 0."""
        return self.bound.time_ns / self.time_ns or None if self.time_ns else None

    def saved(self, name: str) -> float:
        """Share of the time that is saved where this is twice as good."""
        return next(each.saved for each in self.limits if each.name == name)


@record
class Limits(Result):
    """What limits a collective over a range of sizes.

    >>> from antiphon import limits
    >>> found = limits("ring:4", sizes=["1KiB", "1MiB"], algorithms="ring", fidelity="alpha-beta")
    >>> found["1MiB"].limit.name, found.changes
    ('rates', [(1048576, 'latency', 'rates')])
    """

    fabric: str = says("its specification or name.")
    collective: str = says("what is computed.")
    system: System = says("the platform.", PLATFORM)
    fidelity: str = says("at which everything was timed.")
    sizes: list[SizeLimits] = says("what limits at each size.")
    changes: list[tuple[int, str, str]] = says(
        "at ``bytes``, other than at the size before, ``to`` limits and no longer ``from``.", "changes[bytes,from,to]"
    )
    left_out: list[int] = says("sizes for which a time limit left no time.", "left_out_bytes=left_out")

    def __iter__(self) -> Iterator[SizeLimits]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, size: int | str) -> SizeLimits:
        """What limits at a size that was timed.

        Raises:
            AntiphonError: ``unknown-name`` for other sizes, ``bad-size``.
        """
        wanted = parse_bytes(size)
        for each in self:
            if each.bytes == wanted:
                return each
        known = ", ".join(format_bytes(each.bytes) for each in self)
        raise AntiphonError(f"{format_bytes(wanted)} was not timed; there are: {known}", "unknown-name")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{format_bytes(each.bytes)} {each.limit.name}" for each in self)
        return f"<Limits of {self.collective} on {self.fabric}: {sizes}>"

    @property
    def tables(self) -> dict[str, Table]:
        """``sizes``, a row for each; ``limits``, a row for each size and thing that may limit."""
        sizes = [each.to_dict() for each in self]
        for row in sizes:
            del row["limits"]
        limits = [{"bytes": each.bytes} | one.to_dict() for each in self for one in each.limits]
        return {"sizes": Table.of_rows(sizes), "limits": Table.of_rows(limits)}

    def plot(self) -> Figure:
        """The time of the best algorithm over the sizes, and the lower bounds (extra ``plots``)."""
        xs = [float(each.bytes) for each in self]
        of = {"best": (xs, [each.time_ns * 1e-9 for each in self])}
        of |= {name: (xs, [ns * 1e-9 for ns in times]) for name, times in self.bounds_ns.items()}
        return plot.lines(f"{self.collective} on {self.fabric}", of, "full buffer", "time", sizes=True)

    @property
    def bounds_ns(self) -> dict[str, list[float]]:
        """The lower bound of each size by what may limit, of those that are above 0 somewhere."""
        bounds = {
            "rates": [each.rates_bound_ns for each in self],
            "latency": [each.bound.latency_ns for each in self],
            "endpoint": [each.bound.endpoint_ns for each in self],
            "computation": [each.bound.computation_ns for each in self],
        }
        return {name: times for name, times in bounds.items() if any(times)}
