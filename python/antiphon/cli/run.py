"""The command that runs a collective on real data."""

from __future__ import annotations

import os
import sys
from functools import partial

import click

import antiphon
from antiphon.cli.collectives import one_of, schedule_option
from antiphon.cli.group import main
from antiphon.cli.groups import Outcome, each_group, groups_option
from antiphon.cli.options import COLLECTIVE, FABRIC, FILE, MATRIX, ROOT, completing
from antiphon.cli.output import note, output_option
from antiphon.collective.schedules import read_schedule
from antiphon.errors import AntiphonError
from antiphon.execution.measuring import TRANSPORTS
from antiphon.execution.mpi import in_job, job_rank
from antiphon.execution.numbers import ELEMENTS
from antiphon.view.documents.measured import measurement_document
from antiphon.view.terminal.console import progress_bar


@main.command()
@FABRIC
@schedule_option
@COLLECTIVE
@ROOT
@click.option("--bytes", "size", help="Full buffer size, or several: A,B or A..B, doubling.  [default: 64MiB]")
@MATRIX
@groups_option
@click.option(
    "--element",
    default="float32",
    show_default=True,
    help=f"Type of the numbers: {', '.join(ELEMENTS)}.",
    shell_complete=completing(lambda: list(ELEMENTS)),
)
@click.option(
    "--transport",
    default="mpi",
    show_default=True,
    help="What carries messages: mpi, between processes; threads, in one.",
    shell_complete=completing(lambda: list(TRANSPORTS)),
)
@click.option("--warmup", default=1, show_default=True, type=click.IntRange(0), help="Runs before the timed ones.")
@click.option("--iterations", default=5, show_default=True, type=click.IntRange(1), help="Timed runs.")
@click.option(
    "--timeout",
    "timeout_s",
    default=8.0,
    show_default=True,
    type=float,
    metavar="SECONDS",
    help="A rank to which nothing happens for so long gives up.",
)
@click.option(
    "--calibration",
    metavar="FILE.json",
    help="Also predict the times, by what antiphon calibrate --out wrote.",
    shell_complete=FILE,
)
@output_option
def run(
    fabric: str,
    algorithm: str | None,
    path: str | None,
    collective: str,
    root: int,
    size: str | None,
    matrix: str | None,
    group: str | None,
    groups: str | None,
    element: str,
    transport: str,
    warmup: int,
    iterations: int,
    timeout_s: float,
    calibration: str | None,
    output: str,
) -> None:
    """Run a collective on real data between MPI ranks or threads, check it, and time it (docs/run.md).

    A process is started for every rank; in a job that mpirun started, its processes are the ranks.

    Examples:
        antiphon run mesh:2x2 ring --bytes 64KiB --transport threads
        antiphon run mesh:3x3 tto --bytes 4KiB..1MiB --element bfloat16
        antiphon run ring:4 --schedule ring.json --transport threads --json
    """
    one_of(algorithm, path)
    if size is not None and matrix is not None:
        raise click.UsageError("give either --bytes or --matrix")

    def work(network: antiphon.Fabric) -> Outcome:
        what = read_schedule(path, network, size) if path is not None else algorithm or ""
        with progress_bar() as progress:
            found = antiphon.measure(
                network,
                what,
                collective,
                "64MiB" if size is None else size,
                root=root,
                matrix=matrix,
                element=element,
                transport=transport,
                warmup=warmup,
                iterations=iterations,
                timeout_s=timeout_s,
                calibration=calibration,
                progress=partial(progress, "running"),
            )
        failure = None
        if not found.correct:
            failure = AntiphonError(f"{found.algorithm}: the result is not what the collective defines", "not-proven")
        return Outcome(found.to_dict(), partial(measurement_document, found), failure)

    if job_rank() == 0:
        each_group("run", fabric, group, groups, output, work, rows="runs")
        if transport == "mpi" and not in_job():
            note(
                output,
                "All ranks were on this machine; MPI's launcher listened on ports of its own meanwhile (docs/run.md)",
            )
        return
    # The other ranks of a job have nothing to say that rank 0 does not.
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        try:
            each_group("run", fabric, group, groups, output, work, rows="runs")
        except AntiphonError:
            sys.exit(1)
        finally:
            sys.stdout = sys.__stdout__
