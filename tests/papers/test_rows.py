"""Verdicts and summaries, and the rows that a figure's description makes of its table."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.papers import PAPERS
from antiphon.repro.data import Data, Series, Stated
from antiphon.repro.rows import Row, by_group, made_rows
from antiphon.repro.table import Table


@pytest.mark.parametrize(
    ("row", "ratio", "verdict"),
    [
        (Row("a", "x", "ns", 100.9, artifact=100.0), 1.009, "within 1 %"),
        (Row("a", "x", "ns", 102.0, artifact=100.0), 1.02, "differs"),
        (Row("a", "x", "ns", 98.0, artifact=100.0, tolerance=0.06), 0.98, "within 6 %"),
        (Row("a", "x", "ns", 50.0, paper=50.0, artifact=100.0), 0.5, "differs"),
        (Row("a", "x", "ns", 50.0, paper=50.0, tolerance=0), 1.0, "within 0 %"),
        (Row("a", "x", "ns", 50.0), None, "nothing published"),
    ],
)
def test_verdicts(row: Row, ratio: float | None, verdict: str) -> None:
    assert row.ratio == (None if ratio is None else pytest.approx(ratio))
    assert row.verdict == verdict


def test_summaries() -> None:
    rows = [
        Row("a", "x", "ns", 99.5, artifact=100.0),
        Row("b", "x", "ns", 1.0),
        Row("a", "y", "ns", 102.5, artifact=100.0),
        Row("a", "z", "ns", 102.5),
    ]
    a, b = by_group(rows)
    assert (a.group, a.rows, a.compared, a.agreeing, a.worst) == ("a", 3, 2, 1, "y")
    assert a.error_mean == pytest.approx(0.015)
    assert a.error_max == pytest.approx(0.025)
    assert (b.compared, b.error_mean, b.error_max, b.worst) == (0, None, None, "")


A, B = (Series(name, tolerance=0.03, note=note) for name, note in (("A", ""), ("B", "of B")))


def made(*specs: dict[str, Any], whole: bool = True) -> list[Row]:
    """The rows of two series on two sizes, of which B takes 2 and 3 times as long."""
    data = Data("none", tolerance=0.2)
    vars(data)["figures"] = {"fig": {"rows": specs}}
    vars(data)["stated"] = {"fig": {"A: mean": Stated(3.0, "fig: A"), "B": Stated(20.0, "fig: B", "firm", 0.4)}}
    vars(data)["texts"] = {"text": "said"}
    vars(data)["reference"] = {("fig", "B: 2 bytes"): 7.0}
    table = Table(
        {"series": series, "size": size, "what": f"{size} bytes", "time": factor * size, "paper": 2.0, "known": 4.0}
        for series, factors in ((A, (1, 1)), (B, (2, 3)))
        for size, factor in zip((2, 4), factors, strict=True)
    )
    table.whole = whole
    return made_rows(data, "fig", table)


def test_a_row_for_every_entry() -> None:
    found = made({"column": "time", "unit": "ns"})
    assert [(row.group, row.what, row.ours) for row in found] == [
        ("A", "2 bytes", 2),
        ("A", "4 bytes", 4),
        ("B", "2 bytes", 4),
        ("B", "4 bytes", 12),
    ]
    assert {(row.unit, row.paper, row.artifact, row.tolerance, row.source) for row in found} == {
        ("ns", None, 4.0, 0.03, "")
    }
    assert [row.note for row in found] == ["", "", "of B", "of B"]
    assert [row.reference for row in found] == [None, None, 7.0, None]


def test_groups_and_what_rows_have_in_common() -> None:
    found = made(
        {
            "by": "size, series",
            "at": "size=4",
            "column": "time",
            "what": "{how} of {size:size}",
            "rows": [{"how": "time"}, {"how": "again", "at": "series!=A", "tolerance": 0.5, "note": "text"}],
        }
    )
    assert [(row.group, row.what, row.tolerance, row.note) for row in found] == [
        ("A", "time of 4B", 0.03, ""),
        ("B", "time of 4B", 0.03, "of B"),
        ("B", "again of 4B", 0.5, "said"),
    ]


def test_statistics() -> None:
    mean = {"by": "series", "column": "time", "statistic": "mean", "what": "{statistic}", "reference": "paper"}
    assert [(row.group, row.what, row.ours, row.reference) for row in made(mean)] == [
        ("A", "mean", 3, 2.0),
        ("B", "mean", 8, 2.0),
    ]
    over = {"at": "series=A", "column": "time", "over": "B", "statistic": "most", "what": "{over} over {series}"}
    assert [(row.what, row.ours) for row in made(over)] == [("B over A", 3)]
    assert made(over | {"whole": True}, whole=False) == []


def test_what_is_published() -> None:
    keyed = {"by": "series", "column": "time", "statistic": "mean", "rows": [{"key": "{series}: mean"}, {"key": "B"}]}
    first, second, unknown, _ = made(keyed)
    assert (first.paper, first.artifact, first.source, first.tolerance, first.note) == (3.0, None, "fig: A", 0.2, "")
    assert (second.paper, second.tolerance, second.note) == (20.0, 0.4, "firm")
    assert (unknown.paper, unknown.artifact, unknown.verdict) == (None, None, "nothing published")
    (stated,) = made({"at": "size=2; series=A", "column": "time", "stated": "paper", "input": True})
    assert (stated.paper, stated.artifact, stated.verdict) == (2.0, None, "input")


SAID = {"at", "by", "column", "statistic", "over", "key", "stated", "known", "source", "reference", "rows", "whole"}
SAID |= {"unit", "group", "what", "tolerance", "note", "input"}
DRAWN = {"at", "by", "title", "x", "x_label", "y", "y_label", "ticks", "every", "label", "lines", "further", "marked"}
DRAWN |= {"known", "reference", "log", "y_max", "x_max", "tracks", "blocks", "group", "parts", "columns", "over"}
FIGURE = {"title", "about", "columns", "what", "cases", "quick", "measured", "derived", "published", "notes", "runs"}
FIGURE |= {"given", "rows", "charts"}


@pytest.mark.parametrize("name", PAPERS)
def test_descriptions_have_no_word_that_means_nothing(name: str) -> None:
    for figure, spec in PAPERS[name].data.figures.items():
        assert set(spec) <= FIGURE, figure
        for part, known in (("rows", SAID), ("charts", DRAWN)):
            parts = [*spec.get(part, ())]
            for each in parts:
                parts += each.get("rows", ())
                more = [word for word in each if word not in known and f"{{{word}}}" not in str(parts)]
                assert not more, (figure, more)
