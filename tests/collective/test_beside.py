"""A collective beside other traffic: arguments, files, the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError, Fabric, build

MESH = Fabric("mesh:3x3")
RING = build(MESH, "ring", bytes="256KiB")
FILE = "time_ns,from,to,bytes\n0,0,1,4096\n100.5,8,0,16KiB\n"


@pytest.mark.parametrize("fidelity", ["alpha-beta", "packet", "flit"])
def test_no_traffic_changes_nothing(fidelity: str) -> None:
    run = antiphon.beside(MESH, RING, load=0, fidelity=fidelity)
    assert run.messages == 0
    assert run.time_ns == run.alone_ns == antiphon.simulate(MESH, RING, fidelity=fidelity).time_ns
    assert (run.slowdown, run.traffic_slowdown, run.traffic_load) == (1, 1, 0)


def test_who_goes_first_loses_less() -> None:
    of = {
        which: antiphon.beside(MESH, RING, "uniform", load=0.4, message="4KiB", precedence=which)
        for which in ("traffic", "fair", "collective")
    }
    assert of["traffic"].slowdown >= of["fair"].slowdown > 1
    assert of["traffic"].slowdown > of["collective"].slowdown >= 1
    assert of["collective"].traffic_slowdown > of["traffic"].traffic_slowdown > 1
    fair = of["fair"]
    assert fair == antiphon.beside(MESH, RING, "uniform", load=0.4, message="4KiB")
    assert fair.messages != antiphon.beside(MESH, RING, "uniform", load=0.4, message="4KiB", seed=2).messages
    assert fair.links["traffic_bytes"].sum() >= fair.message_bytes == fair.messages * 4096
    plain = antiphon.simulate(MESH, RING).links["bytes"]
    assert fair.links["collective_bytes"].tolist() == plain.tolist()


def test_a_file_of_messages(tmp_path: Path) -> None:
    file = tmp_path / "messages.csv"
    file.write_text(FILE)
    run = antiphon.beside(MESH, RING, file, precedence="traffic")
    assert (run.messages, run.message_bytes, run.traffic_load) == (2, 4096 + (16 << 10), None)
    with pytest.raises(AntiphonError, match="leave them out with a file"):
        antiphon.beside(MESH, RING, file, load=0.1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the first line is not time_ns,from,to,bytes"),
        ("time_ns,from,to,bytes\n0,0,1", "line 2: '0,0,1' is no time in ns, two ranks and a size"),
        ("time_ns,from,to,bytes\nx,0,1,4", "line 2: 'x,0,1,4' is no time"),
        ("time_ns,from,to,bytes\n0,-1,1,4", "line 2: '0,-1,1,4' is no time"),
        ("time_ns,from,to,bytes\n0,0,1,4XB", "line 2: size '4XB'"),
        ("time_ns,from,to,bytes\nnan,0,1,4", "message 1: its time is NaN ns"),
        ("time_ns,from,to,bytes\n0,0,9,4", "message 1, from rank 0 to rank 9: ranks are 0 to 8"),
    ],
)
def test_files_that_mean_nothing_are_refused(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "messages.csv"
    file.write_text(text)
    with pytest.raises(AntiphonError) as refused:
        antiphon.beside(MESH, RING, file)
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"load": 1}, "load is 1; expected a share from 0 to below 1, or a rate as text, such as 5GB/s"),
        ({"load": "1"}, "load '1' is neither a share from 0 to below 1, as 0.2, nor a rate, as 5GB/s"),
        ({"load": "1000GB/s"}, "times what the link from"),
        ({"traffic": "unifrom"}, "did you mean 'uniform'?"),
        ({"traffic": "shuffle"}, "it needs a power of two of ranks"),
        ({"precedence": "last"}, "no precedence 'last'"),
        ({"message": 0}, "size '0'"),
        ({"load": 0.9, "message": 1}, "more than 65536 messages"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(AntiphonError) as refused:
        antiphon.beside(MESH, RING, **options)
    assert why in refused.value.message


def test_the_command(commands: Any, tmp_path: Path) -> None:
    problem = ("mesh:3x3", "ring", "--bytes", "256KiB", "--load", "0.4", "--message", "4KiB")
    document = commands.document("beside", *problem, "--precedence", "collective")
    run = antiphon.beside(MESH, RING, load=0.4, message="4KiB", precedence="collective")
    assert document["slowdown"] == run.slowdown
    assert document["traffic"] == run.traffic.to_dict()
    shown = commands.invoke("beside", *problem).stdout
    assert "Links that both use, the busiest first" in shown
    assert "nor a rate, as 5GB/s" in commands.refused("beside", *problem[:4], "--load", "x").replace("\n", " ")
    file = tmp_path / "messages.csv"
    file.write_text(FILE)
    assert commands.document("beside", *problem[:4], "--traffic", file)["messages"] == 2
