"""The command that runs collectives on an emulated fabric."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import click

import antiphon
from antiphon.cli.collectives import refuse_problem, schedules_of
from antiphon.cli.group import main
from antiphon.cli.options import COLLECTIVE, FABRIC, FILE, ROOT, algorithm_specs, completing, read_fabric
from antiphon.cli.output import note, output_option, tell
from antiphon.collective.specs import split_specs
from antiphon.errors import AntiphonError
from antiphon.execution.testbed.emulation import compared
from antiphon.files import written_whole
from antiphon.view.documents.measured import emulated_document
from antiphon.view.terminal.console import progress_bar


@main.command()
@FABRIC
@click.argument("algorithms", nargs=-1, shell_complete=completing(algorithm_specs))
@click.option(
    "--schedule",
    "paths",
    multiple=True,
    metavar="FILE",
    help="Also a schedule from a file, JSON or of another tool (docs/formats.md); it says what all do. Repeatable.",
    shell_complete=FILE,
)
@click.option("--compare", "compares", is_flag=True, help="A ring, a ring both ways, TTO and combs, which apply.")
@COLLECTIVE
@ROOT
@click.option("--bytes", "size", default="8MiB", show_default=True, help="Full buffer size.")
@click.option(
    "--link-rate", default="200mbit", show_default=True, metavar="RATE", help="Of every link, each way: mbit or gbit."
)
@click.option(
    "--repeat",
    default=5,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Runs, for the median; one more before.",
)
@click.option(
    "--timeout",
    "timeout_s",
    default=8.0,
    show_default=True,
    type=float,
    metavar="SECONDS",
    help="A node to which nothing happens for so long gives up.",
)
@click.option("--report", metavar="OUT.html", help="Also write a self-contained HTML page.", shell_complete=FILE)
@output_option
def testbed(
    fabric: str,
    algorithms: tuple[str, ...],
    paths: tuple[str, ...],
    compares: bool,
    collective: str,
    root: int,
    size: str,
    link_rate: str,
    repeat: int,
    timeout_s: float,
    report: str | None,
    output: str,
) -> None:
    """Run collectives on an emulated fabric, measured beside predicted (docs/run.md).

    Needs Linux, and root or user namespaces. All that it makes is gone when it ends, however it ends.

    Examples:
        antiphon testbed mesh:3x3 --compare --link-rate 50mbit --report testbed.html
        antiphon testbed mesh:2x2 ring combs --bytes 1MiB --link-rate 20mbit --repeat 3 --json
    """
    network = read_fabric(fabric)
    given: list[str | antiphon.Schedule] = [*split_specs(algorithms)] if algorithms else []
    if paths:
        refuse_problem(*paths)
        schedules = schedules_of(paths, network, size)
        first = schedules[0]
        collective, root = first.collective, first.root or 0
        data: str | int = first.bytes
        given += schedules
    else:
        data = size
    if compares:
        names = compared(network, collective)
        if not names:
            message = f"--compare: no ring, TTO or combs does {collective} on {network.name}; give ALGORITHMS"
            raise AntiphonError(message, "not-applicable")
        given += [name for name in names if name not in given]
    if not given:
        raise click.UsageError("give ALGORITHMS, --schedule FILE or --compare")
    with ExitStack() as written:
        file = None if report is None else written.enter_context(written_whole(report, ".html"))
        with progress_bar() as progress:
            found = antiphon.emulate(
                network,
                given,
                collective,
                data,
                root=root,
                link_rate=link_rate,
                repeat=repeat,
                timeout_s=timeout_s,
                progress=partial(progress, "running"),
            )
        if file is not None:
            from antiphon.view.pages.emulated import render

            file.write(render(found))
            written.close()  # in its place before anything is printed: the reader may go
    tell("testbed", found.to_dict(), output, partial(emulated_document, found), rows="runs")
    if report is not None:
        note(output, f"Page: {report}")
    if not found.correct:
        raise AntiphonError("a result is not what the collective defines", "not-proven")
