"""The command for collectives on more ranks than a schedule lists."""

from __future__ import annotations

from functools import partial

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.output import tell
from antiphon.cli.pages import paged
from antiphon.view.documents.collective import scaled_document
from antiphon.view.pages import page_of
from antiphon.view.terminal.console import progress_bar


@command(common="size collective algorithms system fidelity report opened output")
def scale(
    fabric: str,
    *,
    size: str = "64MiB",
    collective: str = "all-reduce",
    algorithms: str | None = None,
    system: antiphon.System,
    fidelity: str = "packet",
    report: str | None,
    output: str,
) -> None:
    """Time a collective on more ranks than a schedule can list.

    On products of up to 4,096 ranks one line of every dimension stands for all that are parallel to it (staged), on
    meshes of up to 131,072 ranks a rule says all messages of an all-reduce (combs, ring). A broadcast or reduce goes
    along trees, chunk after chunk (optimal).

    Examples:
        antiphon scale mesh:256x256 --bytes 1GiB --report scale.html
        antiphon scale torus:16x16x16 --collective all-to-all --bytes 4GiB
        antiphon scale dgx-h100:512 --collective all-gather --bytes 4GiB --json

    Args:
        algorithms: Names with commas: staged, optimal, combs, ring.  [default: all that apply]
    """
    with paged(report, output) as write:
        with progress_bar() as progress:
            found = antiphon.at_scale(
                fabric,
                size,
                collective,
                algorithms=algorithms,
                system=system,
                fidelity=fidelity,
                progress=partial(progress, "describing"),
            )
        write(partial(page_of, found))
        tell("scale", found.to_dict(), output, partial(scaled_document, found), "runs")
