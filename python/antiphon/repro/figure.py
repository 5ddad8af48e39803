"""Figures: cases, what is measured of them, and how their table is shown; and papers made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from antiphon.repro.charts import Chart, made_charts
from antiphon.repro.data import Data, Series, Spec, known, number
from antiphon.repro.rows import Row, made_rows
from antiphon.repro.table import Entry, Table, grid, meets, words
from antiphon.studies import Job, Record


@dataclass(frozen=True)
class Outcome:
    """What a figure found: its table, and how it is shown."""

    table: Table
    rows: list[Row]
    charts: list[Chart]


Shown = tuple[list[Row], Table]
"""Rows, and what charts are made of."""


def _meant(data: Data, axis: str, values: Any) -> Any:
    """The values on an axis; of series and models, those that are named, or meet a condition such as ``kind=model``."""
    if axis not in ("series", "model"):
        return values
    if isinstance(values, str):
        return [series for series in data.series.values() if meets({"series": series}, values)]
    return [data.series.get(name, name) for name in values]


def takes_part(case: Entry) -> bool:
    """Whether a case meets what its series is there for, as far as the case has it."""
    series = case.get("series")
    return not isinstance(series, Series) or meets(case, series.more.get("only", ""), known=True)


def _value(said: Any, case: Entry) -> Any:
    """What is said of a run, for a case: digits are a number, ``yes`` is true; values by name are pairs."""
    if isinstance(said, dict):
        return tuple(_values(said, case).items())
    if not isinstance(said, str):
        return tuple(said) if isinstance(said, list) else said
    text = words(words(said, case), case)
    return int(text) if text.isdigit() else True if text == "yes" else text


def _values(said: Spec, case: Entry) -> Spec:
    """All that is said, but for empty texts, which mean what is usual."""
    values = {name: _value(each, case) for name, each in said.items() if name not in ("at", "kind")}
    return {name: value for name, value in values.items() if value != ""}


@dataclass(frozen=True)
class Figure:
    """One table or figure. ``figures.toml`` has its title and what is said about it, and most of what follows, or the
    name of a figure that has the same:

    * ``cases``: values on every axis, of which all combinations are looked at, several such grids, or the name of a
      table; series and models by name or by a condition on their columns. Series with a column ``only`` take part in
      what meets it. ``quick``: other values for a few cases. ``given``: further columns, ``of`` axes.
    * ``published``: numbers of a case that meets ``at`` by the names in ``columns``, from its row in one of ``tables``:
      that in which the columns of ``by`` have these texts. What no table has is None.
    * ``runs``: of a case that meets ``at``: what a ``Point`` has, or, of the ``kind`` ``rails`` or ``training``, a
      ``RailsPoint`` or ``TrainingPoint``, or what the paper has in their place (``Data.kinds``). A text may name what
      the case has, and so may that.
    * ``measured``: numbers of the record of a case's first ``run``, or another, by column. A number here and there is a
      field, or ``of`` one ``less`` another, so many ``times``, ``per`` so much. ``derived``: further ones, of columns.
    * ``notes``: a key of the texts for cases that meet ``at``.
    * ``what``: the case in words.
    * ``rows`` (``rows.py``), ``charts`` (``charts.py``), and how many ``columns`` of charts.

    Attributes:
        name: as on the command line, such as ``fig8``.
        measure: further numbers of a case, from the records of its runs.
        jobs: further runs of a case; without any it is counted, not run.
        keep: whether a case is looked at.
        show: further rows, and what charts are made of if not the table.
    """

    data: Data = field(repr=False)
    name: str
    measure: Callable[..., Entry] = lambda _case, *_records: {}
    jobs: Callable[[Entry], Sequence[Job]] = lambda _case: ()
    keep: Callable[[Entry], bool] = lambda _case: True
    show: Callable[[Table], Shown] = lambda table: ([], table)

    @property
    def spec(self) -> Spec:
        """What ``figures.toml`` says of it."""
        return self.data.figures[self.name]

    def chosen(self, quick: bool) -> Sequence[Entry]:
        """All cases, or a few."""
        grids, few = self.spec["cases"], self.spec.get("quick", {}) if quick else {}
        if isinstance(few, list):
            grids, few = few, {}
        if isinstance(grids, str):
            return self.data.table(grids)
        found = [
            self._with_published(case)
            for axes in (grids if isinstance(grids, list) else [grids])
            for case in grid(**{axis: _meant(self.data, axis, each) for axis, each in (axes | few).items()})
        ]
        return [case for case in found if takes_part(case) and self.keep(case)]

    def _with_published(self, case: Entry) -> Entry:
        for column, of in self.spec.get("given", {}).items():
            case[column] = number(case, of)
        found: Entry = {}
        for spec in (each for each in self.spec.get("published", ()) if meets(case, each.get("at", ""))):
            where = tuple(words(text, case) for text in spec["by"].values())
            row = known(self.data.paper, tuple(spec["tables"]), tuple(spec["by"])).get(where)
            numbers = {name: number(row, of) if row else None for name, of in spec["columns"].items()}
            found = {"source": f"{spec['tables'][0]}: {' '.join(where)}"} | found | numbers
        return case | found

    def runs(self, case: Entry) -> list[Job]:
        """Of a case, those that are described first."""
        specs = (spec for spec in self.spec.get("runs", ()) if meets(case, spec.get("at", "")))
        described = (self.data.kinds[spec.get("kind", "collective")](**_values(spec, case)) for spec in specs)
        return [*described, *self.jobs(case)]

    def points(self, quick: bool) -> list[Job]:
        """All runs, each once."""
        return list(dict.fromkeys(job for case in self.chosen(quick) for job in self.runs(case)))

    def evaluate(self, results: Mapping[Job, Record], quick: bool) -> Outcome:
        """The table of all cases, and how it is shown."""
        table = Table(self._entry(case, [results[job] for job in self.runs(case)]) for case in self.chosen(quick))
        table.whole = not quick
        rows, drawn = self.show(table)
        rows = made_rows(self.data, self.name, table) + rows
        return Outcome(table, rows, made_charts(drawn, self.spec.get("charts", ())))

    def _entry(self, case: Entry, records: Sequence[Record]) -> Entry:
        found = dict(case)
        for column, of in self.spec.get("measured", {}).items():
            found[column] = number(records[0 if isinstance(of, str) else of.get("run", 0)], of)
        found |= self.measure(case, *records)
        for column, of in self.spec.get("derived", {}).items():
            found[column] = number(found, of)
        noted = [self.data.texts[spec["note"]] for spec in self.spec.get("notes", ()) if meets(found, spec["at"])]
        found |= {"note": noted[0]} if noted else {}
        return {"what": words(self.spec["what"], found)} | found if "what" in self.spec else found


@dataclass(frozen=True)
class Paper:
    """A paper: its tables, and the modules of which some have ``FIGURES`` and ``CHECKS``."""

    data: Data
    parts: Sequence[ModuleType]

    @classmethod
    def of(cls, folder: ModuleType) -> Paper:
        """The paper whose modules lie in a folder; all of them know its ``DATA``."""
        parts = [import_module(each.name) for each in iter_modules(folder.__path__, f"{folder.__name__}.")]
        return cls(parts[0].DATA, parts)

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.data.paper

    @cached_property
    def figures(self) -> list[Figure]:
        """In the order of ``figures.toml``."""
        found = {figure.name: figure for part in self.parts for figure in getattr(part, "FIGURES", ())}
        return [found.get(name, Figure(self.data, name)) for name in self.data.figures]

    @cached_property
    def checks(self) -> dict[str, Any]:
        """The functions of claims that have no form, by ``id``."""
        return {name: check for part in self.parts for name, check in getattr(part, "CHECKS", {}).items()}
