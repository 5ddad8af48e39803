"""What discovery decides from what hosts say of themselves; nothing is joined here."""

from __future__ import annotations

import logging
from collections import namedtuple
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("psutil")

from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.torch.discovery import machine, saving
from antiphon.torch.discovery.cables import Cable, End, remote, zoned
from antiphon.torch.discovery.choosing import Choice, cables, choose, final
from antiphon.torch.discovery.colouring import rounds
from antiphon.torch.discovery.findings import findings
from antiphon.torch.discovery.given import assigned, fabric_of, text_of
from antiphon.torch.discovery.management import management
from antiphon.torch.discovery.probing import Measured, gathered, levelled, named
from antiphon.torch.discovery.records import Host, Interface, Record, hosts_of, natural, node_names, unique
from antiphon.torch.discovery.settings import Settings
from antiphon.torch.discovery.subnets import Pair, pairs
from antiphon.torch.discovery.wiring import check_connected, document, numbered, reached

Listed = namedtuple("Listed", "address netmask")
State = namedtuple("State", "isup speed mtu")


def hosts(*ports: dict[str, str], ranks: int = 1, master: str = "") -> list[Host]:
    """Hosts with interfaces, of which each has addresses with spaces between."""
    found = []
    for number, port in enumerate(ports):
        interfaces = tuple(Interface(name, tuple(addresses.split()), 10_000) for name, addresses in port.items())
        numbers = tuple(range(number * ranks, (number + 1) * ranks))
        found.append(Host(number, "abcdefgh"[number], numbers, interfaces, master if number else ""))
    return found


def chosen(found: list[Host], *, management_too: bool = False) -> Choice:
    return choose(pairs(found), management(found), with_management=management_too)


def names(found: list[Pair] | tuple[Pair, ...]) -> list[str]:
    return [" ".join(f"{'abcdefgh'[h]}.{i.name}" for h, i in zip(p.hosts, p.interfaces, strict=True)) for p in found]


TRIANGLE = hosts(
    {"lan": "192.168.1.10/24 fe80::a/64", "eth1": "10.0.0.1/30 fe80::1/64", "eth2": "10.0.2.2/30"},
    {"lan": "192.168.1.11/24 fe80::b/64", "eth1": "10.0.1.1/30 fe80::2/64", "eth2": "10.0.0.2/30"},
    {"lan": "192.168.1.12/24 fe80::c/64", "eth1": "10.0.2.1/30 fe80::3/64", "eth2": "10.0.1.2/30"},
)


def test_a_host_that_nothing_else_joins_uses_the_management_network() -> None:
    found = hosts(
        {"lan": "192.168.1.10/24", "eth1": "10.0.0.1/30"},
        {"lan": "192.168.1.11/24", "eth1": "10.0.0.2/30"},
        {"lan": "192.168.1.12/24", "eth1": "10.9.0.1/30"},
    )
    assert names(final(chosen(found), [], found)) == ["a.eth1 b.eth1", "a.lan c.lan", "b.lan c.lan"]


def test_hosts_on_a_switch_alone_are_joined_over_it() -> None:
    found = hosts(*({"eth0": f"10.0.0.{number}/24"} for number in (1, 2, 3)))
    assert names(final(chosen(found), [], found)) == ["a.eth0 b.eth0", "a.eth0 c.eth0", "b.eth0 c.eth0"]


def test_between_two_hosts_the_way_to_the_rendezvous_is_management() -> None:
    ports = ({"eth0": "192.168.1.1/24", "eth1": "10.0.0.1/30"}, {"eth0": "192.168.1.2/24", "eth1": "10.0.0.2/30"})
    apart = hosts(*ports, master="192.168.1.2")
    assert names(final(chosen(apart), [], apart)) == ["a.eth1 b.eth1"]
    unknown = hosts(*ports)
    assert names(final(chosen(unknown), [], unknown)) == ["a.eth0 b.eth0", "a.eth1 b.eth1"]
    routed = [replace(host, default_route="eth0") for host in hosts(*ports, master="10.0.0.2")]
    assert names(final(chosen(routed), [], routed)) == ["a.eth1 b.eth1"], "the rendezvous may lie on a cable"
    single = hosts({"eth0": "192.168.1.1/24"}, {"eth0": "192.168.1.2/24"}, master="192.168.1.2")
    assert names(final(chosen(single), [], single)) == ["a.eth0 b.eth0"]


