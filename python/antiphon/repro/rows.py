"""Rows with verdicts, and how ``figures.toml`` makes them of a table.

Each of a figure's ``rows`` says which number of which entries is held against what:

* ``at``, ``by``: of which entries; of those that are alike on these axes, group after group.
* ``column``, ``unit``. With ``statistic``, one number of each group; with ``over``, a series, not of the column itself
  but of how many times that of the series it is.
* ``key``: what the paper's text calls the number; without one, entries have what the artifact has in ``known``, or
  what the paper has in ``stated``.
* ``group``, ``what``: the row in words. ``source``, ``reference``, ``tolerance``, ``note``, ``input``: as of ``Row``,
  but the reference is a column, and the note a key of the texts.
* ``rows``: several of each group, which have what is said here in common. ``whole``: only if all cases were run.

Texts may name whatever is said here or found for the entry, the first of its group: ``{series}``, ``{bytes:size}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.repro.data import PLAIN, Data, Series, Spec
from antiphon.repro.table import Entry, Table, words


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


def made_rows(data: Data, figure: str, table: Table) -> list[Row]:
    """All rows that ``figures.toml`` has of the table of a figure."""
    return [row for spec in data.figures[figure].get("rows", ()) for row in _rows(data, figure, table, table, spec)]


def _rows(data: Data, figure: str, table: Table, part: Table, spec: Spec) -> Iterator[Row]:
    if spec.get("whole") and not table.whole:
        return
    inner = {name: value for name, value in spec.items() if name not in ("at", "by", "rows")}
    for of in part.where(spec.get("at", "")).split(spec.get("by", "")):
        if "rows" in spec:
            for each in spec["rows"]:
                yield from _rows(data, figure, table, of, inner | each)
        elif "statistic" in spec:
            column, over = spec["column"], spec.get("over")
            values = table.where(series=over).over(column, of) if over else of.values(column)
            name = spec["statistic"]
            reference = getattr(of.values(spec["reference"]), name) if "reference" in spec else None
            yield row(data, figure, of[0], inner, getattr(values, name), reference)
        else:
            for entry in of:
                reference = entry[spec["reference"]] if "reference" in spec else None
                yield row(data, figure, entry, inner, entry[spec["column"]], reference)


def row(data: Data, figure: str, entry: Entry, spec: Spec, ours: float, reference: float | None = None) -> Row:
    """A number of an entry beside the published one."""

    def said(what: str, usually: str = "") -> str:
        return words(spec.get(what, usually), spec | entry)

    series = entry.get("series")
    usual, by_key = series if isinstance(series, Series) else PLAIN, "key" in spec
    paper = entry[said("stated")] if "stated" in spec else None
    stated = data.stated.get(figure, {}).get(said("key"))
    group, what = said("group", "{series}"), said("what", "{what}")
    tolerance, note = data.tolerance if by_key else usual.tolerance, entry.get("note", usual.note)
    source = said("source") if "source" in spec else entry.get("source", "")
    if stated:
        tolerance = tolerance if stated.tolerance is None else stated.tolerance
        note, source = stated.note or note, stated.source
    return Row(
        group,
        what,
        said("unit"),
        ours,
        stated.value if stated else paper,
        None if by_key or "stated" in spec else entry.get(said("known", "known")),
        spec.get("tolerance", tolerance),
        data.texts.get(spec["note"], "") if "note" in spec else note,
        data.reference.get((figure, f"{group}: {what}"), reference),
        source,
        spec.get("input", False),
    )


def stated_row(
    data: Data, figure: str, group: str, what: str, unit: str, ours: float, key: str = "", **spec: Any
) -> Row:
    """A number of no entry beside what the paper's text states; more as ``figures.toml`` would have it."""
    return row(data, figure, {}, {"group": group, "what": what, "unit": unit, "key": key} | spec, ours)
