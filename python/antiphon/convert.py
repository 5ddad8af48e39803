"""Fabrics from networkx graphs and as networkx graphs, whatever their attributes are called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from antiphon import graphs
from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.given import as_fabric

if TYPE_CHECKING:
    import networkx


def from_networkx(
    graph: networkx.Graph[Any],
    name: str | None = None,
    *,
    rate: str | None = "rate_gb_per_s",
    latency: str | None = "latency_ns",
    speed: str | None = "speed",
    dimension: str | None = "dimension",
    energy: str | None = "energy_pj_per_bit",
    length: str | None = "length_mm",
    rank: str | None = "rank",
    coords: str | None = "coords",
) -> Fabric:
    """A fabric from a networkx graph; every edge is a link, in an undirected graph one each way.

    >>> import networkx as nx
    >>> graph = nx.cycle_graph(4)
    >>> nx.set_edge_attributes(graph, 50.0, "capacity")
    >>> from_networkx(graph, rate="capacity").links["rate_gb_per_s"][0]
    np.float64(50.0)

    Args:
        graph: directed or not, with parallel edges or without.
        name: what the fabric is called in results; default: the graph's name.
        rate: edge attribute with the rate of a link in GB/s; links without have the system's. None here and below:
            none is read.
        latency: edge attribute with the latency in ns; links without have the system's.
        speed: edge attribute with the share of its rate at which a link runs; default 1.
        dimension: edge attribute with the name of the dimension it is of.
        energy: edge attribute with the energy of a link in pJ a bit; links without have the system's.
        length: edge attribute with the length in mm.
        rank: node attribute: false or -1 for a switch, else true, or the number of the rank; nodes without are ranks in
            the order of nodes.
        coords: node attribute with coordinates, numbers or text with commas.

    Raises:
        AntiphonError: ``bad-file`` naming node or edge and attribute; ``bad-size``, ``too-large``.
    """
    names = {
        "rate_gb_per_s": rate,
        "latency_ns": latency,
        "speed": speed,
        "dimension": dimension,
        "energy_pj_per_bit": energy,
        "length_mm": length,
        "rank": rank,
        "coords": coords,
    }
    called, document = graphs.from_networkx(graph, name, names)
    return Fabric.from_json(document, called)


def to_networkx(
    fabric: str | Fabric,
    *,
    rate: str | None = "rate_gb_per_s",
    latency: str | None = "latency_ns",
    speed: str | None = "speed",
    dimension: str | None = "dimension",
    energy: str | None = "energy_pj_per_bit",
    length: str | None = "length_mm",
    rank: str | None = "rank",
    coords: str | None = "coords",
) -> networkx.MultiDiGraph[Any]:
    """A fabric as a networkx graph, which ``from_networkx`` reads back as the same nodes and links.

    >>> import networkx as nx
    >>> nx.diameter(to_networkx("torus:4x4"))
    4

    Args:
        fabric: specification or Fabric.
        rate: what the edge attribute with the rate in GB/s is called; links with the system's have none. None here and
            below: none is written.
        latency: edge attribute with the latency in ns; links with the system's have none.
        speed: edge attribute with the share of its rate at which a link runs.
        dimension: edge attribute with the name of the dimension, where there is one.
        energy: edge attribute with the energy in pJ a bit; links with the system's have none.
        length: edge attribute with the length in mm, where it is known.
        rank: node attribute with the number of the rank, -1 for switches.
        coords: node attribute with a tuple of coordinates, where there are some.

    Switches that add or multicast have attributes ``reduces``, ``multicasts`` and ``reduce_rate_gb_per_s`` as in files,
    chiplets of packages ``package``.

    Raises:
        AntiphonError: ``missing-extra`` without networkx.
    """
    try:
        import networkx
    except ImportError:
        message = "graphs need networkx; install it with: pip install 'antiphon[networkx]'"
        raise AntiphonError(message, "missing-extra") from None
    fabric = as_fabric(fabric)
    nodes, links = fabric.nodes, fabric.links
    graph: networkx.MultiDiGraph[Any] = networkx.MultiDiGraph(name=fabric.name)
    axes = [column for name, column in nodes.items() if name.startswith("coord_")]
    for index, name in enumerate(nodes["name"].tolist()):
        place = tuple(value for axis in axes if math.isfinite(value := float(axis[index])))
        named = _named({rank: int(nodes["rank"][index]), coords: place or None})
        package = int(nodes["package"][index])
        named |= {"package": package} if package >= 0 else {}
        graph.add_node(name, **named, **graphs.computes(nodes, index))
    names = list(graph)
    called = {
        rate: "rate_gb_per_s",
        latency: "latency_ns",
        speed: "speed",
        dimension: "dimension",
        energy: "energy_pj_per_bit",
        length: "length_mm",
    }
    columns = {attribute: links[key].tolist() for attribute, key in called.items()}
    for index, (start, end) in enumerate(zip(links["from"].tolist(), links["to"].tolist(), strict=True)):
        found = {attribute: column[index] for attribute, column in columns.items() if column[index] != ""}
        graph.add_edge(names[start], names[end], **_named(found))
    return graph


def _named(attributes: dict[str | None, Any]) -> dict[str, Any]:
    """Attributes that have a name and a value."""
    return {
        name: value
        for name, value in attributes.items()
        if name is not None and value is not None and not (isinstance(value, float) and math.isnan(value))
    }
