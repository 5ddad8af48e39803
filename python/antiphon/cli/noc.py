"""The command that times the flit-level network alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Part, each_group
from antiphon.cli.pages import paged
from antiphon.errors import AntiphonError
from antiphon.parallel import in_parallel
from antiphon.view.documents.network import noc_document, saturation_document
from antiphon.view.terminal.console import progress_bar

BELOW = (0.1, 0.3, 0.5, 0.7, 0.85)
"""Shares of the largest stable rate that a page shows, too: a search only tries rates near it."""


@command(
    of=antiphon.noc,
    common="rate traffic saturation packet_flits vcs vc_depth routing energy system report output",
    titles={"packet_flits": "Network", "vcs": "Routers", "jobs": "Running"},
)
def noc(
    fabric: str,
    *,
    rate: tuple[str, ...] = (),
    traffic: str,
    saturation: bool = False,
    part: Part,
    jobs: int | None,
    system: antiphon.System,
    energy: bool,
    report: str | None,
    output: str,
    **parameters: Any,
) -> None:
    """Time the flit-level network alone, under synthetic traffic (docs/explanation/noc.md).

    Routers have virtual channels and credits; delays are in cycles.

    Examples:
        antiphon noc mesh:4x4 --rate 0.1,0.2,0.3 --report noc.html
        antiphon noc ring:4 --traffic neighbor --saturation --vcs 2
        antiphon noc mesh:4x4 --rate 0.1,0.3 --energy --set energy_link_pj_per_bit=0.5

    Args:
        rate: Flits offered per rank and cycle; several give a table. Repeatable.  [default: 0.1]
        saturation: Find the largest stable rate instead, to 1 %.
        jobs: Rates at a time, and cores of one alone.  [default: as many as cores]
    """
    parameters |= {"system": system, "energy": energy}
    if saturation and rate:
        raise click.UsageError("give either --rate or --saturation")

    def work(network: antiphon.Fabric) -> Outcome:
        document: dict[str, Any] = {"fabric": network.name, "traffic": traffic, "group": network.members}
        with progress_bar() as progress:
            if saturation:
                found = antiphon.noc_saturation(
                    network, traffic, progress=partial(progress, "saturation"), jobs=jobs, **parameters
                )
                document |= {"unstable_rate": found.unstable_rate, "runs": [found.stable.to_dict()]}
                if report is not None:
                    below = [share * found.stable.rate for share in BELOW]
                    lower = in_parallel(lambda one: antiphon.noc(network, traffic, one, **parameters), below, jobs)
                    write(partial(_saturation_page, found, lower))
                return Outcome(document, partial(saturation_document, found))

            each = _rates(rate or ("0.1",))
            cores = jobs if len(each) == 1 else 1

            def run(one: float) -> antiphon.NocResult:
                told = partial(progress, f"rate {one:g}")
                return antiphon.noc(network, traffic, one, progress=told, jobs=cores, **parameters)

            runs = in_parallel(run, each, jobs)
        document |= {"unstable_rate": None, "runs": [run.to_dict() for run in runs]}
        write(partial(_page, runs))
        return Outcome(document, partial(noc_document, runs))

    part.one_file("--report", report)
    with paged(report, output) as write:
        each_group("noc", fabric, part, output, work, "runs")


def _saturation_page(found: antiphon.Saturation, lower: Sequence[antiphon.NocResult]) -> str:
    from antiphon.view.pages.noc import render_saturation

    return render_saturation(found, lower)


def _page(runs: Sequence[antiphon.NocResult]) -> str:
    from antiphon.view.pages.noc import render

    return render(runs)


def _rates(texts: Sequence[str]) -> list[float]:
    """The rates of ``--rate``."""
    rates = []
    for text in ",".join(texts).split(","):
        try:
            rates.append(float(text))
        except ValueError:
            message = f"rate '{text[:40]}' is not a number; write for example 0.3 or 0.1,0.2,0.3"
            raise AntiphonError(message, "bad-size") from None
    return rates
