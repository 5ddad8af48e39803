"""Documents on a terminal, by rich."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from antiphon.errors import harmless
from antiphon.view.document import Document, Either, Heading, Note, Part, Table


class Plain(Console):
    """Plain text (no markup, no guesses) with nothing that a terminal would obey but its own styles. Tells that the
    reader is gone, where others end the process."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(harmless(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_document(document: Document) -> None:
    """Prints a document, wide where nobody's window limits it."""
    _print(Plain(width=None if sys.stdout.isatty() else 160), document.parts)


def _print(console: Console, parts: Sequence[Part]) -> None:
    for part in parts:
        if isinstance(part, Either):
            _print(console, part.narrow)
        elif isinstance(part, Table):
            for table in _fitting(console, part):
                console.print(table)
        elif isinstance(part, Heading):
            console.rule(part.text, align="left")
        elif isinstance(part, Note):
            console.print(_text(part), soft_wrap=not part.wrap)
        else:
            console.print("\n" * part.apart + part.text, soft_wrap=True)


def _text(cell: str | Note) -> str | Text:
    if isinstance(cell, str):
        return cell
    text = Text(cell.text, style=cell.style)
    text.stylize("bold", 0, cell.bold)
    return text


def _fitting(console: Console, table: Table) -> Iterator[RichTable]:
    """A table; where it is wider than the console, without what is dispensable, and then in parts: its names, which
    come first, stand again before the figures that do not fit beside the others."""
    unlimited = console.options.update(max_width=10_000)

    def fits(places: Sequence[int], widest: int | None = None) -> bool:
        return console.measure(_of(table, places, widest), options=unlimited).maximum <= console.width

    shown = list(range(len(table.columns)))
    for name in table.dispensable:  # rather fewer columns than cut names and figures
        place = table.columns.index(name) if name in table.columns else -1
        if place in shown and not fits(shown):
            shown.remove(place)
    names = [place for place in shown if not table.heads[place][1]]
    figures = shown[len(names) :]
    if not names or not figures or names != shown[: len(names)] or fits(shown):
        yield _of(table, shown)
        return
    widest = max(console.width // (2 * len(names)), 8)  # room for figures beside long names, which are folded
    parts: list[list[int]] = [[]]
    for place in figures:
        if parts[-1] and not fits([*names, *parts[-1], place], widest):
            parts.append([])
        parts[-1].append(place)
    yield from (_of(table, [*names, *part], widest) for part in parts)


def _of(table: Table, places: Sequence[int], widest: int | None = None) -> RichTable:
    """Some columns of a table, with folded names."""
    columns = []
    for place in places:
        name, right = table.heads[place]
        if right:
            columns.append(Column(name, justify="right"))
        else:
            columns.append(Column(name, overflow="fold", max_width=widest))
    made = RichTable(*columns, title=table.title or None, show_header=table.header, show_lines=table.ruled)
    for row, style in zip(table.rows, table.styles or [""] * len(table.rows), strict=True):
        made.add_row(*(_text(row[place]) for place in places), style=style)
    return made
