"""The command for several collectives in flight."""

from __future__ import annotations

from functools import partial

import click

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import (
    FABRIC,
    FILE,
    completing,
    energy_option,
    fidelity_option,
    read_fabric,
    system_option,
    trace_option,
)
from antiphon.cli.output import note, output_option, tell
from antiphon.collective.flights import ORDERS, read_flights
from antiphon.collective.schedules import named
from antiphon.files import read_text
from antiphon.results import rows_of
from antiphon.view.documents.fabric import noting_switches
from antiphon.view.documents.jobs import flights_document
from antiphon.view.terminal.console import progress_bar

LARGEST_FILE = 1 << 24
"""Files of flights are read whole; larger ones are refused."""


@main.command()
@FABRIC
@click.argument("file", metavar="FILE", shell_complete=FILE)
@system_option
@click.option(
    "--order",
    default="fifo",
    show_default=True,
    help="Who goes first on a link: fifo, lifo (by launch) or priority (lower numbers first).",
    shell_complete=completing(lambda: list(ORDERS)),
)
@fidelity_option("alpha-beta, packet or flit.")
@energy_option
@trace_option
@output_option
def flights(
    fabric: str,
    file: str,
    system: antiphon.System,
    order: str,
    fidelity: str,
    energy: bool,
    trace: str | None,
    output: str,
) -> None:
    """Time several collectives in flight on one fabric.

    FILE is a JSON list of flights (docs/json.md), for example
    [{"name": "rows", "algorithm": "combs", "groups": "rows", "bytes": "16MiB"},
    {"algorithm": "combs", "groups": "columns", "after": ["rows"], "priority": 1}].

    Examples:
        antiphon flights mesh:4x4 examples/flights.json --system tto
        antiphon flights mesh:4x4 examples/flights.json --fidelity alpha-beta --order lifo --format csv
    """
    network = read_fabric(fabric)
    with progress_bar() as progress:
        text = read_text(file, LARGEST_FILE)
        with named(file):
            entries = read_flights(text, network, system, progress=progress)
        run = antiphon.simulate_flights(
            network, entries, system, fidelity, order=order, progress=progress, energy=energy, trace=trace
        )
    tables = {name: rows_of(getattr(run.result, name)) for name in ("links", "ranks", "timeline")}
    tell(
        "flights",
        run.to_dict() | {"tables": tables},
        output,
        noting_switches(partial(flights_document, run), network),
        "flights",
    )
    if trace is not None:
        note(output, f"Trace: {trace}")
