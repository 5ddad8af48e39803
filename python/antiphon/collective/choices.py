"""The best algorithms over a range of sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from antiphon import plot
from antiphon._core import System, format_bytes, parse_bytes
from antiphon.collective.result import ALL_RANKS, Refusal
from antiphon.errors import AntiphonError
from antiphon.results import Bound, Energy, Result, Table
from antiphon.results.record import APART, PLATFORM, Record, record, says

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@record
class Candidate(Record):
    """An algorithm, its options tuned, and its time."""

    algorithm: str = says("its specification.")
    time_ns: float = says("how long it takes.")
    excluded_ranks: list[int] = says("ranks that contribute nothing and need no result.", APART)
    bound_of: str = says("ranks that its bound is about, as in ``Run.bound_of``.", APART, default=ALL_RANKS)
    energy: Energy | None = says("what it takes, if that was asked for.", "energy_j?=energy.total_j", default=None)

    def place(self, objective: str) -> tuple[float, float]:
        """What decides: the cost, and of equal ones the time."""
        return self.cost(objective), self.time_ns

    def cost(self, objective: str) -> float:
        """What is to be least: nanoseconds, joules, or their product in joule seconds."""
        if objective == "time" or self.energy is None:
            return self.time_ns
        return self.energy.total_j if objective == "energy" else self.energy.energy_delay_js


@record
class Choice(Record):
    """The best algorithm for one size."""

    bytes: int = says(
        "full buffer size.",
        "bytes algorithm=best.algorithm excluded_ranks=best.excluded_ranks time_ns lower_bound_ns=bound.time_ns"
        " lower_bound_of=best.bound_of efficiency algorithm_bandwidth_gb_per_s",
    )
    ranking: list[Candidate] = says("every algorithm with its best options, the best by the objective first.")
    bound: Bound = says(
        "no schedule does faster what the best does; ``best.bound_of`` says among which ranks.", "energy?=best.energy"
    )

    @property
    def best(self) -> Candidate:
        """The first of the ranking: by default the fastest."""
        return self.ranking[0]

    @property
    def time_ns(self) -> float:
        """Time of the best; at least a picosecond, the resolution."""
        return max(self.best.time_ns, 1e-3)

    @property
    def efficiency(self) -> float | None:
        """Lower bound over time; None if the bound is 0."""
        return self.bound.time_ns / self.time_ns or None

    @property
    def algorithm_bandwidth_gb_per_s(self) -> float:
        """Buffer size over time."""
        return self.bytes / self.time_ns


@record
class Tuning(Result):
    """The best algorithm over a range of sizes.

    >>> from antiphon import tune
    >>> tuning = tune("ring:4", sizes=["1MiB"], algorithms="ring,direct", fidelity="alpha-beta")
    >>> tuning["1MiB"].best.time_ns == min(each.time_ns for each in tuning["1MiB"].ranking)
    True
    """

    fabric: str = says("its specification or name.")
    collective: str = says("what was tuned.")
    system: System = says("the platform.", PLATFORM)
    fidelity: str = says("at which everything was timed.")
    objective: str = says("what is least of the best: ``time``, ``energy`` or ``edp``.")
    choices: list[Choice] = says("what is best for each size.")
    left_out: list[int] = says(
        "sizes for which a time limit left no time, and with them the crossovers.", "left_out_bytes=left_out"
    )
    crossovers: list[tuple[int, str, str]] = says(
        "from about ``bytes`` on, algorithm ``to`` is better than ``from``.",
        "crossovers[bytes,from,to] selection",
    )
    refused: list[Refusal] = says("algorithms that were left out for every size, and why.")

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def __getitem__(self, size: int | str) -> Choice:
        """What is best for a size that was tuned for.

        Raises:
            AntiphonError: ``unknown-name`` for other sizes, ``bad-size``.
        """
        wanted = parse_bytes(size)
        for choice in self:
            if choice.bytes == wanted:
                return choice
        known = ", ".join(format_bytes(choice.bytes) for choice in self)
        raise AntiphonError(f"{format_bytes(wanted)} was not tuned for; there are: {known}", "unknown-name")

    def __repr__(self) -> str:
        sizes = f"{format_bytes(self.choices[0].bytes)} to {format_bytes(self.choices[-1].bytes)}"
        return f"<Tuning of {self.collective} on {self.fabric}: {len(self)} sizes, {sizes}>"

    @property
    def tables(self) -> dict[str, Table]:
        """``choices``, a row for each size; ``ranking``, a row for each size and algorithm; ``refused``."""
        ranking = [
            {"bytes": choice.bytes, "place": place} | each.to_dict() | {"bound_of": each.bound_of}
            for choice in self
            for place, each in enumerate(choice.ranking)
        ]
        return {
            "choices": Table.of_rows([choice.to_dict() for choice in self]),
            "ranking": Table.of_rows(ranking),
            "refused": Table.of_rows([refusal.to_dict() for refusal in self.refused]),
        }

    def plot(self) -> Figure:
        """The time of every algorithm over the sizes (extra ``plots``)."""
        of: dict[str, tuple[list[float], list[float]]] = {}
        for choice in self:
            for each in choice.ranking:
                xs, ys = of.setdefault(each.algorithm.partition(":")[0], ([], []))
                xs.append(choice.bytes)
                ys.append(each.time_ns * 1e-9)
        return plot.lines(f"{self.collective} on {self.fabric}", of, "full buffer", "time", sizes=True)

    def selection(self) -> list[dict[str, Any]]:
        """What to use from which size on: ``from_bytes`` (0 first) and ``algorithm`` with options."""
        rows: list[dict[str, Any]] = [{"from_bytes": 0, "algorithm": self.choices[0].best.algorithm}]
        crossovers = iter(self.crossovers)
        for low, high in itertools.pairwise(self.choices):
            spec = high.best.algorithm
            # There is one crossover for each change of the algorithm, in order.
            start = next(crossovers)[0] if differ(low, high) else high.bytes
            if rows[-1]["algorithm"] != spec:
                rows.append({"from_bytes": start, "algorithm": spec})
        return rows


def differ(low: Choice, high: Choice) -> bool:
    """Whether other algorithms are best, whatever their options."""
    return low.best.algorithm.partition(":")[0] != high.best.algorithm.partition(":")[0]
