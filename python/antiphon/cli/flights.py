"""The command for several collectives in flight."""

from __future__ import annotations

from functools import partial

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import note, tell
from antiphon.collective.flights import read_flights
from antiphon.collective.schedules import named
from antiphon.files import read_text
from antiphon.results.table import known_rows
from antiphon.view.documents.fabric import noting_switches
from antiphon.view.documents.jobs import flights_document
from antiphon.view.terminal.console import progress_bar

LARGEST_FILE = 1 << 24
"""Files of flights are read whole; larger ones are refused."""


@command(of=antiphon.simulate_flights)
def flights(
    fabric: str,
    file: str,
    *,
    system: antiphon.System,
    order: str,
    fidelity: str = "packet",
    contended: int = 10,
    energy: bool,
    trace: str | None,
    output: str,
) -> None:
    """Time several collectives in flight on one fabric.

    FILE is a JSON list of flights (docs/reference/json.md), for example
    [{"name": "rows", "algorithm": "combs", "groups": "rows", "bytes": "16MiB"},
    {"algorithm": "combs", "groups": "columns", "after": ["rows"], "priority": 1}],
    or {"grid": "tp=4,dp=4", "flights": [{"algorithm": "ring", "groups": "dp"}]}.

    Examples:
        antiphon flights mesh:4x4 examples/flights.json --system tto
        antiphon flights mesh:4x4 examples/flights.json --fidelity alpha-beta --order lifo --format csv

    Args:
        contended: Show so many links that several flights use, the busiest first.
    """
    network = read_fabric(fabric)
    with progress_bar() as progress:
        text = read_text(file, LARGEST_FILE)
        with named(file):
            entries = read_flights(text, network, system, progress=progress)
        run = antiphon.simulate_flights(
            network, entries, system, fidelity, order=order, progress=progress, energy=energy, trace=trace
        )
    tables = {name: known_rows(getattr(run.result, name)) for name in ("links", "ranks", "timeline")}
    tell(
        "flights",
        run.to_dict() | {"contended": run.most_contended(contended), "tables": tables},
        output,
        noting_switches(partial(flights_document, run, contended), network),
        "flights",
    )
    note(output, trace and f"Trace: {trace}")
