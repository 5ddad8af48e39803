"""Commands about multi-dimensional networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.output import tell
from antiphon.cli.pages import paged
from antiphon.collective.schedules import named
from antiphon.files import read_text
from antiphon.network.rails import read_rails_flights
from antiphon.view.documents.network import rails_document, rails_flights_document

LARGEST_FILE = 1 << 24
"""Files of flights are read whole; larger ones are refused."""


@command(
    of=antiphon.rails,
    common="size collective scheduler chunks intra system energy report opened output",
    without="bytes enforced endpoint",
    system="ideal",
)
def rails(
    topology: str,
    *,
    size: str = "100MB",
    collective: str = "all-reduce",
    scheduler: str = "baseline,themis,search",
    free_order: bool = False,
    flights: str | None = None,
    shared_loads: bool = False,
    system: antiphon.System,
    energy: bool,
    report: str | None,
    output: str,
    **parameters: Any,
) -> None:
    """Schedule a collective's chunks over the dimensions of a network (docs/explanation/rails.md).

    TOPOLOGY is a preset such as 3D-SW_SW_SW_hetero, or dimensions:
    ring4@1000/20ns,sw8@800/700ns (ring, fc or sw; Gb/s of one NPU).

    Examples:
        antiphon rails 3D-SW_SW_SW_hetero --bytes 100MB --report rails.html
        antiphon rails ring4@1000/20ns,sw8@800/700ns --scheduler baseline,themis --chunks best
        antiphon rails ace:4x4x4 --bytes 64MiB --scheduler phased --endpoint ace:sram=8MiB,fsms=20
        antiphon rails ace:4x4x4 --bytes 64MiB --scheduler phased,baseline --energy
        antiphon rails 2D-SW_SW --flights examples/rails-flights.json --scheduler themis --shared-loads

    Args:
        collective: all-reduce, reduce-scatter, all-gather or all-to-all.
        scheduler: One, or several with commas, side by side.
        free_order: With jitter: NPUs do not keep to one order (may deadlock).
        flights: A JSON list of collectives in flight together (docs/reference/json.md), in place of one.
        shared_loads: Themis orders a flight by what dimensions still have to do of others.
    """
    if shared_loads and (flights is None or not any(name.startswith("themis") for name in scheduler.split(","))):
        message = "--shared-loads: only Themis counts loads of others, where there are --flights"
        raise antiphon.AntiphonError(message, "not-applicable")
    if flights is not None:
        for option, given in (("--energy", energy), ("--free-order", free_order)):
            if given:
                message = f"{option} is of one collective, not of --flights; leave it out"
                raise antiphon.AntiphonError(message, "not-applicable")
        if not flights.strip():
            raise antiphon.AntiphonError("--flights is empty; name a file of flights", "bad-file")
        _in_flight(topology, flights, scheduler, shared_loads, system, report, output, parameters)
        return
    parameters |= {"system": system, "endpoint": system.endpoint, "energy": energy, "enforced": not free_order}
    with paged(report, output) as write:
        runs = [antiphon.rails(topology, size, collective, name, **parameters) for name in scheduler.split(",")]
        write(partial(_page, runs))
        documents = [run.to_dict() for run in runs]
        document = documents[0] if len(runs) == 1 else {"runs": documents}
        tell("rails", document, output, partial(rails_document, runs), "runs")


def _page(runs: Sequence[antiphon.RailsRun]) -> str:
    from antiphon.view.pages.rails import render

    return render(runs)


def _in_flight(
    topology: str,
    file: str,
    scheduler: str,
    shared_loads: bool,
    system: antiphon.System,
    report: str | None,
    output: str,
    parameters: dict[str, Any],
) -> None:
    """The same flights by every scheduler."""
    with named(file):
        flights = read_rails_flights(read_text(file, LARGEST_FILE))
    parameters |= {"shared_loads": shared_loads, "endpoint": system.endpoint}
    with paged(report, output) as write:
        runs = [antiphon.rails_flights(topology, flights, name, **parameters) for name in scheduler.split(",")]
        write(partial(_flights_page, runs))
        document = {"runs": [run.to_dict() for run in runs]}
        tell("rails", document, output, partial(rails_flights_document, runs), "runs")


def _flights_page(runs: Sequence[antiphon.RailsFlights]) -> str:
    from antiphon.view.pages.rails import render_flights

    return render_flights(runs)
