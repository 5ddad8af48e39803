"""Rows with verdicts: numbers of ours beside published ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.repro.data import PLAIN, Data, Kind, Series
from antiphon.repro.table import CLOSE, FIRM, Entry


@dataclass(frozen=True)
class Tolerance:
    """By which share numbers of a kind may be off, where 5 % is not right for them, and why; never for one number."""

    share: float
    reason: str


COUNTED = Tolerance(0.0, "a count")
COPIED = 0.001
"""Share by which an input may differ, as its print has fewer digits."""


@dataclass(frozen=True)
class Row:
    """One number: what is published, and ours.

    Attributes:
        group: what rows are summed up by, usually the series.
        what: the case, such as mesh and size.
        paper: as the paper states it, if it does.
        artifact: as the files behind the paper's figure have it, if they do.
        own: a tolerance other than the rule's; the count by the rule stands beside the count by it.
        note: what is known about a difference.
        reference: as another model of the same has it, to see where a difference comes from; never judged by.
        source: which published number it is, so that one held against several of ours counts once.
        rounding: by how much the published number may differ from what it was rounded from.
        kind: ``input`` if it was taken from the paper, ``fitted`` if a fit used it or it follows from fitted numbers
            alone; neither is ever counted.
    """

    group: str
    what: str
    unit: str
    ours: float
    paper: float | None = None
    artifact: float | None = None
    own: Tolerance | None = None
    note: str = ""
    reference: float | None = None
    source: str = ""
    rounding: float = 0.0
    kind: Kind = "result"

    @property
    def published(self) -> float | None:
        """The number ours is held against: the artifact's if there is one, else the paper's."""
        return self.paper if self.artifact is None else self.artifact

    @property
    def ratio(self) -> float | None:
        """Ours over the published number."""
        return self.ours / self.published if self.published else None

    @property
    def rule(self) -> float:
        """The share that the rule allows: 5 %, or the rounding of the published number, whichever is wider."""
        printed = self.artifact is None and self.published
        return max(CLOSE, self.rounding / abs(printed) if printed else 0.0)

    @property
    def tolerance(self) -> float:
        """The share that is allowed; an input is to be the paper's number."""
        return self.own.share if self.own else COPIED if self.kind == "input" else self.rule

    def _is_off_by_at_most(self, share: float) -> bool:
        published = self.published or 0.0
        allowed = share * abs(published) if published else self.rounding
        return abs(self.ours - published) <= allowed + FIRM * abs(published)

    @property
    def counts(self) -> bool:
        """Whether it is a result that something published is held against."""
        return self.kind == "result" and self.published is not None

    @property
    def agrees(self) -> bool | None:
        """Whether ours is within the tolerance; None if nothing is published."""
        return None if self.published is None else self._is_off_by_at_most(self.tolerance)

    @property
    def agrees_by_rule(self) -> bool | None:
        """The same without a tolerance of its own."""
        return None if self.published is None else self._is_off_by_at_most(self.rule)

    @property
    def verdict(self) -> str:
        """In words. An input that is not the paper's number is wrong, so it differs."""
        if self.agrees is None:
            return "nothing published"
        if self.kind == "fitted" or (self.kind == "input" and self.agrees):
            return self.kind
        return "holds" if self.agrees else "differs"


@dataclass(frozen=True)
class Summary:
    """Some rows in short; errors are shares, and None where nothing is published. ``by_rule`` is how many agree
    within 5 % or rounding, ``tolerance`` which others there are and why."""

    group: str
    rows: int
    compared: int
    agreeing: int
    by_rule: int
    tolerance: str
    error_mean: float | None
    error_max: float | None
    worst: str


def summarize(group: str, rows: Sequence[Row], name: str = "{0.what}") -> Summary:
    """Rows in short, of which inputs and what is fitted do not count; ``name`` says how the worst is named."""
    counted = [row for row in rows if row.counts]
    errors = [(abs(row.ratio - 1), name.format(row)) for row in counted if row.ratio is not None]
    own = dict.fromkeys(row.own for row in counted if row.own)
    most, worst = max(errors, key=lambda error: error[0], default=(None, ""))
    return Summary(
        group=group,
        rows=len(rows),
        compared=len(counted),
        agreeing=sum(row.agrees is True for row in counted),
        by_rule=sum(row.agrees_by_rule is True for row in counted),
        tolerance="; ".join(f"{100 * one.share:g} %: {one.reason}" for one in own),
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
        own: Tolerance | None = None,
        note: str | None = None,
        source: str | None = None,
        reference: float | None = None,
        kind: Kind = "result",
    ) -> None:
        """Adds a number of an entry.

        The entry has the row's ``group``, its ``series``, and ``what`` it is of, unless they are said, and may have the
        ``source`` and a ``note``. Published is what the paper's text states by a ``key``, what is said as of the
        ``paper`` or the ``artifact``, or else what the entry has as ``known``. What nothing is said of has the
        note of the series; what the text states has what ``stated.csv`` says.
        """
        series = entry.get("series")
        usual = series if isinstance(series, Series) else PLAIN
        in_group, of = str(series) if group is None else group, entry["what"] if what is None else what
        printed, said = 0.0, entry.get("note", usual.note)
        where = entry.get("source", "") if source is None else source
        if key is None and paper is None and artifact is None:
            artifact = entry.get("known")
        if stated := self.data.stated.get(self.figure, {}).get(key or ""):
            paper, where, said = stated.value, stated.source, stated.note or said
            printed, kind = stated.rounding, stated.kind if kind == "result" else kind
        said = said if note is None else note
        reference = self.data.reference.get((self.figure, f"{in_group}: {of}"), reference)
        row = Row(in_group, of, unit, ours, paper, artifact, own, said, reference, where, printed, kind)
        self.append(row)
