"""What throughput failures leave: the function, the command, the page."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records import has_keys

import antiphon


@pytest.fixture(scope="module")
def found() -> antiphon.Survival:
    return antiphon.survive("mesh:3x3", system="ideal")


def test_every_share_is_between_a_plan_and_a_proof(found: antiphon.Survival) -> None:
    assert (found.links.height, found.nodes.height, found.counted, found.cases.height) == (12, 9, 21, 0)
    shares = np.concatenate([found.links["share"], found.nodes["share"]])
    certified = np.concatenate([found.links["certified"], found.nodes["certified"]])
    assert (certified - shares >= -1e-9).all()
    assert (certified - shares <= 1e-3).all()
    assert found.mean == pytest.approx(shares.mean())
    assert found.worst == shares.min()
    assert found.chance == pytest.approx((shares >= 0.899).mean())
    assert found.planned <= found.counted
    # Links of a corner, which has one left.
    worst = found.links["name"][np.argsort(found.links["share"])[:8]]
    assert set(worst) == {"0-1", "0-3", "1-2", "2-5", "3-6", "6-7", "5-8", "7-8"}
    assert found.spares["gain"][0] == pytest.approx((1 - shares.min()) / 21)


def test_what_is_left_is_what_is_planned_for_it(found: antiphon.Survival) -> None:
    def gb_per_s(fabric: str) -> float:
        bound = antiphon.lower_bound(fabric, bytes="1GiB", system="ideal")
        return float((1 << 30) / (bound.strength_ns or 0.0))

    for name, share in zip(found.links["name"], found.links["share"], strict=True):
        assert share == pytest.approx(gb_per_s(f"mesh:3x3,drop={name}") / gb_per_s("mesh:3x3"), rel=1e-3)
    assert found.intact_gb_per_s == pytest.approx(gb_per_s("mesh:3x3"), rel=1e-3)


def test_the_command(commands: Any, tmp_path: Path) -> None:
    page = tmp_path / "survive.html"
    result = commands.invoke("survive", "mesh:2x3", "--system", "ideal", "--report", page)
    assert result.exit_code == 0, result.output
    for line in ("13 single link and node failures", "Worst failures", "Spares that help most", "Cannot fail"):
        assert line in result.output
    text = page.read_text()
    assert "What is critical" in text
    assert len(re.findall(r'<g class="node rank u\d', text)) == 6
    assert len(re.findall(r'<path class="link u\d', text)) == 14
    document = commands.document("survive", "mesh:2x3", "--fail", "2", "--draws", "5", "--seed", "3")
    kinds: dict[type, str] = {float: "mean worst chance target", list: "links nodes cases spares", int: "counted"}
    has_keys(document, kinds)
    has_keys(document["links"][0], {str: "name", float: "share certified"})
    assert document == commands.document("survive", "mesh:2x3", "--fail", "2", "--draws", "5", "--seed", "3")
    assert [len(case["failures"]) for case in document["cases"]] == [2] * 5
    table = commands.invoke("survive", "mesh:2x3", "--system", "ideal", "--format", "csv").stdout
    rows = list(csv.DictReader(table.splitlines()))
    assert len(rows) == int(rows[0]["counted"]) == 13
    assert [float(row["share"]) for row in rows] == sorted(float(row["share"]) for row in rows)
    assert {(row["fabric"], row["name"], row["stopped"]) for row in rows} >= {("mesh:2x3", "0-1", "")}
    assert "95 % interval" in commands.invoke("survive", "mesh:2x3", "--fail", "rate:0.1", "--draws", "5").output


def test_switches_and_other_collectives(commands: Any) -> None:
    document = commands.document("survive", "switch:3", "--fail", "nodes", "--collective", "all-to-all")
    assert [node["stopped"] for node in document["nodes"]] == [None, None, None, "disconnected"]
    boxes = antiphon.survive("dgx-h100:2", fail="links", collective="all-gather", system="ideal")
    assert boxes.worst_certified - boxes.worst < 1e-3 < boxes.worst < 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fail": "3"}, "fail '3': expected links, nodes"),
        ({"fail": "rate:2"}, "such as rate:0.01"),
        ({"nodes": "alive"}, "alive"),
        ({"draws": 0}, "draws is 0; give 1 to 10000"),
        ({"target": 0}, "target is 0; give a share above 0"),
        ({"collective": "all-redoce"}, "did you mean 'all-reduce'"),
        ({"collective": "broadcast", "root": 9}, "root 9 does not exist"),
    ],
)
def test_mistakes(given: dict[str, Any], message: str) -> None:
    with pytest.raises(antiphon.InputError, match=message):
        antiphon.survive("mesh:2x2", **given)
