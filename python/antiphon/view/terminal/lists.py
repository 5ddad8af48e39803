"""What is known, as lists on a terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

import antiphon
from antiphon.view.terminal.console import open_console


def print_list(rows: list[dict[str, Any]]) -> None:
    """Rows of equal keys, as a table."""
    table = Table(*(key.capitalize() for key in rows[0]))
    for row in rows:
        first, *rest = row.values()
        table.add_row(Text(first, style="bold"), *rest)
    open_console().print(table)


def print_compute_models() -> None:
    """The compute models and their options."""
    table = Table("Compute model", "What it is", "Options", show_lines=True)
    for each in antiphon.compute_models():
        table.add_row(Text(each, style="bold"), each.summary, "\n".join(map(option_text, each.options)))
    open_console().print(table)


def option_text(option: antiphon.Parameter) -> str:
    """An option on one line."""
    values = "" if option.kind in ("bytes", "rank") else f"{option.values}; "
    return f"{option.key}: {option.meaning.rstrip('.')} ({values}default {option.default})"
