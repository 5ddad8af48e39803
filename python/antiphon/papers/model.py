"""What every reproduction is made of: experiments, rows with verdicts, claims, and charts."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

from antiphon.study import Job, Record

Numbers = dict[tuple[str | int, ...], float]
"""Results of an experiment by what they are of, such as (side, algorithm, bytes)."""


# --- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One number: what is published, and ours.

    Attributes:
        group: what rows are summed up by, usually the algorithm.
        what: the case, such as mesh and size.
        paper: as the paper states it, if it does.
        artifact: as the files behind the paper's figure have it, if they do.
        reference: as another model of the same has it, to see where a difference comes from; never
            judged by.
        tolerance: share by which ours may be off, set for a group, never for a row.
        note: what is known about a difference.
    """

    group: str
    what: str
    unit: str
    ours: float
    paper: float | None = None
    artifact: float | None = None
    tolerance: float = 0.01
    note: str = ""
    reference: float | None = None

    @property
    def published(self) -> float | None:
        """The number ours is held against: the artifact's if there is one, else the paper's."""
        return self.paper if self.artifact is None else self.artifact

    @property
    def ratio(self) -> float | None:
        """Ours over the published number."""
        return self.ours / self.published if self.published else None

    @property
    def agrees(self) -> bool | None:
        """Whether ours is within the tolerance; None if nothing is published."""
        return None if self.ratio is None else abs(self.ratio - 1) <= self.tolerance

    @property
    def verdict(self) -> str:
        """In words."""
        if self.agrees is None:
            return "nothing published"
        return f"within {self.tolerance * 100:g} %" if self.agrees else "differs"


@dataclass(frozen=True)
class Summary:
    """The rows of one group in short; errors are shares, and None where nothing is published."""

    group: str
    rows: int
    compared: int
    agreeing: int
    tolerance: float
    error_mean: float | None
    error_max: float | None
    worst: str


def summarize(rows: Iterable[Row]) -> list[Summary]:
    """One summary a group, in the order of the rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return [summarize_all(name, of) for name, of in groups.items()]


def summarize_all(group: str, rows: Sequence[Row]) -> Summary:
    """One summary of rows of whatever group."""
    errors = [(abs(row.ratio - 1), row.what) for row in rows if row.ratio is not None]
    most, worst = max(errors, key=lambda error: error[0], default=(None, ""))
    return Summary(
        group=group,
        rows=len(rows),
        compared=len(errors),
        agreeing=sum(row.agrees is True for row in rows),
        tolerance=max(row.tolerance for row in rows),
        error_mean=sum(error for error, _ in errors) / len(errors) if errors else None,
        error_max=most,
        worst=worst,
    )


# --- claims -------------------------------------------------------------------------------------

Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, with what its own artifact and we say to it, in plain words."""

    where: str
    text: str
    paper: str
    artifact: str
    ours: str
    verdict: Verdict
    comment: str = ""


# --- charts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Style:
    """How an algorithm is drawn, the same in every figure."""

    colour: str
    marker: str = "o"
    dashed: bool = False


@dataclass(frozen=True)
class Line:
    """Our points, joined, and the published ones, hollow."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    published: Sequence[tuple[float, float]] = ()
    marked: bool = True


@dataclass(frozen=True)
class Lines:
    """A chart of lines; with ``ticks`` (position, label) the x axis is logarithmic to base 2."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    ticks: Sequence[tuple[float, str]] = ()
    y_max: float | None = None
    reference: float | None = None
    """A horizontal line; the y axis then need not begin at zero."""
    log: bool = False
    """Whether the y axis is logarithmic."""


@dataclass(frozen=True)
class Block:
    """Something that happens for a while."""

    text: str
    label: str
    """Its style."""
    start: float
    length: float


@dataclass(frozen=True)
class Spans:
    """A chart of what happens when; ``tracks`` are from above."""

    title: str
    x_label: str
    tracks: Mapping[str, Sequence[Block]]
    x_max: float


@dataclass(frozen=True)
class Bar:
    """One stacked bar, its parts from below, and the published height."""

    label: str
    parts: Sequence[float]
    published: float | None = None


@dataclass(frozen=True)
class Bars:
    """A chart of groups of stacked bars; ``parts`` names the parts from below."""

    title: str
    y_label: str
    parts: Sequence[str]
    groups: Mapping[str, Sequence[Bar]]
    y_max: float | None = None
    """Where the axis ends; higher bars are cut, their height written above them."""


Chart = Lines | Bars | Spans


# --- experiments --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    rows: list[Row]
    charts: Sequence[Chart] = ()
    numbers: Numbers = field(default_factory=dict)


Results = Mapping[Job, Record]


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes:
        name: as on the command line, such as ``fig8``.
        title: as the paper calls it, such as ``Fig. 8``, and of what.
        about: what is measured and how, for the reader of the page.
        points: the runs it needs; ``quick`` asks for a few.
        evaluate: makes rows and charts of them.
    """

    name: str
    title: str
    about: str
    points: Callable[[bool], Sequence[Job]]
    evaluate: Callable[[Results, bool], Outcome]
    columns: int = 2
    """Charts side by side."""


@dataclass(frozen=True)
class Paper:
    """A paper: its experiments, in its order, and what it claims."""

    name: str
    title: str
    source: str
    experiments: Sequence[Experiment]
    styles: Mapping[str, Style]
    claims: Callable[[Mapping[str, Outcome]], list[Claim]]
    """Claims that the outcomes (by experiment) suffice for."""
    reading: str
    """For the reader of the page: how numbers were made, what is published, when they agree."""
    judging: str
    """The same for claims."""


@cache
def published(paper: str, table: str) -> list[dict[str, str]]:
    """Rows of a table of published numbers, ``data/PAPER/TABLE.csv`` of this package."""
    text = (files("antiphon.papers") / "data" / paper / f"{table}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def stated(paper: str, figure: str, table: str = "stated") -> dict[str, float]:
    """Numbers that a paper's text or tables state (``data/PAPER/stated.csv``), by what they are of; or those
    of another table of the same form."""
    return {row["what"]: float(row["value"]) for row in published(paper, table) if row["figure"] == figure}
