"""Fabrics from and as networkx graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
@pytest.mark.parametrize(
    "spec", ["mesh:3x4@50/7ns,slow=0-1:0.5,drop=2-3", "switch:4", "dgx1v", "torus:2x2", "packages:1x2:of=2x2"]
)
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


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_a_graph_becomes_a_fabric(kind: Any, tmp_path: Path) -> None:
    graph = kind(name="square")
    for corner in "abcd":
        graph.add_node(corner, coords=f"{ord(corner) % 2},{ord(corner) // 2}")
    graph.add_node("switch", rank=False)
    for corner in "abcd":
        graph.add_edge(corner, "switch", rate_gb_per_s=100.0, latency_ns=7.5, dimension="up", speed=0.5)
        if graph.is_directed():
            graph.add_edge("switch", corner)
    fabric = Fabric.from_networkx(graph)
    assert (fabric.name, fabric.ranks, len(fabric.links["from"])) == ("square", 4, 8)
    link = [fabric.links[key][0] for key in ("rate_gb_per_s", "latency_ns", "dimension", "speed")]
    assert link == [100, 7.5, "up", 0.5]
    assert fabric.nodes["name"].tolist() == ["a", "b", "c", "d", "switch"]
    assert fabric.nodes["coord_1"].tolist()[:4] == [48, 49, 49, 50]
    nx.write_graphml(graph, tmp_path / "square.graphml")
    assert Fabric.from_graphml(tmp_path / "square.graphml", "square").to_json() == fabric.to_json()
    for rank, corner in enumerate("dcba"):
        graph.nodes[corner].update(rank=rank, coords=2 * rank)
    assert Fabric.from_networkx(graph).nodes["name"].tolist() == ["d", "c", "b", "a", "switch"]
    assert Fabric.from_networkx(graph).nodes["coord_0"].tolist()[:4] == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("node", "edge", "message"),
    [
        ({"rank": 7}, {}, "not 0 to 3"),
        ({"rank": "x"}, {}, "'rank'"),
        ({"coords": ["x"]}, {}, "'coords'"),
        ({"coords": "1;2"}, {}, "'coords'"),
        ({}, {"speed": 2}, "speed"),
        ({}, {"rate_gb_per_s": "fast"}, "'rate_gb_per_s'"),
        ({}, {"rate_gb_per_s": -1}, "rate"),
        ({}, {"latency_ns": float("nan")}, "latency_ns"),
    ],
)
def test_wrong_graphs(node: dict[str, Any], edge: dict[str, Any], message: str) -> None:
    graph = nx.cycle_graph(4)
    for index in graph:
        graph.nodes[index].update(node)
    graph.edges[0, 1].update(edge)
    with pytest.raises(AntiphonError, match=message):
        Fabric.from_networkx(graph)


@pytest.mark.parametrize(
    "text", ["", "<graphml>", "{}", "<a/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><graphml>&b;</graphml>", None]
)
def test_wrong_graphml(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "wrong.graphml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(AntiphonError) as caught:
        Fabric.from_graphml(file)
    assert "\n" not in str(caught.value)
