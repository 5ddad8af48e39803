"""Runs in a database: each made once, whoever asks for it, and kept from then on."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.errors import AntiphonError
from antiphon.parallel import check, in_parallel
from antiphon.studies.identity import build_id, described, key_of, text
from antiphon.studies.jobs import Job, Record
from antiphon.studies.owners import Owner, is_at_work, remove_left_over

Progress = Callable[[int, int], object]
"""Called with the number of points that are done and of all."""

FORMAT = 1
"""Of the database; another one is refused."""
SMALLEST = 512
"""Bytes of the smallest database."""
AT_STAKE_S = 0.1
"""A power failure may cost runs that took this long together; a process that is killed costs none."""
BUSY_S = 60.0
"""Another process may hold the database this long."""
POLL_S = 0.05
"""Runs that others make are looked for this often."""
NOT_KEPT = ("internal", "interrupted")
"""Codes of errors that say nothing about the point."""
TABLES = f"""
CREATE TABLE runs (key TEXT PRIMARY KEY, build TEXT NOT NULL, point TEXT NOT NULL, run TEXT NOT NULL,
                   digest TEXT NOT NULL);
CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL);
PRAGMA user_version = {FORMAT};
"""


class Store:
    """Runs kept in the SQLite database ``FOLDER/runs.sqlite``.

    A run is found by the values of its point, the contents of files that these name, and the code that made it:
    where any of them is another, it is made again. Runs of other builds are kept but not used.

    Several processes may use a store at once: each point is claimed before it is run, so that none is run twice. The
    claims of a process that was killed are void. A run is on disk, for any process to find, before it counts as done.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Opens the store of a folder, which is made if there is none.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be read or written.
        """
        folder = Path(folder)
        self.path = folder / "runs.sqlite"
        self._lock = threading.Lock()
        self._at_stake_s = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise AntiphonError(f"{folder}: exists and is not a folder", "bad-file") from None
        except OSError as error:
            raise _unusable(folder, error) from None
        if self.path.exists() and not self.path.is_file():  # a pipe would be waited for
            raise AntiphonError(f"{self.path}: exists and is not a file", "bad-file")
        try:
            remove_left_over(folder)
            self._owner = Owner(folder)
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            with self._errors_told():
                self._database = sqlite3.connect(
                    self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
                )
                self._open()
        except BaseException:
            self._owner.leave()
            raise

    def _open(self) -> None:
        try:
            if 0 < self.path.stat().st_size < SMALLEST:  # SQLite would write over it
                raise sqlite3.DatabaseError("too small")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            with self._written():
                form, tables = (
                    self._database.execute(query).fetchone()[0]
                    for query in ("PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
                )
                if form == tables == 0:
                    for statement in TABLES.split(";"):
                        self._database.execute(statement)
                elif form != FORMAT:
                    raise sqlite3.DatabaseError("another format")
            query = "SELECT count(*) FROM runs WHERE build != ?"
            self.of_other_builds: int = self._database.execute(query, [build_id()]).fetchone()[0]
            """Stored runs of other builds, which are not used."""
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the use of the store."""
        with self._lock, self._errors_told():
            try:
                with self._written():
                    self._database.execute("DELETE FROM claims WHERE owner = ?", [self._owner.name])
            finally:
                self._database.close()
                self._owner.leave()

    def __getitem__(self, point: Job) -> Record:
        """The record of a point that was run.

        Raises:
            KeyError: if it was not.
            AntiphonError: ``bad-file`` if it was changed since.
        """
        key = key_of(point)
        query = "SELECT build, point, run, digest FROM runs WHERE key = ?"
        with self._lock, self._errors_told():
            row = self._database.execute(query, [key]).fetchone()
        if row is None:
            raise KeyError(point)
        *content, digest = row
        if digest != _check(key, *content):
            message = f"{self.path}: run {key} was changed; move the file away or choose another folder"
            raise AntiphonError(message, "bad-file")
        return dict(json.loads(content[-1]))

    def __contains__(self, point: Job) -> bool:
        return self._has(key_of(point))

    def add(self, point: Job, record: Record) -> None:
        """Keeps a record, on disk before this returns, unless there is one already."""
        self._at_stake_s = AT_STAKE_S
        self._keep(key_of(point), point, record, 0.0)

    def ensure(self, points: Iterable[Job], jobs: int | None = 1, progress: Progress | None = None) -> int:
        """Runs what is not stored yet, ``jobs`` points at a time, as many as cores if None; returns how many that were.

        What other processes are running now is waited for, and not counted. A point that is a mistake or cannot be
        run is a record that says so, as any other, and ends nothing. The core computes without Python's lock, so
        threads suffice.

        Raises:
            AntiphonError: ``bad-file`` if the store cannot be written, or a file changed while a point that names it
                was run; what ran before stays stored.
        """
        wanted = {key_of(point): point for point in points}
        missing = [key for key in wanted if not self._has(key)]
        done = itertools.count(len(wanted) - len(missing) + 1)
        made = 0

        def work(key: str) -> bool:
            """Whether the point is done."""
            nonlocal made
            check()
            claimed = self._claim(key)
            if claimed is False:
                return False
            if claimed:
                self._make(key, wanted[key])
            with self._lock:
                made += claimed is True
            if progress is not None:
                progress(next(done), len(wanted))
            return True

        while missing:
            outcomes = in_parallel(work, missing, jobs)
            missing = [key for key, is_done in zip(missing, outcomes, strict=True) if not is_done]
            if missing:
                check()
                time.sleep(POLL_S)
        with self._lock, self._errors_told():
            if self._at_stake_s:
                self._database.execute("PRAGMA wal_checkpoint(PASSIVE)")  # syncs
                self._at_stake_s = 0.0
        return made

    def _make(self, key: str, point: Job) -> None:
        """Runs a point that is claimed, and keeps what comes of it."""
        start = time.monotonic()
        try:
            try:
                record = point.measure(lambda _share: check())
            except AntiphonError as error:
                if error.code in NOT_KEPT:
                    raise
                record = {"refused": {"reason": error.message, "code": error.code}}
            if key_of(point) != key:
                raise AntiphonError(f"a file changed while it was used: {described(point)[1]}", "bad-file")
        except BaseException:
            with self._lock, self._errors_told(), self._written():
                self._database.execute("DELETE FROM claims WHERE key = ?", [key])
            raise
        self._keep(key, point, record, time.monotonic() - start)

    def _has(self, key: str) -> bool:
        with self._lock, self._errors_told():
            return self._database.execute("SELECT 1 FROM runs WHERE key = ?", [key]).fetchone() is not None

    def _claim(self, key: str) -> bool | None:
        """Whether the run is now this process's to make; None if it has been made."""
        with self._lock, self._errors_told():
            owner = self._owner_of(key)
            if owner is not None and is_at_work(self.path.parent, owner):
                return False
            with self._written():
                if self._database.execute("SELECT 1 FROM runs WHERE key = ?", [key]).fetchone():
                    return None
                now = self._owner_of(key)
                if now not in (None, owner):  # another was faster
                    return False
                self._database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", [key, self._owner.name])
                return True

    def _owner_of(self, key: str) -> str | None:
        row = self._database.execute("SELECT owner FROM claims WHERE key = ?", [key]).fetchone()
        return None if row is None else str(row[0])

    def _keep(self, key: str, point: Job, record: Record, took_s: float) -> None:
        content = (build_id(), text(described(point)), text(record))
        row = (key, *content, _check(key, *content))
        with self._lock, self._errors_told():
            self._at_stake_s += took_s
            synced = self._at_stake_s >= AT_STAKE_S
            if synced:
                self._database.execute("PRAGMA synchronous = FULL")
            try:
                with self._written():
                    self._database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", row)
                    self._database.execute("DELETE FROM claims WHERE key = ?", [key])
                if synced:
                    self._at_stake_s = 0.0
            finally:
                if synced:
                    self._database.execute("PRAGMA synchronous = NORMAL")

    @contextmanager
    def _written(self) -> Iterator[None]:
        """A change of the database, as a whole or not at all; no other process changes it meanwhile."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        """Errors of the database as ones that name the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise AntiphonError(f"{self.path}: cannot be written: {error}", "bad-file") from None
        except sqlite3.DatabaseError as error:
            message = f"{self.path}: is no store of runs ({error}); move the file away or choose another folder"
            raise AntiphonError(message, "bad-file") from None


def _check(key: str, made_by: str, point: str, record: str) -> str:
    """A digest that tells a row that was changed."""
    return hashlib.sha256("\n".join((key, made_by, point, record)).encode()).hexdigest()[:16]


def _unusable(path: Path, error: OSError) -> AntiphonError:
    return AntiphonError(f"{path}: cannot be written: {error.strerror or error}", "bad-file")
