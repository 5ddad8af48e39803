"""What is known, as lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import antiphon
from antiphon.view.document import Document, Either, Note, Part, Table


def list_document(rows: Sequence[dict[str, Any]]) -> Document:
    """Rows of equal keys, as a table."""
    cells = [[Note(first, "bold"), *rest] for first, *rest in map(dict.values, rows)]
    return Document([Table([key.capitalize() for key in rows[0]], cells)])


def entries_table(what: str, known: Sequence[antiphon.Entry], *, examples: bool = False) -> Table:
    """Names, what they are, and their options, a line each; with ``examples``, these where there are no options."""
    rows = []
    for each in known:
        options = "\n".join(map(_option, each.options)) or each.example * examples
        rows.append((Note(each.name, "bold"), each.summary, options))
    return Table((what, "What it is", "Options"), rows, ruled=True)


def options_document(what: str, name: str, parameters: Sequence[antiphon.Parameter], title: str) -> Document:
    """The parameters of one thing, a row each."""
    rows = [(Note(each.key, "bold"), each.default, each.values, each.meaning) for each in parameters]
    return Document([Table((what, name, "Values", "Meaning"), rows, title)])


def algorithms_document(known: Sequence[antiphon.Entry]) -> Document:
    """A paragraph for each, with an option on a line of its own; where there is room, a row."""
    rows = [
        (each.name, each.summary, "\n".join(map(_option, each.options)), ", ".join(each.collectives), each.source)
        for each in known
    ]
    lines: list[Part] = []
    for place, each in enumerate(known):
        lines += [Note("")] if place else []
        lines.append(Note(f"{each.name}: {each.summary}", wrap=True, bold=len(each.name)))
        lines += [Note(f"- {_option(option)}", wrap=True) for option in each.options]
        lines.append(Note(f"Does {', '.join(each.collectives)}.", wrap=True))
        lines.append(Note(f"Source: {each.source}", "dim", wrap=True))
    return Document([Either(lines, [Table(("Algorithm", "What it does", "Options", "Collectives", "Source"), rows)])])


def _option(option: antiphon.Parameter) -> str:
    """An option on one line."""
    values = "" if option.kind in ("bytes", "rank") else f"{option.values}; "
    return f"{option.key}: {option.meaning.rstrip('.')} ({values}default {option.default})"
