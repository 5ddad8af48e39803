"""The command for many runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from antiphon.cli.declared import command
from antiphon.cli.documented import DocumentedGroup
from antiphon.cli.group import main
from antiphon.cli.output import note, print_for_people, tell
from antiphon.cli.pages import paged
from antiphon.deadline import OVER_TIME, refuse_late
from antiphon.errors import AntiphonError
from antiphon.studies.cluster import workers
from antiphon.studies.commands import COMMANDS
from antiphon.studies.grid import Grid
from antiphon.studies.jobs import refusal_of
from antiphon.studies.store import Store
from antiphon.studies.study import Study, part_of, runs_beside, study, values_of
from antiphon.studies.table import REFUSED, writing_table
from antiphon.view.document import document
from antiphon.view.documents.study import points_document, study_document
from antiphon.view.terminal.console import progress_bar


class _Group(DocumentedGroup):
    """What is no command is the file of a study."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_command = args[0] in self.commands if args else ctx.resilient_parsing
        return super().parse_args(ctx, args if is_command else ["run", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file"), *super().shell_complete(ctx, incomplete)]


@main.group("study", cls=_Group)
def study_group() -> None:
    """Run every combination of some values, once, whatever happens in between.

    Examples:
        antiphon study examples/study.toml --store runs
    """


@command(
    parent=study_group, name="run", common="store report opened out columns jobs time_limit_s dry_run shard output"
)
def run_command(
    file: Path,
    *,
    store: Path | None = None,
    report: str | None,
    out: str | None = None,
    columns: str | None = None,
    jobs: int | None,
    cluster: str | None = None,
    shard: str | None = None,
    time_limit_s: float | None,
    dry_run: bool = False,
    output: str,
) -> None:
    """Run every point of a grid, once: a second call, or one after a crash, runs what is missing.

    FILE is TOML: a command, what is fixed, and axes whose values are combined (docs/how-to/study.md). Two
    calls at the same time share the work. Without --cluster, points run in worker processes.
    antiphon study merge joins the runs of shards.

    Examples:
        antiphon study examples/study.toml --dry-run
        antiphon study examples/study.toml --store runs --out study.csv --report study.html --time-limit 5min
        antiphon study examples/study.toml --store runs --shard 1/8

    Args:
        store: Folder of runs.  [default: FILE, with .runs in place of .toml]
        out: Also write the table, OUT.csv or OUT.parquet: a row for each point.
        columns: Of the results in tables: NAME,... or all.  [default: the main ones]
        cluster: Run on the workers of this Dask scheduler, tcp://HOST:PORT.
        shard: Only the I-th of N parts, I/N, for job arrays; its runs in a folder below.
        time_limit_s: Of one point: 90, 90s, 5min or 2h. Longer ones have no result, and the exit status is 3.
        dry_run: Show the points and how many are stored; run nothing.
    """
    part = _shard(shard)
    grid = Grid.read(file)
    folder = store or runs_beside(file)
    if part is not None:
        folder /= f"shard-{part[0]}-of-{part[1]}"
    if dry_run:
        _show_points(file, grid, part, folder, output)
        return
    with paged(report, output) as write_page, writing_table(out) as write:
        with workers(jobs, cluster, time_limit_s) as (executor, count), progress_bar() as progress:
            found = study(
                grid,
                folder,
                executor=executor,
                jobs=count,
                time_limit_s=time_limit_s,
                shard=part,
                columns=columns,
                progress=_told(progress, file),
            )
        write(found.rows)
        write_page(partial(_page, file, found))
        shown: Sequence[str] = COMMANDS[grid.command].shown
        if columns is not None:
            shown = [name for name in found.rows[0] if name not in REFUSED]
        show = partial(study_document, file, grid, found, shown)
        tell("study", _document(file, grid, found), output, show, found.rows)
    note(output, out and f"Table: {out}")
    note(output, f"Runs are kept in {folder}")
    whys = filter(None, map(refusal_of, found.records))
    refuse_late(sum(why["code"] == OVER_TIME for why in whys), len(found.records), "points")
    if found.records and len(found.records) == sum(found.refused.values()):
        raise AntiphonError(f"no point of {file} has a result: {next(iter(found.refused))}", "not-applicable")


def _page(file: Path, found: Study) -> str:
    from antiphon.view.pages.study import render

    return render(found, file.stem)


@command(parent=study_group)
def merge(folders: tuple[Path, ...], *, store: Path) -> None:
    """Put the runs of several folders, such as those of shards, into one.

    Afterwards, antiphon study FILE --store DIR finds them all, and makes the table.

    Examples:
        antiphon study merge runs/shard-1-of-8 --store runs

    Args:
        store: Folder of all runs.
    """
    with Store(store) as runs:
        new = [runs.merge(folder) for folder in folders]
        others = runs.count_of_other_builds()
    stale = f"; {others:,} there are of other builds of Antiphon, which are not used" if others else ""
    print_for_people(document(f"{sum(new):,} runs from {len(folders):,} folders are new in {store}{stale}"))


def _document(file: Path, grid: Grid, found: Study) -> dict[str, Any]:
    """The study as documented in docs/reference/json.md."""
    points = [
        {"values": dict(values), "refused": why, "result": None if why else record}
        for values, record in zip(found.values, found.records, strict=True)
        for why in [refusal_of(record)]
    ]
    return {"file": str(file), "command": grid.command, "new_runs": found.made, "points": points}


def _show_points(file: Path, grid: Grid, part: tuple[int, int] | None, folder: Path, output: str) -> None:
    points = part_of(list(grid.points()), part)
    stored = 0
    with Store(folder) if (folder / "runs.sqlite").is_file() else nullcontext() as runs:
        if runs is not None:
            stored = sum(point in runs for point in points)
    values = [values_of(point, grid.columns) for point in points]
    document = {"file": str(file), "command": grid.command, "stored": stored, "points": values}
    tell("study", document, output, partial(points_document, file, grid, values, stored), values)


def _told(progress: Any, file: Path) -> Any:
    """Progress of what was missing at the start, so that the time left is that of these points."""
    stored: list[int] = []

    def tell_share(done: int, all: int) -> None:
        if not stored:
            stored.append(done)
        progress(f"{file.name}, {all:,} points", (done - stored[0]) / max(all - stored[0], 1))

    return tell_share


def _shard(text: str | None) -> tuple[int, int] | None:
    """The numbers of ``I/N``."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise AntiphonError(f"--shard is '{text[:40]}'; write for example 1/8, the first, up to 8/8", "bad-spec")
    return int(found[1]), int(found[2])
