"""Rows, their verdicts and summaries."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.repro.data import Data, Series, Stated
from antiphon.repro.rows import COUNTED, Row, Rows, Tolerance, by_group


@pytest.mark.parametrize(
    ("row", "ratio", "verdict"),
    [
        (Row("a", "x", "ns", 105.0, artifact=100.0), 1.05, "holds"),
        (Row("a", "x", "ns", 105.1, artifact=100.0), 1.051, "differs"),
        (Row("a", "x", "ns", 98.0, artifact=100.0, own=Tolerance(0.01, "exact")), 0.98, "differs"),
        (Row("a", "x", "ns", 50.0, paper=50.0, artifact=100.0), 0.5, "differs"),
        (Row("a", "x", "", 50, paper=50, own=COUNTED), 1.0, "holds"),
        (Row("a", "x", "", 51, paper=50, own=COUNTED), 1.02, "differs"),
        # Two, printed without a digit after the point, may be 1.5 to 2.5; the artifact's is not rounded.
        (Row("a", "x", "×", 2.5, paper=2.0, rounding=0.5), 1.25, "holds"),
        (Row("a", "x", "×", 2.51, paper=2.0, rounding=0.5), 1.255, "differs"),
        (Row("a", "x", "×", 2.5, paper=2.0, artifact=2.0, rounding=0.5), 1.25, "differs"),
        (Row("a", "x", "%", 0.4, paper=0.0, rounding=0.5), None, "holds"),
        (Row("a", "x", "×", 9.0, paper=2.0, kind="fitted"), 4.5, "fitted"),
        (Row("a", "x", "", 2.0, paper=2.0, kind="input"), 1.0, "input"),
        (Row("a", "x", "", 2.01, paper=2.0, kind="input"), 1.005, "differs"),
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
        Row("a", "y", "ns", 102.5, artifact=100.0, own=Tolerance(0.01, "exact")),
        Row("a", "z", "ns", 102.5),
        Row("a", "f", "ns", 1.0, paper=2.0, kind="fitted"),
    ]
    a, b = by_group(rows)
    assert (a.group, a.rows, a.compared, a.agreeing, a.by_rule, a.worst) == ("a", 4, 2, 1, 2, "y")
    assert a.tolerance == "1 %: exact"
    assert a.error_mean == pytest.approx(0.015)
    assert a.error_max == pytest.approx(0.025)
    assert (b.compared, b.error_mean, b.error_max, b.worst) == (0, None, None, "")


ENTRY = {
    "series": Series("A", note="of A"),
    "what": "2 bytes",
    "known": 4.0,
    "source": "table",
    "time": 2.0,
}


def made(*words: str, **more: Any) -> Row:
    """A row of a series whose paper states two numbers."""
    data = Data("none")
    vars(data)["stated"] = {
        "fig": {"A: mean": Stated(3.0, "fig: A"), "B": Stated(20.0, "fig: B", "firm", 0.5, "fitted")}
    }
    vars(data)["reference"] = {("fig", "A: 2 bytes"): 7.0}
    rows = Rows(data, "fig")
    rows.add(ENTRY, "ns", 2.0, *words, **more)
    assert words or Rows(data, "fig", [ENTRY], "ns", "time", **more) == rows
    return rows[0]


def test_a_row_of_an_entry() -> None:
    assert made() == Row("A", "2 bytes", "ns", 2.0, None, 4.0, None, "of A", 7.0, "table")
    other = made("group", "what", own=COUNTED, note="", source="", reference=1.0, kind="input")
    assert other == Row("group", "what", "ns", 2.0, None, 4.0, COUNTED, "", 1.0, "", 0.0, "input")


def test_what_is_published() -> None:
    first, second, unknown = (made(key=key) for key in ("A: mean", "B", ""))
    assert (first.paper, first.artifact, first.source, first.kind) == (3.0, None, "fig: A", "result")
    assert (second.paper, second.rounding, second.note, second.kind) == (20.0, 0.5, "firm", "fitted")
    assert (unknown.paper, unknown.artifact, unknown.verdict) == (None, None, "nothing published")
    assert (made(paper=2.0).artifact, made(artifact=5.0).artifact) == (None, 5.0)
