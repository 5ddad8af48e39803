"""In which form a command prints what it found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from antiphon.cli.options import SHARED, Shared, kept
from antiphon.files import written_whole
from antiphon.flat import Row, flat, write_csv
from antiphon.view.document import Document, dim, document
from antiphon.view.terminal.console import print_json

FORMATS = ("table", "json", "csv", "markdown", "html")
"""For people, programs, spreadsheets, texts and browsers."""
PROSE = ("table", "markdown")
"""Those of them that are printed piece by piece."""
_JSON = "antiphon.json"


def _chosen(context: click.Context, parameter: click.Parameter, output: str) -> str:
    if not context.meta[_JSON]:
        return output
    given = context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.DEFAULT
    if given and output != "json":
        raise click.UsageError("give either --json or --format")
    return "json"


SHARED["output"] = {
    "output": Shared(
        "For people, programs (docs/reference/json.md), spreadsheets, texts, browsers.",
        "Output",
        "--format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        callback=_chosen,
    ),
    "as_json": Shared(
        "The same as --format json.",
        "Output",
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=kept(_JSON),
    ),
}
"""The form of the output."""


def tell(
    command: str,
    document: dict[str, Any],
    output: str,
    show: Callable[[], Document],
    rows: str | Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Prints what a command found: a JSON document, or for people what ``show`` makes. The rows of a table are
    ``rows``, or the objects in this list of the JSON document, or the whole of it."""
    if output == "json":
        print_json(command, document)
    elif output == "csv":
        table = table_of(document, rows) if rows is None or isinstance(rows, str) else [flat(row) for row in rows]
        write_csv(table, sys.stdout)
    else:
        print_for_people(show(), output)


def print_for_people(document: Document, output: str = "table") -> None:
    """Prints a document on a terminal, as Markdown or as a page."""
    if output == "markdown":
        from antiphon.view.markdown import markdown

        click.echo(markdown(document), nl=False)
    elif output == "html":
        from antiphon.view.pages.sheet import document_page

        click.echo(document_page(document))
    else:
        from antiphon.view.terminal.render import print_document  # where rich is needed

        print_document(document)


def table_of(document: dict[str, Any], rows: str | None = None) -> list[Row]:
    """The rows of a document: objects of one of its lists, behind what holds for all of them."""
    if rows is None or rows not in document:
        return [flat(document)]
    head = flat({key: value for key, value in document.items() if key != rows})
    return [head | flat(row) for row in document[rows]]


def note(output: str, text: str | None) -> None:
    """Says where a file is, if there is one, to people."""
    if output == "table" and text:
        print_for_people(document(dim(text)))


@contextmanager
def writing(path: str | None, suffix: str) -> Iterator[Callable[[Callable[[], str]], None]]:
    """Refuses a file that cannot be written before there is anything to write; without a path nothing is written.

    What it gives writes a text, and puts the file in its place before anything is printed: the reader may go.
    """
    with ExitStack() as opened:
        file = None if path is None else opened.enter_context(written_whole(path, suffix))

        def write(text: Callable[[], str]) -> None:
            if file is not None:
                file.write(text())
                opened.close()

        yield write
