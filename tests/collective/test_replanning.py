"""Plans after a failure."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

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
    assert min(found.planning_ms, found.lowering_ms, found.proof_ms) > 0
    assert not any(key.endswith("_ms") for key in found.to_dict())  # the same call says the same
    assert found.kept + found.mended == len(json.loads(before.to_json())["lanes"])
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()


def test_the_command(commands: Any, before: antiphon.Schedule, tmp_path: Path) -> None:
    schedule, after = tmp_path / "before.json", tmp_path / "after.json"
    schedule.write_text(before.to_json())
    arguments = ("replan", schedule, "--fabric", "mesh:4x4", "--system", "ideal", "--fail")
    result = commands.invoke(*arguments, "5-6", "--out", after)
    assert result.exit_code == 0, result.output
    for line in (
        "✓ optimal, all-gather of 16MiB on mesh:4x4,drop=5-6: proven",
        "of the optimum",
        " on system ideal\n",
        "for plan and prices",
    ):
        assert line in result.output
    assert commands.document("verify", "mesh:4x4,drop=5-6", "--schedule", after, "--system", "ideal")["verified"]
    document = commands.document(*arguments, "5-6")
    assert document["fabric"] == "mesh:4x4,drop=5-6"
    assert document["kept"] + document["mended"] == len(json.loads(before.to_json())["lanes"])
    assert "no link from 5 to 7" in commands.refused(*arguments, "5-7", "--out", tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()
    # It is wrong on one of these, and its certificate claims too much on the other.
    for fabric in ("torus:4x4", "mesh:4x4@25+100"):
        refused = commands.refused("replan", schedule, "--fabric", fabric, "--fail", "0-1")
        assert f"schedule: it is for mesh:4x4, not for {fabric} (" in refused
        assert "; give the fabric that it is for" in refused


def test_failures_by_name(before: antiphon.Schedule, tmp_path: Path) -> None:
    boxes = antiphon.Fabric("dgx-h100:2")
    schedule = antiphon.build(boxes, "optimal", bytes="1MiB", system="ideal")
    found = antiphon.replan(schedule, boxes, "gpu0.0-rail0", system="ideal")
    assert found.fabric.name == "dgx-h100:2,drop=gpu0.0-rail0"
    assert antiphon.Fabric(found.fabric.name) == found.fabric
    # Named twice, a failure is one.
    found = antiphon.replan(before, "mesh:4x4", ["5", "0-1", "5"], system="ideal")
    assert found.fabric.name == "mesh:4x4,dead=5,drop=0-1"
    assert antiphon.replan(before, "mesh:4x4", "5,0-1", system="ideal").fabric == found.fabric
    # Of files.
    fabric, file = tmp_path / "fabric.json", tmp_path / "before.json"
    fabric.write_text(boxes.to_json())
    file.write_text(antiphon.build(f"file:{fabric}", "optimal", bytes="1MiB", system="ideal").to_json())
    assert antiphon.replan(file, f"file:{fabric}", "0-16", system="ideal").fabric.name.endswith("drop=0-16")


@pytest.mark.parametrize(
    ("fail", "kind", "message"),
    [
        ([], antiphon.InputError, "no failure; name a link"),
        ("5-7", antiphon.InputError, "no link from 5 to 7"),
        (["\ud800"], antiphon.InputError, "'.ud800' is not valid Unicode"),
        ("five", antiphon.InputError, "there is no node 'five'; nodes are 0 to 15"),
        (["0-1", "0-4"], antiphon.AntiphonError, "disconnected"),
        (5, TypeError, "fail"),
        ([5], TypeError, "fail"),
    ],
)
def test_failures_that_cannot_be(before: antiphon.Schedule, fail: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        antiphon.replan(before, "mesh:4x4", fail)


def test_schedules_that_are_not_planned_again(before: antiphon.Schedule) -> None:
    document = json.loads(before.to_json())
    del document["transfers"][-1], document["certificate"]
    wrong = antiphon.Schedule.from_json(json.dumps(document), antiphon.Fabric("mesh:4x4"))
    with pytest.raises(antiphon.NotProven, match="the schedule to start from, for mesh:4x4: "):
        antiphon.replan(wrong, "mesh:4x4", "5-6")
    with pytest.raises(antiphon.NotApplicable, match="only schedules of optimal"):
        antiphon.replan(antiphon.build("mesh:4x4", "ring", "all-gather", "1MiB"), "mesh:4x4", "5-6")
