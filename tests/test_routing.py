"""Equally short ways through switches: shared, the first, or one that a hash chooses."""

from __future__ import annotations

import json
from typing import Any

import networkx
import numpy as np
import pytest

import antiphon
from antiphon import Fabric, System


def joined(ranks: int, switches: list[str], links: list[tuple[str, str, float]]) -> Fabric:
    graph = networkx.DiGraph()
    for rank in range(ranks):
        graph.add_node(f"h{rank}", rank=rank)
    for switch in switches:
        graph.add_node(switch, rank=-1)
    for one, other, rate in links:
        for ends in ((one, other), (other, one)):
            graph.add_edge(*ends, rate_gb_per_s=rate, latency_ns=100)
    return Fabric.from_networkx(graph)


def spines(count: int) -> Fabric:
    """Two leaves of four ranks, and as many spines."""
    up = [(f"leaf{leaf}", f"spine{spine}", 50.0) for leaf in range(2) for spine in range(count)]
    names = [f"leaf{leaf}" for leaf in range(2)] + [f"spine{spine}" for spine in range(count)]
    return joined(8, names, [*((f"h{rank}", f"leaf{rank // 4}", 50.0) for rank in range(8)), *up])


def planes(*rates: float) -> Fabric:
    """Four ranks on a switch of each rate."""
    names = [f"s{plane}" for plane in range(len(rates))]
    links = [(f"h{rank}", name, rate) for rank in range(4) for name, rate in zip(names, rates, strict=True)]
    return joined(4, names, links)


def rail_fat_tree(spines: int, rate: float) -> Fabric:
    """Four boxes of four ranks, each on the leaf of its number, and as much bandwidth above leaves as below."""
    names = [f"leaf{leaf}" for leaf in range(4)] + [f"spine{spine}" for spine in range(spines)]
    up = [(f"leaf{leaf}", f"spine{spine}", rate) for leaf in range(4) for spine in range(spines)]
    return joined(16, names, [*((f"h{rank}", f"leaf{rank % 4}", 50.0) for rank in range(16)), *up])


def carried(fabric: Fabric, system: System, leaf: str = "leaf0") -> list[int]:
    schedule = antiphon.build(fabric, "direct", "all-to-all", "64MiB", system=system)
    assert antiphon.verify(fabric, schedule).complete
    links, names = antiphon.simulate(fabric, schedule, system).links, fabric.nodes["name"]
    ends = zip(fabric.links["from"], fabric.links["to"], strict=True)
    up = [str(names[a]) == leaf and str(names[b]).startswith("spine") for a, b in ends]
    return [int(each) for each in np.asarray(links["bytes"])[up]]


def test_spines_are_loaded_alike() -> None:
    fabric = spines(4)
    spread = carried(fabric, System("generic"))
    assert len(set(spread)) == 1
    assert spread[0] > 0
    first = carried(fabric, System("generic").with_(routing="first"))
    assert first == [sum(spread), 0, 0, 0]
    hashed = [carried(fabric, System("generic").with_(routing=f"hash:{seed}")) for seed in (1, 1, 2)]
    assert hashed[0] == hashed[1] != hashed[2]
    assert all(sum(each) == sum(spread) for each in hashed)


def time(fabric: Fabric, algorithm: str, collective: str = "all-reduce") -> float:
    schedule = antiphon.build(fabric, algorithm, collective, "64MiB")
    assert antiphon.verify(fabric, schedule).complete
    return antiphon.simulate(fabric, schedule).time_ns


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "dbtree", "halving-doubling"])
def test_planes_are_as_good_as_one_of_their_rate(algorithm: str, count: int) -> None:
    assert time(planes(*[100.0 / count] * count), algorithm) <= 1.06 * time(planes(100.0), algorithm)


@pytest.mark.parametrize("rates", [(50.0, 10.0), (10.0, 50.0)])
def test_a_slower_plane_is_left_out(rates: tuple[float, float]) -> None:
    assert time(planes(*rates), "ring") == time(planes(50.0), "ring")


@pytest.mark.parametrize("algorithm", ["direct", "dbtree", "ring", "halving-doubling", "overlapped-tree"])
def test_spines_are_as_good_as_one_of_their_rate(algorithm: str) -> None:
    assert time(rail_fat_tree(4, 50.0), algorithm) <= 1.3 * time(rail_fat_tree(1, 200.0), algorithm)


def test_a_tree_of_full_bisection_is_no_bottleneck() -> None:
    full = joined(16, ["s"], [(f"h{rank}", "s", 50.0) for rank in range(16)])
    assert time(rail_fat_tree(4, 50.0), "direct", "all-to-all") <= 1.05 * time(full, "direct", "all-to-all")


@pytest.mark.parametrize("spec", ["mesh:4x4", "torus:4x4x2", "dgx-h100:1", "dgx-h100:2@400+50"])
def test_meshes_and_products_keep_their_order(spec: str) -> None:
    def routes(routing: str) -> Any:
        system = System("generic").with_(routing=routing)
        built = antiphon.build(Fabric(spec), "direct", bytes="1MiB", system=system)
        return [transfer["route"] for transfer in json.loads(built.to_json())["transfers"]]

    assert routes("spread") == routes("first")


def test_what_is_no_routing_is_refused() -> None:
    for text in ("ecmp", "hash", "hash:", "hash:-1", "hash:x"):
        with pytest.raises(antiphon.AntiphonError, match="routing"):
            System("generic").with_(routing=text)
