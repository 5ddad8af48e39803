"""A folder that the processes of a run share: what to do, what each is at, what came of it. It lives no longer than the
process that made it: that one holds a lock, which the system frees when it ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

PREFIX = "antiphon-run-"
MARK = b"lock of a run of antiphon, which removes this folder\n"
"""What the lock says."""
RECORD_BYTES = 1024
"""Room for what one process is at."""
BEAT_S = 0.25
"""How often a process says what it is at, and looks whether the job is still there."""
SILENT_S = 1.5
"""A process that has said nothing for so long does not run."""
LEAVE_S = 5.0
"""Time for a command to end what it has started when it is told to end."""


class Job:
    """The folder, from now until the end of a ``with``."""

    def __init__(self, task: dict[str, Any], texts: list[str]) -> None:
        """Makes it, with a task and texts, and removes what jobs have left whose processes were killed.

        Raises:
            OSError: if there is no room.
        """
        remove_left_over()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked before it has its name: nobody may find it free.
        self._lock = os.open(self.folder / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, MARK)
        (self.folder / "new").rename(self.folder / "lock")
        try:
            for number, text in enumerate(texts):
                (self.folder / f"{number}.json").write_text(text)
            (self.folder / "states").touch()
            (self.folder / "results").touch()
            (self.folder / "task.json").write_text(json.dumps({**task, "texts": len(texts)}))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def start(self, command: Sequence[str]) -> Started:
        """Starts a command with the folder behind it. Its session is its own: Ctrl-C is for this process, which ends
        it."""
        with (self.folder / "output").open("wb") as output:
            return Started(
                subprocess.Popen(
                    [*command, str(self.folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def printed(self) -> str:
        """What it has printed."""
        return (self.folder / "output").read_text(errors="replace")

    def results(self) -> list[dict[str, Any]]:
        """What has come so far."""
        lines = (self.folder / "results").read_text().split("\n")
        return [json.loads(line) for line in lines[:-1]]

    def states(self) -> dict[int, dict[str, Any]]:
        """What each process is at, by its number: ``pid``, ``age_s`` since it said so, and what it said."""
        return states_in(self.folder)


class Started:
    """A command that was started.

    Only a thread of its own waits for it by ``Popen``: an interrupt in there may leave a lock taken, for which whoever
    then waits for the end of the process waits forever.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._pid = process.pid
        self._ended: SimpleQueue[int] = SimpleQueue()
        self._status: int | None = None
        threading.Thread(target=lambda: self._ended.put(process.wait()), daemon=True).start()

    def status(self, within_s: float = 0.0) -> int | None:
        """Its exit status as soon as it has ended; None if it has not within so many seconds."""
        if self._status is None:
            with suppress(Empty):
                self._status = self._ended.get(timeout=within_s)
        return self._status

    def end(self) -> None:
        """Tells it to end, and kills it if it has not after ``LEAVE_S``."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.status() is None:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, number)
                self.status(LEAVE_S)


class Part:
    """One process's part in a job."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        task = json.loads((self.folder / "task.json").read_text())
        self.texts = [(self.folder / f"{number}.json").read_text() for number in range(task.pop("texts"))]
        self.task: dict[str, Any] = task
        self._states = os.open(self.folder / "states", os.O_RDWR | os.O_CLOEXEC)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CLOEXEC)

    def add(self, result: dict[str, Any]) -> None:
        """Adds to the results."""
        with (self.folder / "results").open("a") as file:
            file.write(json.dumps(result) + "\n")

    def say(self, number: int, **state: object) -> None:
        """Says what process ``number`` is at."""
        text = json.dumps({"pid": os.getpid(), "at": time.monotonic(), **state}).encode()
        os.pwrite(self._states, text.ljust(RECORD_BYTES)[:RECORD_BYTES], number * RECORD_BYTES)

    def beat(self, number: int, what: Callable[[], dict[str, object]], gone: Callable[[], object]) -> None:
        """From now on, says what the process is at, and calls ``gone`` when whoever made the job is no longer there."""

        def beating() -> None:
            while self._has_owner():
                self.say(number, **what())
                time.sleep(BEAT_S)
            gone()

        threading.Thread(target=beating, daemon=True).start()

    def _has_owner(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def states_in(folder: Path) -> dict[int, dict[str, Any]]:
    """As ``Job.states``, for whoever looks at a job from outside."""
    data, found = (folder / "states").read_bytes(), {}
    for start in range(0, len(data), RECORD_BYTES):
        if text := data[start : start + RECORD_BYTES].rstrip(b"\0 "):
            with suppress(ValueError):
                state = json.loads(text)
                found[start // RECORD_BYTES] = state | {"age_s": time.monotonic() - state["at"]}
    return found


def silent(folder: Path) -> list[int]:
    """Processes that do not run, the one that has been silent for the longest time first."""
    ages = {number: state["age_s"] for number, state in states_in(folder).items() if state["age_s"] > SILENT_S}
    return sorted(ages, key=ages.__getitem__, reverse=True)


def remove_left_over() -> None:
    """Removes folders of this user's jobs whose owners were killed, and nothing that a job has not made."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), ExitStack() as opened:
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            opened.callback(os.close, place)
            lock = os.open("lock", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
            opened.callback(os.close, lock)
            if _made_here(place, stat.S_IFDIR | 0o700) and _made_here(lock, stat.S_IFREG | 0o600):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.pread(lock, len(MARK) + 1, 0) == MARK:
                    shutil.rmtree(folder, ignore_errors=True)


def _made_here(handle: int, mode: int) -> bool:
    status = os.fstat(handle)
    return status.st_uid == os.geteuid() and status.st_mode == mode
