"""The command that configures a fabric."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import click

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import FABRIC, FILE, algorithm_specs, completing, fidelity_option, problem_on, read_fabric
from antiphon.cli.output import note, output_option, tell
from antiphon.collective.configuring import METHODS, STEPS, Method
from antiphon.collective.schedules import read_schedule
from antiphon.collective.specs import split_specs
from antiphon.errors import AntiphonError
from antiphon.files import written_whole
from antiphon.view.documents.fabric import configured_document
from antiphon.view.terminal.console import progress_bar


@main.command()
@FABRIC
@click.argument("algorithms", nargs=-1, metavar="[ALGORITHMS]...", shell_complete=completing(algorithm_specs))
@click.option(
    "--schedule",
    "path",
    metavar="FILE",
    help="The messages of a schedule from a JSON file instead of algorithms.",
    shell_complete=FILE,
)
@problem_on("aries")
@fidelity_option("alpha-beta, packet or flit.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="search, or greedy: segments for the shortest messages first.  [default: search up to 256 ranks]",
)
@click.option(
    "--switch",
    metavar="TIME",
    help="Also look for changes of configuration between phases, which take so long, such as 50ns.",
)
@click.option(
    "--steps",
    default=STEPS,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Most simulations (a plan of optimal counts as several); it ends before where nothing near is better.",
)
@click.option("--out", metavar="OUT.json", help="Also write the configuration.", shell_complete=FILE)
@output_option
def configure(
    fabric: str,
    algorithms: tuple[str, ...],
    path: str | None,
    collective: str,
    root: int,
    size: str | None,
    system: antiphon.System,
    fidelity: str,
    method: Method | None,
    switch: str | None,
    steps: int,
    out: str | None,
    output: str,
) -> None:
    """Find the configuration of a fabric that makes an algorithm fastest (docs/configure.md).

    Without an algorithm all are tried. What is printed as the fabric is a specification that every command takes.

    Examples:
        antiphon configure aries:4x4 dbtree --bytes 1MiB
        antiphon configure aries:4x4 ring multitree --bytes 64KiB --out configuration.json
        antiphon configure aries:4x4 dbtree --bytes 1MiB --switch 50ns
        antiphon configure aries:4x4:ports=own dbtree --bytes 1MiB --json
    """
    if path is not None and algorithms:
        raise click.UsageError("give either algorithms or --schedule")
    specs = split_specs(algorithms) if algorithms else None
    schedule = None if path is None else read_schedule(path, read_fabric(fabric), routed=False)
    with ExitStack() as written:
        file = None if out is None else written.enter_context(written_whole(out, ".json"))
        with progress_bar() as progress:
            found = antiphon.configure(
                fabric,
                specs,
                size,
                collective=collective,
                root=root,
                schedule=schedule,
                system=system,
                fidelity=fidelity,
                method=method,
                switch=switch,
                steps=steps,
                progress=partial(progress, "simulations"),
            )
        if file is not None:
            text = antiphon.Fabric(found.fabric).configuration
            if text is None:
                raise AntiphonError(f"{found.fabric} has no configuration", "not-applicable")
            file.write(text)
            written.close()  # in its place before anything is printed: the reader may go
    tell("configure", found.to_dict(), output, partial(configured_document, found))
    if out is not None:
        note(output, f"Configuration: {out}; use it as {found.fabric.split(',')[0]},config={out}")
