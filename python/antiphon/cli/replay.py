"""The command that times execution traces."""

from __future__ import annotations

from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import tell
from antiphon.results import rows_of
from antiphon.view.documents.fabric import noting_switches
from antiphon.view.documents.jobs import replay_document
from antiphon.view.terminal.console import progress_bar


@command(of=antiphon.replay, without="groups")
def replay(
    trace: str,
    fabric: str,
    algorithm: str,
    *,
    system: antiphon.System,
    comm_groups: str | None = None,
    fidelity: str = "packet",
    output: str,
    **given: Any,
) -> None:
    """Time traces of all ranks, Chakra's or PyTorch's, on a fabric (docs/reference/formats.md).

    TRACE is the prefix of the files, PREFIX for PREFIX.0.et, PREFIX.1.et, ..., or their folder. Every rank computes and
    exchanges as its own trace says; exchanges that are under way share the links. train --chakra writes such files.

    Examples:
        antiphon replay resnet50 torus:4x4 ring-bi
        antiphon replay resnet50 mesh:4x4 multitree --system tto --fidelity alpha-beta --format csv

    Args:
        comm_groups: Ranks of each group, FILE.json: {"1": [0, 1]}.  [default: as the traces list them, else those
            that name it]
    """
    network = read_fabric(fabric)
    with progress_bar() as progress:
        run = antiphon.replay(
            trace, network, algorithm, system, groups=comm_groups, **given, fidelity=fidelity, progress=progress
        )
    tables = {"exchanges": rows_of(run.exchanges), "ranks": rows_of(run.ranks)}
    tell("replay", run.to_dict() | {"tables": tables}, output, noting_switches(partial(replay_document, run), network))
