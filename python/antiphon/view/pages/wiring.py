"""The HTML page of a wiring: hosts and cables drawn, what is odd, what collectives reach."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from antiphon.view.document import Document
from antiphon.view.documents.job import wiring_document
from antiphon.view.drawing.graph import distances
from antiphon.view.pages.page import page_template
from antiphon.view.pages.sheet import sections_of
from antiphon.view.text import format_bit_rate

WIDTH, HEIGHT, MARGIN = 900.0, 560.0, 70.0
BEND, ALONG = 26.0, 0.1
"""Between cables that join the same hosts, across in pixels and along as a part of their length."""


def render(found: dict[str, Any]) -> str:
    """The page as text, of what ``antiphon discover --json`` prints."""
    hosts = [host["name"] for host in found["hosts"]]
    odd = {each["link"]: each["what"] for each in found["odd"]}
    pairs = list(zip(found["links"][::2], found["links"][1::2], strict=True))
    places = dict(
        zip(hosts, layout(len(hosts), [(hosts.index(a["from"]), hosts.index(a["to"])) for a, _ in pairs]), strict=True)
    )
    several = Counter(frozenset((there["from"], there["to"])) for there, _ in pairs)
    seen: Counter[frozenset[str]] = Counter()
    cables = []
    for there, back in pairs:
        ends = frozenset((there["from"], there["to"]))
        start, end = places[min(ends)], places[max(ends)]
        aside = 2 * seen[ends] - several[ends] + 1
        middle = _bent(start, end, BEND * aside)
        # Labels of parallel cables stand one after the other.
        label = tuple(at + ALONG * aside * (far - near) for at, near, far in zip(middle, start, end, strict=True))
        seen[ends] += 1
        rates = [format_bit_rate(each["rate_gb_per_s"] * 8e9) for each in (there, back)]
        text = rates[0] if rates[0] == rates[1] else " / ".join(rates)
        what = odd.get(there["cable"], "")
        cables.append(
            {
                "start": start,
                "end": end,
                "middle": middle,
                "label": label,
                "text": text,
                "name": there["cable"],
                "odd": what,
            }
        )
    rest = Document(wiring_document(found).parts[bool(pairs) :])
    template = page_template("wiring.html")
    return template.render(
        hosts=places, cables=cables, count=len(pairs), odd=found["odd"], sections=sections_of(rest), width=WIDTH, height=HEIGHT
    )


def layout(count: int, edges: list[tuple[int, int]]) -> list[tuple[float, float]]:
    """Places of hosts in pixels, such that distances are about as many cables as there are between them."""
    flat = distances(count, edges)
    size = np.maximum(flat.max(axis=0), 1e-9)
    scale = min((WIDTH - 2 * MARGIN) / size[0], (HEIGHT - 2 * MARGIN) / size[1])
    shift = (np.array([WIDTH, HEIGHT]) - size * scale) / 2
    return [(round(float(x), 1), round(float(y), 1)) for x, y in flat * scale + shift]


def _bent(start: tuple[float, float], end: tuple[float, float], by: float) -> tuple[float, float]:
    """A point beside the middle."""
    across = np.array([end[1] - start[1], start[0] - end[0]])
    length = max(float(np.hypot(*across)), 1e-9)
    x, y = (np.array(start) + end) / 2 + across / length * by
    return round(float(x), 1), round(float(y), 1)
