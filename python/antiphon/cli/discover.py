"""The command that looks at how hosts are cabled."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from antiphon.cli.declared import command
from antiphon.cli.output import tell
from antiphon.cli.pages import paged
from antiphon.collective.tuning import size_range
from antiphon.errors import AntiphonError
from antiphon.execution.timed import check_options, rank_of_job, silence, speak
from antiphon.view.documents.job import wiring_document
from antiphon.view.terminal.console import progress_bar

MOST_HOSTS = 256


@command()
def discover(
    *,
    hosts: str | None = None,
    collective: str = "all-reduce,all-gather,reduce-scatter,all-to-all",
    bytes: str = "8KiB,512KiB,16MiB",
    iterations: int = 3,
    python: str | None = None,
    port: int = 29_500,
    ssh: str | None = None,
    report: str | None,
    output: str,
) -> None:
    """Look at how hosts are cabled: rates, what is odd, what they reach (docs/how-to/torch.md).

    Needs antiphon[torch] on every host. With --hosts it starts a rank on each of them by ssh; else start it
    yourself, as torchrun --nnodes 3 --node-rank 0 --master-addr a --master-port 29500 -m antiphon discover.

    Examples:
        antiphon discover --hosts spark-1,spark-2,spark-3 --report wiring.html
        antiphon discover --hosts user@a,user@b --collective all-reduce --bytes 8KiB..64MiB --json

    Args:
        hosts: names of hosts, with commas, as ssh takes them. They meet at the first one, whose name or address all of
            them must know (or at MASTER_ADDR, if it is set).
        collective: What is measured, with commas: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or
            reduce.
        bytes: Full buffer sizes, such as 8KiB..64MiB (in powers of two) or 1MiB,16MiB.
        iterations: Timed runs of each; what counts is the median.
        python: the interpreter on every host, with --hosts; None: the same path as here.
        port: Where they meet, on the first host, with --hosts.
        ssh: the command that runs another at a host, with --hosts; None: ssh, which must not ask.
    """
    if hosts is None:
        silence()
    collectives, sizes = collective.split(","), size_range(bytes)
    check_options(collectives, "float32", iterations, 0)
    if not 1 <= port <= 65_535:
        raise AntiphonError(f"port is {port}; give 1 to 65,535", "bad-size")
    writes = hosts is not None or os.environ.get("RANK", "0") == "0"
    with paged(report if writes else None, output) as write:
        with progress_bar() as progress:
            if hosts is not None:
                names = _names(hosts)
                given = [f"--collective={collective}", f"--bytes={bytes}", f"--iterations={iterations}", "--json"]
                found: dict[str, Any] | None = _over_ssh(names, given, python or sys.executable, port, ssh, progress)
            else:
                rank_of_job("give --hosts a,b,c, or start it on every host with torchrun ... -m antiphon discover")
                found = _as_rank(collectives, sizes, iterations, progress)
        if found is None:
            return
        write(partial(_page, found))
        tell("discover", found, output, partial(wiring_document, found), rows="links")


def _names(hosts: str) -> list[str]:
    names = [name.strip() for name in hosts.split(",")]
    for name in names:
        if not name or name.startswith("-") or len(name.split()) > 1:
            raise AntiphonError(f"hosts '{hosts:.80}': give names with commas, such as a,b,c", "bad-spec")
    if not 2 <= len(names) <= MOST_HOSTS or len(set(names)) < len(names):
        raise AntiphonError(f"hosts '{hosts:.80}': give 2 to {MOST_HOSTS} different names", "bad-spec")
    return names


def _over_ssh(
    names: Sequence[str],
    given: Sequence[str],
    python: str,
    port: int,
    ssh: str | None,
    progress: Callable[[str, float], None],
) -> dict[str, Any]:
    from antiphon.execution.ssh import SSH, run_on

    waiting = partial(progress, f"examining {len(names)} hosts", 0)
    text = run_on(
        names,
        ["antiphon", "discover", *given],
        python=python,
        port=port,
        ssh=SSH if ssh is None else ssh,
        waiting=waiting,
    )
    try:
        found: dict[str, Any] = json.loads(text[text.index("{") :])
    except ValueError:
        raise AntiphonError(f"host {names[0]} printed no JSON: {text.strip()[-200:]!r}", "stalled") from None
    if len(found["hosts"]) < len(names):
        what = f"only {len(found['hosts'])} hosts: some of these names are of the same one"
        found["odd"].append({"link": ", ".join(names), "what": what})
    return {key: value for key, value in found.items() if key not in ("schema", "version")}


def _as_rank(
    collectives: Sequence[str], sizes: Sequence[int], iterations: int, progress: Callable[[str, float], None]
) -> dict[str, Any] | None:
    """What rank 0 found; nothing at the others."""
    from antiphon.torch.discover import discover as discovered

    speak()
    rank, found = discovered(collectives, sizes, iterations, progress)
    return found if rank == 0 else None


def _page(found: dict[str, Any]) -> str:
    from antiphon.view.pages.wiring import render

    return render(found)
