"""What all pages can do: sort, save, fit; and axes of sizes."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import antiphon
from antiphon.view.pages.comparison import render
from antiphon.view.pages.page import page_template, size_axis

if TYPE_CHECKING:
    from conftest import Browser


def report(spec: str, algorithms: str = "ring,direct,dbtree") -> str:
    fabric = antiphon.Fabric(spec)
    return render(fabric, antiphon.compare(fabric, bytes="64KiB", algorithms=algorithms))


def told(browser: Browser, page: str, script: str, folder: Path) -> Any:
    """What a script that is added to a page returns."""
    file = folder / "page.html"
    added = f"<script>document.title = JSON.stringify((() => {{ {script} }})())</script></body>"
    file.write_text(page.replace("</body>", added), "utf-8")
    title = re.search(r"<title>([^<]*)</title>", browser.dump_dom(file))
    assert title is not None
    return json.loads(unescape(title[1]))


def test_tables_sort_by_a_click(browser: Browser, tmp_path: Path) -> None:
    script = """
      const heads = [...document.querySelectorAll("#table th")], column = (at) =>
        [...document.querySelectorAll("#table tbody tr")].map((row) => row.cells[at].textContent);
      const found = [column(0)];
      heads[0].firstElementChild.click(); found.push(column(0), heads[0].getAttribute("aria-sort"));
      heads[1].firstElementChild.click(); heads[1].firstElementChild.click();
      found.push(column(0), heads[1].getAttribute("aria-sort"), heads[0].getAttribute("aria-sort"));
      return found;"""
    first, by_name, up, by_time, down, other = told(browser, report("mesh:4x4"), script, tmp_path)
    assert by_name == sorted(first)
    assert by_time == first[::-1]
    assert (up, down, other) == ("ascending", "descending", None)


def test_values_are_compared_with_their_units(browser: Browser, tmp_path: Path) -> None:
    template = page_template("page.html").environment.from_string(
        '{% extends "page.html" %}{% block main %}<table class="sort"><thead><tr><th>Time</th></tr></thead><tbody>'
        "{% for text in texts %}<tr><td>{{ text }}</td></tr>{% endfor %}</tbody></table>{% endblock %}"
    )
    ordered = ["900 ns", "1.50 µs", "20.0 µs", "3.00 ms", "1.00 s", "–"]
    page = template.render(texts=[ordered[at] for at in (3, 5, 0, 4, 2, 1)])
    script = """
      document.querySelector("th button").click();
      return [...document.querySelectorAll("td")].map((cell) => cell.textContent);"""
    assert told(browser, page, script, tmp_path) == ordered


def test_pictures_and_tables_are_saved(browser: Browser, tmp_path: Path) -> None:
    script = """
      const saved = [];
      URL.createObjectURL = (blob) => { saved.push([blob.type, blob.size > 200]); return "data:,"; };
      HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
      const buttons = [...document.querySelectorAll(".save button")];
      buttons.filter((each) => each.textContent !== "PNG").forEach((each) => each.click());
      return saved;"""
    svg, csv, data = ["image/svg+xml", True], ["text/csv", True], ["application/json", True]
    names = ["times.svg", "fabric.svg", "utilization.svg", "algorithms.csv", "comparison.json"]
    expected = [item for pair in zip([svg, svg, svg, csv, data], names, strict=True) for item in pair]
    assert told(browser, report("mesh:4x4"), script, tmp_path) == expected


@pytest.mark.parametrize("width", [500, 1000, 1600])
def test_nothing_is_wider_than_the_window(browser: Browser, tmp_path: Path, width: int) -> None:
    """What is, such as a table, scrolls in a box that the keyboard reaches."""
    script = f"""
      document.documentElement.style.width = "{width - 100}px"; dispatchEvent(new Event("resize"));
      const boxes = [...document.querySelectorAll(".wide")];
      const reached = boxes.every((box) => (box.scrollWidth > box.clientWidth + 1) === (box.tabIndex === 0));
      return [document.body.scrollWidth, reached];"""
    most, reached = told(browser, report("dgx-h100:2"), script, tmp_path)
    assert most <= width - 100
    assert reached


def test_every_picture_says_what_it_is() -> None:
    page = report("mesh:4x4,drop=0-1")
    shown = re.findall(r"<svg ([^>]*)>", page)
    assert all('aria-hidden="true"' in each or ("role=" in each and "aria-label=" in each) for each in shown)


def test_sizes_are_binary() -> None:
    axis = size_axis(512, 1 << 30, 800)
    assert [label for _, label in axis.ticks] == [
        "512 B",
        "4 KiB",
        "32 KiB",
        "256 KiB",
        "2 MiB",
        "16 MiB",
        "128 MiB",
        "1 GiB",
    ]
    assert [round(x) for x, _ in axis.ticks] == [round(800 * at / 7) for at in range(8)]
    assert axis.at(512) == 0
