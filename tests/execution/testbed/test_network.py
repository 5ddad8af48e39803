"""What an emulated fabric consists of."""

from __future__ import annotations

import json

import pytest

import antiphon
from antiphon.execution.testbed import network
from antiphon.execution.testbed.emulation import bits_per_s, compared

MESH = antiphon.Fabric("mesh:3x2")


def test_a_cable_carries_opposite_links() -> None:
    found = network.cables(MESH)
    assert [cable.number for cable in found] == list(range(7))
    assert sorted(link for cable in found for link in cable.links) == list(range(14))
    starts, ends = MESH.links["from"].tolist(), MESH.links["to"].tolist()
    for cable in found:
        assert len(cable.links) == 2
        assert {(starts[link], ends[link]) for link in cable.links} == {cable.ends, cable.ends[::-1]}


def test_names_and_addresses_are_all_different() -> None:
    found = network.cables(antiphon.Fabric("torus:8x8"))
    ends = [(cable, node) for cable in found for node in cable.ends]
    for of in (network.Cable.device, network.Cable.address):
        assert len({of(cable, node) for cable, node in ends}) == len(ends) == 256
    assert all(len(cable.device(node)) <= 15 for cable, node in ends)  # the kernel's limit
    for cable in found:
        # The two usable addresses of a /30.
        first, second = (int(cable.address(node).rpartition(".")[2]) for node in cable.ends)
        assert (first % 4, second) == (1, first + 1)
        assert cable.address(cable.ends[0]).startswith("10.")


def test_commands() -> None:
    (cable,) = network.cables(antiphon.Fabric("mesh:2"))
    assert cable.ends == (0, 1)
    assert network.making([cable], {0: 70, 1: 71}).splitlines() == [
        "link add name v0a type veth peer name v0b",
        "link set v0a netns 70",
        "link set v0b netns 71",
    ]
    assert network.addressing([cable], 1).splitlines() == [
        "link set lo up",
        "link set v0b mtu 9000 up",
        "address add 10.0.0.2/30 dev v0b",
    ]
    assert network.shaping([cable], 0, 10**8) == (
        "qdisc add dev v0a root tbf rate 100000000bit burst 80000 limit 1048576\n"
    )
    assert network.addressing([cable], 5) == "link set lo up\n"
    assert network.shaping([cable], 5, 10**8) == ""


def test_fabrics_that_are_not_emulated() -> None:
    document = json.loads(antiphon.Fabric("mesh:2x2").to_json())
    parallel = document | {"links": [*document["links"], document["links"][0]]}
    uneven = json.loads(json.dumps(document))
    uneven["links"][0]["rate_gb_per_s"] = 5.0
    for links, said in ((parallel, "parallel links"), (uneven, "unlike rates")):
        fabric = antiphon.Fabric.from_json(json.dumps(links))
        with pytest.raises(antiphon.NotApplicable, match=said):
            network.cables(fabric)
        with pytest.raises(antiphon.NotApplicable, match=said):
            antiphon.emulate(fabric, "ring")
    for spec in ("mesh:9x8", "fc:24"):
        with pytest.raises(antiphon.TooLarge, match="at most 64 nodes and 256 pairs"):
            network.cables(antiphon.Fabric(spec))


@pytest.mark.parametrize(
    ("text", "rate"),
    [("200mbit", 2 * 10**8), ("1gbit", 10**9), (" 2.5GBit ", 25 * 10**8), ("1000kbit", 10**6), ("1000000bit", 10**6)],
)
def test_rates(text: str, rate: int) -> None:
    assert bits_per_s(text) == rate


@pytest.mark.parametrize(
    "text", ["", "mbit", "200", "200MB", "-5mbit", "nanmbit", "infgbit", "1e400gbit", "999kbit", "11gbit", "1mbit/s"]
)
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(antiphon.InputError, match="link rate"):
        bits_per_s(text)


def test_what_is_compared_applies() -> None:
    assert compared(antiphon.Fabric("mesh:2x2"), "all-reduce")[:2] == ["ring", "ring-bi"]
    assert compared(antiphon.Fabric("mesh:2x2"), "all-to-all") == []
