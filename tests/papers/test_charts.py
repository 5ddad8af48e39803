"""Charts of a table."""

from __future__ import annotations

from operator import itemgetter

from antiphon.repro.charts import Bar, Block, Chart, Line, bar_chart, line_chart, span_chart
from antiphon.repro.table import Table

TABLE = Table(
    {"series": series, "model": model, "side": side, "time": factor * side, "what": f"{model} {side}", "half": side / 2}
    for series, factor in (("A", 1), ("B", 2))
    for model in ("M", "N")
    for side in (4, 2)
)
AXES = "side", "side of the mesh", "time", "ns"


def test_lines() -> None:
    one = line_chart("M", TABLE.where(series="A", model="M"), *AXES, ticks="{}x".format, y_max=9)
    ticks = [(2, "2x"), (4, "4x")]
    assert one == Chart("M", "side of the mesh", "ns", y_max=9, lines=[Line("A", [2, 4], [2, 4], [])], ticks=ticks)
    # Both models are at one place: their mean, and what is published for the first.
    chart = line_chart("", TABLE, *AXES, label=lambda entry: f"{entry['series']}!", known="half")
    assert chart.lines[1] == Line("B!", [2, 4], [4, 8], [(2, 1), (4, 2)])


def test_few_marks_all_have_a_text() -> None:
    table = Table({"series": "A", "side": side, "time": 1.0} for side in range(8))
    few, many = (line_chart("", Table(table[:count]), *AXES, ticks=str, every=2) for count in (3, 8))
    assert [len(few.ticks), len(many.ticks)] == [3, 4]


def test_bars() -> None:
    table, group = TABLE.where(side=4), itemgetter("model")
    both = [Bar("A", [4], None), Bar("B", [8], None)]
    chart = bar_chart("t", "y", table, group, {"whole": "time"})
    assert chart == Chart("t", y_label="y", bars={"M": both, "N": both}, parts=["whole"])
    over = bar_chart("t", "y", table, group, {"whole": "time"}, over="A", known="half")
    assert over.bars["N"] == [Bar("A", [1], 2), Bar("B", [2], 2)]


def test_spans() -> None:
    blocks = [Block(track, "1", "chunk 1", start, 1) for track, start in (("down", 1), ("up", 0), ("down", 2))]
    chart = span_chart("A", "steps", 5, ("up", "down"), blocks)
    assert chart == Chart("A", "steps", x_max=5, tracks={"up": [blocks[1]], "down": [blocks[0], blocks[2]]})
    assert list(chart.tracks) == ["up", "down"]
