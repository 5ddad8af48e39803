"""Advice before anything is scheduled."""

from __future__ import annotations

from functools import partial

import click

import antiphon
from antiphon.cli.documented import DocumentedGroup
from antiphon.cli.group import main
from antiphon.cli.output import output_option, tell
from antiphon.cli.rails import TOPOLOGY
from antiphon.view.terminal.networks import print_rails_advice, print_trees_advice


@main.group(cls=DocumentedGroup)
def advise() -> None:
    """Say what a network is good for before anything is scheduled.

    Examples:
        antiphon advise rails 3D-SW_SW_SW_hetero
        antiphon advise trees --ranks 64 --bytes 1MiB
    """


@advise.command("rails")
@TOPOLOGY
@output_option
def advise_rails(topology: str, output: str) -> None:
    """Which dimensions are just enough, over- or under-provisioned, and how to divide their rates.

    Examples:
        antiphon advise rails 3D-SW_SW_SW_hetero
        antiphon advise rails ring4@1000/20ns,sw8@800/700ns --json
    """
    advice = antiphon.advise_rails(topology)
    tell("advise", advice.to_dict(), output, partial(print_rails_advice, advice), "dimensions")


@advise.command("trees")
@click.option("--ranks", type=click.IntRange(2, 2**20), default=8, show_default=True, help="Ranks.")
@click.option("--bytes", "size", default="64MiB", show_default=True, help="Full buffer size.")
@click.option("--latency", default="12.4us", show_default=True, help="Of one step.")
@click.option("--bandwidth", default=25.0, show_default=True, help="Of one link in one direction, GB/s.")
@output_option
def advise_trees(ranks: int, size: str, latency: str, bandwidth: float, output: str) -> None:
    """Ring, tree and overlapped tree by their cost model, and the sizes at which the ring wins (docs/trees.md).

    Examples:
        antiphon advise trees --ranks 64 --bytes 1MiB --latency 2us --bandwidth 50
    """
    advice = antiphon.advise_trees(ranks, size, latency, bandwidth)
    tell("advise", advice.to_dict(), output, partial(print_trees_advice, advice), "ways")
