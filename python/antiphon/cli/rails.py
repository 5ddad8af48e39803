"""Commands about multi-dimensional networks."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import completing, energy_option, platform_option
from antiphon.cli.output import output_option, tell
from antiphon.errors import AntiphonError
from antiphon.view.documents.network import rails_document

TOPOLOGY = click.argument("topology", shell_complete=completing(antiphon.rails_topologies))


@main.command()
@TOPOLOGY
@click.option("--bytes", "size", default="100MB", show_default=True, help="Full buffer size.")
@click.option(
    "--collective",
    default="all-reduce",
    show_default=True,
    help="all-reduce, reduce-scatter, all-gather or all-to-all.",
)
@click.option(
    "--scheduler",
    "schedulers",
    default="baseline,themis,search",
    show_default=True,
    help="One, or several with commas, side by side.",
    shell_complete=completing(antiphon.rails_schedulers),
)
@click.option(
    "--intra",
    help="Queue policy of a dimension: fifo, scf, scf-before, tail or oldest.  [default: by scheduler]",
    shell_complete=completing(antiphon.rails_queues),
)
@click.option(
    "--chunks", help="Parts of the buffer: a number, or best.  [default: 64, or of the size of the endpoint's chunks]"
)
@click.option("--sharing", type=click.IntRange(1, 8), default=1, show_default=True, help="Chunks served at once.")
@click.option("--offload", is_flag=True, help="Switches reduce and multicast by themselves.")
@click.option("--fixed-delay", is_flag=True, help="Themis counts latencies as load from the start.")
@click.option(
    "--threshold",
    type=click.IntRange(0, 2**32 - 1),
    default=16,
    show_default=True,
    help="Themis takes loads for equal that differ by less than one part of so many of a chunk; 0: none are.",
)
@click.option("--jitter-ns", type=click.FloatRange(0, 1e9), help="Also time every NPU by itself, up to this late.")
@click.option("--free-order", is_flag=True, help="With jitter: NPUs do not keep to one order (may deadlock).")
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=1, show_default=True, help="Of the search and jitter."
)
@energy_option
@platform_option("ideal")
@output_option
def rails(
    topology: str,
    size: str,
    schedulers: str,
    chunks: str | None,
    free_order: bool,
    system: antiphon.System,
    output: str,
    **parameters: Any,
) -> None:
    """Schedule a collective's chunks over the dimensions of a network (docs/rails.md).

    TOPOLOGY is a preset such as 3D-SW_SW_SW_hetero, or dimensions:
    ring4@1000/20ns,sw8@800/700ns (ring, fc or sw; Gb/s of one NPU).

    Examples:
        antiphon rails 3D-SW_SW_SW_hetero --bytes 100MB
        antiphon rails ring4@1000/20ns,sw8@800/700ns --scheduler baseline,themis --chunks best
        antiphon rails ace:4x4x4 --bytes 64MiB --scheduler phased --endpoint ace:sram=8MiB,fsms=20
        antiphon rails ace:4x4x4 --bytes 64MiB --scheduler phased,baseline --energy
    """
    if chunks not in (None, "best") and not chunks.isdecimal():
        raise AntiphonError(f"chunks '{chunks[:40]}' is neither a whole number nor 'best'", "bad-size")
    parameters |= {"system": system, "endpoint": system.endpoint}
    parameters |= {"chunks": int(chunks) if chunks and chunks != "best" else chunks, "enforced": not free_order}
    runs = [antiphon.rails(topology, size, scheduler=name, **parameters) for name in schedulers.split(",")]
    documents = [run.to_dict() for run in runs]
    document = documents[0] if len(runs) == 1 else {"runs": documents}
    tell("rails", document, output, partial(rails_document, runs), "runs")
