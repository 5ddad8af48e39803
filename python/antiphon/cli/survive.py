"""The command that says what failures leave."""

from __future__ import annotations

from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import table_of, tell
from antiphon.cli.pages import paged
from antiphon.view.documents.survival import failures, survival_document
from antiphon.view.terminal.console import progress_bar


@command(
    of=antiphon.survive, common="fail collective system nodes target draws seed report opened output", system="generic"
)
def survive(
    fabric: str,
    *,
    collective: str = "all-reduce",
    root: int = 0,
    system: antiphon.System,
    report: str | None,
    output: str,
    **given: Any,
) -> None:
    """Say what throughput failures leave, what is critical, and which spares help.

    Each failure is planned anew. Its throughput lies between what that plan reaches and what prices of links prove.

    Examples:
        antiphon survive mesh:8x8 --system ideal
        antiphon survive mesh:4x4 --fail 2 --draws 50 --report survive.html
        antiphon survive dgx-h100:2 --fail links --collective all-gather
        antiphon survive mesh:4x4 --fail rate:0.01 --nodes forward --target 0.75
    """
    network = read_fabric(fabric)
    with paged(report, output) as write:
        with progress_bar() as progress:
            found = antiphon.survive(
                network,
                collective=collective,
                root=root,
                system=system,
                **given,
                progress=partial(progress, "planning"),
            )
        write(partial(found.page, network))
        document = found.to_dict()
        rows = table_of(document | {"failures": failures(found)}, "failures")
        tell("survive", document, output, partial(survival_document, found), rows)
