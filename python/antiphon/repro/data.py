"""The folder of a paper: what it published, its series and texts, as CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal, cast

Kind = Literal["result", "input", "fitted"]


def rounding(printed: str) -> float:
    """By how much a printed number may differ from what it was rounded from: half a unit of its last digit.

    >>> rounding("2"), rounding("2.70"), rounding("1,271"), rounding("1e-3")
    (0.5, 0.005, 0.5, 0.0005)
    """
    return 0.5 * 10.0 ** int(Decimal(printed.replace(",", "")).as_tuple().exponent)


@dataclass(frozen=True)
class Series:
    """What the figures compare, such as an algorithm: a row of ``series.csv``.

    Attributes:
        name: for the reader.
        colour, marker, dashed: how it is drawn, the same in every figure.
        run: what it is here, such as the specification of an algorithm; empty for what is drawn only.
        published: its name in the published tables, empty if they do not have it.
        roles: further names by which claims mean it.
        note: what is known about differences.
        more: columns that only this paper has.
    """

    name: str = ""
    colour: str = ""
    marker: str = "o"
    dashed: bool = False
    run: str = ""
    published: str = ""
    roles: tuple[str, ...] = ()
    note: str = ""
    more: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, row: dict[str, str]) -> Series:
        """From a row of the table."""
        roles = tuple(filter(None, row.pop("roles", "").split("|")))
        dashed = row.pop("dashed") == "yes"
        texts = {name: row.pop(name, "") for name in ("name", "colour", "marker", "run", "published", "note")}
        return cls(**texts, dashed=dashed, roles=roles, more=row)


PLAIN = Series()
"""What is no series has no note."""


@dataclass(frozen=True)
class Stated:
    """A number of the paper's text: a row of ``stated.csv``.

    Attributes:
        source: which number it is; what is quoted in two places has one.
        note: how firm it is, a key of the texts in the table.
        rounding: by how much it may differ from what it was rounded from, by the digits that the table has.
        kind: ``input`` or ``fitted`` where it is no result (``Row.kind``); a column of the table.
    """

    value: float
    source: str
    note: str = ""
    rounding: float = 0.0
    kind: Kind = "result"


@dataclass(frozen=True)
class Data:
    """The tables in ``papers/PAPER``."""

    paper: str

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of ``NAME.csv``."""
        return [dict(row) for row in _rows(self.paper, name)]

    @cached_property
    def series(self) -> dict[str, Series]:
        """All series by name, in the order of legends."""
        return {row["name"]: Series.of(row) for row in self.table("series")}

    def number(self, tables: str, column: str, **columns: object) -> float | None:
        """A number of the row of one of some tables, ``one|other``, in which columns have these values; None if there
        is none."""
        rows = (row for table in tables.split("|") for row in _rows(self.paper, table))
        found = (row for row in rows if all(row[name] == str(value) for name, value in columns.items()))
        return next((float(row[column]) for row in found), None)

    def named(self, *names: str) -> list[Series]:
        """Some of the series."""
        return [self.series[name] for name in names]

    @cached_property
    def texts(self) -> dict[str, str]:
        """Of the page, by key; a text may contain others as ``{key}``."""
        texts: dict[str, str] = {}
        for row in self.table("texts"):
            texts[row["key"]] = row["text"].format_map(texts)
        return texts

    @cached_property
    def measured(self) -> str:
        """What was measured of it on a device, in words, by ``measured.json`` (``scripts/gpu_tables.py``); empty for
        papers that have no text for ``not_measured``."""
        file = files(f"antiphon.papers.{self.paper}") / "measured.json"
        if not file.is_file():
            return self.texts.get("not_measured", "")
        kept = json.loads(file.read_text("utf-8"))
        form = "{name} with {compute_share:g} of computation {measured_us:,.0f} µs, {ratio:.3f}"
        said = [form.format_map(row) for row in kept["rows"] if "compute_share" in row]
        return f"Measured on {kept['device']}, {kept['date']}, over predicted: {'; '.join(said)}."

    @cached_property
    def figures(self) -> dict[str, dict[str, str]]:
        """``title`` and what is said ``about`` every figure."""
        return {row["figure"]: row | {"about": row["about"].format_map(self.texts)} for row in self.table("figures")}

    @cached_property
    def stated(self) -> dict[str, dict[str, Stated]]:
        """What the paper's text states, by figure and what it is of."""
        found: dict[str, dict[str, Stated]] = {}
        for row in self.table("stated"):
            value, source = float(row["value"]), row.get("same_as") or f"{row['figure']}: {row['what']}"
            note = self.texts[row["note"]] if row.get("note") else ""
            found.setdefault(row["figure"], {})[row["what"]] = Stated(
                value, source, note, rounding(row["value"]), cast("Kind", row.get("kind") or "result")
            )
        return found

    @cached_property
    def reference(self) -> dict[tuple[str, str], float]:
        """What another model gives, by figure, and group and what; there may be none."""
        if not (files(f"antiphon.papers.{self.paper}") / "reference.csv").is_file():
            return {}
        return {(row["figure"], row["what"]): float(row["value"]) for row in self.table("reference")}


@cache
def _rows(paper: str, name: str) -> Iterable[dict[str, str]]:
    text = (files(f"antiphon.papers.{paper}") / f"{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