def test_the_faster_of_two_ports_in_the_management_network() -> None:
    found = hosts(*({"eth0": f"10.0.0.{number}/24"} for number in (1, 2, 3)))
    wireless = Interface("wlan0", ("10.0.0.9/24",), 300)
    more = [*found[:2], Host(2, "c", (2,), (wireless, *found[2].interfaces), "")]
    assert names(final(chosen(more), [], more)) == ["a.eth0 b.eth0", "a.eth0 c.eth0", "b.eth0 c.eth0"]


def test_parallel_links_are_cables_of_their_own() -> None:
    found = hosts({"p0": "10.0.0.1/24", "p1": "10.0.1.1/24"}, {"p0": "10.0.0.2/24", "p1": "10.0.1.2/24"})
    made = cables(found, final(chosen(found), [], found), shared_memory=True)
    assert [cable.name for cable in made] == ["a p0 10.0.0.1 - b p0 10.0.0.2", "a p1 10.0.1.1 - b p1 10.0.1.2"]
    assert [cable.number for cable in made] == [0, 1]


@pytest.mark.parametrize("form", ["169.254.{}.{}/16", "fe80::{}:{}/64"])
def test_ports_with_addresses_of_links_are_tried_all_with_all(form: str) -> None:
    found = hosts(*({f"t{port}": form.format(host, port) for port in (1, 2)} for host in (1, 2, 3)))
    choice = chosen(found)
    assert choice.sure == choice.management == ()
    assert len(choice.tries) == 12
    assert all(pair.is_try and pair.is_local for pair in choice.tries)
    ring = {"a.t1 b.t2", "b.t1 c.t2", "a.t2 c.t1"}
    answered = [place for place, name in enumerate(names(choice.tries)) if name in ring]
    assert set(names(final(choice, answered, found))) == ring
    # Over a switch all answer: a port has one partner at each host all the same.
    assert len(final(choice, range(12), found)) == 6


def test_ports_in_one_subnet_are_tried_too() -> None:
    found = hosts({"p0": "10.0.0.1/24", "p1": "10.0.0.2/24"}, {"p0": "10.0.0.3/24", "p1": "10.0.0.4/24"})
    choice = chosen(found)
    assert choice.sure == ()
    assert names(final(choice, [0, 3], found)) == ["a.p0 b.p0", "a.p1 b.p1"]
    made = cables(found, final(choice, [0, 3], found), shared_memory=True)
    assert all(end.is_tied for cable in made for end in (cable.low, cable.high))


def test_addresses_that_join_nothing() -> None:
    bridges = hosts(
        {"docker0": "172.17.0.1/16", "vpn": "100.64.0.1/32"}, {"docker0": "172.17.0.1/16", "vpn": "100.64.0.2/32"}
    )
    assert pairs(bridges) == []
    assert pairs(hosts({"e": "10.0.0.1/24"}, {"e": "10.0.0.2/25"})) == []


def test_ipv6_where_there_is_no_ipv4() -> None:
    (pair,) = pairs(hosts({"e": "fe80::1/64 fd00::1/64"}, {"e": "fe80::2/64 fd00::2/64"}))
    assert (pair.addresses, pair.is_local) == (("fd00::1", "fd00::2"), False)


def test_a_host_divides_its_cables_over_its_ranks() -> None:
    found = [
        Host(0, "a", (0, 2), TRIANGLE[0].interfaces, ""),
        Host(1, "b", (1,), TRIANGLE[1].interfaces, ""),
        Host(2, "c", (3, 4, 5), TRIANGLE[2].interfaces, ""),
    ]
    made = cables(found, chosen(found).sure, shared_memory=True)
    assert [(cable.ranks, cable.kind) for cable in made] == [
        ((0, 1), "network"),
        ((2, 3), "network"),
        ((1, 4), "network"),
        ((0, 2), "memory"),
        ((3, 4), "memory"),
        ((3, 5), "memory"),
        ((4, 5), "memory"),
    ]
    assert made[3].name == "a rank 0 - a rank 2, shared memory"
    (within,) = cables(hosts({}, ranks=2), [], shared_memory=False)
    assert (within.kind, within.low.address, within.dimension(0)) == ("loopback", "127.0.0.1", "lo")


