"""Many runs, stored as they are made, so that a second call goes on where the first ended."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from antiphon import _core
from antiphon._core import Fabric, System, __version__, build, rails
from antiphon.comparison import REFUSALS, run
from antiphon.errors import AntiphonError
from antiphon.parallel import check, in_parallel
from antiphon.results import rows_of
from antiphon.training import train

Record = dict[str, Any]
"""A run as its command prints it with ``--json`` (docs/json.md), with the ``tables`` it was asked for; or
``{"refused": {"reason", "code"}}`` for what cannot be run."""

Progress = Callable[[int, int], object]
"""Called with the number of points that are done and of all."""
Heartbeat = Callable[[float], object]
"""Called while a run is made, with the share that is done; may raise to end it."""


@dataclass(frozen=True)
class Job(ABC):
    """One run to make, described by values that JSON has."""

    @abstractmethod
    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Makes the run.

        Raises:
            AntiphonError: for mistakes; what merely cannot be run is a record that says so.
        """


@dataclass(frozen=True)
class Point(Job):
    """A collective on a fabric, proven and timed.

    Attributes:
        fabric: specification, as on the command line.
        algorithm: specification ``name[:key=value,...]``.
        bytes: size of the full buffer.
        system: preset.
        changes: parameters of the system that are replaced, as arguments of ``System.with_``.
        tables: tables of the result to keep: ``links``, ``ranks``, ``timeline``, ``chunks``.
    """

    fabric: str
    algorithm: str
    bytes: int
    system: str = "generic"
    changes: tuple[tuple[str, Any], ...] = ()
    collective: str = "all-reduce"
    fidelity: str = "packet"
    root: int = 0
    tables: tuple[str, ...] = ()

    def network(self) -> Fabric:
        """The fabric."""
        return Fabric(self.fabric)

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Proves and times it; what does not fit the fabric is a record that says so."""
        try:
            fabric, system = self.network(), System(self.system).with_(**dict(self.changes))
            schedule = build(fabric, self.algorithm, self.collective, self.bytes, system, self.root)
            done = run(fabric, schedule, system, self.fidelity, progress=progress)
        except AntiphonError as error:
            if error.code not in REFUSALS:
                raise
            return {"refused": {"reason": error.message, "code": error.code}}
        return done.to_dict() | _kept(done.result, self.tables)


@dataclass(frozen=True)
class RailsPoint(Job):
    """A collective on a multi-dimensional network; arguments as of ``antiphon.rails``.

    Attributes:
        tables: tables of the result to keep: ``timeline``, ``stages``.
    """

    topology: str
    bytes: int
    scheduler: str
    intra: str | None = None
    chunks: int = 64
    fixed_delay: bool = False
    tables: tuple[str, ...] = ()

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Schedules and times it, in well under a second."""
        done = rails(
            self.topology,
            self.bytes,
            scheduler=self.scheduler,
            intra=self.intra,
            chunks=self.chunks,
            fixed_delay=self.fixed_delay,
        )
        return done.to_dict() | _kept(done, self.tables)


@dataclass(frozen=True)
class TrainingPoint(Job):
    """Training; arguments as of ``antiphon.train``.

    Attributes:
        options: further arguments.
        tables: tables of the iteration to keep: ``exchanges``, ``computations``.
    """

    model: str
    fabric: str
    algorithm: str
    options: tuple[tuple[str, Any], ...] = ()
    tables: tuple[str, ...] = ()

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Times an iteration."""
        told = None if progress is None else lambda _what, share: progress(share)
        done = train(self.model, self.fabric, self.algorithm, **dict(self.options), progress=told)
        return done.to_dict() | _kept(done.iteration, self.tables)


def _kept(result: Any, tables: Iterable[str]) -> Record:
    kept = {name: rows_of(getattr(result, name)) for name in tables}
    return {"tables": kept} if kept else {}


class Store:
    """Runs kept as lines of JSON in ``FOLDER/runs.jsonl``.

    A line has the point, the build of Antiphon that ran it, the record, and a digest of these. Lines of another build
    are kept but not used. A last line that was cut off, as by a power failure, is dropped.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Opens the store of a folder, which is made if there is none.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be read or written.
        """
        self.path = Path(folder) / "runs.jsonl"
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}
        self.of_other_builds = 0
        """Stored runs of other builds, which are not used."""
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise AntiphonError(f"{folder}: exists and is not a folder", "bad-file") from None
        except OSError as error:
            raise _unusable(Path(folder), error) from None
        if self.path.exists() and not self.path.is_file():  # a pipe would be waited for
            raise AntiphonError(f"{self.path}: exists and is not a file", "bad-file")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            self._load()
        except OSError as error:
            raise _unusable(self.path, error) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._file)

    def _load(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                entry = json.loads(line)
                (kind, given), made_by, record = entry["point"], entry["build"], entry["run"]
                if entry["check"] != _check([kind, given], made_by, record):
                    raise ValueError("it was changed")
                if made_by != build_id():
                    self.of_other_builds += 1
                    continue
                self._records[_text([kind, given])] = dict(record)
            except (ValueError, TypeError, KeyError):
                message = f"{self.path}: line {number} is not a stored run; move the file away or choose another folder"
                raise AntiphonError(message, "bad-file") from None

    def __getitem__(self, point: Job) -> Record:
        """The record of a point that was run."""
        return self._records[_text(_described(point))]

    def __contains__(self, point: Job) -> bool:
        return _text(_described(point)) in self._records

    def add(self, point: Job, record: Record) -> None:
        """Keeps a record, on disk before this returns."""
        described, made_by = _described(point), build_id()
        check = _check(described, made_by, record)
        line = _text({"point": described, "build": made_by, "run": record, "check": check})
        with self._lock:
            try:
                # In one piece, so that what is read later is whole lines.
                os.write(self._file, line.encode() + b"\n")
            except OSError as error:
                raise _unusable(self.path, error) from None
            self._records[_text(_described(point))] = record

    def ensure(self, points: Iterable[Job], jobs: int | None = 1, progress: Progress | None = None) -> int:
        """Runs what is not stored yet, ``jobs`` points at a time, as many as cores if None; returns how many that were.

        The core computes without Python's lock, so threads suffice.

        Raises:
            AntiphonError: for mistakes in a point; what ran before stays stored.
        """
        wanted = list(dict.fromkeys(points))
        missing = [point for point in wanted if point not in self]
        done = len(wanted) - len(missing)
        finished = itertools.count(done + 1)

        def work(point: Job) -> None:
            check()
            self.add(point, point.measure(lambda _share: check()))
            if progress is not None:
                progress(next(finished), len(wanted))

        in_parallel(work, missing, jobs)
        return len(missing)


def _described(point: Job) -> list[Any]:
    """What tells a point from others: its kind and its values."""
    return [type(point).__name__, asdict(point)]


def _check(point: list[Any], made_by: str, record: Record) -> str:
    """A digest that tells a line that was changed."""
    return hashlib.sha256(_text([point, made_by, record]).encode()).hexdigest()[:16]


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@cache
def build_id() -> str:
    """Version of Antiphon and a hash of the compiled core and of this file: other builds may give other
    results, or store them in another form."""
    code = Path(_core.__file__).read_bytes() + Path(__file__).read_bytes()
    return f"{__version__}-{hashlib.sha256(code).hexdigest()[:16]}"


def _unusable(path: Path, error: OSError) -> AntiphonError:
    return AntiphonError(f"{path}: cannot be written: {error.strerror or error}", "bad-file")
