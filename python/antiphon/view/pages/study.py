"""The page of a study: its points plotted over any axis, which the reader chooses, and their table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from antiphon._core import format_bytes
from antiphon.flat import plain
from antiphon.plot import COLOURS
from antiphon.studies.study import Study
from antiphon.studies.table import REFUSED
from antiphon.view.document import Document, Table
from antiphon.view.pages.sheet import Section, sheet
from antiphon.view.text import NO_STEPS, digits, format_steps, format_time

BUDGET = 600_000
"""Bytes of the data of points on a page; columns and then points that do not fit are left out, and the page says so."""
DIGITS = 5
"""Significant ones of numbers on a page."""
LIST = re.compile(r"-?[\d.]+( -?[\d.]+)+( .*)?")
"""Numbers, which a row has as one text."""
MOST_ROWS = 200
"""Of the table."""
MOST_COLUMNS = 14
"""Of the table."""


def render(found: Study, name: str = "") -> str:
    """The page as text; ``name`` is that of the file."""
    rows = [_plain_steps(row) for row in replace(found, columns=None).rows]
    axes = list(dict.fromkeys(key for each in found.values for key in each))
    main = [column for column in found.columns or () if column not in axes]
    order = dict.fromkeys([*axes, *main, *(rows[0] if rows else ())])
    whole = {column: [row.get(column) for row in rows] for column in order if column not in REFUSED}
    varying = {column: values for column, values in whole.items() if len({repr(value) for value in values}) > 1}
    fixed = {column: values[0] for column, values in whole.items() if values and column not in varying}
    kept, every = _fitting(varying, len(rows))
    chosen = _choice(kept, [axis for axis in axes if axis in kept], main)
    missing = sum(found.refused.values())
    shown = [column for column in [*axes, *main] if column in varying][:MOST_COLUMNS]
    sections = [Section("Points", _table_text(len(rows)), shown=Document([_table(rows, shown)]))]
    if constant := [
        f"{column} {_text(column, value)}" for column, value in fixed.items() if column in axes or _says(value)
    ][:40]:
        sections.append(Section("The same at all points", " · ".join(constant)))
    if found.refused:
        reasons = [[f"{count:,}", why] for why, count in found.refused.items()]
        sections.append(Section("Without a result", shown=Document([Table(("Points:", "Why"), reasons)])))
    left_out = len(varying) - len(kept)
    moving = [axis for axis in axes if axis in varying]
    about = f"{len(rows):,} points" + (f" over {', '.join(moving)}" if moving else "")
    return sheet(
        f"Study {name}" if name and name != "study" else f"Study of {len(rows):,} points",
        about,
        _verdict(rows, axes, main, missing),
        sections,
        template="study.html",
        chosen=chosen,
        columns=list(kept),
        points=json.dumps({name: _packed(values) for name, values in kept.items()}, separators=(",", ":")),
        axes=[axis for axis in moving if axis in kept],
        colours=COLOURS,
        left_out=left_out,
        every=every,
    )


def _plain_steps(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without steps that are slots of a timetable, as other pages show them: those that are more than messages.

    A row does not have its messages; each makes one hop of a packet at least.
    """
    plain_row = dict(row)
    for best in ("", "best."):
        steps, hops = (row.get(f"{best}{name}") for name in ("steps", "packet_hops"))
        if isinstance(steps, int) and isinstance(hops, int) and hops and format_steps(steps, hops) == NO_STEPS:
            plain_row[f"{best}steps"] = None
    return plain_row


def _says(value: Any) -> bool:
    """Whether a value is worth a line: empty texts and lists of numbers, which are texts in a row, are not."""
    return value is not None and value != "" and not (isinstance(value, str) and LIST.fullmatch(value))


def _fitting(columns: Mapping[str, Sequence[Any]], count: int) -> tuple[dict[str, Sequence[Any]], int]:
    """As many columns as fit the budget, the first first; of so many points, each ``every``-th."""
    first = dict(list(columns.items())[:3])
    size = sum(len(json.dumps(_packed(values))) for values in first.values())
    every = max(1, -(-size // BUDGET))
    kept: dict[str, Sequence[Any]] = {}
    left = BUDGET
    for name, values in columns.items():
        thinned = values[::every]
        left -= (size := len(json.dumps(_packed(thinned), separators=(",", ":"))) + len(name) + 4)
        if left < 0 and len(kept) >= 3:
            left += size
            continue
        kept[name] = thinned
    return kept, every


def _packed(values: Sequence[Any]) -> Any:
    """Numbers rounded; texts as their list and a number for each."""
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        return [None if value is None or value != value else _rounded(value) for value in values]
    texts = ["" if value is None else str(plain(value)) for value in values]
    known = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return {"names": list(known), "of": [known[text] for text in texts]}


def _rounded(value: float) -> float:
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _choice(columns: Mapping[str, Sequence[Any]], axes: Sequence[str], main: Sequence[str]) -> dict[str, str]:
    """What is plotted at first: the axis with most values, a main result, and another axis for the series."""

    def distinct(axis: str) -> tuple[bool, int]:
        values = columns[axis]
        return all(isinstance(value, int | float) for value in values), len({repr(value) for value in values})

    ranked = sorted(axes, key=distinct, reverse=True)
    x = ranked[0] if ranked else next(iter(columns), "")
    results = [name for name in main if name in columns] or [name for name in columns if name not in axes]
    others = [axis for axis in axes if axis != x]
    texts = sorted((axis for axis in others if not distinct(axis)[0]), key=distinct, reverse=True)
    return {"x": x, "y": next(iter(results), x), "series": next(iter([*texts, *others]), "")}


def _verdict(rows: Sequence[Mapping[str, Any]], axes: Sequence[str], main: Sequence[str], missing: int) -> str:
    text = Markup("<strong>{:,} points</strong> have a result").format(len(rows) - missing)
    text += f", {missing:,} have none." if missing else "."
    timed = next((name for name in main if name.endswith("_ns")), None)
    known = [row for row in rows if timed is not None and isinstance(row.get(timed), int | float)]
    if timed is None or not known:
        return text
    best = min(known, key=lambda row: row[timed])
    where = ", ".join(f"{axis} {_text(axis, best[axis])}" for axis in axes if best.get(axis) is not None)
    return text + f" The least {timed} is {format_time(best[timed])}, at {where}."


def _table_text(count: int) -> str:
    return f"The first {MOST_ROWS} of {count:,}; --out FILE writes all." if count > MOST_ROWS else ""


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    numeric = {name for name in columns if any(isinstance(row.get(name), int | float) for row in rows)}
    heads = [f"{name}:" if name in numeric else name for name in columns]
    return Table(heads, [[_text(name, row.get(name)) for name in columns] for row in rows[:MOST_ROWS]])


def _text(name: str, value: Any) -> str:
    if value is None:
        return NO_STEPS if name.endswith("steps") else ""
    if isinstance(value, bool | str):
        return str(plain(value))
    if name.endswith("_ns"):
        return format_time(value) if value > 0 else "0"
    if name == "bytes" or name.endswith("_bytes"):
        return format_bytes(int(value))
    return digits(value) if isinstance(value, float) else str(plain(value))
