"""`antiphon advise trees`: the cost model of ring, tree and overlapped tree."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from records import has_keys

import antiphon

KEYS: dict[type, str] = {
    str: "schema",
    int: "ranks bytes height",
    float: "latency_ns bandwidth_gb_per_s",
    list: "ways",
}


def test_advice_is_a_value() -> None:
    advice = antiphon.advise_trees(8, "64MiB")
    assert pickle.loads(pickle.dumps(advice)) == advice == antiphon.advise_trees(8, 64 << 20, "12400ns", 25)
    assert advice != antiphon.advise_trees(16, "64MiB")


def test_figure_5() -> None:
    # Latency and bytes such that four chunks are best: h b N / a is 16 with a height of 2.
    ways = antiphon.advise_trees(4, 800, "100ns", 1).to_dict()["ways"]
    overlapped = next(way for way in ways if way["name"] == "overlapped tree, chunks of Eq. 4")
    assert (overlapped["trees"], overlapped["chunks"], overlapped["steps"]) == (1, 4, 7)
    assert overlapped["time_ns"] == 7 * (100 + 200)


def test_advise(commands: Any) -> None:
    advice = commands.document("advise", "trees")
    has_keys(advice, KEYS)
    times = {(way["name"], way["trees"]): way["formula_ns"] for way in advice["ways"]}
    assert times["tree", 2] / times["overlapped tree, chunks of Eq. 4", 2] == pytest.approx(1.75, abs=0.005)
    printed = commands.invoke("advise", "trees", "--ranks", "64", "--latency", "1us", "--bandwidth", "100").stdout
    assert "Ring is faster" in printed


def test_mistakes(commands: Any) -> None:
    assert "is not a time" in commands.refused("advise", "trees", "--latency", "x")
    assert "bandwidth" in commands.refused("advise", "trees", "--bandwidth", "0")
    assert "size" in commands.refused("advise", "trees", "--bytes", "0")
    for ranks in (1, 2**20 + 1):
        with pytest.raises(antiphon.AntiphonError, match="ranks: expected 2 to"):
            antiphon.advise_trees(ranks, 1)
