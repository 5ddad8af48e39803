"""Pages of schedules: what they do, and counter-examples drawn."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from looked import Looked

import antiphon
from antiphon.view.document import Document
from antiphon.view.pages.schedule import named, render, render_fabric, render_wrong

MESH = antiphon.Fabric("mesh:3x3")


def changed(change: Any) -> antiphon.Schedule:
    """TTO on a mesh, with its transfers changed."""
    document = json.loads(antiphon.build(MESH, "tto", bytes="64KiB").to_json())
    change(document["transfers"])
    return antiphon.Schedule.from_json(json.dumps(document), MESH)


def without_the_last(transfers: list[dict[str, Any]]) -> None:
    transfers.pop()


def without_a_wait(transfers: list[dict[str, Any]]) -> None:
    next(each for each in transfers if each.get("start_after") and each["op"] == "reduce")["start_after"] = []


def in_a_circle(transfers: list[dict[str, Any]]) -> None:
    """Two transfers that wait for each other."""
    late = next(each for each in transfers if each.get("start_after"))
    first = late["start_after"][0]
    back = next(n for n, each in enumerate(transfers) if each["to"] == transfers[first]["from"] and n > first)
    transfers[first]["start_after"] = [back]


@pytest.mark.parametrize("change", [without_the_last, without_a_wait, in_a_circle])
def test_what_a_counter_example_names_is_drawn(change: Any) -> None:
    schedule = changed(change)
    with pytest.raises(antiphon.NotProven) as error:
        antiphon.verify(MESH, schedule)
    message = error.value.message
    page = render_wrong(MESH, schedule, message)
    looked = Looked(page)
    found = named(message)
    assert message in looked.text
    routes = schedule.routes
    ways = {
        int(link)
        for number, link in zip(routes["transfer"], routes["link"], strict=True)
        if number in found["transfer"]
    }
    hot = {int(link) for link in re.findall(r'class="link hot[^>]*data-link="(\d+)"', page)}
    assert hot == ways
    nodes = {int(node) for node in re.findall(r'class="node[^"]*\bhot\b[^>]*data-node="(\d+)"', page)}
    assert set(found["rank"]) <= nodes
    for number in found["transfer"]:
        assert f"<td>{number}</td>" in page or f">{number}</td>" in page


def test_a_proven_schedule() -> None:
    schedule = antiphon.build(MESH, "ring", bytes="64KiB")
    looked = Looked(render(MESH, schedule, antiphon.verify(MESH, schedule), Document()))
    assert "Proven: every rank ends with the right bytes." in looked.text
    assert "Trees and rings" in looked.text
    assert looked.classes["player"] == 1


def test_few_trees_are_drawn_large() -> None:
    torus = antiphon.Fabric("torus:4x4")
    schedule = antiphon.build(torus, "multitree", bytes="64KiB")
    page = render(torus, schedule, antiphon.verify(torus, schedule), Document())
    assert page.count('data-picture="tree-') == 4
    assert "The 4 with the most data are drawn; 12 more are not" in Looked(page).text


def test_a_fabric_alone() -> None:
    looked = Looked(render_fabric(antiphon.Fabric("torus:3x4")))
    assert "12 ranks · 12 nodes · 48 directed links" in looked.text
    assert "ring" in looked.text


def test_large_ones() -> None:
    fabric = antiphon.Fabric("mesh:32x32")
    schedule = antiphon.build(fabric, "combs", bytes="1MiB")
    looked = Looked(render(fabric, schedule, antiphon.verify(fabric, schedule), Document()))
    assert "link" not in looked.classes
