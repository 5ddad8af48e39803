"""Figures: their runs, and what they are made of."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

import antiphon.papers
from antiphon.papers import PAPERS
from antiphon.repro.data import Data
from antiphon.repro.figure import Figure, Outcome, Paper, Steps
from antiphon.repro.table import Table
from antiphon.studies import Job, Point, Record


def viii_b(quick: bool) -> Steps:
    """Rings, each beside the smallest."""
    sides = (2, 3) if quick else (2, 3, 5)
    runs = yield [(side, [Point(f"ring:{each}", "ring", 1024) for each in (side, 2)]) for side in sides]
    table = Table({"side": side, "more": own["time_ns"] - least["time_ns"]} for side, (own, least) in runs)
    return Outcome(table, [])


def test_a_figure_says_its_runs_and_gets_their_records_by_case() -> None:
    figure = Figure("viii-b", viii_b)
    fabrics = [[job.fabric for job in figure.points(quick) if isinstance(job, Point)] for quick in (True, False)]
    assert fabrics == [["ring:2", "ring:3"], ["ring:2", "ring:3", "ring:5"]]  # each once
    results: dict[Job, Record] = {Point(f"ring:{n}", "ring", 1024): {"time_ns": n} for n in (2, 3, 5)}
    assert figure.evaluate(results, False).table.column("more") == [0, 1, 3]
    assert figure.evaluate(results, True).table.column("more") == [0, 1]


def test_a_figure_has_the_name_of_its_function() -> None:
    assert [figure.name for figure in Paper(Data("tto"), (viii_b,)).figures] == ["viii-b"]


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_has_its_texts(name: str) -> None:
    paper = PAPERS[name]
    assert [figure.name for figure in paper.figures] == list(paper.data.figures)


def test_every_folder_is_a_paper() -> None:
    folders = Path(antiphon.papers.__file__).parent.glob("*/series.csv")
    assert {folder.parent.name for folder in folders} == set(PAPERS)
    assert [paper.name for paper in PAPERS.values()] == list(PAPERS)
    assert "antiphon" not in PAPERS


def test_a_folder_without_a_paper_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(antiphon.papers, "NAMES", ("empty",))
    monkeypatch.setitem(sys.modules, "antiphon.papers.empty", ModuleType("empty"))
    with pytest.raises(antiphon.AntiphonError, match=r"papers/empty/__init__\.py has no PAPER"):
        PAPERS["empty"]


def test_numbers_are_found_by_columns() -> None:
    """In whichever table has one; None where none has."""
    data, tables = Data("tto"), "fig8_bandwidth|fig8_9x9"
    for side, cycles in ((4, 86136), (9, 117997), (7, None)):
        where = {"topology": f"{side}x{side}", "algorithm": "Ring", "data_bytes": 1 << 20}
        assert data.number(tables, "cycles", **where) == cycles
