"""Figures: which cases they look at, and what is found for each."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure, Paper
from antiphon.studies import Point

A, B = Series("A", more={"kind": "new"}), Series("B", more={"kind": "old"})


def described(**figures: Any) -> Data:
    """A paper with nothing but figures."""
    data = Data("none")
    vars(data)["figures"] = figures
    vars(data).update(series={"A": A, "B": B}, stated={}, reference={})
    return data


def test_cases() -> None:
    one = {"side": [2, 3], "series": ["A", "other"]}
    data = described(
        grid={"cases": one, "quick": {"side": [2]}},
        grids={"cases": [one, {"side": [9], "series": "series.kind=old"}], "quick": [{"side": [4]}]},
    )
    sides = [(case["side"], case["series"]) for case in Figure(data, "grid").chosen(False)]
    assert sides == [(2, A), (2, "other"), (3, A), (3, "other")]
    assert [case["side"] for case in Figure(data, "grid").chosen(True)] == [2, 2]
    assert Figure(data, "grids").chosen(False)[-1] == {"side": 9, "series": B}
    assert Figure(data, "grids").chosen(True) == [{"side": 4}]
    odd = Figure(data, "grid", keep=lambda case: bool(case["side"] % 2))
    assert {case["side"] for case in odd.chosen(False)} == {3}


def test_cases_of_a_table() -> None:
    tables = Figure(Data("themis"), "table2")
    assert tables.chosen(False) == tables.chosen(True) == Data("themis").table("topologies")


def test_what_is_found() -> None:
    spec = {"cases": {"side": [2, 3]}, "what": "{side} sides", "measured": {"time": "time_ns"}}
    rows = [{"group": "all", "column": "twice"}]
    data = described(fig=spec | {"rows": rows})

    def jobs(case: dict[str, Any]) -> list[Point]:
        return [Point(f"ring:{case['side']}", "ring", 1024)]

    figure = Figure(data, "fig", lambda _case, record: {"twice": 2 * record["time_ns"]}, jobs)
    results: dict[Any, Any] = {job: {"time_ns": float(job.fabric[-1])} for job in figure.points(False)}  # type: ignore[attr-defined]
    outcome = figure.evaluate(results, True)
    assert outcome.table == [
        {"what": f"{side} sides", "side": side, "time": side, "twice": 2 * side} for side in (2, 3)
    ]
    assert [(row.what, row.ours) for row in outcome.rows] == [("2 sides", 4), ("3 sides", 6)]
    assert (outcome.table.whole, outcome.charts) == (False, [])


def test_a_paper_has_its_figures_in_their_order() -> None:
    data = described(first={}, second={}, third={})
    one, other = ModuleType("one"), ModuleType("other")
    one.FIGURES = (Figure(data, "third"), Figure(data, "first"))  # type: ignore[attr-defined]
    other.FIGURES, other.CHECKS = (Figure(data, "second"),), {"x": len}  # type: ignore[attr-defined]
    paper = Paper(data, (one, other))
    assert [figure.name for figure in paper.figures] == ["first", "second", "third"]
    assert paper.checks == {"x": len}
