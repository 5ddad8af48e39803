"""Advice before anything is scheduled."""

from __future__ import annotations

from functools import partial

import click

import antiphon
from antiphon.cli.documented import DocumentedGroup
from antiphon.cli.group import main
from antiphon.cli.options import Share
from antiphon.cli.output import output_option, tell
from antiphon.cli.rails import TOPOLOGY
from antiphon.view.documents.network import engine_advice_document, rails_advice_document, trees_advice_document


@main.group(cls=DocumentedGroup)
def advise() -> None:
    """Say what a network is good for before anything is scheduled.

    Examples:
        antiphon advise rails 3D-SW_SW_SW_hetero
        antiphon advise ace ace:4x4x4
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
    tell("advise", advice.to_dict(), output, partial(rails_advice_document, advice), "dimensions")


@advise.command("ace")
@TOPOLOGY
@click.option("--bytes", "size", default="64MiB", show_default=True, help="Full buffer size.")
@click.option("--collective", default="all-reduce", show_default=True, help="What to compute.")
@click.option("--scheduler", default="phased", show_default=True, help="Who orders the dimensions for each chunk.")
@click.option("--share", type=Share(), default=0.95, show_default=True, help="Of the speed with an ideal endpoint.")
@click.option("--chunk", default="64KiB", show_default=True, help="Size of the engine's chunks.")
@output_option
def advise_ace(
    topology: str, size: str, collective: str, scheduler: str, share: float, chunk: str, output: str
) -> None:
    """The smallest collectives engine that reaches 95 % of what the network allows (docs/endpoints.md).

    Examples:
        antiphon advise ace ace:4x4x4 --bytes 64MiB
        antiphon advise ace ring8@1600/500ns --collective all-gather --share 0.9 --json
    """
    advice = antiphon.advise_ace(topology, size, collective, scheduler, share=share, chunk=chunk)
    tell("advise", advice.to_dict(), output, partial(engine_advice_document, advice), "parts")


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
    tell("advise", advice.to_dict(), output, partial(trees_advice_document, advice), "ways")
