"""The command that runs collectives on an emulated fabric."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.chain import chained, check_chain
from antiphon.cli.collectives import refuse_problem, schedules_of
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import tell
from antiphon.cli.pages import paged
from antiphon.collective.specs import split_specs
from antiphon.errors import AntiphonError
from antiphon.execution.testbed.emulation import compared
from antiphon.view.documents.measured import emulated_document
from antiphon.view.pages import page_of
from antiphon.view.terminal.console import progress_bar


@command(of=antiphon.emulate, name="testbed", without="bytes")
def emulate(
    fabric: str,
    algorithms: tuple[str, ...] = (),
    *,
    schedules: tuple[str, ...],
    compare: bool = False,
    collective: str = "all-reduce",
    root: int = 0,
    size: str = "8MiB",
    chain: str | None = None,
    batch: int | None = None,
    compute: str | None = None,
    busy: bool = False,
    report: str | None,
    output: str,
    **given: Any,
) -> None:
    """Run collectives on an emulated fabric, measured beside predicted (docs/how-to/run.md).

    With --chain it runs iterations of training: a backward pass, one all-reduce, a forward pass.
    Needs Linux, and root or user namespaces; or a GPU. All that it makes is gone when it ends, however it ends.

    Examples:
        antiphon testbed mesh:3x3 --compare --link-rate 50mbit --report testbed.html
        antiphon testbed mesh:2x2 ring combs --bytes 1MiB --link-rate 20mbit --repeat 3 --json
        antiphon testbed mesh:2x2 --chain layers.csv --link-rate 100mbit
        antiphon testbed mesh:4x4 --compare --device cuda --link-rate 4GB/s

    Args:
        compare: A ring, a ring both ways, TTO and combs, which apply.
        chain: Train this model, a name or FILE.csv, by C-Cube's B, C1, C2, CC and R, or by one of ALGORITHMS.
        batch: With --chain: samples on each rank.  [default: 32]
        compute: With --chain: how long layers compute, roofline, systolic or measured.  [default: the table's times,
            else a V100's]
        busy: With --chain: ranks multiply matrices meanwhile, instead of sleeping.
    """
    check_chain(
        chain,
        {"batch": batch, "compute": compute, "busy": busy},
        schedule=schedules,
        bytes=size != "8MiB",
        root=root,
        compare=compare,
        report=report,
        collective=collective != "all-reduce",
        algorithms=len(algorithms) > 1,
    )
    if not 1 <= given["repeat"] <= 1000:
        raise click.UsageError(f"--repeat {given['repeat']}: 1 to 1,000")
    network = read_fabric(fabric)
    if chain is not None:
        outcome = chained(
            chain,
            algorithms[0] if algorithms else None,
            network,
            batch=batch or 32,
            compute=compute,
            busy=busy,
            transport="cuda" if given["device"] == "cuda" else "testbed",
            iterations=given["repeat"],
            timeout_s=given["timeout_s"],
            link_rate=given["link_rate"],
        )
        tell("testbed", outcome.document, output, outcome.show, rows="runs")
        if outcome.failure is not None:
            raise outcome.failure
        return
    wanted: list[str | antiphon.Schedule] = [*split_specs(algorithms)] if algorithms else []
    if schedules:
        refuse_problem(*schedules)
        own = schedules_of(schedules, network, size)
        first = own[0]
        collective, root = first.collective, first.root or 0
        data: str | int = first.bytes
        wanted += own
    else:
        data = size
    if compare:
        names = compared(network, collective)
        if not names:
            message = f"--compare: no ring, TTO or combs does {collective} on {network.name}; give ALGORITHMS"
            raise AntiphonError(message, "not-applicable")
        wanted += [name for name in names if name not in wanted]
    if not wanted:
        raise click.UsageError("give ALGORITHMS, --schedule FILE or --compare")
    with paged(report, output) as write:
        with progress_bar() as progress:
            found = antiphon.emulate(
                network, wanted, collective, data, root=root, **given, progress=partial(progress, "running")
            )
        write(partial(page_of, found))
        tell("testbed", found.to_dict(), output, partial(emulated_document, found), rows="runs")
    if not found.correct:
        raise AntiphonError("a result is not what the collective defines", "not-proven")
