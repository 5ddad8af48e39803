"""Studies: the points of a grid run, stored, and their results as a table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from antiphon.arguments import expect, shown
from antiphon.deadline import check_limit
from antiphon.errors import AntiphonError
from antiphon.files import written_whole
from antiphon.flat import Row
from antiphon.parallel import threads, threads_of
from antiphon.results.base import page_of
from antiphon.results.table import Table
from antiphon.studies.commands import COMMANDS, CommandPoint
from antiphon.studies.grid import Grid
from antiphon.studies.identity import key_of
from antiphon.studies.jobs import Job, Record, refusal_of
from antiphon.studies.running import Progress, run_points
from antiphon.studies.store import Store
from antiphon.studies.table import rows_of_points, writing_table

if TYPE_CHECKING:
    import pandas as pd

AHEAD = 1
"""Pieces of short work that an executor is given ahead, for each that it can do at once."""


@dataclass
class Runner:
    """Makes runs that a store does not have.

    Attributes:
        count: runs at a time.
        ahead: pieces of short work that the executor has beside them.
        made: runs that it made; the others were stored already, or run by other processes.
    """

    store: Store
    executor: Executor
    count: int
    ahead: int
    limit_s: float | None
    made: int = 0

    def records(self, points: Sequence[Job], progress: Progress | None = None) -> list[Record]:
        """Their records."""
        keys = [key_of(point) for point in points]
        given = dict(zip(keys, points, strict=True))
        self.made += run_points(
            self.store, given, self.executor, self.count, ahead=self.ahead, limit_s=self.limit_s, progress=progress
        )
        return [self.store.record(key) for key in keys]


def runner(
    store: str | os.PathLike[str] | None, executor: Executor | None, jobs: int | None, time_limit_s: float | None
) -> AbstractContextManager[Runner]:
    """What makes runs in a folder, by default a temporary one, with an executor, by default threads.

    Raises:
        AntiphonError: at once for mistakes in the arguments; ``bad-file`` for a store that cannot be used.
    """
    expect("executor", executor, Executor, type(None))
    expect("store", store, str, os.PathLike, type(None))
    if store is not None and "\0" in os.fspath(store):
        raise AntiphonError("store has a zero character; name a folder", "bad-file")
    check_limit(time_limit_s)
    return _opened(store, executor, jobs, time_limit_s)


@contextmanager
def _opened(
    store: str | os.PathLike[str] | None, executor: Executor | None, jobs: int | None, limit_s: float | None
) -> Iterator[Runner]:
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory()) if store is None else store
        runs = opened.enter_context(Store(folder))
        if executor is None:
            pool, count = opened.enter_context(threads(jobs))
            yield Runner(runs, pool, count, 0, limit_s)
        else:
            count = threads_of(jobs or getattr(executor, "_max_workers", None))
            yield Runner(runs, executor, count, AHEAD * count, limit_s)


@dataclass(frozen=True)
class Study(Sequence[Row]):
    """What came of the points of a study, in their order; a sequence of rows.

    >>> found = study({"command": "rails", "axes": {"topology": ["2D-SW_SW"], "bytes": ["1MB", "1GB"]}})
    >>> found.made, found[0]["time_ns"] < found[1]["time_ns"]
    (2, True)

    Attributes:
        values: what varies, of each point.
        records: of each point the object that its command prints with ``--json``, or ``{"refused": ...}``.
        made: points that were run by this call; the others were stored already, or run by other processes.
        columns: of results that rows have; None: all, as in ``dataclasses.replace(found, columns=None)``.
    """

    values: Sequence[Mapping[str, Any]]
    records: Sequence[Record]
    made: int
    columns: Sequence[str] | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each point: what varies first, then why it has no result, then ``columns`` of its results, objects
        as ``object.key``, lists left out.

        Raises:
            AntiphonError: ``unknown-name`` for a column that no result has.
        """
        return rows_of_points(self.values, self.records, self.columns)

    @property
    def refused(self) -> dict[str, int]:
        """Why points have no result, and of how many that holds."""
        counts: dict[str, int] = {}
        for record in self.records:
            if why := refusal_of(record):
                counts[why["reason"]] = counts.get(why["reason"], 0) + 1
        return counts

    @cached_property
    def table(self) -> Table:
        """The rows as a table, which readers of Arrow take as they take the study itself."""
        return Table.of_rows(self.rows)

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame.

        Raises:
            AntiphonError: ``missing-extra`` without pandas.
        """
        return self.table.to_frame()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return f"<p>{repr(self).strip('<>')}</p>{self.table._repr_html_()}"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows as ``.csv`` or ``.parquet``.

        Raises:
            AntiphonError: ``bad-file`` if it cannot; ``missing-extra`` for Parquet without pyarrow.
        """
        with writing_table(os.fspath(path)) as put:
            put(self.rows)

    def page(self) -> str:
        """A page about it, HTML that needs nothing else: its points plotted over any axis, which the reader chooses."""
        return page_of(self)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file ``*.html``.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be written.
        """
        with written_whole(path, ".html") as file:
            file.write(self.page())

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        refused = sum(self.refused.values())
        return f"<Study of {len(self):,} points, {self.made:,} run now, {refused:,} without a result>"


def study(
    grid: Grid | Mapping[str, Any] | str | os.PathLike[str] | Iterable[Job],
    store: str | os.PathLike[str] | None = None,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    time_limit_s: float | None = None,
    shard: tuple[int, int] | None = None,
    columns: str | Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Study:
    """Runs every point of a grid, once: what is stored is not run again.

    >>> found = study({"command": "rails", "axes": {"topology": ["2D-SW_SW"], "scheduler": ["baseline", "themis"]}})
    >>> [row["scheduler"] for row in found if row["utilization"] > 0.9]
    ['themis']

    Args:
        grid: a file or description (docs/how-to/study.md), or points of any kind.
        store: folder of runs, which other processes may use at the same time; default: with a file, ``FILE.runs``
            beside it; else runs are not kept.
        executor: any of ``concurrent.futures``; default: threads, as the core computes without Python's lock.
        jobs: points at a time; default: as many as the executor has workers, or as this machine has cores.
        time_limit_s: what takes longer has a record that says so. It is noticed when a point reports its progress;
            ``antiphon.studies.Workers`` kill what does not.
        shard: ``(i, n)``: only the i-th of n parts of the points, from 1.
        columns: of results that the table has: ``all``, or names, as a list or with commas; default: the main ones of
            the command, all of points of another kind.
        progress: called with the number of points that are done and of all.

    Returns:
        Results in the order of the points; mistakes and what cannot be run are records too.

    Raises:
        AntiphonError: for a grid that means nothing, before anything is run; ``bad-file`` for a store that cannot be
            used, or a file that changed during a run.
    """
    if isinstance(grid, str | os.PathLike):
        described = Grid.read(grid)
        store = runs_beside(grid) if store is None else store
        grid = described
    elif isinstance(grid, Mapping):
        grid = Grid.of(cast(Mapping[str, Any], grid))
    if not isinstance(grid, Grid) and not isinstance(grid, Iterable):
        raise TypeError(f"argument 'grid': expected a file, a description or points, not {type(grid).__name__}")
    opening = runner(store, executor, jobs, time_limit_s)
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",")]
    chosen = None if columns is None else list(columns)
    for name in chosen or ():
        expect("columns", name, str)
    points = part_of(list(grid.points() if isinstance(grid, Grid) else grid), shard)
    with opening as runs:
        records = runs.records(points, progress)
        varying = grid.columns if isinstance(grid, Grid) else None
        if chosen is None and isinstance(grid, Grid):
            main = COMMANDS[grid.command].columns
            chosen = [name for name in main if any(_has(record, name) for record in records)]
        elif chosen == ["all"]:
            chosen = None
        return Study([values_of(point, varying) for point in points], records, runs.made, chosen)


def runs_beside(path: str | os.PathLike[str]) -> Path:
    """The folder of runs of a study's file, unless another is named."""
    return Path(path).with_suffix(".runs")


def part_of(points: list[Job], shard: tuple[int, int] | None) -> list[Job]:
    """The points of a shard."""
    if shard is None:
        return points
    if not isinstance(shard, tuple) or [type(each) for each in shard] != [int, int]:
        raise TypeError(f"argument 'shard': expected two whole numbers, not {shown(shard)}")
    number, count = shard
    if not 1 <= number <= count:
        raise AntiphonError(f"shard {number}/{count}: the first is 1/{count}, the last {count}/{count}", "bad-spec")
    return points[number - 1 :: count]


def values_of(point: Job, columns: list[str] | None) -> dict[str, Any]:
    """What varies, of a point: its columns of a grid, else all that is a number, a word or a flag."""
    if isinstance(point, CommandPoint):
        given = dict(point.values)
        return given if columns is None else {key: given.get(key) for key in columns}
    values = {field.name: getattr(point, field.name) for field in fields(point)}
    return {key: value for key, value in values.items() if not isinstance(value, list | tuple | dict)}


def _has(record: Mapping[str, Any], column: str) -> bool:
    """Whether a record has a column ``key`` or ``object.key``."""
    key, _, rest = column.partition(".")
    return key in record and (not rest or (isinstance(record[key], Mapping) and _has(record[key], rest)))