def test_the_lower_rank_connects_whatever_the_order_of_hosts() -> None:
    found = [Host(0, "a", (0, 3), TRIANGLE[0].interfaces, ""), Host(1, "b", (1, 2), TRIANGLE[1].interfaces, "")]
    extra = hosts({"x": "10.5.0.1/30"}, {"x": "10.5.0.2/30"})
    for host, more in zip(found, extra, strict=True):
        found[host.number] = Host(host.number, host.name, host.ranks, (*host.interfaces[1:], *more.interfaces), "")
    made = cables(found, chosen(found).sure, shared_memory=True)
    assert [cable.ranks for cable in made[:2]] == [(0, 1), (2, 3)]
    assert (made[1].low.host, made[1].high.host) == ("b", "a")
    assert (made[1].low.address, made[1].high.address) == ("10.5.0.2", "10.5.0.1")


def test_streams() -> None:
    end = End(0, "a", Interface("e", ()), "10.0.0.1")
    assert (Cable(0, end, end).streams(None), Cable(0, end, end).streams(7)) == (4, 7)
    assert Cable(0, end, end, "memory").streams(7) == 1


def test_zones() -> None:
    port = Interface("lo", ())
    assert zoned(End(0, "a", port, "fe80::1"), "fe80::1") == "fe80::1%1"
    assert zoned(End(0, "a", port, "10.0.0.1"), "10.0.0.1") == "10.0.0.1"
    assert remote(End(0, "a", port, "fe80::1"), "fe80::2", 80) == "[fe80::2%1]:80"
    assert remote(End(0, "a", port, "10.0.0.1", True), "10.0.0.2", 80) == "10.0.0.2%1:80"
    with pytest.raises(OSError, match="no interface"):
        zoned(End(0, "a", Interface("none-of-it", ()), "fe80::1"), "fe80::1")


@pytest.mark.parametrize(
    ("edges", "most"),
    [
        (list(combinations(range(6), 2)), 7),
        ([(0, 1)] * 4, 4),
        ([(k, (k + 1) % 5) for k in range(5)] * 2, 6),
        ([(0, k) for k in range(1, 6)], 5),
    ],
)
def test_rounds_are_proper(edges: list[tuple[int, int]], most: int) -> None:
    found = rounds(dict(enumerate(edges)))
    assert sorted(cable for turn in found for cable in turn) == list(range(len(edges)))
    assert len(found) <= most
    for turn in found:
        busy = [rank for cable in turn for rank in edges[cable]]
        assert len(busy) == len(set(busy))


def test_names() -> None:
    records = [Record(rank, key, "node", (), "", {}) for rank, key in enumerate(["x", "y", "x", "z"])]
    found = hosts_of(records)
    assert [(host.name, host.ranks) for host in found] == [("node", (0, 2)), ("node-2", (1,)), ("node-3", (3,))]
    assert node_names(found, 4) == ["node.0", "node-2", "node.1", "node-3"]
    assert sorted(["eth10", "eth2", "br0"], key=natural) == ["br0", "eth2", "eth10"]
    assert unique(["a\x1b" + "b" * 200, ""]) == ["a?" + "b" * 98, "host"]


def test_settings() -> None:
    assert Settings.from_environment({}) == Settings()
    given = {
        "ANTIPHON_FABRIC": "f.json",
        "ANTIPHON_EXCLUDE": "eth0, wlan0",
        "ANTIPHON_STREAMS": "4",
        "ANTIPHON_SPIN_US": "0",
        "ANTIPHON_MANAGEMENT": "1",
        "ANTIPHON_SHARED_MEMORY": "0",
        "ANTIPHON_RESILIENT": "1",
        "ANTIPHON_SAVE": "to.json",
        "MASTER_ADDR": "10.0.0.1",
    }
    excluded = frozenset({"eth0", "wlan0"})
    wanted = Settings(
        fabric=Path("f.json"),
        exclude=excluded,
        streams=4,
        spin_us=0,
        management=True,
        shared_memory=False,
        resilient=True,
        save=Path("to.json"),
        master="10.0.0.1",
    )
    assert Settings.from_environment(given) == wanted
    assert Settings.from_environment({"ANTIPHON_FABRIC": "auto", "ANTIPHON_MANAGEMENT": ""}) == Settings()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ANTIPHON_STREAMS", "0"),
        ("ANTIPHON_STREAMS", "65"),
        ("ANTIPHON_STREAMS", "four"),
        ("ANTIPHON_STREAMS", "²"),
        ("ANTIPHON_SPIN_US", "-1"),
        ("ANTIPHON_MANAGEMENT", "yes"),
        ("ANTIPHON_SHARED_MEMORY", "2"),
        ("ANTIPHON_EXCLUDE", "eth0,,eth1"),
        ("ANTIPHON_EXCLUDE", "eth0 eth1"),
    ],
)
def test_settings_that_mean_nothing(variable: str, value: str) -> None:
    with pytest.raises(AntiphonError, match=f"^{variable}={value}: give ") as caught:
        Settings.from_environment({variable: value})
    assert caught.value.code == "bad-spec"


