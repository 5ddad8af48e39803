"""What people see of a result: a document of tables and notes, whatever shows it.

Makers of documents (``view/documents/``) put figures into words; terminals, Markdown, pages and notebooks render them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

T = TypeVar("T")


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
    header: bool = True
    ruled: bool = False
    dispensable: Sequence[str] = ()

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """The name of each column, and whether it has figures."""
        return [(name.removesuffix(":"), name.endswith(":")) for name in self.columns]


@dataclass(frozen=True)
class Either:
    """What stands on a terminal, and what in its place where there is room for wide tables."""

    narrow: Sequence[Part]
    wide: Sequence[Part]


Part: TypeAlias = "Heading | Note | Verbatim | Table | Either"


@dataclass(frozen=True)
class Document:
    """What people see of a result."""

    parts: Sequence[Part] = ()

    def with_(self, *more: Part) -> Document:
        """The same, and more behind it."""
        return replace(self, parts=[*self.parts, *more])


def table_of(
    records: Iterable[T],
    columns: Mapping[str, Callable[[T], str]],
    title: str = "",
    style: Callable[[T], str] = lambda _record: "",
    without: Collection[str] = (),
) -> Table:
    """A row for each record; the columns, but for some, say how their cells are made.

    >>> table_of([0.5, 1.0], {"Rate:": "{:.2f}".format}).rows
    [['0.50'], ['1.00']]
    """
    rows, shown = list(records), [name for name in columns if name not in without]
    cells = [[columns[name](record) for name in shown] for record in rows]
    return Table(shown, cells, title, [style(record) for record in rows])


def facts(rows: Iterable[tuple[str, str]], title: str = "") -> Table:
    """Labels and values."""
    return Table(("", ""), list(rows), title, header=False)


def dim(text: str) -> Note:
    """An aside."""
    return Note(text, "dim")


def left_out(lines: Sequence[str], title: str = "Left out:") -> list[Note]:
    """What could not be done, and why; nothing where all could."""
    return [dim(title), *(dim(f"  {line}") for line in lines)] if lines else []


def more(all: int, shown: int, where: str = "--json") -> list[Note]:
    """What a table does not show of its rows."""
    return [dim(f"and {all - shown:,} more; {where} has all")] if all > shown else []
