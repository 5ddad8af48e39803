"""Rows, their verdicts and summaries."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.repro.data import Data, Series, Stated
from antiphon.repro.rows import Row, Rows, by_group


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


ENTRY = {
    "series": Series("A", tolerance=0.03, note="of A"),
    "what": "2 bytes",
    "known": 4.0,
    "source": "table",
    "time": 2.0,
}


def made(*words: str, **more: Any) -> Row:
    """A row of a series whose paper states two numbers."""
    data = Data("none", tolerance=0.2)
    vars(data)["stated"] = {"fig": {"A: mean": Stated(3.0, "fig: A"), "B": Stated(20.0, "fig: B", "firm", 0.4)}}
    vars(data)["reference"] = {("fig", "A: 2 bytes"): 7.0}
    rows = Rows(data, "fig")
    rows.add(ENTRY, "ns", 2.0, *words, **more)
    assert words or Rows(data, "fig", [ENTRY], "ns", "time", **more) == rows
    return rows[0]


def test_a_row_of_an_entry() -> None:
    assert made() == Row("A", "2 bytes", "ns", 2.0, None, 4.0, 0.03, "of A", 7.0, "table")
    other = made("group", "what", tolerance=0.5, note="", source="", reference=1.0, is_input=True)
    assert other == Row("group", "what", "ns", 2.0, None, 4.0, 0.5, "", 1.0, "", True)


def test_what_is_published() -> None:
    first, second, unknown = (made(key=key) for key in ("A: mean", "B", ""))
    assert (first.paper, first.artifact, first.source, first.tolerance) == (3.0, None, "fig: A", 0.2)
    assert (second.paper, second.tolerance, second.note) == (20.0, 0.4, "firm")
    assert (unknown.paper, unknown.artifact, unknown.verdict) == (None, None, "nothing published")
    assert (made(paper=2.0).artifact, made(artifact=5.0).artifact, made(paper=2.0).tolerance) == (None, 5.0, 0.03)