def test_interfaces_that_may_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    four, six = "255.255.255.0", "ffff:ffff:ffff:ffff::"
    addresses = {
        "lo": [Listed("127.0.0.1", "255.0.0.0"), Listed("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")],
        "eth0": [Listed("10.0.0.1", four), Listed("fe80::1%eth0", six), Listed("52:54:00:12:34:56", None)],
        "eth1": [Listed("10.0.1.1", four)],
        "eth2": [Listed("10.0.2.1", four)],
        "eth3": [Listed("52:54:00:12:34:57", None)],
        "gone": [Listed("10.0.3.1", four)],
        "tun0": [Listed("10.0.4.1", None)],
    }
    states = {name: State(name != "eth1", 1000, 9000) for name in addresses if name != "gone"}
    (tmp_path / "eth0" / "device").mkdir(parents=True)
    monkeypatch.setattr(machine, "DEVICES", tmp_path)
    found, unplugged = machine.interfaces(addresses, states, frozenset({"eth2"}))
    assert unplugged == (Interface("eth1", ("10.0.1.1/24",), 0, 9000),), "no hardware: its rate means nothing"
    assert found == (Interface("eth0", ("10.0.0.1/24", "fe80::1/64"), 1000, 9000),)


def test_the_default_route(tmp_path: Path) -> None:
    table = tmp_path / "route"
    head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"
    rows = [("wlan0", "00000000", 600), ("eth1", "0000000A", 0), ("eth0", "00000000", 100)]
    lines = [f"{name} {to} 0102A8C0 0003 0 0 {cost} {'00FFFFFF' if cost == 0 else to} 0 0 0" for name, to, cost in rows]
    table.write_text("\n".join([head, *lines]), "utf-8")
    assert machine.default_route(table) == "eth0"
    assert machine.default_route(tmp_path / "none") == ""


def test_this_host() -> None:
    own = machine.record(3, Settings())
    assert (own.rank, own.toward_master) == (3, "")
    assert own.identity == machine.record(4, Settings()).identity
    assert machine.toward("127.0.0.1") == machine.toward("") == machine.toward("[") == ""


def measure(rate: float, count: int) -> dict[int, Measured]:
    return {number: Measured(2e-5, [rate, rate / 2], [rate, rate / 2]) for number in range(count)}


def test_rates_that_are_alike_are_equal() -> None:
    made = cables(hosts({}, ranks=3), [], shared_memory=True)
    noisy = {number: Measured(1e-6, [1e9 * (number + 1), 1e9]) for number in range(3)}
    assert set(map(tuple, levelled(made, noisy).values())) == {(1e9, 1e9)}
    triangle = cables(TRIANGLE, chosen(TRIANGLE).sure, shared_memory=True)
    rates = {0: Measured(0, [100, 101]), 1: Measured(0, [104, 103]), 2: Measured(0, [200, 150])}
    assert levelled(triangle, rates) == {0: [102, 102], 1: [102, 102], 2: [200, 150]}


def test_rates_come_from_the_end_that_receives() -> None:
    made = cables(TRIANGLE, chosen(TRIANGLE).sure, shared_memory=True)[:1]
    told: list[list[list[tuple[int, float]]]] = [
        [[(0, 5e-6)], [(0, 10.0)], [(0, 30.0)]],
        [[], [(0, 20.0)], [(0, 21.0)]],
        [[], [], []],
    ]
    (found,) = gathered(made, told).values()
    assert (found.round_trip_s, found.at_once, found.alone) == (5e-6, [20.0, 10.0], [21.0, 30.0])
    # There it is as fast alone; back, the host cannot keep up.
    assert (found.rate(0), found.rate(1)) == (21.0, 10.0)
    assert Measured(0, [5, 0], [4, 3]).rate(0) == 5
    assert Measured(0, [0, 0], [4, 3]).rate(1) == 3


def test_errors_of_wires_name_the_cable() -> None:
    made = cables(TRIANGLE, chosen(TRIANGLE).sure, shared_memory=True)
    said = named(AntiphonError("cable 1: the other end does not answer", "stalled"), made).message
    assert said.startswith("cable a eth2 10.0.2.2 - c eth1 10.0.2.1: the other end does not answer; look at")
    other = AntiphonError("cable 10 broke", "stalled")
    assert named(other, made) is other


