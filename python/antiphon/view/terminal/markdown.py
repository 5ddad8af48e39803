"""What a terminal would show, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from antiphon.errors import harmless


class Markdown(Console):
    """A console that writes tables as Markdown has them, and lines as paragraphs."""

    def print(self, *objects: Any, **_style: Any) -> None:
        for each in objects:
            click.echo(harmless("\n".join(_lines(each) if isinstance(each, Table) else [str(each)])) + "\n")

    def rule(self, title: Any = "", **_style: Any) -> None:
        click.echo(harmless(f"## {title}\n"))


def _lines(table: Table) -> Iterator[str]:
    if table.title:
        yield from (f"**{_cell(table.title)}**", "")
    yield _row(column.header if table.show_header else "" for column in table.columns)
    yield _row("---:" if column.justify == "right" else "---" for column in table.columns)
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        yield _row(cells)


def _row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(value: Any) -> str:
    return str(value).strip().replace("|", "\\|").replace("\n", "<br>")
