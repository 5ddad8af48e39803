"""The folder of a paper: what it published, its series and texts as CSV, its figures as TOML."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from antiphon.files import parse_toml
from antiphon.studies import Job, Point, RailsPoint, TrainingPoint

Spec = dict[str, Any]
"""A part of ``figures.toml``."""
KINDS: Mapping[str, type[Job]] = {"collective": Point, "rails": RailsPoint, "training": TrainingPoint}
"""Of runs that ``figures.toml`` describes."""


@dataclass(frozen=True)
class Series:
    """What the figures compare, such as an algorithm: a row of ``series.csv``.

    Attributes:
        name: for the reader.
        colour, marker, dashed: how it is drawn, the same in every figure.
        run: what it is here, such as the specification of an algorithm; empty for what is drawn only.
        published: its name in the published tables, empty if they do not have it.
        roles: further names by which claims mean it.
        tolerance: share by which ours may be off the published numbers; set here, never for a point.
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
    tolerance: float = 0.01
    note: str = ""
    more: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, row: dict[str, str]) -> Series:
        """From a row of the table."""
        roles = tuple(filter(None, row.pop("roles", "").split("|")))
        dashed, tolerance = row.pop("dashed") == "yes", float(row.pop("tolerance", "") or cls.tolerance)
        texts = {name: row.pop(name, "") for name in ("name", "colour", "marker", "run", "published", "note")}
        return cls(**texts, dashed=dashed, roles=roles, tolerance=tolerance, more=row)


PLAIN = Series()
"""What is no series has its tolerance, and no note."""


@dataclass(frozen=True)
class Stated:
    """A number of the paper's text: a row of ``stated.csv``.

    Attributes:
        source: which number it is; what is quoted in two places has one.
        note: how firm it is, a key of the texts in the table.
        tolerance: share by which ours may be off, where it is another than for all; in the table it may be in points.
    """

    value: float
    source: str
    note: str = ""
    tolerance: float | None = None


@dataclass(frozen=True)
class Data:
    """The tables in ``papers/PAPER``; ``tolerance`` is that of numbers which its text states, ``kinds`` are the classes
    of its runs."""

    paper: str
    tolerance: float = 0.01
    kinds: Mapping[str, type[Job]] = field(default_factory=lambda: KINDS, compare=False, repr=False)

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of ``NAME.csv``."""
        return [dict(row) for row in _rows(self.paper, name)]

    @cached_property
    def series(self) -> dict[str, Series]:
        """All series by name, in the order of legends."""
        return {row["name"]: Series.of(row) for row in self.table("series")}

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
    def figures(self) -> dict[str, Spec]:
        """What ``figures.toml`` says of every figure: title, description, cases, and how its table is shown. A part
        that is the name of another figure is as there."""
        figures = parse_toml((files(f"antiphon.papers.{self.paper}") / "figures.toml").read_text("utf-8"))

        def part(name: str, said: Any) -> Any:
            return figures[said][name] if isinstance(said, str) and said in figures else said

        whole = {figure: {name: part(name, said) for name, said in of.items()} for figure, of in figures.items()}
        return {figure: of | {"about": of["about"].format_map(self.texts)} for figure, of in whole.items()}

    @cached_property
    def stated(self) -> dict[str, dict[str, Stated]]:
        """What the paper's text states, by figure and what it is of."""
        found: dict[str, dict[str, Stated]] = {}
        for row in self.table("stated"):
            value, source = float(row["value"]), row.get("same_as") or f"{row['figure']}: {row['what']}"
            share, points = row.get("tolerance"), row.get("points")
            tolerance = float(share) if share else round(float(points) / value, 3) if points else None
            note = self.texts[row["note"]] if row.get("note") else ""
            found.setdefault(row["figure"], {})[row["what"]] = Stated(value, source, note, tolerance)
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


@cache
def known(paper: str, tables: tuple[str, ...], columns: tuple[str, ...]) -> Mapping[tuple[str, ...], dict[str, str]]:
    """The rows of published tables, by what some columns have."""
    return {tuple(row[column] for column in columns): row for name in tables for row in _rows(paper, name)}


def number(of: Mapping[str, Any], spec: str | Spec) -> float:
    """A number of a row or record, by the name of its field, or ``of`` it, ``less`` another, so many ``times``, ``per``
    so much."""
    if isinstance(spec, str):
        return float(of[spec]) if isinstance(of[spec], str) else of[spec]
    factors = (spec.get("less", 0), spec.get("times", 1), spec.get("per", 1))
    less, times, per = (float(of[factor] if isinstance(factor, str) else factor) for factor in factors)
    return (float(of[spec["of"]]) - less) * times / per
