"""The command that configures a fabric."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import note, tell, writing
from antiphon.collective.schedules import read_schedule
from antiphon.collective.specs import split_specs
from antiphon.errors import AntiphonError
from antiphon.view.documents.fabric import configured_document
from antiphon.view.terminal.console import progress_bar


@command(of=antiphon.configure, without="bytes", system="aries")
def configure(
    fabric: str,
    algorithms: tuple[str, ...] = (),
    *,
    schedule: str | None,
    collective: str = "all-reduce",
    root: int = 0,
    size: str | None,
    system: antiphon.System,
    fidelity: str = "packet",
    out: str | None = None,
    output: str,
    **given: Any,
) -> None:
    """Find the configuration of a fabric that makes an algorithm fastest (docs/how-to/configure.md).

    Without an algorithm all are tried. What is printed as the fabric is a specification that every command takes.

    Examples:
        antiphon configure aries:4x4 dbtree --bytes 1MiB
        antiphon configure aries:4x4 ring multitree --bytes 64KiB --out configuration.json
        antiphon configure aries:4x4 dbtree --bytes 1MiB --switch 50ns
        antiphon configure aries:4x4:ports=own dbtree --bytes 1MiB --json

    Args:
        schedule: The messages of a schedule from a JSON file instead of algorithms.
        out: Also write the configuration, OUT.json.
    """
    if schedule is not None and algorithms:
        raise click.UsageError("give either algorithms or --schedule")
    specs = split_specs(algorithms) if algorithms else None
    own = None if schedule is None else read_schedule(schedule, read_fabric(fabric), routed=False)
    with writing(out, ".json") as write:
        with progress_bar() as progress:
            found = antiphon.configure(
                fabric,
                specs,
                size,
                collective=collective,
                root=root,
                schedule=own,
                system=system,
                fidelity=fidelity,
                **given,
                progress=partial(progress, "simulations"),
            )
        write(lambda: _configuration(found.fabric))
    tell("configure", found.to_dict(), output, partial(configured_document, found))
    note(output, out and f"Configuration: {out}; use it as {found.fabric.split(',')[0]},config={out}")


def _configuration(spec: str) -> str:
    text = antiphon.Fabric(spec).configuration
    if text is None:
        raise AntiphonError(f"{spec} has no configuration", "not-applicable")
    return text
