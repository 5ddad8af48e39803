"""Axes and charts of pages."""

from __future__ import annotations

import pytest

from antiphon.view.pages.plots import Bar, Bars, decades, line, linear, sizes, time_bars, times
from antiphon.view.text import format_time


@pytest.mark.parametrize("largest", [0.0, 0.3, 1.0, 7.0, 99.9, 12345.0])
def test_ticks_of_a_linear_axis_are_round_and_reach_all(largest: float) -> None:
    axis = linear("things", [largest / 2, largest], 500, str)
    assert axis.ticks[0] == (0.0, "0.0")
    assert axis.ticks[-1][0] == pytest.approx(500)
    assert 3 <= len(axis.ticks) <= 7
    assert 0 < axis.place(largest or 1.0) <= 500
    assert axis.place(10 * axis.high) == 500


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    axis = decades("time", [20.0, 4e6], 600, format_time)
    assert [text for _, text in axis.ticks] == ["10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]
    assert [at for at, _ in axis.ticks] == pytest.approx([100 * place for place in range(7)])
    assert axis.place(0) == 0


def test_sizes_are_in_binary_units() -> None:
    axis = sizes("size", [1024, 4096, 1 << 20], 500)
    assert [text for _, text in axis.ticks][:2] == ["1 KiB", "4 KiB"]
    assert axis.place(1 << 20) == pytest.approx(500)
    assert sizes("size", [1024], 500).ticks[0] == (0.0, "1 KiB")


def test_a_line_is_thinned_and_upside_down() -> None:
    x, y = linear("x", [1000.0], 1000), times("time", [2e6], 100)
    assert y.title == "time in ms"
    drawn = line(0, "a", x, y, [(float(at), 1e6, "") for at in range(1000)])
    assert len(drawn.points) <= 600
    assert drawn.points[0][:2] == (0.0, 50.0)


def test_bars_have_room_for_their_texts() -> None:
    short, long = Bars("b", [Bar("a", 1.0, "x")]), Bars("b", [Bar("a", 1.0, "x" * 60)])
    assert short.width < long.width
    assert Bars("b", [Bar("a", 0.0, "none")]).pixels > 0
    named = time_bars("times", [("a", 1000.0, "best"), ("b", 2000.0, "")], 500.0)
    assert [bar.text for bar in named.bars] == ["1.00 µs · best", "2.00 µs"]
    assert named.bound == (500.0, "lower bound 500 ns")


def test_a_line_above_its_axis_has_an_open_end() -> None:
    x, y = linear("rate", [1.0], 100), linear("cycles", [100.0], 100)
    drawn = line(0, "a", x, y, [(0.0, 50.0, "low"), (0.5, 150.0, "high"), (1.0, 200.0, "higher")])
    assert drawn.points == [(0.0, 50.0, "low")]
    assert drawn.open_ends == [(25.0, 0.0, "high")]
    assert drawn.path == "0.0,50.0 25.0,0.0"
    back = line(0, "a", x, y, [(0.0, 150.0, "high"), (0.5, 50.0, "low")])
    assert (back.open_ends, back.path) == ([(0.0, 0.0, "high")], "25.0,0.0 50.0,50.0")
