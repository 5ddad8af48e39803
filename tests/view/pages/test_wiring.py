"""The page of a wiring, and how a terminal draws it."""

from __future__ import annotations

from itertools import pairwise
from math import dist

import pytest
from looked import Looked

from antiphon.view.documents.job import wiring_document
from antiphon.view.markdown import markdown
from antiphon.view.pages.wiring import HEIGHT, WIDTH, layout, render


def found(odd: bool = True) -> dict[str, object]:
    """A triangle with a twin cable, as ``discover --json`` has it."""
    cables = [("a", "b", "1"), ("a", "b", "2"), ("b", "c", "3"), ("c", "a", "4")]
    links = [
        {
            "from": start,
            "to": end,
            "from_port": f"p{number}",
            "to_port": f"p{number}",
            "rate_gb_per_s": 0.025 if back else 0.0125,
            "latency_us": 21.4,
            "lost": 0.0,
            "cable": f"{low} p{number} - {high} <p{number}>",
        }
        for low, high, number in cables
        for back, start, end in ((0, low, high), (1, high, low))
    ]
    run = {
        "collective": "all-reduce",
        "bytes": 4096,
        "elements": 1024,
        "time_us": 50.0,
        "wrong": 0,
        "algorithm": "ring",
    }
    run |= {"bus_bandwidth_gb_per_s": 0.1, "bound_us": 40.0}
    what = [{"link": "b p3 - c <p3>", "what": "loses 5.0% of the packets"}] if odd else []
    hosts = [{"name": name, "ranks": [rank], "ports": []} for rank, name in enumerate("abc")]
    return {"hosts": hosts, "links": links, "odd": what, "runs": [run], "unmeasured": None, "iterations": 3}


def test_the_page_draws_each_cable_and_what_is_odd() -> None:
    page = render(found())
    Looked(page)
    assert page.count('<path class="cable') == 4
    assert page.count('<path class="cable odd"') == 1
    assert "b p3 - c &lt;p3&gt;: loses 5.0% of the packets" in page
    assert "<p3>" not in page
    assert page.count("100 Mbit/s / 200 Mbit/s") == 4
    assert "<strong>One thing is odd:</strong> b p3 - c &lt;p3&gt; loses 5.0% of the packets." in page
    assert "Nothing is odd" in render(found(odd=False))


def test_a_terminal_shows_lines_of_hosts_cables_and_runs() -> None:
    text = markdown(wiring_document(found()))
    assert "a =2= b --- c --- a" in text
    assert "| b p3 - c p3 | 100 Mbit/s | 200 Mbit/s | 21.4 µs | odd |" in text
    assert "80%" in text


@pytest.mark.parametrize("count", [3, 4, 6])
def test_a_ring_is_drawn_as_one(count: int) -> None:
    places = layout(count, [(host, (host + 1) % count) for host in range(count)])
    sides = [dist(one, other) for one, other in pairwise([*places, places[0]])]
    assert max(sides) < 1.01 * min(sides)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places)


@pytest.mark.parametrize(("count", "edges"), [(1, []), (2, [(0, 1)]), (2, []), (4, [(0, 1), (2, 3)])])
def test_few_hosts_and_parts_have_places_too(count: int, edges: list[tuple[int, int]]) -> None:
    assert len(set(layout(count, edges))) == count
