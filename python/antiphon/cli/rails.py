"""Commands about multi-dimensional networks."""

from __future__ import annotations

from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.output import tell
from antiphon.view.documents.network import rails_document


@command(
    of=antiphon.rails,
    common="size collective scheduler chunks intra system energy output",
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
    system: antiphon.System,
    energy: bool,
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

    Args:
        collective: all-reduce, reduce-scatter, all-gather or all-to-all.
        scheduler: One, or several with commas, side by side.
        free_order: With jitter: NPUs do not keep to one order (may deadlock).
    """
    parameters |= {"system": system, "endpoint": system.endpoint, "energy": energy, "enforced": not free_order}
    runs = [antiphon.rails(topology, size, collective, name, **parameters) for name in scheduler.split(",")]
    documents = [run.to_dict() for run in runs]
    document = documents[0] if len(runs) == 1 else {"runs": documents}
    tell("rails", document, output, partial(rails_document, runs), "runs")
