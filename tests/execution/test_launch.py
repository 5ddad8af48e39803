"""Ranks that are killed or hang, and whoever started them: nobody waits for long, nothing is left."""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.execution import launch
from antiphon.execution.job import PREFIX, Job, states_in
from antiphon.execution.measure import Plan

pytest.importorskip("mpi4py")

RANKS = 4
ENDLESS = ("mesh:2x2", "ring", "--bytes", "64KiB", "--iterations", "1000000", "--timeout", "2")


class Running:
    """``antiphon run`` in a process, with a folder for temporary files of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "antiphon", "run", *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
            # Shells make background jobs, and so their children, deaf to Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.pids: list[int] = []

    def started(self) -> dict[int, dict[str, Any]]:
        """What its ranks are at, as soon as all are at work."""

        def at_work() -> dict[int, dict[str, Any]]:
            assert self.process.poll() is None, self.process.communicate()
            job = next((each for each in self.folder.glob(f"{PREFIX}*") if (each / "task.json").exists()), None)
            states = states_in(job) if job is not None else {}
            return states if len(states) == RANKS and all(state["waits_for"] for state in states.values()) else {}

        states: dict[int, dict[str, Any]] = eventually(at_work)
        self.pids = [state["pid"] for state in states.values()]
        return states

    def left(self) -> list[int]:
        """Its ranks that are there."""
        return [pid for pid in self.pids if is_there(pid)]


def eventually(found: Callable[[], Any], within_s: float = 60.0) -> Any:
    """The first thing that is found."""
    end = time.monotonic() + within_s
    while not (it := found()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return it


def is_there(pid: int) -> bool:
    """Whether a process runs or could."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A run that would go on for long; its processes are ended whatever happens."""
    run = Running(tmp_path, *ENDLESS)
    try:
        run.started()
        yield run
    finally:
        run.process.kill()
        run.process.communicate()
        for pid in run.left():
            os.kill(pid, signal.SIGKILL)


def test_who_waited_for_the_rank_that_is_gone_is_named() -> None:
    waits = {0: "transfer 7 (rank 1 to 0)", 2: "transfer 5 (rank 0 to 2)", 3: "transfer 1 (rank 2 to 3, step 0)"}
    states = {rank: {"waits_for": what} for rank, what in waits.items()} | {1: {"waits_for": None}}
    assert launch._waiting(states, 2) == "; rank 3 waited for transfer 1 (rank 2 to 3, step 0)"
    assert launch._waiting(states, 3) == "; rank 0 waited for transfer 7 (rank 1 to 0)"
    assert launch._waiting({2: states[2]}, 2) == ""


@pytest.mark.parametrize(
    ("signal_number", "said"),
    [(signal.SIGKILL, "was killed by signal 9"), (signal.SIGSTOP, "hangs")],
    ids=["kill", "stop"],
)
def test_the_rank_that_fails_is_named(running: Running, signal_number: int, said: str) -> None:
    os.kill(running.started()[2]["pid"], signal_number)
    start = time.monotonic()
    output, errors = running.process.communicate(timeout=60)
    assert time.monotonic() - start < 10
    assert output == ""
    assert errors.count("\n") == 1, errors
    assert errors.startswith(f"error: rank 2 {said}")
    # Of rank 2, unless it was ahead of all others at that moment.
    assert re.search(r"; rank \d waited for (transfer \d+ \(rank \d to \d, |the others$)", errors), errors
    assert running.process.returncode == 1
    eventually(lambda: not running.left(), 10)
    assert not list(running.folder.iterdir())


def test_a_rank_that_hangs_is_noticed_within_10_s() -> None:
    for function in (antiphon.measure, antiphon.emulate):
        assert inspect.signature(function).parameters["timeout_s"].default == 8  # and two seconds to say so


def test_ctrl_c_ends_all(running: Running) -> None:
    running.process.send_signal(signal.SIGINT)
    assert running.process.communicate(timeout=20) == ("", "interrupted\n")
    assert running.process.returncode == 130
    eventually(lambda: not running.left(), 10)
    assert not list(running.folder.glob(f"{PREFIX}*"))


def test_nothing_outlives_whoever_started_it(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    running.process.kill()
    running.process.wait()
    eventually(lambda: not running.left(), 15)
    (left,) = running.folder.glob(f"{PREFIX}*")
    monkeypatch.setattr("tempfile.tempdir", str(running.folder))

    def is_removed() -> bool:
        with Job({}, []):
            return not left.exists()

    eventually(is_removed, 10)
    assert not list(running.folder.glob(f"{PREFIX}*"))


def test_without_mpiexec_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(antiphon.AntiphonError, match=r"pip install 'antiphon\[mpi\]'") as error:
        antiphon.measure("mesh:2x2", "ring", sizes=[4096])
    assert error.value.code == "missing-extra"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo first; echo the last word; echo ------; exit 3", "mpiexec ended with status 3: the last word"),
        ("exit 0", "mpiexec ended with status 0: it printed nothing"),
    ],
)
def test_an_mpiexec_that_fails_is_quoted(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\n{program}\n")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(launch, "mpiexec", lambda _ranks: [str(mpiexec)])
    schedule = antiphon.build("mesh:2x2", "ring", bytes=4096)
    with pytest.raises(antiphon.Stalled) as error:
        launch.launch([schedule], Plan("int32", 0, 1), 2.0)
    assert str(error.value) == said


@pytest.mark.parametrize(("version", "options"), [("mpiexec (Open MPI) 5.0.8", True), ("HYDRA build details:", False)])
def test_options_are_those_of_the_mpi_that_is_there(
    version: str, options: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\necho '{version}'\n")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    command = launch.mpiexec(7)
    assert (command[0], command[-2:]) == (str(mpiexec), ["-n", "7"])
    assert ("--oversubscribe" in command) == options
