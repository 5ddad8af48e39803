"""The report, as a browser shows it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import antiphon
from antiphon.papers.tto.artifact import built
from antiphon.view.pages.comparison import render

if TYPE_CHECKING:
    from conftest import Browser


class Page(HTMLParser):
    """Counts of elements by tag and by class, links to elsewhere, visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.classes: dict[str, int] = {}
        self.references: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            if name == "class":
                for part in (value or "").split():
                    self.classes[part] = self.classes.get(part, 0) + 1
            if name in ("src", "href", "xlink:href", "action", "data", "srcset"):
                self.references.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def compared(spec: str) -> tuple[antiphon.Fabric, antiphon.Comparison]:
    fabric = antiphon.Fabric(spec)
    return fabric, antiphon.compare(fabric, bytes="256KiB")


def test_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    fabric, comparison = compared("mesh:4x4")
    file = tmp_path / "a report.html"
    file.write_text(render(fabric, comparison), "utf-8")
    page = Page(browser.dump_dom(file))
    assert page.classes["bar"] == len(comparison.runs)
    assert page.classes["line"] == len(comparison.runs)
    assert page.classes["link"] == 48
    assert page.classes["node"] == 16
    assert page.classes["bound"] == 1
    assert page.classes["js"] == 1, "the script ran"
    columns, pictures = 10, 3
    assert page.tags["button"] == len(comparison.runs) + columns + 2 * pictures + len(["CSV", "JSON"])
    assert page.tags["tr"] == 1 + len(comparison.runs) + len(comparison.refused)
    assert page.tags["title"] > 48
    assert not page.references
    assert browser.console(file) == []
    assert browser.screenshot(file, tmp_path / "report.png").stat().st_size > 10_000


def test_buttons_show_other_algorithms(browser: Browser, tmp_path: Path) -> None:
    fabric, comparison = compared("mesh:4x4")
    last = len(comparison.runs) - 1
    file = tmp_path / "report.html"
    file.write_text(render(fabric, comparison).replace("</body>", f"<script>show({last})</script></body>"), "utf-8")
    dom = browser.dump_dom(file)
    assert f'<b id="shown">{comparison.runs[last].algorithm}</b>' in dom
    assert re.findall(r'aria-pressed="(\w+)"', dom) == ["false"] * last + ["true"]
    busiest = comparison.runs[last].result.links["utilization"].max()
    assert f"{round(busiest * 1000) / 10:g} % in use" in dom


def test_texts_beside_bars_are_not_cut(browser: Browser, tmp_path: Path) -> None:
    """The longest bar has the longest text."""
    fabric = antiphon.Fabric("mesh:8x8")
    comparison = antiphon.compare(fabric, bytes="256KiB", algorithms="tto")
    script = """<script>
const picture = document.querySelector("#times svg");
const right = [...picture.querySelectorAll("text")].map((text) => text.getBBox()).map((box) => box.x + box.width);
document.title = `${Math.max(...right) + 200} of ${picture.viewBox.baseVal.width}`;
</script></body>"""
    file = tmp_path / "report.html"
    file.write_text(render(fabric, comparison).replace("</body>", script), "utf-8")
    found = re.search(r"<title>([\d.]+) of (\d+)</title>", browser.dump_dom(file))
    assert found is not None
    assert float(found[1]) <= float(found[2])


@pytest.mark.parametrize(
    "spec",
    [
        *("ring:2", "mesh:2x3x4", "torus:4x4", "fc:5", "switch:4", "dgx1v", "bigraph:2x2", "hypercube:4", "fbfly:3x3"),
        *("dgx-a100:2", "dgx-h100:2", "mi250:1", "mi300x:1", "tpu-v4:2x2x4", "fat-tree:2x3:ratio=3", "dragonfly:1,2,1"),
        *("dgx-a100:2:nics=2", "h800:2:rails=leaf-spine", "slimfly:3:hosts=1", "hammingmesh:1x2x2x2"),
    ],
)
def test_every_fabric_is_drawn(spec: str) -> None:
    fabric, comparison = compared(spec)
    html = render(fabric, comparison)
    page = Page(html)
    assert page.classes["link"] == len(fabric.links["from"])
    assert not re.search(r"\bnan\b", html)
    best = comparison.runs[0].algorithm
    assert best in page.text


