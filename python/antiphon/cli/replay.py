"""The command that times execution traces."""

from __future__ import annotations

from functools import partial
from typing import get_args

import click

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import (
    ALGORITHM,
    FABRIC,
    FILE,
    algorithm_specs,
    completing,
    fidelity_option,
    read_fabric,
    system_option,
)
from antiphon.cli.output import output_option, tell
from antiphon.names import Order
from antiphon.results import rows_of
from antiphon.view.documents.fabric import noting_switches
from antiphon.view.documents.jobs import replay_document
from antiphon.view.terminal.console import progress_bar


@main.command()
@click.argument("trace", metavar="TRACE", shell_complete=FILE)
@FABRIC
@ALGORITHM
@system_option
@click.option(
    "--exchange",
    default="direct",
    show_default=True,
    help="Algorithm of collectives that ALGORITHM does not do.",
    shell_complete=completing(algorithm_specs),
)
@click.option(
    "--compute",
    help="roofline[:KEY=VALUE,...]: times nodes that say operations and no duration.  [default: the system's]",
    shell_complete=completing(lambda: ["roofline"]),
)
@click.option(
    "--comm-groups",
    metavar="FILE.json",
    help='Ranks of each group, {"1": [0, 1]}.  [default: as the traces list them, else those that name it]',
    shell_complete=FILE,
)
@click.option(
    "--order",
    default="priority",
    show_default=True,
    help="Which exchange goes first: priority (comm_priority), fifo or lifo.",
    shell_complete=completing(lambda: list(get_args(Order))),
)
@fidelity_option("alpha-beta, packet or flit.")
@output_option
def replay(
    trace: str,
    fabric: str,
    algorithm: str,
    system: antiphon.System,
    exchange: str,
    compute: str | None,
    comm_groups: str | None,
    order: str,
    fidelity: str,
    output: str,
) -> None:
    """Time traces of all ranks, Chakra's or PyTorch's, on a fabric (docs/formats.md).

    TRACE is the prefix of the files, PREFIX for PREFIX.0.et, PREFIX.1.et, ..., or their folder. Every rank computes and
    exchanges as its own trace says; exchanges that are under way share the links. train --chakra writes such files.

    Examples:
        antiphon replay resnet50 torus:4x4 ring-bi
        antiphon replay resnet50 mesh:4x4 multitree --system tto --fidelity alpha-beta --format csv
    """
    network = read_fabric(fabric)
    with progress_bar() as progress:
        run = antiphon.replay(
            trace,
            network,
            algorithm,
            system,
            exchange=exchange,
            compute=compute,
            groups=comm_groups,
            order=order,
            fidelity=fidelity,
            progress=progress,
        )
    tables = {"exchanges": rows_of(run.exchanges), "ranks": rows_of(run.ranks)}
    tell("replay", run.to_dict() | {"tables": tables}, output, noting_switches(partial(replay_document, run), network))
