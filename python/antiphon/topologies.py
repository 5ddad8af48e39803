"""Fabrics as graphs in formats of other tools: DOT, which Graphviz draws, and GraphML, which graph tools read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.graphs import COMPUTES, computes

LINK_NUMBERS = ("rate_gb_per_s", "latency_ns", "speed", "energy_pj_per_bit", "length_mm")
"""Attributes of links that are numbers; what a link has not of its own is left out."""
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML has not."""


def to_dot(fabric: Fabric) -> str:
    """A fabric in DOT, a directed edge for each link. O(nodes + links)."""
    lines = [f"digraph {_quoted(fabric.name)} {{"]
    names = []
    for name, rank, coords, _ in _nodes(fabric):
        names.append(_quoted(name))
        shape = "box" if rank < 0 else "circle"
        # Graphviz has y upwards and takes positions with neato -n.
        place = f', pos="{coords[1]!r},{-coords[0]!r}!"' if len(coords) == 2 else ""
        number = f", comment={_quoted(f'rank {rank}')}" if rank >= 0 else ""
        lines.append(f"  {names[-1]} [shape={shape}{number}{place}];")
    for start, end, attributes in _links(fabric):
        given = ", ".join(f"{key}={_quoted(str(value))}" for key, value in attributes.items())
        lines.append(f"  {names[start]} -> {names[end]} [{given}];")
    return "\n".join([*lines, "}"]) + "\n"


def to_graphml(fabric: Fabric) -> str:
    """A fabric in GraphML, which ``Fabric.from_graphml`` reads back as the same nodes and links. O(nodes + links).

    Raises:
        AntiphonError: ``not-applicable`` for names with characters that XML has not.
    """
    keys = [("node", "rank", "int"), ("node", "coords", "string"), ("edge", "dimension", "string")]
    keys += [("node", name, kind) for name, kind in zip(COMPUTES, ("string", "boolean", "double"), strict=True)]
    keys += [("edge", name, "double") for name in LINK_NUMBERS]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines += [f'  <key id="{name}" for="{of}" attr.name="{name}" attr.type="{kind}"/>' for of, name, kind in keys]
    lines.append('  <graph edgedefault="directed">')
    names = []
    for name, rank, coords, own in _nodes(fabric):
        names.append(quoteattr(_printable(name)))
        place = _data("coords", ",".join(map(repr, coords))) if coords else ""
        extra = "".join(_data(key, value) for key, value in own.items())
        lines.append(f"    <node id={names[-1]}>{_data('rank', rank)}{place}{extra}</node>")
    for number, (start, end, attributes) in enumerate(_links(fabric)):
        data = "".join(_data(key, value) for key, value in attributes.items())
        lines.append(f'    <edge id="e{number}" source={names[start]} target={names[end]}>{data}</edge>')
    return "\n".join([*lines, "  </graph>", "</graphml>"]) + "\n"


TOPOLOGY_FORMATS: dict[str, tuple[Callable[[Fabric], str], str]] = {
    "dot": (to_dot, ".dot"),
    "graphml": (to_graphml, ".graphml"),
}
"""Name of a format: its writer, and how its files end."""


def _nodes(fabric: Fabric) -> Iterator[tuple[str, int, list[float], dict[str, Any]]]:
    """Name, rank (-1 for switches), coordinates and what a switch computes of each."""
    table = fabric.nodes
    axes = [column.tolist() for key, column in table.items() if key.startswith("coord_")]
    for index, (name, rank) in enumerate(zip(table["name"].tolist(), table["rank"].tolist(), strict=True)):
        place = [place for axis in axes if math.isfinite(place := float(axis[index]))]
        yield name, rank, place, computes(table, index)


def _links(fabric: Fabric) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Both ends of each, and what it has of its own."""
    columns = {key: column.tolist() for key, column in fabric.links.items()}
    for index, (start, end) in enumerate(zip(columns["from"], columns["to"], strict=True)):
        dimension = columns["dimension"][index]
        numbers = {key: columns[key][index] for key in LINK_NUMBERS}
        named = {"dimension": dimension} if dimension else {}
        yield start, end, named | {key: value for key, value in numbers.items() if not math.isnan(value)}


def _quoted(text: str) -> str:
    """A string of DOT: a backslash stands for itself, but before a quote."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _data(key: str, value: object) -> str:
    return f'<data key="{key}">{escape(_printable(str(value)))}</data>'


def _printable(text: str) -> str:
    if UNPRINTABLE.search(text):
        raise AntiphonError(f"GraphML has no way to write the name {text[:40]!r}", "not-applicable")
    return text
