"""Advice before anything is scheduled."""

from __future__ import annotations

import click

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import JSON
from antiphon.cli.rails import TOPOLOGY
from antiphon.view.terminal.console import print_json
from antiphon.view.terminal.networks import print_rails_advice, print_trees_advice


@main.group()
def advise() -> None:
    """Say what a network is good for before anything is scheduled."""


@advise.command("rails")
@TOPOLOGY
@JSON
def advise_rails(topology: str, as_json: bool) -> None:
    """Which dimensions are just enough, over- or under-provisioned, and how to divide their rates."""
    advice = antiphon.advise_rails(topology)
    if as_json:
        print_json("advise", advice.to_dict())
    else:
        print_rails_advice(advice)


@advise.command("trees")
@click.option("--ranks", type=click.IntRange(2, 2**20), default=8, show_default=True, help="Ranks.")
@click.option("--bytes", "size", default="64MiB", show_default=True, help="Full buffer size.")
@click.option("--latency", default="12.4us", show_default=True, help="Of one step.")
@click.option("--bandwidth", default=25.0, show_default=True, help="Of one link in one direction, GB/s.")
@JSON
def advise_trees(ranks: int, size: str, latency: str, bandwidth: float, as_json: bool) -> None:
    """Ring, tree and overlapped tree by their cost model, and the sizes at which the ring wins (docs/trees.md)."""
    advice = antiphon.advise_trees(ranks, size, latency, bandwidth)
    if as_json:
        print_json("advise", advice.to_dict())
    else:
        print_trees_advice(advice)
