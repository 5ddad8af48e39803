"""The command that runs a collective on real data."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.chain import chained, check_chain
from antiphon.cli.collectives import one_of
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Part, each_group
from antiphon.cli.options import COMPLETIONS, completing
from antiphon.cli.output import note
from antiphon.collective.schedules import read_schedule
from antiphon.errors import AntiphonError
from antiphon.execution.measuring import TRANSPORTS
from antiphon.execution.mpi import in_job, job_rank
from antiphon.execution.numbers import ELEMENTS
from antiphon.view.documents.measured import measurement_document
from antiphon.view.terminal.console import progress_bar

COMPLETIONS["element"] = completing(lambda: list(ELEMENTS))
COMPLETIONS["transport"] = completing(lambda: list(TRANSPORTS))


@command(of=antiphon.measure, without="sizes")
def run(
    fabric: str,
    algorithm: str | None = None,
    *,
    schedule: str | None,
    collective: str = "all-reduce",
    root: int = 0,
    size: str | None,
    matrix: str | None,
    part: Part,
    transport: str,
    chain: str | None = None,
    batch: int | None = None,
    compute: str | None = None,
    busy: bool = False,
    output: str,
    **given: Any,
) -> None:
    """Run a collective on real data by MPI, threads or GPUs, check it, and time it (docs/how-to/run.md).

    A process is started for every rank; in a job that mpirun started, its processes are the ranks.
    With --chain it runs iterations of training: a backward pass, one all-reduce, a forward pass.

    Examples:
        antiphon run mesh:2x2 ring --bytes 64KiB --transport threads
        antiphon run mesh:3x3 tto --bytes 4KiB..1MiB --element bfloat16
        antiphon run ring:4 --schedule ring.json --transport threads --json
        antiphon run mesh:2x2 --chain alexnet --transport threads

    Args:
        size: Full buffer size, or several: A,B or A..B, doubling.
        chain: Train this model, a name or FILE.csv, by C-Cube's B, C1, C2, CC and R, or by ALGORITHM.
        batch: With --chain: samples on each rank.  [default: 32]
        compute: With --chain: how long layers compute, roofline, systolic or measured.  [default: the table's times,
            else a V100's]
        busy: With --chain: ranks multiply matrices meanwhile, instead of sleeping.
    """
    check_chain(
        chain,
        {"batch": batch, "compute": compute, "busy": busy},
        schedule=schedule,
        bytes=size,
        matrix=matrix,
        root=root,
        element=given["element"] != "float32",
        collective=collective != "all-reduce",
        warmup=given["warmup"] != 1,
    )
    if chain is not None:
        if transport == "cuda":
            raise click.UsageError("--chain: on a GPU it runs by antiphon testbed --device cuda")
        kept = {name: given[name] for name in ("iterations", "timeout_s", "calibration")}
        each_group(
            "run",
            fabric,
            part,
            output,
            partial(
                chained, chain, algorithm, batch=batch or 32, compute=compute, busy=busy, transport=transport, **kept
            ),
            rows="runs",
        )
        return
    one_of(algorithm, schedule)
    if size is not None and matrix is not None:
        raise click.UsageError("give either --bytes or --matrix")

    def work(network: antiphon.Fabric) -> Outcome:
        what = read_schedule(schedule, network, size) if schedule is not None else algorithm or ""
        with progress_bar() as progress:
            found = antiphon.measure(
                network,
                what,
                collective,
                "64MiB" if size is None else size,
                root=root,
                matrix=matrix,
                transport=transport,
                **given,
                progress=partial(progress, "running"),
            )
        failure = None
        if not found.correct:
            failure = AntiphonError(f"{found.algorithm}: the result is not what the collective defines", "not-proven")
        return Outcome(found.to_dict(), partial(measurement_document, found), failure)

    run_all = partial(each_group, "run", fabric, part, output, work, rows="runs")
    if job_rank() == 0:
        run_all()
        if transport == "mpi" and not in_job():
            where = "All ranks were on this machine; MPI's launcher listened on ports of its own meanwhile"
            note(output, f"{where} (docs/how-to/run.md)")
        return
    # The other ranks of a job have nothing to say that rank 0 does not.
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        try:
            run_all()
        except AntiphonError:
            sys.exit(1)
        finally:
            sys.stdout = sys.__stdout__
