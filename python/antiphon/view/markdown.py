"""Documents as Markdown: tables as Markdown has them, lines as paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from antiphon.errors import harmless
from antiphon.view.document import Document, Either, Heading, Note, Part, Table


def markdown(document: Document) -> str:
    """The text, which ends with a blank line.

    >>> from antiphon.view.document import facts
    >>> print(markdown(Document([Table(["Size", "Time:"], [["1 | 2", "3 ns"]]), Note("Done")])), end="")
    | Size | Time |
    | --- | ---: |
    | 1 \\| 2 | 3 ns |
    <BLANKLINE>
    Done
    <BLANKLINE>
    """
    return harmless("".join(f"{text}\n\n" for text in _texts(document.parts)))


def _texts(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Either):
            yield from _texts(part.wide)
        elif isinstance(part, Table):
            yield "\n".join(_lines(part))
        elif isinstance(part, Heading):
            yield f"## {part.text}"
        else:
            yield part.text if isinstance(part, Note) else f"```\n{part.text}\n```"


def _lines(table: Table) -> Iterator[str]:
    if table.title:
        yield from (f"**{_cell(table.title)}**", "")
    yield _row(name if table.header else "" for name, _ in table.heads)
    yield _row("---:" if right else "---" for _, right in table.heads)
    yield from map(_row, table.rows)


def _row(cells: Iterable[str | Note]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(cell: str | Note) -> str:
    text = cell.text if isinstance(cell, Note) else cell
    return text.strip().replace("|", "\\|").replace("\n", "<br>")