def test_parts_that_no_cable_joins() -> None:
    made = cables(TRIANGLE, chosen(TRIANGLE).sure, shared_memory=True)
    assert reached(0, made) == {0, 1, 2}
    check_connected(["a", "b", "c"], TRIANGLE, made, {2: "refused"}, made[:2])
    bare = hosts({"e": "10.0.0.1/24"}, {})
    with pytest.raises(AntiphonError, match=r"a has e 10\.0\.0\.1/24; b has no interface that is up; check"):
        check_connected(["a", "b"], bare, [], {}, [])


def given(links: str, nodes: int = 3) -> Fabric:
    names = ", ".join(f'{{"name": "{name}"}}' for name in "abcdef"[:nodes])
    return fabric_of(f'{{"schema": "antiphon-fabric/1", "nodes": [{names}], "links": [{links}]}}', "f.json", nodes)


def test_a_given_fabric_uses_cables_that_are_there() -> None:
    found = hosts(
        {"p0": "10.0.0.1/24", "p1": "10.0.1.1/24"}, {"p0": "10.0.0.2/24", "p1": "10.0.1.2/24"}, {"p0": "10.9.0.1/24"}
    )
    made = cables(found, chosen(found).sure, shared_memory=True)
    two = made[:2]
    assert assigned(given('{"from": 0, "to": 1, "dimension": "p1"}', 2), "f.json", two) == {1: (0, 1)}
    one_way = '{"from": 0, "to": 1, "both": false, "dimension": "p1"}, {"from": 1, "to": 0, "both": false}'
    assert assigned(given(one_way, 2), "f.json", two) == {0: (None, 1), 1: (0, None)}
    assert assigned(given('{"from": 1, "to": 0, "count": 2}', 2), "f.json", two) == {0: (1, 0), 1: (3, 2)}
    missing = r"f\.json: link 2 from b to c \(x\) has no cable: no cable joins ranks 1 and 2; check"
    with pytest.raises(AntiphonError, match=missing):
        assigned(given('{"from": 0, "to": 1}, {"from": 1, "to": 2}'), "f.json", made)
    missing = r"link 4 from a to b \(x\) has no cable: 2 cables join ranks 0 and 1; check"
    with pytest.raises(AntiphonError, match=missing):
        assigned(given('{"from": 0, "to": 1, "count": 3}', 2), "f.json", two)


def test_a_given_fabric_that_is_another() -> None:
    with pytest.raises(AntiphonError, match="has 3 ranks, this job 2 ranks; give one"):
        fabric_of(
            document(["a", "b", "c"], [], {}).replace("[\n\n  ]", '[{"from": 0, "to": 1}, {"from": 1, "to": 2}]'),
            "f",
            2,
        )


def test_the_file_of_a_given_fabric(tmp_path: Path) -> None:
    with pytest.raises(AntiphonError, match="cannot be read: No such file or directory; rank 0 reads it"):
        text_of(tmp_path / "none.json")
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe")
    with pytest.raises(AntiphonError, match="not UTF-8"):
        text_of(tmp_path / "bad.json")
    (tmp_path / "good.json").write_text("{}")
    assert text_of(tmp_path / "good.json") == "{}"
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(AntiphonError, match="larger than 64 MiB"):
        text_of(tmp_path / "large.json")


def test_a_fabric_that_cannot_be_saved_is_a_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.torch")
    saving.save("{}", tmp_path / "new" / "f.json")
    assert (tmp_path / "new" / "f.json").read_text() == "{}"
    saving.save("{}", tmp_path)
    assert "is not saved" in caplog.text
    assert "ANTIPHON_SAVE=FILE" in caplog.text
    longest = saving.place([f"host-{number}" for number in range(40)])
    assert len(longest.name) < 130
    assert longest != saving.place([f"host-{number}" for number in range(41)])


def test_findings() -> None:
    made = cables(TRIANGLE, chosen(TRIANGLE, management_too=True).sure, shared_memory=True)
    assert len(made) == 6
    joined = made[1:]
    (first, second, *_) = findings(
        made, {0: "refused"}, numbered(joined), measure(8.0, 6), frozenset({("a", "lan"), ("b", "lan")})
    )
    assert (first.trouble, first.links, first.is_management) == ("refused", (None, None), False)
    assert (second.cable.low.port, second.links, second.trouble) == (("a", "lan"), (0, 1), "")
    assert (second.is_management, second.rates) == (True, (8.0, 4.0))
