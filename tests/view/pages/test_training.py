"""The report of trainings, as a browser shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import antiphon
from antiphon import Training
from antiphon.training.train import CHAINED
from antiphon.view.pages.training import _merged, _timeline, render

if TYPE_CHECKING:
    from conftest import Browser


def trainings(overlap: str, *algorithms: str) -> list[Training]:
    return [antiphon.train("ncf", "mesh:4x4", name, "tto", overlap=overlap) for name in algorithms]


@pytest.mark.parametrize(
    "overlap", ["none", *(pytest.param(name, marks=pytest.mark.slow) for name in ("layerwise", "ccube")), "both"]
)
def test_in_a_browser(browser: Browser, tmp_path: Path, overlap: str) -> None:
    combs, ring = trainings(overlap, "combs", "ring-bi")
    file = tmp_path / "a report.html"
    file.write_text(render([(combs, [ring])]), "utf-8")
    dom = browser.dump_dom(file)
    assert dom.count('class="end"') == 2
    assert dom.count("sent p3") == sum(len(each.iteration.exchanges["bytes"]) for each in (combs, ring))
    assert ('class="arrival"' in dom) == ("turnaround" in dom) == (overlap in CHAINED)
    assert f"{combs.speedup(ring):.3f}×" in dom
    assert browser.console(file) == []
    assert browser.screenshot(file, tmp_path / "report.png").stat().st_size > 10_000


@pytest.mark.parametrize("overlap", ["none", "layerwise", "ccube", "both"])
def test_blocks_are_the_times(overlap: str) -> None:
    (run,) = trainings(overlap, "combs")
    drawn: dict[str, Any] = _timeline(run, 1e-3)
    (computed,) = drawn["streams"]
    assert sum(length for _, length, _, _ in computed) == pytest.approx(run.compute_ns * 1e-3, rel=1e-3)
    assert sum(length for _, length, _ in drawn["sent"]) == pytest.approx(run.communication_ns * 1e-3, rel=1e-3)
    last = max(start + length for start, length, _, _ in computed)
    assert last <= run.iteration_ns * 1e-3 + 1e-6
    waits = run.layers["gradient_bytes"].astype(bool).sum() if overlap in CHAINED else 0
    assert len(drawn["arrivals"]) <= waits


def test_streams_have_lanes_of_their_own(tmp_path: Path) -> None:
    table = tmp_path / "streams.csv"
    table.write_text(
        "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes,stream,consumer\n"
        "table,30,NONE,0,10,NONE,0,10,ALLREDUCE,64,1,top\n"
        "bottom,10,NONE,0,10,NONE,0,10,NONE,0,,\n"
        "top,10,NONE,0,10,NONE,0,10,NONE,0,,\n"
    )
    run = antiphon.train(str(table), "mesh:2x2", "ring")
    drawn = _timeline(run, 1)
    assert [len(blocks) for blocks in drawn["streams"]] == [6, 3]
    assert drawn["stream_height"] == 10
    assert run.compute_ns == 80 < sum(length for blocks in drawn["streams"] for _, length, _, _ in blocks) == 110


def test_narrow_neighbours_are_one() -> None:
    blocks = [(0.0, 1.0, 0, "a"), (1.0, 2.0, 0, "b"), (2.0, 8.0, 0, "c"), (8.0, 8.5, 1, "c"), (9.0, 9.5, 1, "b")]
    texts = [text for *_, text in _merged(blocks)]
    assert texts == ["forward pass a to b", "forward pass c", "backward pass c", "backward pass b"]


def test_from_the_command_line(commands: Any, tmp_path: Path) -> None:
    page = tmp_path / "t.html"
    told = commands.invoke("train", "alexnet,ncf", "mesh:4x4", "combs", "--system", "tto", "--report", str(page))
    assert told.exit_code == 0
    assert page.read_text("utf-8").count("<section>") == 2
    commands.invoke("train", "ncf", "mesh:4x4,ring:4", "tto", "--system", "tto", "--report", str(page))
    assert "ncf, tto on ring:4: tto does not apply" in page.read_text("utf-8")
    assert "must end in .html" in commands.refused(
        "train", "ncf", "mesh:4x4", "combs", "--report", str(tmp_path / "t.txt")
    )
    page.write_text("keep")
    commands.refused("train", "ncf", "mesh:4x4", "tot", "--report", str(page))
    assert page.read_text() == "keep"
