"""The command that finds the best designs of a space."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.output import note, tell
from antiphon.cli.pages import paged
from antiphon.deadline import OVER_TIME, refuse_late
from antiphon.errors import AntiphonError
from antiphon.results.table import known_rows
from antiphon.studies.cluster import workers
from antiphon.studies.study import runs_beside
from antiphon.studies.table import writing_table
from antiphon.view.documents.exploration import exploration_document
from antiphon.view.pages import page_of
from antiphon.view.terminal.console import progress_bar


@command(common="store report opened out jobs cluster no_prune no_sensitivity time_limit_s output")
def explore(
    file: Path,
    *,
    store: Path | None = None,
    report: str | None,
    out: str | None = None,
    jobs: int | None,
    cluster: str | None = None,
    no_prune: bool = False,
    no_sensitivity: bool = False,
    time_limit_s: float | None,
    output: str,
) -> None:
    """Find the designs of a space that no other beats in time, energy and area (docs/how-to/explore.md).

    FILE is TOML: fabrics with places for values, axes, algorithms, what is equal, and constraints. Designs
    whose bounds a simulated one beats are not simulated. A second call, or one after a crash, runs what is missing.

    Examples:
        antiphon explore examples/explore/sixty-four.toml --store runs --report front.html
        antiphon explore examples/explore/aries.toml --store runs --out designs.csv --json

    Args:
        store: Folder of runs.  [default: FILE, with .runs in place of .toml]
        out: Also write a table, OUT.csv or OUT.parquet: a row for each design, with its bounds and how it ended.
        cluster: Run on the workers of this Dask scheduler, tcp://HOST:PORT.
        no_prune: Simulate all designs; the front is the same.
        no_sensitivity: Leave out what would move the front.
        time_limit_s: Of one run: 90, 90s, 5min or 2h. Designs and moves with longer ones are left out; the status is 3.
    """
    folder = store or runs_beside(file)
    with paged(report, output) as write_page, writing_table(out) as write:
        with workers(jobs, cluster, time_limit_s) as (executor, count), progress_bar() as progress:
            found = antiphon.explore(
                file,
                folder,
                executor=executor,
                jobs=count,
                prune=not no_prune,
                sensitivity=not no_sensitivity,
                time_limit_s=time_limit_s,
                progress=progress,
            )
        write(known_rows(found.every))
        write_page(partial(page_of, found))
        tell("explore", found.to_dict(), output, partial(exploration_document, found), "points")
    note(output, out and f"Table: {out}")
    note(output, f"Runs are kept in {folder}")
    late = sum(each.count for each in found.refusals if each.code == OVER_TIME)
    refuse_late(late, found.designs, "designs")
    if not found.simulated:
        why = found.refusals[0].reason if found.refusals else "all miss a constraint"
        raise AntiphonError(f"no design of {file} has a result: {why}", "not-applicable")
