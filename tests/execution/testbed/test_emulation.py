"""Collectives on an emulated fabric, where this machine can have one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.execution.testbed import emulation


@pytest.fixture(scope="session")
def _able() -> None:
    """Skips where the machine has no namespaces, veth or shapers, or not the rights."""
    try:
        emulation._host_command()
    except antiphon.NotApplicable as error:
        pytest.skip(str(error))


def processes() -> set[str]:
    """Processes of emulated fabrics that are there; not of tests beside this one."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    own = f"PYTEST_XDIST_WORKER={worker}".encode() if worker else b""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((folder / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if b"antiphon.execution.testbed" in command and own in environment:
            found.add(folder.name)
    return found


def nodes() -> set[str]:
    """Those of them that are nodes."""
    return {each for each in processes() if node_number(each) is not None}


def node_number(process: str) -> int | None:
    """Which node a process is, if one and still there."""
    try:
        words = (Path("/proc") / process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return int(words[-2]) if b"antiphon.execution.testbed.node" in words and b"unshare" not in words else None


def devices() -> set[str]:
    """Network interfaces outside of all emulated fabrics."""
    return {each.name for each in Path("/sys/class/net").iterdir()}


@pytest.mark.covers_processes
@pytest.mark.usefixtures("_able")
def test_results_are_right_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, had = processes(), devices()
    try:
        found = antiphon.emulate(
            "mesh:2x2", ["ring", "direct"], "all-reduce", "64KiB", link_rate="20mbit", repeat=1, timeout_s=20
        )
    except antiphon.NotApplicable as error:
        pytest.skip(str(error))  # too slow
    assert found.correct
    assert [row["algorithm"] for row in found.runs.rows()] == ["ring", "direct"]
    for row in found.runs.rows():
        assert 0 < row["least_ns"] <= row["measured_ns"] <= row["most_ns"]
        assert row["predicted_ns"] > 0
    assert 0.95 <= found.slowest_link <= found.fastest_link <= 1.05
    assert processes() <= before
    assert devices() == had
    assert not list(tmp_path.iterdir())
    assert found.link_rate_bit_per_s == 20_000_000


@pytest.mark.usefixtures("_able")
@pytest.mark.parametrize(("with_signal", "said"), [(signal.SIGKILL, "was killed"), (signal.SIGSTOP, "hangs")])
def test_a_node_that_does_not_go_on_is_named(
    with_signal: signal.Signals, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = processes()

    hit_nodes: list[int] = []

    def hit(share: float) -> None:
        for process in nodes() - before:
            if share > 0 and not hit_nodes and node_number(process) == 2:
                os.kill(int(process), with_signal)
                hit_nodes.append(2)

    start = time.monotonic()
    with pytest.raises(antiphon.AntiphonError) as error:
        antiphon.emulate("mesh:2x2", "ring", bytes="2MiB", link_rate="20mbit", repeat=9, timeout_s=1.5, progress=hit)
    if isinstance(error.value, antiphon.NotApplicable):
        pytest.skip(str(error.value))  # too slow
    assert error.value.code == "stalled"
    assert re.search(f"node 2 {said}", str(error.value)), error.value
    assert time.monotonic() - start < 30
    until = time.monotonic() + 5
    while processes() - before and time.monotonic() < until:
        time.sleep(0.1)
    assert processes() <= before
    assert not list(tmp_path.iterdir())


def test_what_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulation, "_host_command", lambda: pytest.fail("it started"))
    for given, code, said in (
        ({"algorithms": []}, "bad-spec", "at least one"),
        ({"link_rate": "fast"}, "bad-spec", "200mbit or 4GB/s"),
        ({"repeat": 0}, "bad-size", "repeat 0"),
        ({"timeout_s": 0.5}, "bad-size", "timeout_s 0.5"),
        ({"algorithms": "none"}, "unknown-name", "none"),
        ({"collective": "broadcast"}, "not-applicable", "broadcast"),
        ({"bytes": 4098}, "bad-size", "4-byte elements"),
        ({"algorithms": ["ring", antiphon.build("mesh:2x2", "ring", "all-gather", 4096)]}, "bad-spec", "all-gather"),
    ):
        arguments: dict[str, Any] = {"fabric": "mesh:2x2", "algorithms": "ring", "bytes": "4KiB"} | given
        with pytest.raises(antiphon.AntiphonError) as error:
            antiphon.emulate(**arguments)
        assert (error.value.code, said in str(error.value)) == (code, True), error.value
    builder = antiphon.ScheduleBuilder(antiphon.Fabric("mesh:2x2"), "all-reduce", 4096)
    builder.copy(0, 1, builder.lane(0, 4096), 0)
    with pytest.raises(antiphon.NotProven):
        antiphon.emulate("mesh:2x2", builder.finish())


def test_a_machine_that_cannot_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "unshare failed: Operation not permitted\n")

    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "tc" else f"/sbin/{tool}")
    with pytest.raises(antiphon.NotApplicable, match="program tc"):
        antiphon.emulate("mesh:2x2", "ring", bytes="4KiB")
    monkeypatch.setattr(shutil, "which", lambda tool: tool)
    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(antiphon.NotApplicable, match="Operation not permitted"):
        antiphon.emulate("mesh:2x2", "ring", bytes="4KiB")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(antiphon.NotApplicable, match="needs Linux"):
        antiphon.emulate("mesh:2x2", "ring", bytes="4KiB")
