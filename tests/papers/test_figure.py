"""Figures: which cases they look at, and what is found for each."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from antiphon.papers import PAPERS
from antiphon.repro.data import Data, Series
from antiphon.repro.figure import Figure, Paper
from antiphon.studies import Point, RailsPoint, TrainingPoint

HALF = {"of": "time_ns", "less": 1, "per": 2}
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


@pytest.mark.parametrize(
    ("paper", "figure", "counts"),
    [
        ("tto", "table1", [7]),
        ("tto", "fig8", [334]),
        ("tto", "fig9", [80, 80]),
        ("tto", "fig10", [98, 98, 98, 119]),
        ("tto", "fig11", [54, 54]),
        ("tto", "fig12", [5]),
        ("tto", "fig13", [96, 96, 96, 96]),
        ("tto", "fig14", [10]),
        ("themis", "fig10", [16]),
        ("ccube", "fig10", [2]),
    ],
)
def test_published_numbers_are_found(paper: str, figure: str, counts: list[int]) -> None:
    """A wrong word in ``published`` would find fewer."""
    (shown,) = (each for each in PAPERS[paper].figures if each.name == figure)
    columns = [column for spec in shown.spec["published"] for column in spec["columns"]]
    cases = shown.chosen(quick=False)
    assert [sum(case[column] is not None for case in cases) for column in columns] == counts


def test_cases_of_a_table() -> None:
    tables = Figure(Data("themis"), "table2")
    assert tables.chosen(False) == tables.chosen(True) == Data("themis").table("topologies")


def test_what_is_published_is_found_by_texts() -> None:
    """The case's row in whichever table has it; what none has is None, and stays known to ``keep``."""
    columns = {"known": "bandwidth_GiBps_as_plotted", "ms": {"of": "cycles", "times": 2, "per": 1e6}}
    published: dict[str, Any] = {
        "tables": ["fig8_bandwidth", "fig8_9x9"],
        "by": {"topology": "{side}x{side}", "algorithm": "{series.published}", "data_bytes": "{bytes}"},
        "columns": columns,
    }
    cases: dict[str, Any] = {"side": [4, 9, 7], "bytes": [1 << 20], "series": ["Ring"]}
    data = Data("tto")
    vars(data)["figures"] = {"fig": {"cases": cases, "published": [published]}}
    small, large, none = Figure(data, "fig").chosen(False)
    assert (small["known"], small["ms"]) == (11.337448917990155, 2 * 86136 / 1e6)
    assert (large["known"], large["source"]) == (8.276163800774595, "fig8_bandwidth: 9x9 Ring 1048576")
    assert (none["known"], none["ms"]) == (None, None)
    kept = Figure(data, "fig", keep=lambda case: case["known"] is not None)
    assert [case["side"] for case in kept.chosen(False)] == [4, 9]
    cases["side"] = [12]
    published |= {"tables": ["fig9_large"], "by": {"nodes": "{side:squared}"}, "columns": {"known": "nodes"}}
    assert [case["known"] for case in Figure(data, "fig").chosen(False)] == [144]


def test_notes() -> None:
    notes = [{"at": "series=A; side>2", "note": "large"}, {"at": "side>2", "note": "other"}]
    data = described(fig={"cases": {"side": [2, 3], "series": ["A", "B"]}, "notes": notes})
    vars(data)["texts"] = {"large": "is large", "other": "is no A"}
    found = Figure(data, "fig").evaluate({}, False).table
    assert [entry.get("note") for entry in found] == [None, None, "is large", "is no A"]


def test_what_is_found() -> None:
    spec = {"cases": {"side": [2, 3]}, "what": "{side} sides", "measured": {"time": "time_ns", "half": HALF}}
    rows = [{"group": "all", "column": "twice"}]
    data = described(fig=spec | {"rows": rows})

    def jobs(case: dict[str, Any]) -> list[Point]:
        return [Point(f"ring:{case['side']}", "ring", 1024)]

    figure = Figure(data, "fig", lambda _case, record: {"twice": 2 * record["time_ns"]}, jobs)
    results: dict[Any, Any] = {job: {"time_ns": float(job.fabric[-1])} for job in figure.points(False)}  # type: ignore[attr-defined]
    outcome = figure.evaluate(results, True)
    assert outcome.table == [
        {"what": f"{side} sides", "side": side, "time": side, "half": (side - 1) / 2, "twice": 2 * side}
        for side in (2, 3)
    ]
    assert [(row.what, row.ours) for row in outcome.rows] == [("2 sides", 4), ("3 sides", 6)]
    assert (outcome.table.whole, outcome.charts) == (False, [])


