"""Records as rows of a table, and rows as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from antiphon.errors import harmless

Row = dict[str, Any]
FORMULA = re.compile(r"[=@\t\n]|[+-](?![\d.]+(e[+-]?\d+)?(\s|$))", re.IGNORECASE)
"""How a cell begins that a spreadsheet computes; a number with a sign is none."""


def flat(record: Mapping[str, Any], head: str = "") -> Row:
    """Numbers, words and flags of a record: those of objects in it as ``object.key``, lists of them as one text; other
    lists are left out.

    >>> flat({"time_ns": 5, "bound": {"cut_ns": 4}, "excluded_ranks": [3, 5], "runs": [{"time_ns": 5}]})
    {'time_ns': 5, 'bound.cut_ns': 4, 'excluded_ranks': '3 5'}
    """
    row: Row = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{head}{key}.")
        elif not isinstance(value, list | tuple):
            row[head + key] = value
        elif value and not any(isinstance(each, list | tuple | Mapping) for each in value):
            row[head + key] = " ".join(map(str, value))
    return row


def nested(row: Row) -> Row:
    """A row with ``object.key`` as an object again.

    >>> nested({"time_ns": 5, "bound.cut_ns": 4})
    {'time_ns': 5, 'bound': {'cut_ns': 4}}
    """
    record: Row = {}
    for name, value in row.items():
        head, dot, key = name.partition(".")
        if dot:
            record.setdefault(head, {})[key] = value
        else:
            record[name] = value
    return record


def write_csv(rows: Iterable[Row], file: TextIO) -> None:
    """Writes rows with a header of all their keys; no value is an empty cell."""
    rows = list(rows)
    writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)


def plain(value: Any) -> Any:
    """A value as JSON writes it: flags are ``true`` and ``false``."""
    return str(value).lower() if isinstance(value, bool) else value


def _cell(value: Any) -> Any:
    """A value as a cell that neither a terminal nor a spreadsheet obeys: text that would be a formula is quoted."""
    if not isinstance(value, str):
        return plain(value)
    text = harmless(value)
    return f"'{text}" if FORMULA.match(text) else text
