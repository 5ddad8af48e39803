"""The best configuration of a fabric that can be configured."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.view.documents.fabric import ENDS, fabric_map

TORUS = "aries:4x4," + ",".join(f"{axis}{line}=0-3" for axis in "yx" for line in range(4))


def test_what_is_found_is_a_specification() -> None:
    found = antiphon.configure("aries:4x4", ["ring", "combs"], "1MiB")
    assert (found.algorithm, found.fabric) == ("combs", TORUS)
    assert found.speedup
    assert found.speedup > 1.4
    assert 0.9 < found.efficiency < 1
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
    schedule = antiphon.build(found.fabric, "combs", bytes="1MiB", system="aries")
    assert antiphon.simulate(found.fabric, schedule, "aries").time_ns == found.time_ns
    # A configuration to start from may be the best.
    again = antiphon.configure(antiphon.Fabric(found.fabric), "combs", "1MiB")
    assert (again.fabric, again.given_ns) == (TORUS, found.time_ns)
    # No size is the default, as in build.
    default, named = (antiphon.configure("aries:2x2", "ring", size, steps=1) for size in (None, "64MiB"))
    assert default == named


@pytest.mark.parametrize(("size", "algorithm"), [("3x4", "dbtree"), ("2x4", "direct")])
def test_more_wires_are_never_worse(size: str, algorithm: str) -> None:
    """Whatever fewer wires allow, more allow too, however few steps there are."""
    for steps in (1, 9):
        fabrics = (f"aries:{size}:wires={wires}" for wires in (1, 2, 3))
        times = [antiphon.configure(fabric, algorithm, "64KiB", steps=steps).time_ns for fabric in fabrics]
        assert times == sorted(times, reverse=True)


def test_messages_of_a_schedule() -> None:
    schedule = antiphon.build("aries:4x4", "halving-doubling", bytes="64KiB", system="aries")
    found = antiphon.configure("aries:4x4", schedule=schedule, steps=60)
    assert found.algorithm == "halving-doubling"
    assert found.bytes == 65536
    assert found.simulated <= 68
    assert found.given_ns is not None
    assert found.time_ns < found.given_ns


@pytest.mark.parametrize("other", ["torus:4x4", "aries:4x4,x0=0-3,y3=0-2,off=0-1"])
def test_a_schedule_file_may_have_the_routes_of_another_fabric(commands: Any, tmp_path: Path, other: str) -> None:
    path = tmp_path / "schedule.json"
    schedule = antiphon.build(other, "dbtree", bytes="64KiB", system="aries")
    path.write_text(schedule.to_json())
    found = commands.document("configure", "aries:4x4", "--schedule", path, "--steps", "9")
    assert found["time_ns"] == antiphon.configure("aries:4x4", schedule=str(path), steps=9).time_ns
    document = json.loads(path.read_text())
    for change in ({"placement": list(range(1, 17))}, {"ranks": 17, "placement": []}):
        path.write_text(json.dumps(document | change))
        refused = commands.refused("configure", "aries:4x4", "--schedule", path)
        assert f"error: schedule: it is for {other}, not for aries:4x4 (it " in refused


def test_changes_between_phases(commands: Any, tmp_path: Path) -> None:
    """They are in what is found, in the file and its map, and only where they are asked for."""
    algorithm, path = "multitree:concentration=2x2", tmp_path / "c.json"
    found = antiphon.configure("aries:2x4", algorithm, "64KiB", switch="20ns")
    once = antiphon.configure("aries:2x4", algorithm, "64KiB")
    assert found.time_ns < once.time_ns
    assert (",then," in found.fabric, ",then," in once.fabric) == (True, False)
    assert found.to_dict()["simulated_changes"] == found.changes == found.simulated - once.simulated
    assert once.changes is None
    command = ("configure", "aries:2x4", algorithm, "--bytes", "64KiB", "--switch", "20ns", "--out", path)
    text = " ".join(commands.invoke(*command).stdout.split())
    assert "Configuration 1:" in text
    assert f" of them with changes between phases; {ENDS['no-better']}" in text
    assert len(json.loads(path.read_text())["configurations"]) > 1
    refused = commands.refused("configure", "aries:4x4", "ring", "--switch", "soon")
    assert "time 'soon' is not a time" in refused


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mesh:4x4", "ring"), "not-applicable"),
        (("aries:4x4,drop=0-1", "ring"), "not-applicable"),
        (("aries:2x3", "ring-bi-odd"), "not-applicable"),
        (("aries:4x4", "rnig"), "unknown-name"),
        (("aries:4x4", []), "bad-spec"),
        (("aries:4x4", "ring", 0), "bad-size"),
        (("aries:4x4", "ring", True), "bad-size"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], code: str) -> None:
    with pytest.raises(antiphon.AntiphonError) as error:
        antiphon.configure(*arguments)
    assert error.value.code == code


def test_fabrics_say_how_they_are_configured() -> None:
    fabric = antiphon.Fabric("aries:4x4,x0=0-3,y1=0>1,off=1>5")
    assert json.loads(fabric.configuration or "")["configurations"] == [
        {"off": ["1>5"], "x0": ["0-3"], "y1": ["0>1"]},
    ]
    ports = antiphon.Table(fabric.ports).rows()
    assert len(ports) == 64
    of_router = {row["port"]: (row["output"], row["input"]) for row in ports if row["router"] == 0}
    assert of_router == {
        "+x": ("mesh", "mesh"),
        "-x": ("x0 0>3", "x0 3>0"),
        "+y": ("mesh", "mesh"),
        "-y": ("", ""),
    }
    again = pickle.loads(pickle.dumps(fabric))
    assert again == fabric
    assert again.configuration == fabric.configuration
    plain = antiphon.Fabric("mesh:4x4")
    assert plain.configuration is None
    assert not antiphon.Table(plain.ports).height
    assert not fabric_map(plain)


def test_the_command(commands: Any, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    text = commands.invoke("configure", "aries:4x4", "ring", "combs", "--bytes", "1MiB", "--out", path).stdout
    assert "combs, all-reduce of 1MiB: 8.39 µs, 1.44 times as fast as before (12.1 µs)" in text
    assert "o---o---o---o   x0: 0-3" in text
    assert TORUS in text
    assert str(path) in text.replace("\n", "")
    assert commands.document("configure", "aries:4x4", "combs", "--bytes", "1MiB")["fabric"] == TORUS
    shown = ("show", f"aries:4x4,config={path}", "combs", "--bytes", "1MiB")
    assert len(commands.document(*shown)["ports"]) == 64
    assert "y3: 0-3" in commands.invoke(*shown).stdout
    both = commands.refused("configure", "aries:4x4", "ring", "--schedule", "x.json")
    assert "either algorithms or --schedule" in both
    assert "has nothing to configure" in commands.refused("configure", "torus:4x4", "ring")
    for options, end in (
        (("optimal", "--bytes", "1MiB"), f"2 schedules simulated; {ENDS['rates']}"),
        (
            ("optimal", "--bytes", "1MiB", "--switch", "50ns"),
            "2 schedules simulated, none of them with changes between",
        ),
        (("ring", "--steps", "1"), f"; 1 schedule simulated; {ENDS['steps']}"),
    ):
        assert end in " ".join(commands.invoke("configure", "aries:4x4", *options).stdout.split())


def test_a_map_tells_mesh_links_from_bypasses() -> None:
    text = fabric_map(antiphon.Fabric("aries:3x3,x0=0-1,y0=0>2,x2=0-1,off=6-7"))
    assert text.splitlines()[:-1] == ["o===o---o", "|   |   |", "o---o---o", "|   |   |", "o~~~o---o", "y0: 0>2"]


def test_it_can_be_interrupted() -> None:
    shares: list[float] = []

    def progress(share: float) -> None:
        shares.append(share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        antiphon.configure("aries:8x8", "direct,forest", "1MiB", steps=60, progress=progress)
    assert len(shares) == 1
    assert 0 <= shares[0] <= 1
