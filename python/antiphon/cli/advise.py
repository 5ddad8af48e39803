"""Advice before anything is scheduled."""

from __future__ import annotations

from functools import partial

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.documented import DocumentedGroup
from antiphon.cli.group import main
from antiphon.cli.output import tell
from antiphon.view.documents.network import engine_advice_document, rails_advice_document, trees_advice_document


@main.group(cls=DocumentedGroup)
def advise() -> None:
    """Say what a network is good for before anything is scheduled.

    Examples:
        antiphon advise rails 3D-SW_SW_SW_hetero
        antiphon advise ace ace:4x4x4
        antiphon advise trees --ranks 64 --bytes 1MiB
    """


@command(parent=advise, name="rails")
def advise_rails(topology: str, *, output: str) -> None:
    """Which dimensions are just enough, over- or under-provisioned, and how to divide their rates.

    Examples:
        antiphon advise rails 3D-SW_SW_SW_hetero
        antiphon advise rails ring4@1000/20ns,sw8@800/700ns --json
    """
    advice = antiphon.advise_rails(topology)
    tell("advise", advice.to_dict(), output, partial(rails_advice_document, advice), "dimensions")


@command(of=antiphon.advise_ace, parent=advise, name="ace")
def advise_ace(
    topology: str,
    *,
    size: str = "64MiB",
    collective: str = "all-reduce",
    scheduler: str,
    share: float,
    chunk: str,
    output: str,
) -> None:
    """The smallest collectives engine that reaches 95 % of what the network allows (docs/explanation/endpoints.md).

    Examples:
        antiphon advise ace ace:4x4x4 --bytes 64MiB
        antiphon advise ace ring8@1600/500ns --collective all-gather --share 0.9 --json
    """
    advice = antiphon.advise_ace(topology, size, collective, scheduler, share=share, chunk=chunk)
    tell("advise", advice.to_dict(), output, partial(engine_advice_document, advice), "parts")


@command(parent=advise, name="trees")
def advise_trees(
    *, ranks: int = 8, size: str = "64MiB", latency: str = "12.4us", bandwidth: float = 25.0, output: str
) -> None:
    """Ring, tree and overlapped tree by their cost model, and the sizes at which the ring wins
    (docs/explanation/trees.md).

    Examples:
        antiphon advise trees --ranks 64 --bytes 1MiB --latency 2us --bandwidth 50

    Args:
        ranks: Ranks, 2 to 2^20.
        latency: Of one step.
        bandwidth: Of one link in one direction, GB/s.
    """
    advice = antiphon.advise_trees(ranks, size, latency, bandwidth)
    tell("advise", advice.to_dict(), output, partial(trees_advice_document, advice), "ways")
