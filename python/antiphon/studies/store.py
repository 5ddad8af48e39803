"""Runs in a database: each made once, whoever asks for it, and kept from then on."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.errors import AntiphonError
from antiphon.parallel import threads
from antiphon.studies.identity import build_id, described, key_of, text
from antiphon.studies.jobs import Job, Record
from antiphon.studies.owners import Owner, is_at_work, remove_left_over
from antiphon.studies.running import Progress, run_points

FORMAT = 1
"""Of the database; another one is refused."""
SMALLEST = 512
"""Bytes of the smallest database."""
AT_STAKE_S = 0.1
"""A power failure may cost runs that took this long together; a process that is killed costs none."""
CHECKPOINT_PAGES = 4000
"""Changes of so many pages are written aside before they go into the database."""
MOST_ASKED = 500
"""Keys that are looked for at once."""
BUSY_S = 60.0
"""Another process may hold the database this long."""
TABLES = f"""
CREATE TABLE runs (key TEXT PRIMARY KEY, build TEXT NOT NULL, point TEXT NOT NULL, run TEXT NOT NULL,
                   digest TEXT NOT NULL);
CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {FORMAT};
"""
AGAIN = "CREATE TABLE IF NOT EXISTS again (key TEXT PRIMARY KEY, above_s REAL NOT NULL)"
"""Records to be made again by who gives a run more than so many seconds."""
STRANGE = """
SELECT type, name FROM sqlite_master
WHERE NOT (type = 'table' AND name IN ('runs', 'claims', 'again') OR type = 'index' AND name LIKE 'sqlite_autoindex_%')
"""
"""What no store has, and what would do more than is asked for."""
MADE = """
SELECT 1 FROM runs WHERE key = ? AND NOT EXISTS (SELECT 1 FROM again WHERE again.key = runs.key AND above_s < ?)
"""
MERGED = """
DELETE FROM runs WHERE key IN (SELECT key FROM again) AND key IN (SELECT key FROM other.runs);
DELETE FROM again WHERE key NOT IN (SELECT key FROM runs);
INSERT OR IGNORE INTO again SELECT key, above_s FROM other.again WHERE key NOT IN (SELECT key FROM runs);
INSERT OR IGNORE INTO runs SELECT * FROM other.runs;
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
        self._at_stake_s = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise AntiphonError(f"{folder}: exists and is not a folder", "bad-file") from None
        except OSError as error:
            raise _unusable(folder, error) from None
        except UnicodeEncodeError:
            raise AntiphonError(f"{str(folder)!a:.40} is not valid Unicode", "bad-file") from None
        except ValueError as error:
            raise AntiphonError(f"{str(folder)!a:.40} is no folder: {error}", "bad-file") from None
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
            self._database.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
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
                if (strange := self._database.execute(STRANGE).fetchone()) is not None:  # such as a trigger
                    raise sqlite3.DatabaseError(f"it has the {strange[0]} {str(strange[1])!a:.60}")
                self._database.execute(AGAIN)
            self.of_other_builds = self.count_of_other_builds()
            """Stored runs of other builds, which are not used; as they were at first."""
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the use of the store."""
        with self._errors_told():
            try:
                self.release()
            finally:
                self._database.close()
                self._owner.leave()

    def __getitem__(self, point: Job) -> Record:
        """The record of a point that was run.

        Raises:
            KeyError: if it was not.
            AntiphonError: ``bad-file`` if it was changed since.
        """
        return self.record(key_of(point))

    def record(self, key: str) -> Record:
        """The record of a point, by its key; as ``store[point]``."""
        query = "SELECT build, point, run, digest FROM runs WHERE key = ?"
        with self._errors_told():
            row = self._database.execute(query, [key]).fetchone()
        if row is None:
            raise KeyError(key)
        *content, digest = row
        try:
            if digest != _check(key, *content):
                raise ValueError("another digest")
            return dict(json.loads(content[-1]))
        except (TypeError, ValueError, RecursionError):
            message = f"{self.path}: run {key} was changed; move the file away or choose another folder"
            raise AntiphonError(message, "bad-file") from None

    def __contains__(self, point: Job) -> bool:
        with self._errors_told():
            return self._database.execute("SELECT 1 FROM runs WHERE key = ?", [key_of(point)]).fetchone() is not None

    def add(self, point: Job, record: Record) -> None:
        """Keeps a record, on disk before this returns, unless there is one already."""
        with self.together(AT_STAKE_S):
            self.keep(key_of(point), point, record)

    def ensure(self, points: Iterable[Job], jobs: int | None = 1, progress: Progress | None = None) -> int:
        """Runs what is not stored yet, ``jobs`` points at a time, as many as cores if None; returns how many that were.

        A point that is a mistake or cannot be run is a record that says so, as any other, and ends nothing. The core
        computes without Python's lock, so threads suffice.

        Raises:
            AntiphonError: as ``run_points``; what ran before stays stored.
        """
        with threads(jobs) as (executor, count):
            return run_points(self, {key_of(point): point for point in points}, executor, count, progress=progress)

    def missing(self, keys: Iterable[str], limit_s: float | None = None) -> list[str]:
        """The keys of which there is no record, or one that is to be made again: of a run that was given less time
        than ``limit_s`` (None: any time), or that failed for no reason of its own."""
        limit = math.inf if limit_s is None else limit_s
        stored: set[str] = set()
        wanted = list(keys)
        with self._errors_told():
            for start in range(0, len(wanted), MOST_ASKED):
                part = wanted[start : start + MOST_ASKED]
                query = f"SELECT key FROM runs WHERE key IN ({','.join('?' * len(part))})"
                stored.update(key for (key,) in self._database.execute(query, part))
            again = self._database.execute("SELECT key FROM again WHERE above_s < ?", [limit])
            stored.difference_update(key for (key,) in again)
        return [key for key in wanted if key not in stored]

    def claim(self, key: str, limit_s: float | None = None) -> bool | None:
        """Whether the run is now this process's to make; None if it has been made, as for ``missing``."""
        with self._errors_told(), self._written():
            if self._database.execute(MADE, [key, math.inf if limit_s is None else limit_s]).fetchone():
                return None
            row = self._database.execute("SELECT owner FROM claims WHERE key = ?", [key]).fetchone()
            if row is not None and is_at_work(self.path.parent, row[0]):
                return False
            self._database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", [key, self._owner.name])
            return True

    def release(self) -> None:
        """Gives back what this process has claimed and not made."""
        with self._errors_told(), self._written():
            self._database.execute("DELETE FROM claims WHERE owner = ?", [self._owner.name])

    def keep(self, key: str, point: Job, record: Record, again_above_s: float | None = None) -> None:
        """Keeps the record of a point, unless there is one that is not to be made again; this one is by who asks later
        and gives a point more than ``again_above_s``."""
        content = (build_id(), text(described(point)), text(record))
        with self._errors_told(), self._written():
            row = (key, *content, _check(key, *content))
            if self._database.execute("SELECT 1 FROM again WHERE key = ?", [key]).fetchone():
                for table in ("runs", "again"):
                    self._database.execute(f"DELETE FROM {table} WHERE key = ?", [key])
            self._database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", row)
            self._database.execute("DELETE FROM claims WHERE key = ?", [key])
            if again_above_s is not None:
                self._database.execute("INSERT OR REPLACE INTO again VALUES (?, ?)", [key, again_above_s])

    @contextmanager
    def together(self, took_s: float) -> Iterator[None]:
        """Makes one change of the database of all that the block does, and has it synced when runs that took long are
        at stake."""
        self._at_stake_s += took_s
        synced = self._at_stake_s >= AT_STAKE_S
        with self._errors_told():
            if synced:
                self._database.execute("PRAGMA synchronous = FULL")
            try:
                with self._written():
                    yield
                if synced:
                    self._at_stake_s = 0.0
            finally:
                if synced:
                    self._database.execute("PRAGMA synchronous = NORMAL")

    def sync(self) -> None:
        """What is kept survives a power failure from now on."""
        if self._at_stake_s:
            with self._errors_told():
                self._database.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._at_stake_s = 0.0

    def merge(self, folder: str | os.PathLike[str]) -> int:
        """Takes over the runs of another store; returns how many there were not.

        Raises:
            AntiphonError: ``bad-file`` if there is none, or it cannot be read.
        """
        if not (Path(folder) / "runs.sqlite").is_file():
            raise AntiphonError(f"{folder}: has no runs.sqlite; name the folder of a store", "bad-file")
        if Path(folder).resolve() == self.path.parent.resolve():
            raise AntiphonError(f"{folder}: is the store itself; name the folders of others", "bad-file")
        with Store(folder) as other, self._errors_told():
            before = self._count()
            self._database.execute("ATTACH DATABASE ? AS other", [str(other.path)])
            try:
                with self._written():
                    # A result is worth more than a record that is to be made again.
                    for statement in MERGED.split(";"):
                        self._database.execute(statement)
            finally:
                self._database.execute("DETACH DATABASE other")
            return self._count() - before

    def count_of_other_builds(self) -> int:
        """Runs of other builds, which are not used."""
        query = "SELECT count(*) FROM runs WHERE build != ?"
        return int(self._database.execute(query, [build_id()]).fetchone()[0])

    def _count(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM runs").fetchone()[0])

    @contextmanager
    def _written(self) -> Iterator[None]:
        """A change of the database, or part of one, as a whole or not at all; no other process changes it meanwhile."""
        if self._database.in_transaction:
            yield
            return
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            self._database.rollback()
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
