"""The page of a study: what it embeds, and the plot as a browser draws it."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from looked import Looked

from antiphon.studies.study import Study
from antiphon.view.pages.study import render

if TYPE_CHECKING:
    from conftest import Browser


def studied(sizes: int, rates: int = 2, results: int = 1) -> Study:
    """Algorithms, sizes and rates, with a time and further results for each; what is in all is the same."""
    axes = itertools.product(("ring", "tto"), range(sizes), range(rates))
    values: list[dict[str, Any]] = [
        {"algorithm": name, "bytes": 1024 << size, "rate": 10.0 * (rate + 1)} for name, size, rate in axes
    ]
    records = [
        {"time_ns": each["bytes"] / each["rate"] + len(each["algorithm"]), "same": 7, "none": None}
        | {f"more_{number}": number + each["bytes"] / 3 for number in range(results)}
        for each in values
    ]
    return Study(values, records, 0, ["time_ns"])


def points(page: str) -> dict[str, Any]:
    found = re.search(r'id="points"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    return dict(json.loads(found[1]))


def test_it_embeds_what_varies() -> None:
    page = render(studied(3), "sizes")
    data = points(page)
    assert list(data) == ["algorithm", "bytes", "rate", "time_ns", "more_0"]
    assert data["algorithm"] == {"names": ["ring", "tto"], "of": [0] * 6 + [1] * 6}
    assert data["bytes"][:3] == [1024, 1024, 2048]
    assert data["time_ns"][0] == 106.4
    looked = Looked(page)
    assert "The least time_ns is 54.2 ns, at algorithm tto, bytes 1KiB, rate 20.0." in looked.text
    assert "same 7" in looked.text


def test_points_without_a_result_are_said() -> None:
    known = studied(1)
    refused = {"refused": {"reason": "it is for meshes", "code": "not-applicable"}}
    text = Looked(render(Study(known.values, [refused, *known.records[1:]], 0, ["time_ns"]))).text
    assert "3 points have a result, 1 have none." in " ".join(text.split())
    assert "it is for meshes" in text


def test_a_large_study_is_a_small_page() -> None:
    page = render(studied(25, 100, results=60))
    looked = Looked(page)
    assert "columns of results are left out" in looked.text
    assert len(points(page)["time_ns"]) == 5000
    assert "thin" not in looked.text


def test_a_huge_study_is_thinned() -> None:
    looked = Looked(render(studied(40, 1000)))
    assert re.search(r"Of the points, each \dth is here.", looked.text)


def test_texts_of_others_are_no_elements() -> None:
    known = studied(2)
    values = [{**each, "algorithm": f"</script><b>{place}"} for place, each in enumerate(known.values)]
    looked = Looked(render(Study(values, known.records, 0, ["time_ns"])))
    assert "b" not in looked.tags


@pytest.mark.parametrize(("then", "lines"), [("", 2), ("get('series', 'rate')", 2), ("get('series', '')", 1)])
def test_the_reader_chooses(browser: Browser, tmp_path: Path, then: str, lines: int) -> None:
    page = render(studied(3))
    change = "const get = (id, value) => { const s = document.getElementById(id); s.value = value; s.onchange(); };"
    file = tmp_path / "study.html"
    file.write_text(page.replace("</body>", f"<script>{change} {then}</script></body>"), "utf-8")
    dom = browser.dump_dom(file)
    assert dom.count('<polyline class="line on"') == lines
    assert dom.count("<circle") == 12
    assert '<p id="told" aria-live="polite">12 points</p>' in dom
    assert re.search(r'aria-label="time_ns over bytes', dom)
    assert "1 KiB</text>" in dom
    assert browser.console(file) == []


def test_values_that_say_nothing_are_left_out() -> None:
    values = [{"algorithm": name} for name in ("ring", "optimal")]
    same = {"known_gaps": "", "bound": {"limit": {"links": [0, 8, 4]}}, "kind": "packet"}
    records = [same | {"time_ns": 5 + steps, "steps": steps, "packet_hops": 100} for steps in (30, 4000)]
    page = render(Study(values, records, 0, ["time_ns", "steps"]))
    assert points(page)["steps"] == [30, None]
    text = Looked(page).text
    assert "kind packet" in text
    assert "known_gaps" not in text
    assert "limit.links" not in text