def test_a_timetable_has_no_steps() -> None:
    fabric = antiphon.Fabric("mesh:4x4")
    comparison = antiphon.compare(fabric, bytes="1MiB", algorithms="optimal,ring")
    html = render(fabric, comparison)
    steps = re.findall(r'<td>([^<]*)</td><td class="left">✓', html)
    names = [run.algorithm for run in comparison.ranking]
    assert dict(zip(names, steps, strict=True)) == {"optimal": "–", "ring": "30"}


def test_the_headline_is_for_all_ranks() -> None:
    """TTO is the fastest here, but leaves a rank out."""
    fabric = antiphon.Fabric("mesh:2x2")

    def verdict(algorithms: str | None, *schedules: antiphon.Schedule) -> str:
        chosen = [] if algorithms is None else algorithms
        compared = antiphon.compare(fabric, bytes="64MiB", algorithms=chosen, system="tto", schedules=schedules)
        html = render(fabric, compared)
        found = re.search(r'<p class="verdict">(.*?)</p>', html, re.DOTALL)
        assert found is not None
        return found[1]

    assert "<strong>ring</strong> is the fastest with all ranks" in verdict("tto,dbtree,ring")
    assert "as fast as dbtree" in verdict("tto,dbtree,ring")
    assert "<strong>tto</strong> (without rank 2) is timed" in verdict("tto")
    placed = verdict(None, built(fabric, "artifact-dbtree", "all-reduce", 64 << 20, antiphon.System("tto")))
    assert "(ranks on other nodes) is timed" in placed
    assert "%" not in placed


def test_odd_nodes_are_drawn() -> None:
    """Coordinates of very different scale, and names as long as they may be."""
    nodes = [{"name": letter * 128, "coords": [0, place]} for letter, place in zip("abc", (0, 1, 1e6), strict=True)]
    links = [{"from": 0, "to": 1}, {"from": 1, "to": 2}]
    text = json.dumps({"schema": "antiphon-fabric/1", "nodes": nodes, "links": links})
    fabric = antiphon.Fabric.from_json(text)
    html = render(fabric, antiphon.compare(fabric, bytes="64KiB", algorithms=["direct"]))
    box = re.search(r'class="fabric" viewBox="0 0 (\d+) (\d+)"', html)
    assert box is not None
    assert max(int(box[1]), int(box[2])) < 1000
    assert "<b>aaaaaaaaaaaaaaaaaaa… → bbbbbbbbbbbbbbbbbbb…</b>" in html


def test_charts_scroll_rather_than_shrink() -> None:
    html = render(*compared("mesh:3x3"))
    assert len(re.findall(r'<div class="wide">\n<svg viewBox="0 0 980 ', html)) == 2
    assert ".wide > svg:not(.fabric) { min-width: 720px; }" in html


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = render(*compared("mesh:3x3"))
    assert not re.search(r"https?://|@import|url\((?!#)", html)


def test_names_are_escaped() -> None:
    fabric = antiphon.Fabric.from_json(antiphon.Fabric("ring:4").to_json(), "<script>alert(1)</script>")
    html = render(fabric, antiphon.compare(fabric, bytes="64KiB", algorithms=["ring"]))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def test_large_fabrics_are_heat_maps() -> None:
    fabric = antiphon.Fabric("ring:1025")
    html = render(fabric, antiphon.compare(fabric, "broadcast", "64KiB", ["multitree"]))
    page = Page(html)
    assert "link" not in page.classes
    assert page.classes["cell"] == 1025
    assert "Each cell is a node" in page.text
    assert len(html) < 200_000


def test_needs_a_run() -> None:
    fabric = antiphon.Fabric("switch:4")
    with pytest.raises(antiphon.AntiphonError, match="at least one run"):
        render(fabric, antiphon.compare(fabric, algorithms=[]))


def test_rates_that_a_clock_rounds_are_said() -> None:
    fabric = antiphon.Fabric("fc:2@900/5ns")
    for system, said in (("tto", True), ("generic", False)):
        text = Page(render(fabric, antiphon.compare(fabric, bytes="1MiB", algorithms="direct", system=system))).text
        assert ("links of 900 GB/s carry 512" in text) is said
