"""Rows with verdicts, figures, and papers made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from antiphon.repro.charts import Chart
from antiphon.repro.data import Data, Style
from antiphon.repro.table import Entry, Table
from antiphon.studies import Job, Record


@dataclass(frozen=True)
class Row:
    """One number: what is published, and ours.

    Attributes:
        group: what rows are summed up by, usually the series.
        what: the case, such as mesh and size.
        paper: as the paper states it, if it does.
        artifact: as the files behind the paper's figure have it, if they do.
        tolerance: share by which ours may be off, set for a group, never for a row.
        note: what is known about a difference.
        reference: as another model of the same has it, to see where a difference comes from; never judged by.
        source: which published number it is, so that one held against several of ours counts once.
        is_input: whether it is not a result but was taken from the paper; never counted.
    """

    group: str
    what: str
    unit: str
    ours: float
    paper: float | None = None
    artifact: float | None = None
    tolerance: float = 0.01
    note: str = ""
    reference: float | None = None
    source: str = ""
    is_input: bool = False

    @property
    def published(self) -> float | None:
        """The number ours is held against: the artifact's if there is one, else the paper's."""
        return self.paper if self.artifact is None else self.artifact

    @property
    def ratio(self) -> float | None:
        """Ours over the published number."""
        return self.ours / self.published if self.published else None

    @property
    def agrees(self) -> bool | None:
        """Whether ours is within the tolerance; None if nothing is published."""
        return None if self.ratio is None else abs(self.ratio - 1) <= self.tolerance

    @property
    def verdict(self) -> str:
        """In words."""
        if self.agrees is None:
            return "nothing published"
        if self.agrees:
            return "input" if self.is_input else f"within {self.tolerance * 100:g} %"
        return "differs"


@dataclass(frozen=True)
class Summary:
    """Some rows in short; errors are shares, and None where nothing is published."""

    group: str
    rows: int
    compared: int
    agreeing: int
    tolerance: float
    error_mean: float | None
    error_max: float | None
    worst: str


def summarize(group: str, rows: Sequence[Row], name: str = "{0.what}") -> Summary:
    """Rows in short, of which inputs do not count; ``name`` says how the worst is named."""
    errors = [(abs(row.ratio - 1), name.format(row)) for row in rows if row.ratio is not None and not row.is_input]
    most, worst = max(errors, key=lambda error: error[0], default=(None, ""))
    return Summary(
        group=group,
        rows=len(rows),
        compared=len(errors),
        agreeing=sum(row.agrees is True and not row.is_input for row in rows),
        tolerance=max((row.tolerance for row in rows), default=0.0),
        error_mean=sum(error for error, _ in errors) / len(errors) if errors else None,
        error_max=most,
        worst=worst,
    )


def by_group(rows: Iterable[Row]) -> list[Summary]:
    """One summary a group, in the order of the rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return [summarize(name, of) for name, of in groups.items()]


@dataclass(frozen=True)
class Outcome:
    """What a figure found: its table, and how it is shown."""

    table: Table
    rows: list[Row]
    charts: Sequence[Chart] = ()


Shown = tuple[list[Row], Sequence[Chart]]
"""A table for readers."""


def no_jobs(_case: Entry) -> Sequence[Job]:
    """For what is counted, not run."""
    return ()


@dataclass(frozen=True)
class Figure:
    """One table or figure; its title and what is said about it are in ``figures.csv``.

    Attributes:
        name: as on the command line, such as ``fig8``.
        cases: what is looked at; with True only a few.
        measure: the numbers of a case and what it is in words (``what``), from the records of its runs.
        show: rows and charts of the table of all cases.
        jobs: the runs of a case.
    """

    name: str
    cases: Callable[[bool], Sequence[Entry]]
    measure: Callable[..., Entry]
    show: Callable[[Table], Shown]
    jobs: Callable[[Entry], Sequence[Job]] = no_jobs

    def points(self, quick: bool) -> list[Job]:
        """All runs, each once."""
        return list(dict.fromkeys(job for case in self.cases(quick) for job in self.jobs(case)))

    def evaluate(self, results: Mapping[Job, Record], quick: bool) -> Outcome:
        """The table of all cases, and how it is shown."""
        table = Table(
            case | self.measure(case, *(results[job] for job in self.jobs(case))) for case in self.cases(quick)
        )
        table.whole = not quick
        return Outcome(table, *self.show(table))


def row_of(entry: Entry, column: str, unit: str, **fields: Any) -> Row:
    """A number of an entry beside the published one, ``known``, as its series is held against it."""
    series = entry["series"]
    usual = {"group": str(series), "what": entry["what"], "artifact": entry.get("known"), "tolerance": series.tolerance}
    usual |= {"note": entry.get("note", series.note), "source": entry.get("source", "")}
    return Row(unit=unit, ours=entry[column], **usual | fields)


def stated_row(
    data: Data,
    figure: str,
    group: str,
    what: str,
    unit: str,
    ours: float,
    key: str = "",
    tolerance: float | None = None,
    note: str = "",
    reference: float | None = None,
) -> Row:
    """A number beside what the paper states, by ``key``, and what a reference gives: another model's table, by group
    and what, unless it is given."""
    stated = data.stated.get(figure, {}).get(key)
    paper, source = (stated.value, stated.source) if stated else (None, "")
    reference = data.reference.get((figure, f"{group}: {what}"), reference)
    tolerance = data.tolerance if tolerance is None else tolerance
    return Row(group, what, unit, ours, paper, None, tolerance, note, reference, source)


@dataclass(frozen=True)
class Paper:
    """A paper: its figures, in its order, and its claims that need a function of their own, by ``id``."""

    data: Data
    figures: Sequence[Figure]
    checks: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.data.paper

    @cached_property
    def styles(self) -> dict[str, Style]:
        """Of all series."""
        return {series.name: series.style for series in self.data.series.values()}

    def title(self, figure: Figure) -> str:
        """As the paper calls the figure, and of what it is."""
        return self.data.figures[figure.name]["title"]
