"""Pictures as files: fabrics, trees and rings of schedules, runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

import antiphon
from antiphon.view.drawing.trees import patterns

if TYPE_CHECKING:
    from conftest import Browser


def schedule_of(spec: str, algorithm: str, collective: str = "all-reduce") -> tuple[antiphon.Fabric, antiphon.Schedule]:
    fabric = antiphon.Fabric(spec)
    return fabric, antiphon.build(fabric, algorithm, collective, bytes="1MiB")


@pytest.mark.parametrize(
    ("spec", "algorithm", "words"),
    [
        ("mesh:4x4", "ring", ["ring"]),
        ("mesh:4x4", "tto", ["tree"] * 3),
        ("mesh:4x4", "multitree", ["tree"] * 16),
        ("mesh:4x4", "dbtree", ["tree"] * 2),
        ("dgx1v", "overlapped-tree", ["tree"] * 2),
    ],
)
def test_trees_and_rings_are_told_apart(spec: str, algorithm: str, words: list[str]) -> None:
    fabric, schedule = schedule_of(spec, algorithm)
    found = patterns(fabric, schedule)
    assert [each.word for each in found] == words
    assert sorted(lane for each in found for lane in each.lanes) == list(range(len(schedule.lanes["bytes"])))
    assert sum(each.share for each in found) == pytest.approx(1)
    used = set(schedule.routes["link"].tolist())
    assert frozenset().union(*(each.adds | each.copies for each in found)) == used


def test_a_tree_has_its_links_and_its_root() -> None:
    fabric, schedule = schedule_of("mesh:4x4", "tto")
    for each in patterns(fabric, schedule):
        (root,) = each.roots
        assert len(each.adds) == len(each.copies) in (14, 15)  # 15 ranks take part, and the other may forward
        assert all(fabric.links["from"][link] != root for link in each.adds)
        assert all(fabric.links["to"][link] != root for link in each.copies)


def test_the_picture_of_a_schedule() -> None:
    picture = antiphon.picture(*schedule_of("mesh:4x4", "multitree"))
    assert picture.title == "multitree: all-reduce of 1MiB on mesh:4x4"
    root = ElementTree.fromstring(picture.svg)
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(text.startswith("tree, lane") for text in texts) == 6
    assert "The 6 patterns with the most data are drawn; 10 more are not." in texts
    assert len(re.findall(r'class="link t0"', picture.svg)) == 15  # a tree of 16 ranks
    assert "var(" not in picture.svg


def test_the_picture_of_a_run() -> None:
    fabric, schedule = schedule_of("mesh:4x4", "ring")
    run = antiphon.run(fabric, schedule)
    picture = antiphon.picture(fabric, run)
    idle = int((run.result.links["bytes"] == 0).sum())
    assert len(re.findall(r'class="link u0"', picture.svg)) == idle
    with pytest.raises(antiphon.AntiphonError, match="not on mesh:2x2"):
        antiphon.picture("mesh:2x2", run)


def test_a_schedule_on_a_heat_map_is_refused() -> None:
    fabric = antiphon.Fabric("ring:1024")
    schedule = antiphon.build(fabric, "multitree", "broadcast", bytes=4096)
    with pytest.raises(antiphon.AntiphonError, match="too large"):
        antiphon.picture(fabric, schedule)
    assert "node cell" in antiphon.picture(fabric).svg


def test_pictures_are_saved(tmp_path: Path) -> None:
    picture = antiphon.picture("dgx-h100:2")
    picture.save(tmp_path / "boxes.svg")
    assert (tmp_path / "boxes.svg").read_text("utf-8") == picture.svg == picture._repr_svg_()
    with pytest.raises(antiphon.AntiphonError, match="saves them as PNG"):
        picture.save(tmp_path / "boxes.png")
    with pytest.raises(antiphon.AntiphonError, match=r"must end in \.svg"):
        picture.save(tmp_path / "boxes.txt")


def test_a_browser_shows_it_without_complaint(browser: Browser, tmp_path: Path) -> None:
    antiphon.picture(*schedule_of("mesh:4x4", "tto")).save(tmp_path / "tto.svg")
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><title>x</title><img src="tto.svg" onload="document.title = this.naturalWidth">', "utf-8"
    )
    width = re.search(r"<title>(\d+)</title>", browser.dump_dom(page))
    assert width is not None
    assert int(width[1]) >= 640
    assert browser.console(page) == []
