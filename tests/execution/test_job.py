"""The folder that the processes of a run share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from antiphon.execution.job import MARK, PREFIX, RECORD_BYTES, Job, Part, remove_left_over

ENDLESS = """
import sys, time
from antiphon.execution.job import Job

with Job({}, []) as job:
    print(job.folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_part_finds_what_the_job_was_given(folder: Path) -> None:
    with Job({"element": "int32", "timeout_s": 2.5}, ["first", "zweites ß"]) as job:
        part = Part(job.folder)
        assert (part.task, part.texts) == ({"element": "int32", "timeout_s": 2.5}, ["first", "zweites ß"])
        assert (job.results(), job.states()) == ([], {})
        part.add({"schedule": 0})
        part.add({"schedule": 1})
        assert job.results() == [{"schedule": 0}, {"schedule": 1}]
        with (job.folder / "results").open("a") as file:
            file.write('{"sched')  # half a line
        assert len(job.results()) == 2
        assert [each.name for each in folder.iterdir()] == [job.folder.name]
        assert job.folder.name.startswith(PREFIX)
    assert not list(folder.iterdir())


def test_states_are_by_number_and_may_be_long() -> None:
    with Job({}, []) as job:
        part = Part(job.folder)
        part.say(2, waits_for="transfer 7")
        part.say(0, waits_for=None)
        states = job.states()
        assert sorted(states) == [0, 2]
        assert states[2]["waits_for"] == "transfer 7"
        assert states[2]["pid"] == os.getpid()
        assert 0 <= states[2]["age_s"] < 60
        part.say(0, waits_for="x" * RECORD_BYTES)  # what does not fit is not read, and spoils no other
        assert sorted(job.states()) == [2]


def test_a_command_says_how_it_ended_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.execution.job.LEAVE_S", 0.5)
    with Job({}, []) as job:
        quick = job.start(["sh", "-c", "echo $0; exit 3"])
        assert (quick.status(within_s=30), quick.status(), job.printed()) == (3, 3, f"{job.folder}\n")
        quick.end()
        for deaf, signal_number in (("", signal.SIGTERM), ("trap '' TERM; echo deaf; ", signal.SIGKILL)):
            endless = job.start(["sh", "-c", f"{deaf}while true; do sleep 0.05; done"])
            while deaf and "deaf" not in job.printed():
                time.sleep(0.01)
            assert endless.status(within_s=0.05) is None
            endless.end()
            assert endless.status(within_s=30) == -signal_number


INTERRUPTED = """
import signal, time
from contextlib import suppress
from antiphon.execution.job import Job

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
with Job({}, []) as job:
    for number in range(50):
        endless = job.start(["sh", "-c", "exec sleep 600"])
        with suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 1e-3 + 1e-5 * number)
            while True:
                endless.status(within_s=2e-4)
        start = time.monotonic()
        endless.end()
        assert endless.status() == -signal.SIGTERM
        assert time.monotonic() - start < 4
"""


def test_interrupts_lose_no_command() -> None:
    """Wherever an interrupt comes, the command can be ended afterwards, and nobody waits for it in vain."""
    subprocess.run([sys.executable, "-c", INTERRUPTED], timeout=120, check=True)


def test_a_job_that_fails_leaves_nothing(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Job({}, []):
        raise KeyboardInterrupt
    assert not list(folder.iterdir())


def test_what_a_killed_process_left_is_removed_and_nothing_else(folder: Path) -> None:
    (folder / f"{PREFIX}strange").mkdir()  # without a lock: not ours, or just being made
    (folder / f"{PREFIX}file").touch()
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)}
    )
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    try:
        remove_left_over()
        assert left.is_dir()
        gone = threading.Event()
        Part(left).beat(0, dict, gone.set)
        assert not gone.wait(0.6)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    # Who takes part in it sees that it has no owner.
    assert gone.wait(10)
    assert json.loads((left / "task.json").read_text()) == {"texts": 0}


@pytest.mark.parametrize(
    "fault", ["", "mark", "mode of folder", "mode of lock", "link to folder", "link to lock", "owner"]
)
def test_only_folders_of_jobs_are_removed(folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    own = elsewhere / "own" if fault == "link to folder" else folder / f"{PREFIX}own"
    own.mkdir(mode=0o755 if fault == "mode of folder" else 0o700)
    lock = elsewhere / "lock" if fault == "link to lock" else own / "lock"
    lock.write_bytes(b"mine" if fault == "mark" else MARK)
    lock.chmod(0o644 if fault == "mode of lock" else 0o600)
    if fault == "link to folder":
        (folder / f"{PREFIX}own").symlink_to(own)
    if fault == "link to lock":
        (own / "lock").symlink_to(lock)
    if fault == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    remove_left_over()
    assert own.exists() == lock.exists() == bool(fault)
