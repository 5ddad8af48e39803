"""The command that times the flit-level network alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.group import main
from antiphon.cli.groups import Outcome, each_group, groups_option
from antiphon.cli.options import FABRIC, F, Sectioned, SectionedOption, completing, energy_option, system_option
from antiphon.cli.output import output_option
from antiphon.errors import AntiphonError
from antiphon.parallel import MOST_JOBS, in_parallel
from antiphon.view.documents.network import noc_document, saturation_document
from antiphon.view.terminal.console import progress_bar


def network_options(function: F) -> F:
    """The parameters of ``antiphon.noc`` that stay the same over all rates."""
    for section, name, default, meaning in reversed(NETWORK_OPTIONS):
        option = click.option(
            "--" + name.replace("_", "-"),
            cls=SectionedOption,
            section=section,
            default=default,
            show_default=default is not None,
            type=str if isinstance(default, str) or name == "routing" else int,
            help=meaning,
        )
        function = option(function)
    return function


def _default(parameter: antiphon.Parameter) -> str | int:
    """Its default as an option's: what may be infinite is text."""
    return int(parameter.default) if parameter.kind == "count" and not parameter.choices else parameter.default


def _help(parameter: antiphon.Parameter) -> str:
    """What it is, and what there is to choose from."""
    return f"{parameter.meaning[:-1]} ({parameter.values})." if parameter.kind == "choice" else parameter.meaning


NETWORK_OPTIONS: Sequence[tuple[str, str, str | int | None, str]] = (
    ("Traffic", "packet_flits", 1, "Flits of every packet."),
    ("Traffic", "seed", 1, "Seed of all random numbers."),
    ("Network", "routing", None, "xy, yx or minimal.  [default: xy on grids, else minimal]"),
    ("Network", "link_cycles", 1, "Cycles a link takes for one flit."),
    ("Network", "latency_cycles", 0, "Cycles a flit travels after that."),
    *(("Routers", each.key, _default(each), _help(each)) for each in antiphon.router_parameters()),
    ("Measurement", "warm_up_cycles", None, "Cycles before measuring.  [default: until latencies settle]"),
    ("Measurement", "cycles", None, "Cycles measured.  [default: until the mean is known well]"),
)
"""Section, name, default and meaning of the parameters of ``antiphon.noc`` but traffic and rate."""


@main.command(cls=Sectioned)
@FABRIC
@click.option(
    "--traffic",
    cls=SectionedOption,
    section="Traffic",
    default="uniform",
    show_default=True,
    help=f"Who sends to whom: {', '.join(antiphon.traffic_patterns())}[:rank=N,share=X].",
    shell_complete=completing(antiphon.traffic_patterns),
)
@click.option(
    "--rate",
    "rates",
    cls=SectionedOption,
    section="Traffic",
    multiple=True,
    metavar="X[,Y,...]",
    help="Flits offered per rank and cycle; several give a table. Repeatable.  [default: 0.1]",
)
@click.option(
    "--saturation",
    cls=SectionedOption,
    section="Traffic",
    is_flag=True,
    help="Find the largest stable rate instead, to 1 %.",
)
@network_options
@energy_option
@system_option
@groups_option
@click.option(
    "--jobs",
    type=click.IntRange(1, MOST_JOBS),
    help="Rates at a time, and cores of one alone.  [default: as many as cores]",
)
@output_option
def noc(
    fabric: str,
    traffic: str,
    rates: tuple[str, ...],
    saturation: bool,
    group: str | None,
    groups: str | None,
    jobs: int | None,
    output: str,
    **parameters: Any,
) -> None:
    """Time the flit-level network alone, under synthetic traffic (docs/noc.md).

    Routers have virtual channels and credits; delays are in cycles.

    Examples:
        antiphon noc mesh:4x4 --rate 0.1,0.2,0.3
        antiphon noc ring:4 --traffic neighbor --saturation --vcs 2
        antiphon noc mesh:4x4 --rate 0.1,0.3 --energy --set energy_link_pj_per_bit=0.5
    """
    if saturation and rates:
        raise click.UsageError("give either --rate or --saturation")

    def work(network: antiphon.Fabric) -> Outcome:
        document: dict[str, Any] = {"fabric": network.name, "traffic": traffic, "group": network.members}
        with progress_bar() as progress:
            if saturation:
                found = antiphon.noc_saturation(
                    network, traffic, progress=partial(progress, "saturation"), jobs=jobs, **parameters
                )
                document |= {"unstable_rate": found.unstable_rate, "runs": [found.stable.to_dict()]}
                return Outcome(document, partial(saturation_document, found))

            each = _rates(rates or ("0.1",))
            cores = jobs if len(each) == 1 else 1

            def run(rate: float) -> antiphon.NocResult:
                told = partial(progress, f"rate {rate:g}")
                return antiphon.noc(network, traffic, rate, progress=told, jobs=cores, **parameters)

            runs = in_parallel(run, each, jobs)
        document |= {"unstable_rate": None, "runs": [run.to_dict() for run in runs]}
        return Outcome(document, partial(noc_document, runs))

    each_group("noc", fabric, group, groups, output, work, "runs")


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
