"""Documents as HTML, for notebooks: tables and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from antiphon.view.document import Document, Either, Heading, Note, Part, Table


def html(document: Document) -> str:
    """Elements for the body of a page.

    >>> html(Document([Table(["Size", "Time:"], [["<1 KiB", "3 ns"]]), Note("Done")])).splitlines()[2:]
    ['<tr><td style="text-align:left">&lt;1 KiB</td><td>3 ns</td></tr>', '</table>', '<p>Done</p>']
    """
    return "\n".join(_texts(document.parts))


def _texts(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Either):
            yield from _texts(part.wide)
        elif isinstance(part, Table):
            yield from _lines(part)
        else:
            tag = {Heading: "h2", Note: "p"}.get(type(part), "pre")
            yield f"<{tag}>{escape(part.text)}</{tag}>"


def _lines(table: Table) -> Iterator[str]:
    yield f"<table><caption>{escape(table.title)}</caption>" if table.title else "<table>"
    cells = [("th" if right else 'th style="text-align:left"', name) for name, right in table.heads]
    if table.header:
        yield _row(cells)
    for row in table.rows:
        texts = [cell.text if isinstance(cell, Note) else cell for cell in row]
        yield _row([(kind.replace("th", "td", 1), text) for (kind, _), text in zip(cells, texts, strict=True)])
    yield "</table>"


def _row(cells: Sequence[tuple[str, str]]) -> str:
    """A row of tags, with what is written in them, and texts."""
    parts = (f"<{tag}>{escape(text)}</{tag[:2]}>".replace("\n", "<br>") for tag, text in cells)
    return f"<tr>{''.join(parts)}</tr>"
