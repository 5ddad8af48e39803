"""Documents as HTML, for notebooks and pages: tables and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from antiphon.view.document import Document, Either, Heading, Note, Part, Table


def html(document: Document, sortable: bool = False) -> str:
    """Elements for the body of a page; ``sortable`` tables are those that the script of pages sorts and saves.

    >>> html(Document([Table(["Size", "Time:"], [["<1 KiB", "3 ns"]]), Note("Done")])).splitlines()[2:]
    ['<tr><td style="text-align:left">&lt;1 KiB</td><td>3 ns</td></tr>', '</table>', '<p>Done</p>']
    """
    return "\n".join(_texts(document.parts, sortable))


def _texts(parts: Sequence[Part], sortable: bool) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Either):
            yield from _texts(part.wide, sortable)
        elif isinstance(part, Table):
            yield from _lines(part, sortable and part.header)
        else:
            tag = {Heading: "h2", Note: "p"}.get(type(part), "pre")
            yield f"<{tag}>{escape(part.text)}</{tag}>"


def _lines(table: Table, sortable: bool) -> Iterator[str]:
    kind = ' class="sort" data-download="table"' if sortable else ""
    yield f"<table{kind}>" + (f"<caption>{escape(table.title)}</caption>" if table.title else "")
    cells = [("th" if right else 'th style="text-align:left"', name) for name, right in table.heads]
    if table.header:
        head = _row(cells)
        yield f"<thead>{head}</thead><tbody>" if sortable else head
    for row in table.rows:
        texts = [cell.text if isinstance(cell, Note) else cell for cell in row]
        yield _row([(kind.replace("th", "td", 1), text) for (kind, _), text in zip(cells, texts, strict=True)])
    yield "</tbody></table>" if sortable else "</table>"


def _row(cells: Sequence[tuple[str, str]]) -> str:
    """A row of tags, with what is written in them, and texts."""
    parts = (f"<{tag}>{escape(text)}</{tag[:2]}>".replace("\n", "<br>") for tag, text in cells)
    return f"<tr>{''.join(parts)}</tr>"
