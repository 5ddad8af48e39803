"""Figures, each of which says its runs and is made of what they gave; and papers made of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from antiphon.repro.charts import Chart
from antiphon.repro.data import Data
from antiphon.repro.rows import Row
from antiphon.repro.table import Table
from antiphon.studies import Job, Record


@dataclass(frozen=True)
class Outcome:
    """What a figure found: its table, by which claims are judged; its rows; its charts, and how many are in a row."""

    table: Table
    rows: Sequence[Row]
    charts: Sequence[Chart] = ()
    columns: int = 1


Steps = Generator[Sequence[tuple[Any, Sequence[Job]]], Sequence[tuple[Any, Sequence[Record]]], Outcome]
"""Of a figure: it yields every case with its runs, gets every case with their records, and returns what it found."""


@dataclass(frozen=True)
class Figure:
    """One table or figure of a paper.

    Attributes:
        name: as on the command line, such as ``fig8``.
        steps: makes it, of a few cases if ``quick``.
    """

    name: str
    steps: Callable[[bool], Steps]

    def points(self, quick: bool) -> list[Job]:
        """All runs, each once."""
        return list(dict.fromkeys(job for _, jobs in next(self.steps(quick)) for job in jobs))

    def evaluate(self, results: Mapping[Job, Record], quick: bool) -> Outcome:
        """What it finds by its runs."""
        steps = self.steps(quick)
        records = [(case, [results[job] for job in jobs]) for case, jobs in next(steps)]
        try:
            steps.send(records)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        raise AssertionError(f"{self.name} asks for runs twice")


@dataclass(frozen=True)
class Paper:
    """A paper: its tables, the steps of its figures in their order, which have their names (``viii_b`` is ``viii-b``),
    and ``checks``, which judge claims that have no form, by ``id``."""

    data: Data
    steps: Sequence[Callable[[bool], Steps]]
    checks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.data.paper

    @cached_property
    def figures(self) -> list[Figure]:
        """In their order."""
        return [Figure(steps.__name__.replace("_", "-"), steps) for steps in self.steps]