def test_a_part_as_in_another_figure() -> None:
    figures = PAPERS["tto"].data.figures
    assert figures["fig13"]["measured"] == figures["fig10"]["measured"]
    assert figures["viii-b"]["runs"] == figures["fig10"]["runs"] != figures["fig13"]["runs"]
    assert figures["fig10"]["runs"][0]["kind"] == "training"


def test_runs() -> None:
    """Digits and ``yes`` are values, texts may name texts, what is empty is as usual; some cases have another run."""
    more = {"intra": "", "slow": "yes", "with": ":chunk={chunk}"}
    case = {"series": Series("A", run="tto", more=more), "side": 3, "chunk": 12, "rate": 8.0}
    mesh = {"fabric": "mesh:{side}x{side}", "algorithm": "{series.run}{series.more[with]}"}
    rails = {"kind": "rails", "topology": "2D-current", "bytes": "{rate:.0f}", "scheduler": "themis"}
    runs: list[dict[str, Any]] = [
        mesh | {"bytes": "{chunk}", "tables": ["chunks"]},
        rails | {"intra": "{series.more[intra]}", "fixed_delay": "{series.more[slow]}", "at": "side=3"},
        mesh | {"kind": "training", "model": "ncf", "options": {"batch": "{chunk}", "fidelity": "", "energy": True}},
        rails | {"at": "side>3"},
    ]
    further = Point("ring:4", "ring", 4)
    assert Figure(described(fig={"runs": runs}), "fig", jobs=lambda _case: [further]).runs(case) == [
        Point("mesh:3x3", "tto:chunk=12", 12, tables=("chunks",)),
        RailsPoint("2D-current", 8, "themis", fixed_delay=True),
        TrainingPoint("ncf", "mesh:3x3", "tto:chunk=12", (("batch", 12), ("energy", True))),
        further,
    ]


def test_series_take_part_where_they_are_meant() -> None:
    """By what is known of a case before anything is run."""
    odd = Series("odd", more={"only": "side=3|5; ranks<=9; overlap=none"})
    given = {"ranks": {"of": "side", "times": "side"}}
    data = described(fig={"cases": {"series": ["A", "odd"], "side": [2, 3, 5]}, "given": given})
    vars(data)["series"] = {"A": A, "odd": odd}
    found = [(case["series"].name, case["ranks"]) for case in Figure(data, "fig").chosen(False)]
    assert found == [("A", 4), ("A", 9), ("A", 25), ("odd", 9)]


def test_columns_of_several_runs() -> None:
    """Numbers of another run than the first, products and quotients of columns."""
    spec = {
        "cases": {"side": [2, 3]},
        "measured": {"time": "time_ns", "other": {"run": 1, "of": "time_ns"}},
        "derived": {"ranks": {"of": "side", "times": "side"}, "faster": {"of": "other", "per": "time", "times": 100}},
    }
    figure = Figure(
        described(fig=spec), "fig", jobs=lambda case: [Point(f"ring:{n}", "", 1) for n in (case["side"], 4)]
    )
    results: dict[Any, Any] = {job: {"time_ns": float(job.fabric[-1])} for job in figure.points(False)}  # type: ignore[attr-defined]
    table = figure.evaluate(results, False).table
    assert (table.column("ranks"), table.column("faster")) == ([4, 9], [200, pytest.approx(400 / 3)])


def test_a_paper_has_its_figures_in_their_order() -> None:
    data = described(first={}, second={}, third={})
    one, other = ModuleType("one"), ModuleType("other")
    one.FIGURES = (Figure(data, "third"), Figure(data, "first"))  # type: ignore[attr-defined]
    other.FIGURES, other.CHECKS = (Figure(data, "second"),), {"x": len}  # type: ignore[attr-defined]
    paper = Paper(data, (one, other))
    assert [figure.name for figure in paper.figures] == ["first", "second", "third"]
    assert paper.checks == {"x": len}
