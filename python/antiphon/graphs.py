"""Foreign graphs as fabric JSON (schema ``antiphon-fabric/1``, docs/reference/fabric.md)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

from antiphon.arguments import expect
from antiphon.errors import AntiphonError
from antiphon.files import LARGEST_GRAPH, read_text

SCHEMA = "antiphon-fabric/1"


COMPUTES = ("reduces", "multicasts", "reduce_rate_gb_per_s")
"""Attributes of switches that add or multicast."""


def from_graphml(path: str | os.PathLike[str], name: str | None = None) -> tuple[str, str]:
    """Name and fabric JSON of a GraphML file."""
    expect("path", path, str, os.PathLike)
    try:
        import networkx
    except ImportError:
        raise AntiphonError("reading GraphML needs networkx; install it", "not-applicable") from None
    text = read_text(os.fspath(path), LARGEST_GRAPH)
    if "<!ENTITY" in text:
        raise AntiphonError(f"{path}: it declares entities, which are not expanded", "bad-file")
    try:
        graph = networkx.parse_graphml(text)
    except Exception as error:  # whatever the parsers below it raise
        raise AntiphonError(f"{path}: not GraphML: {error}", "bad-file") from None
    return from_networkx(graph, name or f"graphml:{Path(path)}")


def from_networkx(
    graph: Any, name: str | None = None, names: Mapping[str, str | None] | None = None
) -> tuple[str, str]:
    """Name and fabric JSON of a networkx graph; ``names`` says what attributes are called there, if not as in
    ``Fabric.from_networkx``, None for those that are not to be read."""
    if not hasattr(graph, "nodes") or not hasattr(graph, "edges"):
        raise AntiphonError(f"not a networkx graph: {type(graph).__name__}", "bad-file")
    nodes = _in_rank_order({node: _known(attributes, names) for node, attributes in graph.nodes(data=True)})
    index = {node: position for position, node in enumerate(nodes)}
    both = not graph.is_directed()
    document = {
        "schema": SCHEMA,
        "nodes": [_node(node, attributes, names or {}) for node, attributes in nodes.items()],
        "links": [
            {"from": index[a], "to": index[b], "both": both}
            | _link(f"edge {a} - {b}", _known(attributes, names), names or {})
            for a, b, attributes in graph.edges(data=True)
        ],
    }
    return name or str(graph.name or "networkx"), json.dumps(document)


def _known(attributes: Mapping[str, Any], names: Mapping[str, str | None] | None) -> Mapping[str, Any]:
    """Attributes by the names they have here."""
    if names is None:
        return attributes
    computes = {key: attributes[key] for key in (*COMPUTES, "package") if key in attributes}
    called = {here: attributes[there] for here, there in names.items() if there is not None and there in attributes}
    return called | computes


def computes(nodes: Mapping[str, Any], node: int) -> dict[str, Any]:
    """What a switch adds and multicasts, of a fabric's table of nodes; nothing of others."""
    found = {key: nodes[key][node].item() for key in COMPUTES}
    return {
        key: value for key, value in found.items() if value and not (isinstance(value, float) and math.isnan(value))
    }


def _in_rank_order(nodes: dict[Hashable, Mapping[str, Any]]) -> dict[Hashable, Mapping[str, Any]]:
    """Nodes by rank where every rank gives its number (switches last), else as they come."""
    if not all(isinstance(attributes.get("rank"), int | bool | None) for attributes in nodes.values()):
        raise AntiphonError("node attribute 'rank' must be a number, true or false", "bad-file")
    numbers = [attributes.get("rank", True) for attributes in nodes.values() if _is_rank(attributes)]
    if any(isinstance(number, bool) for number in numbers):
        return nodes
    if sorted(numbers) != list(range(len(numbers))):
        raise AntiphonError(f"node attributes 'rank' are not 0 to {len(numbers) - 1}, each once", "bad-file")
    place = {node: attributes["rank"] if _is_rank(attributes) else len(nodes) for node, attributes in nodes.items()}
    return {node: nodes[node] for node in sorted(nodes, key=place.__getitem__)}


def _is_rank(attributes: Mapping[str, Any]) -> bool:
    rank = attributes.get("rank", True)
    return rank is not None and rank is not False and (rank is True or rank >= 0)


def _node(node: Hashable, attributes: Mapping[str, Any], names: Mapping[str, str | None]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": str(node), "rank": _is_rank(attributes)}
    coords = attributes.get("coords")
    if coords is not None:
        parts = coords.split(",") if isinstance(coords, str) else coords if isinstance(coords, Iterable) else [coords]
        entry["coords"] = [_number(f"node {node}", names.get("coords", "coords"), part) for part in parts]
    if "reduces" in attributes:
        entry["reduces"] = str(attributes["reduces"])
    if attributes.get("multicasts"):
        entry["multicasts"] = True
    if "reduce_rate_gb_per_s" in attributes:
        entry["reduce_rate_gb_per_s"] = _number(
            f"node {node}", "reduce_rate_gb_per_s", attributes["reduce_rate_gb_per_s"]
        )
    if "package" in attributes:
        package = _number(f"node {node}", "package", attributes["package"])
        entry["package"] = int(package) if package.is_integer() else package
    return entry


def _link(place: str, attributes: Mapping[str, Any], names: Mapping[str, str | None]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        key: _number(place, names.get(key, key), attributes[key])
        for key in ("rate_gb_per_s", "latency_ns", "speed", "energy_pj_per_bit", "length_mm")
        if key in attributes
    }
    if "dimension" in attributes:
        entry["dimension"] = str(attributes["dimension"])
    return entry


def _number(place: str, key: str | None, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise AntiphonError(f"{place}: attribute '{key}' is not a number: {value!r}", "bad-file")
    return number
