"""The charts that a figure's description makes of its table."""

from __future__ import annotations

from typing import Any

from antiphon.repro.charts import Bar, Block, Chart, Line, made_charts
from antiphon.repro.table import Table

TABLE = Table(
    {"series": series, "model": model, "side": side, "time": factor * side, "what": f"{model} {side}", "half": side / 2}
    for series, factor in (("A", 1), ("B", 2))
    for model in ("M", "N")
    for side in (4, 2)
)
LINES: dict[str, Any] = {"title": "{model}", "x": "side", "x_label": "side", "y": "time", "y_label": "of {model}"}


def test_lines() -> None:
    spec = LINES | {"by": "model", "at": "series=A", "ticks": "{side}x", "y_max": 9}
    one, other = made_charts(TABLE, [spec])
    assert one.spec == spec | {"title": "M", "y_label": "of M"}
    assert (one.lines, one.ticks) == ([Line("A", [2, 4], [2, 4], [])], [(2, "2x"), (4, "4x")])
    assert other.spec["title"] == "N"
    chart = made_charts(TABLE, [LINES | {"known": "half", "label": "{series}!"}])[0]
    # Both models are at one place: their mean, and what is published for the first.
    assert chart.lines[1] == Line("B!", [2, 4], [4, 8], [(2, 1), (4, 2)])
    further = made_charts(TABLE, [LINES | {"further": [{"label": "half", "y": "half"}]}])[0]
    assert [line.label for line in further.lines] == ["A", "B", "half"]


def test_few_marks_all_have_a_text() -> None:
    table = Table({"series": "A", "side": side, "time": 1.0, "model": "M"} for side in range(8))
    marks = LINES | {"ticks": "{side}", "every": 2}
    few, many = (made_charts(Table(table[:count]), [marks])[0] for count in (3, 8))
    assert [len(few.ticks), len(many.ticks)] == [3, 4]


def test_entries_with_a_line_of_their_own() -> None:
    table = Table([{"series": "A", "side": [1, 2], "time": [3, 4], "model": "M", "drawn": [Line("x", [0], [0])]}])
    own, several = made_charts(table, [LINES | {"marked": False}, LINES | {"lines": "drawn"}])
    assert own.lines == [Line("A", [1, 2], [3, 4], marked=False)]
    assert several.lines == [Line("x", [0], [0])]


def test_bars() -> None:
    spec = {"at": "side=4", "title": "t", "y_label": "y", "group": "{model}", "parts": ["whole"], "columns": ["time"]}
    both = [Bar("A", [4], None), Bar("B", [8], None)]
    assert made_charts(TABLE, [spec]) == [Chart(spec, bars={"M": both, "N": both})]
    (over,) = made_charts(TABLE, [spec | {"over": "A", "known": "half"}])
    assert over.bars["N"] == [Bar("A", [1], 2), Bar("B", [2], 2)]


def test_spans() -> None:
    blocks = [Block(track, "1", "chunk 1", start, 1) for track, start in (("down", 1), ("up", 0), ("down", 2))]
    spec = {"title": "{series}", "tracks": ["up", "down"], "blocks": "sent", "x_label": "steps", "x_max": 5}
    (chart,) = made_charts(Table([{"series": "A", "sent": blocks}]), [spec])
    assert chart == Chart(spec | {"title": "A"}, tracks={"up": [blocks[1]], "down": [blocks[0], blocks[2]]})
    assert list(chart.tracks) == ["up", "down"]
