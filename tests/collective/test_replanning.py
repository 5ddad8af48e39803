"""Plans after a failure."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import antiphon


@pytest.fixture(scope="module")
def before() -> antiphon.Schedule:
    return antiphon.build("mesh:4x4", "optimal", "all-gather", "16MiB", "ideal")


def test_what_is_found_is_proven_and_as_near_to_the_optimum(before: antiphon.Schedule) -> None:
    found = antiphon.replan(before, "mesh:4x4", ["5-6", "0>1"], system="ideal")
    proof = antiphon.verify(found.fabric, found.schedule, system="ideal")
    assert proof.complete
    assert proof.share_of_optimum == found.share_of_optimum > 0.99
    assert proof.certified_ns == found.certified_ns
    bound = antiphon.lower_bound(found.fabric, "all-gather", bytes="16MiB", system="ideal")
    assert found.certified_ns == pytest.approx(bound.cut_ns)
    intact = antiphon.lower_bound("mesh:4x4", "all-gather", bytes="16MiB", system="ideal")
    assert found.certified_before_ns == pytest.approx(intact.cut_ns)
    # Rank 1 has two ways in instead of three.
    assert found.certified_ns >= intact.cut_ns
    assert min(found.planning_ms, found.lowering_ms, found.proof_ms) > 0
    assert not any(key.endswith("_ms") for key in found.to_dict())  # the same call says the same
    assert found.kept + found.mended == len(json.loads(before.to_json())["lanes"])


def test_a_fabric_of_a_file(tmp_path: Path) -> None:
    fabric, schedule = tmp_path / "fabric.json", tmp_path / "before.json"
    fabric.write_text(antiphon.Fabric("dgx-a100:2").to_json())
    schedule.write_text(antiphon.build(f"file:{fabric}", "optimal", "all-reduce", "1MiB", "ideal").to_json())
    found = antiphon.replan(schedule, f"file:{fabric}", "0-17", system="ideal")
    assert antiphon.verify(found.fabric, found.schedule).complete
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()


def test_the_command(before: antiphon.Schedule, tmp_path: Path) -> None:
    schedule, after = tmp_path / "before.json", tmp_path / "after.json"
    schedule.write_text(before.to_json())
    arguments = ["replan", str(schedule), "--fabric", "mesh:4x4", "--fail", "5-6", "--system", "ideal"]
    result = CliRunner().invoke(main, [*arguments, "--out", str(after)])
    assert result.exit_code == 0, result.output
    for line in (
        "✓ optimal, all-gather of 16MiB on mesh:4x4,drop=5-6: proven",
        "of the optimum",
        " on system ideal\n",
        "for plan and prices",
    ):
        assert line in result.output
    verified = CliRunner().invoke(main, ["verify", "mesh:4x4,drop=5-6", "--schedule", str(after), "--system", "ideal"])
    assert verified.exit_code == 0, verified.output
    document = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).output)
    assert document["schema"] == "antiphon-replan/1"
    assert document["fabric"] == "mesh:4x4,drop=5-6"
    assert document["kept"] + document["mended"] == len(json.loads(before.to_json())["lanes"])
    refused = CliRunner().invoke(main, [*arguments[:-3], "5-7", "--out", str(tmp_path / "none.json")])
    assert refused.exit_code == 2
    assert "no link from 5 to 7" in refused.output
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ([], "no failure; name a link"),
        ("5-7", "no link from 5 to 7"),
        (["\ud800"], "'.ud800' is not valid Unicode"),
        ("five", "there is no node 'five'; nodes are 0 to 15"),
        (["0-1", "0-4"], "disconnected"),
    ],
)
def test_failures_that_cannot_be(before: antiphon.Schedule, fail: str | list[str], message: str) -> None:
    with pytest.raises(antiphon.AntiphonError, match=message):
        antiphon.replan(before, "mesh:4x4", fail)


def test_a_failure_that_is_named_twice_is_one(before: antiphon.Schedule) -> None:
    found = antiphon.replan(before, "mesh:4x4", ["5", "0-1", "5"], system="ideal")
    assert found.fabric.name == "mesh:4x4,dead=5,drop=0-1"
    assert antiphon.replan(before, "mesh:4x4", "5,0-1", system="ideal").fabric == found.fabric


def test_failures_by_name() -> None:
    boxes = antiphon.Fabric("dgx-h100:2")
    schedule = antiphon.build(boxes, "optimal", bytes="1MiB", system="ideal")
    found = antiphon.replan(schedule, boxes, "gpu0.0-rail0", system="ideal")
    assert found.fabric.name == "dgx-h100:2,drop=gpu0.0-rail0"
    assert antiphon.Fabric(found.fabric.name) == found.fabric


@pytest.mark.parametrize("fabric", ["torus:4x4", "mesh:4x4@25+100"])
def test_a_schedule_for_another_fabric(before: antiphon.Schedule, tmp_path: Path, fabric: str) -> None:
    """Of which it is wrong on one, and its certificate claims too much on the other."""
    schedule = tmp_path / "before.json"
    schedule.write_text(before.to_json())
    result = CliRunner().invoke(main, ["replan", str(schedule), "--fabric", fabric, "--fail", "0-1"])
    assert result.exit_code == 2
    assert f"schedule: it is for mesh:4x4, not for {fabric} (" in result.output
    assert "; give the fabric that it is for" in result.output


def test_a_schedule_that_is_wrong_is_a_finding(before: antiphon.Schedule) -> None:
    document = json.loads(before.to_json())
    del document["transfers"][-1], document["certificate"]
    wrong = antiphon.Schedule.from_json(json.dumps(document), antiphon.Fabric("mesh:4x4"))
    with pytest.raises(antiphon.NotProven, match="the schedule to start from, for mesh:4x4: "):
        antiphon.replan(wrong, "mesh:4x4", "5-6")


def test_other_types(before: antiphon.Schedule) -> None:
    with pytest.raises(TypeError, match="fail"):
        antiphon.replan(before, "mesh:4x4", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fail"):
        antiphon.replan(before, "mesh:4x4", [5])  # type: ignore[list-item]


def test_other_algorithms() -> None:
    schedule = antiphon.build("mesh:4x4", "ring", "all-gather", "1MiB")
    with pytest.raises(antiphon.NotApplicable, match="only schedules of optimal"):
        antiphon.replan(schedule, "mesh:4x4", "5-6")
