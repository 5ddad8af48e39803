"""What people see of a result: a document of tables and notes, whatever shows it.

Makers of documents (``view/documents/``) put figures into words; terminals, Markdown, pages and notebooks render them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from antiphon.view.text import filled


@dataclass(frozen=True)
class Heading:
    """Begins what is about one of several."""

    text: str


@dataclass(frozen=True)
class Note:
    """A line.

    Attributes:
        style: in words of rich, such as ``dim``.
        bold: so many characters at its start are.
        wrap: whether it is broken between words where it is longer than a terminal is wide; else it is left as it is.
    """

    text: str
    style: str = ""
    bold: int = 0
    wrap: bool = False


@dataclass(frozen=True)
class Verbatim:
    """Lines whose blanks and signs count; ``apart``: with a blank line before."""

    text: str
    apart: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of text.

    Attributes:
        columns: their names; one that ends in a colon has figures, aligned right, as in Markdown.
        rows: a cell for each column; notes are cells with a style of their own.
        styles: how each row looks, in words of rich; ``bold`` ones are the best.
        header: whether the names are shown.
        ruled: whether there is a line below each row.
        dispensable: columns that a narrow terminal goes without, the first to go first.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Note]]
    title: str = ""
    styles: Sequence[str] = ()
    header: bool = field(default=True, repr=False)
    ruled: bool = field(default=False, repr=False)
    dispensable: Sequence[str] = field(default=(), repr=False)

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """The name of each column, and whether it has figures."""
        return [(name.removesuffix(":"), name.endswith(":")) for name in self.columns]

    def with_row(self, cells: Mapping[str, str], style: str) -> Table:
        """The same, and a row that has only some of its cells."""
        row = [cells.get(name, "") for name in self.columns]
        return replace(self, rows=[*self.rows, row], styles=[*self.styles, style])


@dataclass(frozen=True)
class Either:
    """What stands on a terminal, and what in its place where there is room for wide tables."""

    narrow: Sequence[Part]
    wide: Sequence[Part]


Part: TypeAlias = "Heading | Note | Verbatim | Table | Either"
Loose: TypeAlias = "Part | str | bool | Sequence[Loose] | None"
"""A part, a line, several, or nothing."""


@dataclass(frozen=True)
class Document:
    """What people see of a result."""

    parts: Sequence[Part] = ()

    def with_(self, *more: Loose) -> Document:
        """The same, and more behind it."""
        return document(self.parts, *more)


def table_of(
    records: Iterable[Any],
    columns: str,
    title: str = "",
    style: Callable[[Any], str] = lambda _record: "",
    without: Collection[str] = (),
    **computed: Callable[[Any], Any],
) -> Table:
    """A row for each record. Columns, with bars between them, are a name and what ``filled`` makes of the rest.

    >>> table_of([{"name": "ring", "time_ns": 2.5e6}], "Algorithm {name} | Time: {time_ns}")
    Table(columns=['Algorithm', 'Time:'], rows=[['ring', '2.50 ms']], title='', styles=[''])

    Args:
        records: dictionaries or objects.
        style: how the row of a record looks.
        without: names of columns that are left out.
        computed: what is no field of a record.
    """
    rows = list(records)
    parts = [column.partition("{") for column in columns.split(" | ")]
    shown = [(name.rstrip(), brace + cell) for name, brace, cell in parts if name.rstrip() not in without]
    cells = [[filled(cell, record, computed) for _, cell in shown] for record in rows]
    return Table([name for name, _ in shown], cells, title, [style(record) for record in rows])


def facts(table: Table | None, title: str = "", more: Sequence[tuple[str, str]] = ()) -> Table:
    """Labels and values: the only row of a table, and more."""
    rows = [] if table is None else zip(table.columns, table.rows[0], strict=True)
    return Table(("", ""), [*rows, *more], title, header=False)


def document(*parts: Loose) -> Document:
    """A document of parts and lines, but for those that are empty or false.

    >>> document("first", False, ["second", None]).parts == [Note("first"), Note("second")]
    True
    """
    return Document(list(_flat(parts)))


def _flat(parts: Sequence[Loose]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, str):
            yield from [Note(part)] if part else []
        elif isinstance(part, Sequence):
            yield from _flat(part)
        elif part is not None and not isinstance(part, bool):
            yield part


def dim(*texts: str) -> list[Note]:
    """Asides, but for empty ones."""
    return [Note(text, "dim") for text in texts if text]


def left_out(lines: Sequence[str], title: str = "Left out:") -> list[Note]:
    """What could not be done, and why; nothing where all could."""
    return dim(title, *(f"  {line}" for line in lines)) if lines else []


def more(all: int, shown: int, where: str = "--json") -> list[Note]:
    """What a table does not show of its rows."""
    return dim(f"and {all - shown:,} more; {where} has all") if all > shown else []
