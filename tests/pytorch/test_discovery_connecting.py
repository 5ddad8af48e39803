"""Ranks find each other and their wiring; first over stand-ins, then over real connections within this host."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("psutil")

from pytorch.discovery_standins import DictStore, Standin, Wiring, together

from antiphon._core import Joiner
from antiphon.errors import AntiphonError
from antiphon.torch.discovery import Connected, Settings, connect, connecting, joining, machine
from antiphon.torch.discovery.cables import Cable, End
from antiphon.torch.discovery.meeting import Meeting
from antiphon.torch.discovery.records import Interface, Record

TRIANGLE = [
    {"lan": "192.168.1.10/24", "eth1": "10.0.0.1/30", "eth2": "10.0.2.2/30"},
    {"lan": "192.168.1.11/24", "eth1": "10.0.1.1/30", "eth2": "10.0.0.2/30"},
    {"lan": "192.168.1.12/24", "eth1": "10.0.2.1/30", "eth2": "10.0.1.2/30"},
]


def job(
    ports: Sequence[dict[str, str]],
    wiring: Wiring,
    settings: Settings,
    *,
    each: int = 1,
    timeout_s: float = 20,
    made: list[Standin] | None = None,
    own: dict[int, Settings] | None = None,
) -> list[Any]:
    """The outcomes of a job on hosts with such interfaces, `each` ranks a host."""
    store = DictStore()

    def make(node: int, secret: bytes) -> Standin:
        joiner = Standin(wiring, node, secret)
        if made is not None:
            made.append(joiner)
        return joiner

    def rank_of(rank: int) -> Connected:
        host = rank // each
        mine = (own or {}).get(rank, settings)
        interfaces = tuple(Interface(name, tuple(text.split())) for name, text in ports[host].items())
        record = Record(rank, f"host {host}", f"node{host}", interfaces, "", mine.common())
        meeting = Meeting(store, rank, len(ports) * each, timeout_s)
        with meeting.failing_together():
            return connecting.connect_as(record, meeting, mine, make)

    return together(len(ports) * each, rank_of)


@pytest.fixture
def saved(tmp_path: Path) -> Settings:
    return Settings(save=tmp_path / "fabric.json")


def test_a_triangle(saved: Settings) -> None:
    wiring = Wiring(rates={"10.0.0.1": 2e9})
    found = job(TRIANGLE, wiring, saved)
    assert all(isinstance(each, Connected) for each in found), found
    assert found[0].fabric == found[1].fabric == found[2].fabric
    assert found[0].findings == found[1].findings == found[2].findings
    assert saved.save is not None
    links = json.loads(saved.save.read_text())["links"]
    assert [(link["from"], link["to"]) for link in links] == [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]
    assert [link["rate_gb_per_s"] for link in links] == [2, 1, 1, 1, 1, 1]
    assert {link["latency_ns"] for link in links} == {1e4}
    name = "node0 eth1 10.0.0.1 - node1 eth2 10.0.0.2"
    assert found[0].wires[0] == (0, 1, 0, 1, name)
    assert found[1].wires[0] == (0, 0, 1, 0, name)
    assert not any("192.168" in place for place in wiring.listening)
    # All at once, then alone, then all at once over several connections.
    assert sorted(load for node, load in wiring.loads if node == 0) == [(0,), (0, 1), (0, 1), (1,)]


@pytest.mark.parametrize(("rate", "gain", "kept", "seen"), [(1e9, 2.0, 4, 2), (1e9, 1.05, 1, 1), (1e8, 2.0, 1, 0.1)])
def test_fast_cables_keep_connections_that_carry_more(
    saved: Settings, rate: float, gain: float, kept: int, seen: float
) -> None:
    made: list[Standin] = []
    found = job(TRIANGLE, Wiring(rate=rate, gain=gain), saved, made=made)
    assert set(found[0].fabric.links["rate_gb_per_s"]) == {seen}
    joiners = [joiner for joiner in made if joiner.joined]
    assert [joiner.kept for joiner in joiners] == [dict.fromkeys(joiner.joined, kept) for joiner in joiners]
    made.clear()
    assert saved.save is not None
    given = replace(saved, fabric=saved.save, save=None)
    job(TRIANGLE, Wiring(), given, made=made)
    joiners = [joiner for joiner in made if joiner.joined]
    assert [joiner.kept for joiner in joiners] == [
        dict.fromkeys(joiner.joined, 1) if seen < 0.5 else {} for joiner in joiners
    ]
    made.clear()
    job(TRIANGLE, Wiring(rate=rate, gain=gain), replace(saved, streams=2), made=made)
    assert not any(joiner.kept for joiner in made)


def test_a_cable_that_is_not_there_is_told(saved: Settings) -> None:
    wiring = Wiring(reaches=lambda own, _: own != "10.0.0.1")
    found = job(TRIANGLE, wiring, saved)
    assert [each.fabric.ranks for each in found] == [3, 3, 3]
    assert len(found[0].fabric.links["from"]) == 4
    (lost,) = [each for each in found[2].findings if each.trouble]
    assert (lost.trouble, lost.cable.name) == ("connection refused", "node0 eth1 10.0.0.1 - node1 eth2 10.0.0.2")
    assert [port[0] for port in found[0].wires] == [1]


def test_no_way_to_a_rank(saved: Settings) -> None:
    found = job(TRIANGLE, Wiring(reaches=lambda own, other: "10.0.0" in own), saved)
    for each in found:
        assert isinstance(each, AntiphonError)
        assert "no cable joins ranks 0 (node0), 1 (node1) to rank 2 (node2); tried: node0 eth2 10.0.2.2" in each.message
        assert "node1 eth1 10.0.1.1 - node2 eth2 10.0.1.2: connection refused; check cables" in each.message
        assert "ANTIPHON_MANAGEMENT=1" in each.message
    asked = replace(saved, management=True)
    found = job(TRIANGLE, Wiring(reaches=lambda own, other: "10.0.0" in own or "192" in own), asked)
    assert [len(each.fabric.links["from"]) for each in found] == [8, 8, 8]


@pytest.mark.parametrize("kind", ["169.254.{}.{}/16", "fe80::{}:{}/64"])
def test_ports_that_answer_are_cables(saved: Settings, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.if_nametoindex", lambda name: int(name[1:]))
    ports = [{f"t{port}": kind.format(host, port) for port in (1, 2)} for host in (1, 2, 3)]
    ring = {(1, 1): (2, 2), (2, 1): (3, 2), (1, 2): (3, 1)}

    def at(address: str) -> tuple[int, int]:
        host, port = address.replace("::", ".").replace(":", ".").split(".")[-2:]
        return int(host), int(port)

    found = job(ports, Wiring(reaches=lambda own, other: ring.get(at(own)) == at(other)), saved)
    assert all(isinstance(each, Connected) for each in found), found
    names = [[end.port[1] for end in each.cable.ends] for each in found[0].findings]
    assert names == [["t1", "t2"], ["t2", "t1"], ["t1", "t2"]]
    found = job(ports, Wiring(reaches=lambda _own, _other: False), saved)
    assert all("12 pairs of ports were tried whose addresses do not tell" in each.message for each in found)


def test_ranks_of_one_host_share_memory_and_listen_nowhere_else(saved: Settings) -> None:
    wiring = Wiring()
    found = job([{"eth0": "10.0.0.1/24"}], wiring, saved, each=4)
    assert all(isinstance(each, Connected) for each in found), found
    assert list(found[0].fabric.nodes["name"]) == ["node0.0", "node0.1", "node0.2", "node0.3"]
    assert set(found[0].fabric.links["dimension"]) == {"shm"}
    assert len(found[0].findings) == 6
    assert len(wiring.listening) == 3
    for place in wiring.listening:
        assert place.startswith(tempfile.gettempdir() + "/antiphon-")
        assert not os.path.exists(os.path.dirname(place))


def test_ranks_of_one_host_without_shared_memory(saved: Settings) -> None:
    wiring = Wiring()
    found = job([{}], wiring, replace(saved, shared_memory=False), each=3)
    assert {each.cable.kind for each in found[0].findings} == {"loopback"}
    assert all(place.startswith("127.0.0.1:") for place in wiring.listening)


def test_hosts_with_several_ranks(saved: Settings) -> None:
    found = job(TRIANGLE, Wiring(), saved, each=2)
    assert all(isinstance(each, Connected) for each in found), found
    assert [(each.cable.kind, each.cable.ranks) for each in found[0].findings] == [
        ("network", (0, 2)),
        ("network", (1, 4)),
        ("network", (3, 5)),
        ("memory", (0, 1)),
        ("memory", (2, 3)),
        ("memory", (4, 5)),
    ]


def test_a_given_fabric(saved: Settings, tmp_path: Path) -> None:
    assert isinstance(job(TRIANGLE, Wiring(), saved)[0], Connected)
    assert saved.save is not None
    document = json.loads(saved.save.read_text())
    document["links"] = document["links"][:4]
    path = tmp_path / "given.json"
    path.write_text(json.dumps(document))
    wiring = Wiring()
    found = job(TRIANGLE, wiring, Settings(fabric=path))
    assert all(isinstance(each, Connected) for each in found), found
    assert wiring.loads == []
    assert [len(each.wires) for each in found] == [2, 1, 1]
    assert [each.links for each in found[0].findings] == [(0, 1), (2, 3), (None, None)]
    found = job(TRIANGLE, Wiring(reaches=lambda own, _: own != "10.0.0.1"), Settings(fabric=path))
    assert all("link 0 from node0 to node1 (eth1) has no cable" in each.message for each in found)
    found = job(TRIANGLE, Wiring(), Settings(fabric=tmp_path / "none.json"))
    assert all("none.json: cannot be read" in each.message for each in found)


def test_settings_that_differ(saved: Settings) -> None:
    found = job(TRIANGLE, Wiring(), saved, own={1: replace(saved, management=True)})
    assert all(
        "ANTIPHON_MANAGEMENT is 0 at rank 0 (node0), 1 at rank 1 (node1); set it alike" in each.message
        for each in found
    )


def test_a_cable_that_breaks_is_named(saved: Settings) -> None:
    found = job(TRIANGLE, Wiring(broken="10.0.0.1"), saved)
    assert all("cable node0 eth1 10.0.0.1 - node1 eth2 10.0.0.2 broke while it was" in each.message for each in found)


def test_ranks_that_do_not_come_are_named() -> None:
    store = DictStore()
    meeting = Meeting(store, 1, 12, 0.05)
    with pytest.raises(AntiphonError, match=r"^ranks 0, 2, 3, 4, 5, 6, 7, 8 and 3 more did not come to discovery "):
        meeting.exchange("host", 1)
    late = Meeting(store, 0, 2, 0.05)
    with pytest.raises(
        AntiphonError, match=r"^rank 1 did not come to discovery \(loads\) within 0\.05 s; look whether"
    ):
        late.barrier("loads")


def test_a_store_that_is_gone() -> None:
    class Gone(DictStore):
        def set(self, key: str, value: str) -> None:
            raise RuntimeError("Connection was closed\nException raised from")

    meeting = Meeting(Gone(), 0, 2, 1)
    said = "^the store of the job, at MASTER_ADDR, does not answer: Connection was closed; look whether rank 0"
    with pytest.raises(AntiphonError, match=said), meeting.failing_together():
        meeting.tell("host", 1)
    with pytest.raises(AntiphonError, match=r"^here"), meeting.failing_together():
        raise AntiphonError("here", "stalled")


def test_records_of_another_version(saved: Settings) -> None:
    store = DictStore()
    store.set("discovery/host/1", '{"rank": 1}')
    meeting = Meeting(store, 0, 2, 5)
    with pytest.raises(AntiphonError, match="use one version of Antiphon"):
        connecting.connect_as(machine.record(0, saved), meeting, saved, Joiner)


def test_what_is_not_used_is_a_line_of_the_log(saved: Settings, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "antiphon.torch")
    job(TRIANGLE, Wiring(), saved)
    assert "no data goes over the management network (node0 lan - node1 lan and 2 more)" in caplog.text
    job(TRIANGLE, Wiring(), replace(saved, exclude=frozenset({"none-of-it"})))
    assert caplog.text.count("ANTIPHON_EXCLUDE names none-of-it, but no host has such an interface") == 1
    assert machine.record(0, replace(saved, exclude=frozenset({"lo", "none-of-it"}))).excluded == ("lo",)


def test_ranks_of_one_host_that_share_no_folder(saved: Settings) -> None:
    found = job([{}], Wiring(reaches=lambda _own, _other: False), saved, each=2)
    assert all("ANTIPHON_SHARED_MEMORY=0 joins them over 127.0.0.1" in each.message for each in found)


def test_an_end_that_cannot_listen() -> None:
    store, port = DictStore(), Interface("eth0", ("10.0.0.1/24",))
    cable = Cable(0, End(0, "a", port, "10.0.0.1"), End(1, "b", port, "10.0.0.2"))

    class Deaf(Standin):
        def listen(self, address: str) -> int:
            raise AntiphonError(f"listening at {address}: no such address", "stalled")

    def work(rank: int) -> dict[int, str]:
        joiner = Deaf(Wiring(), rank, bytes(32))
        return joining.join(joiner, Meeting(store, rank, 2, 5), [cable], 0.1, "x", None)

    assert together(2, work) == [{0: "b eth0 10.0.0.2 could not listen"}] * 2


@pytest.mark.parametrize("is_shared", [True, False])
def test_real_connections_within_this_host(tmp_path: Path, is_shared: bool) -> None:
    store = DictStore()
    settings = Settings(save=tmp_path / "f.json", shared_memory=is_shared)
    found = together(2, lambda rank: connect(store, rank, 2, timeout_s=20, settings=settings))
    assert all(isinstance(each, Connected) for each in found), found
    (one,) = found[0].findings
    assert (one.cable.kind, one.links, one.trouble) == ("memory" if is_shared else "loopback", (0, 1), "")
    assert 0 < one.measured.round_trip_s < 1
    assert min(one.rates) > 1e5
    assert found[0].fabric == found[1].fabric
    assert list(found[0].fabric.links["dimension"]) == ["shm" if is_shared else "lo"] * 2
    assert Joiner is not None
    assert machine.record(0, settings).interfaces == machine.record(1, settings).interfaces
