"""In which form a command prints what it found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from antiphon.cli.options import SHARED, Shared, kept
from antiphon.flat import Row, flat, write_csv
from antiphon.view.terminal.console import in_markdown, open_console, print_json

FORMATS = ("table", "json", "csv", "markdown")
"""For people, programs, spreadsheets, pages."""
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


SHARED["output"] = [
    (
        "output",
        Shared(
            "For people, programs (docs/json.md), spreadsheets, pages.",
            "Output",
            ("--format",),
            {"type": click.Choice(FORMATS), "default": "table", "show_default": True, "callback": _chosen},
        ),
    ),
    (
        "as_json",
        Shared(
            "The same as --format json.",
            "Output",
            ("--json",),
            {"is_flag": True, "is_eager": True, "expose_value": False, "callback": kept(_JSON)},
        ),
    ),
]
"""The form of the output."""


def tell(
    command: str,
    document: dict[str, Any],
    output: str,
    show: Callable[[], None],
    rows: str | Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Prints what a command found: a document, or as ``show`` does it. The rows of a table are ``rows``, or the
    objects in this list of the document, or the document."""
    if output == "json":
        print_json(command, document)
    elif output == "csv":
        table = table_of(document, rows) if rows is None or isinstance(rows, str) else [flat(row) for row in rows]
        write_csv(table, sys.stdout)
    elif output == "markdown":
        with in_markdown():
            show()
    else:
        show()


def table_of(document: dict[str, Any], rows: str | None = None) -> list[Row]:
    """The rows of a document: objects of one of its lists, behind what holds for all of them."""
    if rows is None or rows not in document:
        return [flat(document)]
    head = flat({key: value for key, value in document.items() if key != rows})
    return [head | flat(row) for row in document[rows]]


def note(output: str, text: str) -> None:
    """Says where a file is, to people."""
    if output == "table":
        open_console().print(text, style="dim")
