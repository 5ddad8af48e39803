"""Schedules as Chakra traces: files for custom collectives of ASTRA-sim."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import antiphon


def test_a_schedule_is_a_file_for_each_rank(tmp_path: Path) -> None:
    """Message by message, over links without latency, the files take as long as the schedule."""
    system = antiphon.System().with_(hand_off_ns=0.0)
    fabric = antiphon.Fabric("mesh:3x3@50/0ns")
    schedule = antiphon.build(fabric, "multitree", bytes="720KiB", system=system)
    prefix = str(tmp_path / "trees")
    text = antiphon.export(schedule, prefix, format="chakra")
    assert json.loads(text) == {"all-reduce-implementation-custom": [prefix]}
    assert sorted(os.listdir(tmp_path)) == [f"trees.{rank}.et" for rank in range(9)]
    replayed = antiphon.replay(prefix, fabric, "ring", system, fidelity="alpha-beta")
    assert replayed.time_ns == antiphon.simulate(fabric, schedule, system, "alpha-beta").time_ns
    assert set(replayed.exchanges["kind"]) == {"message"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"consumer": "rccl"}, "chakra has no consumers to choose from"),
        ({"schedule": antiphon.build("mesh:3x3", "tto", bytes="1MiB")}, "excludes some"),
        ({"schedule": antiphon.build("ring:4", "direct", "broadcast", "1MiB")}, "custom AllReduces"),
        ({"path": "none/trees"}, "there is no such folder"),
        ({"path": ""}, "no prefix of files"),
        ({"path": None}, "give their prefix"),
    ],
)
def test_what_is_refused_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"schedule": antiphon.build("ring:4", "ring", bytes="1MiB"), "path": "trees"} | options
    with pytest.raises((antiphon.AntiphonError, TypeError), match=why):
        antiphon.export(format="chakra", **given)
    assert not os.listdir(tmp_path)


def test_the_command(commands: Any, tmp_path: Path) -> None:
    prefix = tmp_path / "ring"
    arguments = ("export", "ring:4", "ring", "--bytes", "1MiB", "--format", "chakra", "--out", prefix)
    printed = commands.invoke(*arguments).stdout.replace("\n", "")
    assert "read back as written (24 messages)" in printed
    assert "all-reduce-implementation-custom" in printed
    document = commands.document(*arguments)
    assert (document["ranks"], document["messages"], document["file"]) == (4, 24, str(prefix))
    refused = commands.invoke("verify", f"{prefix}.0.et")
    assert refused.exit_code
    assert "antiphon replay times it" in refused.stderr.replace("\n", " ")
    with pytest.raises(antiphon.NotApplicable, match="does not say which data"):
        antiphon.prove_file(f"{prefix}.0.et")
    schedule = tmp_path / "ring.json"
    assert commands.invoke("show", "ring:4", "ring", "--bytes", "1MiB", "--out", schedule).exit_code == 0
    again = commands.document(*arguments[:2], "--schedule", schedule, *arguments[5:])
    assert again["messages"] == 24
