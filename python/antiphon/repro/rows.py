"""Rows with verdicts: numbers of ours beside published ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.repro.data import PLAIN, Data, Series
from antiphon.repro.table import Entry


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


def by_group(rows: Sequence[Row]) -> list[Summary]:
    """One summary a group, in the order of the rows."""
    groups: dict[str, list[Row]] = {row.group: [] for row in rows}
    for row in rows:
        groups[row.group].append(row)
    return [summarize(name, of) for name, of in groups.items()]


class Rows(list[Row]):
    """The rows of a figure: numbers beside published ones."""

    def __init__(
        self, data: Data, figure: str, entries: Iterable[Entry] = (), unit: str = "", column: str = "", **more: Any
    ) -> None:
        """At first those of ``each``."""
        super().__init__()
        self.data, self.figure = data, figure
        self.each(entries, unit, column, **more)

    def each(self, entries: Iterable[Entry], unit: str, column: str, **more: Any) -> None:
        """Adds a column of every entry."""
        for entry in entries:
            self.add(entry, unit, entry[column], **more)

    def add(
        self,
        entry: Entry,
        unit: str,
        ours: float,
        group: str | None = None,
        what: str | None = None,
        key: str | None = None,
        *,
        paper: float | None = None,
        artifact: float | None = None,
        tolerance: float | None = None,
        note: str | None = None,
        source: str | None = None,
        reference: float | None = None,
        is_input: bool = False,
    ) -> None:
        """Adds a number of an entry.

        The entry has the row's ``group``, its ``series``, and ``what`` it is of, unless they are said, and may have the
        ``source`` and a ``note``. Published is what the paper's text states by a ``key``, what is said as of the
        ``paper`` or the ``artifact``, or else what the entry has as ``known``. What nothing is said of has the
        tolerance and the note of the series; what the text states has those of ``stated.csv``, or the tolerance of the
        paper.
        """
        series = entry.get("series")
        usual = series if isinstance(series, Series) else PLAIN
        in_group, of = str(series) if group is None else group, entry["what"] if what is None else what
        within, said = usual.tolerance if key is None else self.data.tolerance, entry.get("note", usual.note)
        where = entry.get("source", "") if source is None else source
        if key is None and paper is None and artifact is None:
            artifact = entry.get("known")
        if stated := self.data.stated.get(self.figure, {}).get(key or ""):
            paper, where, said = stated.value, stated.source, stated.note or said
            within = within if stated.tolerance is None else stated.tolerance
        within, said = within if tolerance is None else tolerance, said if note is None else note
        reference = self.data.reference.get((self.figure, f"{in_group}: {of}"), reference)
        self.append(Row(in_group, of, unit, ours, paper, artifact, within, said, reference, where, is_input))
