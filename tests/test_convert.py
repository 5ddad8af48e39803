"""Fabrics from and as networkx graphs."""

from __future__ import annotations

import networkx as nx
import pytest

import antiphon
from antiphon import AntiphonError, Fabric

CALLED = {
    "rate": "capacity",
    "latency": "delay",
    "speed": "share",
    "dimension": "axis",
    "rank": "number",
    "coords": "place",
}


@pytest.mark.parametrize("names", [{}, CALLED], ids=["usual", "others"])
@pytest.mark.parametrize("spec", ["mesh:3x4@50/7ns,slow=0-1:0.5,drop=2-3", "switch:4", "dgx1v", "torus:2x2"])
def test_a_fabric_comes_back(spec: str, names: dict[str, str]) -> None:
    fabric = Fabric(spec)
    graph = antiphon.to_networkx(spec, **names)
    assert graph.number_of_edges() == len(fabric.links["from"])
    back = antiphon.from_networkx(graph, **names)
    assert back.name == fabric.name
    assert antiphon.Table(back.nodes) == antiphon.Table(fabric.nodes)
    assert sorted(map(str, antiphon.Table(back.links).rows())) == sorted(map(str, antiphon.Table(fabric.links).rows()))


def test_attributes_have_the_names_that_are_given() -> None:
    graph = antiphon.to_networkx("mesh:2x2@50/7ns", **CALLED)
    ((_start, _end, link), *_rest) = graph.edges(data=True)
    assert link == {"capacity": 50.0, "delay": 7.0, "share": 1.0, "axis": "y"}
    assert graph.nodes["3"] == {"number": 3, "place": (1.0, 1.0)}
    bare = antiphon.to_networkx("mesh:2x2", **dict.fromkeys(CALLED))
    assert [each for _start, _end, each in bare.edges(data=True)] == [{}] * 8
    assert antiphon.from_networkx(graph, **CALLED | {"rate": None}).links["rate_gb_per_s"].tolist() != [50.0] * 8


def test_wrong_attributes_are_named_as_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.path_graph(3)
    graph.edges[0, 1]["capacity"] = "fast"
    with pytest.raises(AntiphonError, match="edge 0 - 1: attribute 'capacity' is not a number: 'fast'"):
        antiphon.from_networkx(graph, rate="capacity")
    with pytest.raises(AntiphonError, match="not a networkx graph: str"):
        antiphon.from_networkx("petersen")  # pyright: ignore[reportArgumentType]
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(AntiphonError, match=r"pip install 'antiphon\[networkx\]'"):
        antiphon.to_networkx("mesh:2x2")
