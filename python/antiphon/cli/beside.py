"""Commands for a collective beside other traffic, and on links that vary."""

from __future__ import annotations

from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Problem, each_group
from antiphon.cli.pages import paged
from antiphon.results import rows_of
from antiphon.results.table import known_rows
from antiphon.view.documents.varied import beside_document, variations_document
from antiphon.view.pages import page_of
from antiphon.view.terminal.console import progress_bar


@command(
    of=antiphon.beside,
    common="traffic load message precedence size collective system fidelity report opened output",
    titles={"traffic": "Traffic"},
    without="schedule",
)
def beside(
    fabric: str,
    algorithm: str,
    *,
    problem: Problem,
    fidelity: str = "packet",
    report: str | None,
    output: str,
    **given: Any,
) -> None:
    """Time a collective beside other traffic, such as that of memories, and the traffic beside it.

    Examples:
        antiphon beside mesh:8x8 combs --bytes 16MiB --load 0.2 --precedence collective
        antiphon beside mesh:4x4 ring --bytes 1MiB --traffic transpose --load 2GB/s --message 4KiB --report beside.html
    """
    problem.part.one_file("--report", report)
    with paged(report, output) as write:

        def work(network: antiphon.Fabric) -> Outcome:
            schedule = problem.build(network, algorithm)
            with progress_bar() as progress:
                run = antiphon.beside(
                    network, schedule, **given, system=problem.system, fidelity=fidelity, progress=progress
                )
            write(partial(page_of, run, network))
            document = run.to_dict() | {"system": problem.system.name, "tables": {"links": rows_of(run.links)}}
            return Outcome(document, partial(beside_document, run))

        each_group("beside", fabric, problem.part, output, work)


@command(
    of=antiphon.vary,
    common="slow latency share draws replan size collective system fidelity report opened output",
    titles={"slow": "Links"},
    without="schedule",
)
def vary(
    fabric: str,
    algorithm: str,
    *,
    draws: int,
    problem: Problem,
    fidelity: str = "packet",
    report: str | None,
    jobs: int | None,
    output: str,
    **given: Any,
) -> None:
    """Time a schedule on links whose rates and latencies are drawn, and say which links matter most.

    Examples:
        antiphon vary mesh:4x4 combs --bytes 1MiB --slow uniform:0.5..1
        antiphon vary mesh:4x4 combs --bytes 1MiB --slow normal:0.9,0.05 --latency exponential:20 --report vary.html

    Args:
        jobs: Draws at a time.  [default: as many as cores]
    """
    given |= {"draws": draws, "jobs": jobs, "system": problem.system, "fidelity": fidelity}
    problem.part.one_file("--report", report)
    with paged(report, output) as write:

        def work(network: antiphon.Fabric) -> Outcome:
            schedule = problem.build(network, algorithm)
            with progress_bar() as progress:
                found = antiphon.vary(network, schedule, **given, progress=partial(progress, f"{draws:,} draws"))
            write(partial(page_of, found))
            document = found.to_dict() | {"system": problem.system.name, "tables": {"draws": known_rows(found.draws)}}
            return Outcome(document, partial(variations_document, found))

        each_group("vary", fabric, problem.part, output, work, "links")
