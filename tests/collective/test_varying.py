"""A schedule on links that vary: what each draw takes, which links matter, the command and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon import AntiphonError, Fabric, build
from antiphon.collective.varying import _correlations, _spread

MESH = Fabric("mesh:3x3")
COMBS = build(MESH, "combs", bytes="256KiB")


def test_without_width_each_draw_takes_as_long_as_the_fabric_as_it_is() -> None:
    found = antiphon.vary(MESH, COMBS, slow="normal:1,0", latency="0", draws=3)
    assert set(found.draws["time_ns"].tolist()) == {found.intact_ns}
    assert found.intact_ns == antiphon.simulate(MESH, COMBS).time_ns
    assert found.times.mean_ns == found.times.worst_ns == found.intact_ns
    assert np.isnan(found.links["correlation"]).all()
    half = antiphon.vary(MESH, COMBS, slow="0.5", draws=1)
    slow = Fabric("mesh:3x3,slow=" + ",slow=".join(f"{a}>{b}:0.5" for a, b in _pairs(MESH)))
    assert half.times.worst_ns == antiphon.simulate(slow, build(slow, "combs", bytes="256KiB")).time_ns


def _pairs(fabric: Fabric) -> list[tuple[int, int]]:
    return list(zip(fabric.links["from"].tolist(), fabric.links["to"].tolist(), strict=True))


def test_draws_repeat_and_fewer_are_the_first_of_more() -> None:
    many = antiphon.vary(MESH, COMBS, slow="uniform:0.5..1", draws=12, replan=True, jobs=2)
    few = antiphon.vary(MESH, COMBS, slow="uniform:0.5..1", draws=5, jobs=1)
    assert many.draws["time_ns"][:5].tolist() == few.draws["time_ns"].tolist()
    assert many == antiphon.vary(MESH, COMBS, slow="uniform:0.5..1", draws=12, replan=True, jobs=1)
    assert (
        few.draws["time_ns"].tolist()
        != antiphon.vary(MESH, COMBS, slow="uniform:0.5..1", draws=5, seed=2).draws["time_ns"].tolist()
    )
    assert few.replanned is None
    assert many.replanned is not None
    assert many.intact_ns < many.times.p5_ns <= many.times.p50_ns <= many.times.p95_ns <= many.times.worst_ns


def test_the_link_that_limits_is_named() -> None:
    # Of a broadcast along a path all that varies is the link from 0 to 1; those back carry nothing.
    path = Fabric("mesh:1x3,slow=0>1:0.2")
    found = antiphon.vary(path, build(path, "direct", "broadcast", bytes="1MiB"), slow="uniform:0.8..1", draws=40)
    first = found.links.rows()[0]
    assert (first["from"], first["to"]) == ("0", "1")
    assert first["correlation"] > 0.95 > found.chance


def test_percentiles_and_correlations_by_hand() -> None:
    spread = _spread(np.arange(1.0, 101.0)[::-1])
    assert (spread.p5_ns, spread.p50_ns, spread.p95_ns, spread.p99_ns, spread.worst_ns) == (5, 50, 95, 99, 100)
    times = np.array([1.0, 2.0, 3.0, 4.0])
    columns = np.array([[1.0, 9.0, 1.0, 5.0], [2.0, 4.0, 1.0, 5.0], [30.0, 3.0, 2.0, 5.0], [31.0, 0.0, 2.0, 5.0]])
    rising, falling, tied, constant = _correlations(columns, times)
    assert (round(rising, 9), round(falling, 9), round(tied, 6)) == (1, -1, round(0.8**0.5, 6))
    assert np.isnan(constant)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "nothing varies"),
        ({"slow": "nomal:0.9,0.1"}, "did you mean 'normal'?"),
        ({"slow": "uniform:0..1"}, "'0' is no number from 0.001 to 1"),
        ({"latency": "-5"}, "'-5' is no number from 0"),
        ({"slow": "0.5", "draws": 0}, "draws is 0; expected a whole number from 1 to 100,000"),
        ({"slow": "0.5", "share": 2}, "share is 2; expected a number above 0, at most 1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(AntiphonError) as refused:
        antiphon.vary(MESH, COMBS, **options)
    assert why in refused.value.message
    assert "\n" not in refused.value.message


def test_the_command_and_its_page(commands: Any, tmp_path: Path) -> None:
    page = tmp_path / "vary.html"
    asked = ("vary", "mesh:3x3", "combs", "--bytes", "256KiB", "--slow", "uniform:0.5..1", "--draws", "12")
    document = commands.document(*asked, "--report", page, "--replan")
    found = antiphon.vary(MESH, COMBS, slow="uniform:0.5..1", draws=12)
    assert document["times"] == found.times.to_dict()
    assert [row["time_ns"] for row in document["tables"]["draws"]] == found.draws["time_ns"].tolist()
    text = page.read_text()
    assert "How often which time is" in text
    assert "Planned for each draw" in text
    assert "12 draws" in commands.invoke(*asked).stdout
    assert "nothing varies" in commands.refused(*asked[:5])
