"""Runs to make, described by values that JSON has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from antiphon._core import Fabric, Schedule, System, build
from antiphon.collective.comparison import run
from antiphon.collective.result import REFUSALS
from antiphon.collective.schedules import Heartbeat
from antiphon.collective.timing import Progress, Timer
from antiphon.errors import AntiphonError
from antiphon.network.rails import rails
from antiphon.results import rows_of
from antiphon.training.train import train

Record = dict[str, Any]
"""A run as its command prints it with ``--json`` (docs/reference/json.md), with the ``tables`` it was asked for; or
``{"refused": {"reason", "code"}}`` for what cannot be run."""


def refusal_of(record: Record) -> Mapping[str, str] | None:
    """Why a record has no result: ``reason`` and ``code``; None if it has one, which may leave out parts."""
    refused = record.get("refused")
    return refused if isinstance(refused, Mapping) else None


@dataclass(frozen=True)
class Job(ABC):
    """One run to make, described by values that JSON has."""

    @abstractmethod
    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Makes the run.

        Raises:
            AntiphonError: for mistakes; what merely cannot be run may be a record that says so.
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

    def schedule(self, fabric: Fabric, system: System) -> Schedule:
        """That of the algorithm."""
        return build(fabric, self.algorithm, self.collective, self.bytes, system, self.root)

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Proves and times it; what does not fit the fabric is a record that says so."""
        try:
            fabric, system = self.network(), System(self.system).with_(**dict(self.changes))
            done = run(fabric, self.schedule(fabric, system), system, self.fidelity, progress=progress)
        except AntiphonError as error:
            if error.code not in REFUSALS:
                raise
            return {"refused": {"reason": error.message, "code": error.code}}
        return done.to_dict() | _kept(done.result, self.tables)


@dataclass(frozen=True)
class RailsPoint(Job):
    """A collective on a multi-dimensional network; arguments as of ``antiphon.rails``.

    Attributes:
        options: further options.
        tables: tables of the result to keep: ``timeline``, ``stages``.
    """

    topology: str
    bytes: int
    scheduler: str
    intra: str | None = None
    chunks: int = 64
    fixed_delay: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    tables: tuple[str, ...] = ()

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Schedules and times it, in well under a second; NPUs that wait for each other are a record that says so."""
        given = {name: each for name, each in vars(self).items() if name not in ("tables", "options")}
        try:
            done = rails(**given | dict(self.options))
        except AntiphonError as error:
            if error.code != "stalled":
                raise
            return {"stalled": error.message}
        return done.to_dict() | _kept(done, self.tables)


@dataclass(frozen=True)
class TrainingPoint(Job):
    """Training; arguments as of ``antiphon.train``.

    Attributes:
        options: further arguments.
        tables: tables of the iteration to keep: ``exchanges``, ``computations``.
        system: preset.
        changes: parameters of the system that are replaced, as arguments of ``System.with_``.
    """

    model: str
    fabric: str
    algorithm: str
    options: tuple[tuple[str, Any], ...] = ()
    tables: tuple[str, ...] = ()
    system: str = "generic"
    changes: tuple[tuple[str, Any], ...] = ()

    def timer(self, _system: System, _progress: Progress | None) -> Timer | None:
        """What times its collectives, as for ``antiphon.train``; None: what usually does."""
        return None

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Times an iteration."""
        told = None if progress is None else lambda _what, share: progress(share)
        system = System(self.system).with_(**dict(self.changes))
        given = dict(self.options) | {"collectives": self.timer(system, told), "progress": told}
        done = train(self.model, self.fabric, self.algorithm, system, **given)
        return done.to_dict() | _kept(done.iteration, self.tables)


def _kept(result: Any, tables: Iterable[str]) -> Record:
    kept = {name: rows_of(getattr(result, name)) for name in tables}
    return {"tables": kept} if kept else {}
