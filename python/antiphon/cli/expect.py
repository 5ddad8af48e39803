"""The command that says whether a measured number is good."""

from __future__ import annotations

from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.output import note, tell, writing
from antiphon.cli.pages import paged
from antiphon.view.documents.expected import expectation_document
from antiphon.view.pages import page_of


@command(of=antiphon.expect, common="collective bytes log library system fit report opened output", without="sizes")
def expect(
    cluster: str,
    *,
    collective: str | None = None,
    bytes: str | None = None,
    system: antiphon.System,
    fit: str | None = None,
    report: str | None,
    output: str,
    **given: Any,
) -> None:
    """Say whether a measured number is good, size by size, and what may be wrong (docs/how-to/expect.md).

    Examples:
        antiphon expect dgx-h100:1 --collective all-reduce --bytes 1KiB..8GiB
        antiphon expect dgx-h100:2 --log examples/h100x16.log --report h100.html
        antiphon expect dgx-h100:2 --log examples/h100x16.log --fit h100.toml

    Args:
        collective: What is computed.  [default: what the log is of, else all-reduce]
        bytes: Sizes as nccl-tests counts them: A,B or A..B, doubling.  [default: those of the log, else 1KiB..8GiB]
        system: One with protocols in place of a library: h100-nccl, or a file of --fit.
        fit: Also write a system, OUT.toml, in which launches and links are as in the log.
    """
    with writing(fit, ".toml") as write_fit, paged(report, output) as write:
        platform = None if system.name == antiphon.System().name else system
        found = antiphon.expect(cluster, collective, bytes, system=platform, **given)
        write_fit(lambda: found.system_toml())
        write(partial(page_of, found))
        tell("expect", found.to_dict(), output, partial(expectation_document, found), "rows")
    note(output, fit and f"System: {fit}")
