"""Verdicts and summaries."""

from __future__ import annotations

import pytest

from antiphon.repro.rows import Row, by_group


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
