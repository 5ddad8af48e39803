"""The command that reproduces papers."""

from __future__ import annotations

from functools import partial

import click

from antiphon.cli.declared import command
from antiphon.cli.options import COMPLETIONS, completing
from antiphon.cli.output import tell
from antiphon.cli.pages import show_page
from antiphon.errors import AntiphonError
from antiphon.papers import PAPERS
from antiphon.view.documents.lists import list_document
from antiphon.view.terminal.console import progress_bar


def _targets() -> list[str]:
    return [target for name, paper in PAPERS.items() for target in (name, *(f"{name}/{f.name}" for f in paper.figures))]


COMPLETIONS["paper"] = completing(_targets)


@command(name="reproduce", former=("--out", "store"))
def reproduce_command(
    paper: str,
    figures: tuple[str, ...] = (),
    *,
    store: str | None = None,
    list_: bool = False,
    quick: bool = False,
    open_: bool = False,
    jobs: int | None,
    output: str,
) -> None:
    """Reproduce a paper: published numbers, ours, and a verdict for each.

    PAPER is a name (known: PAPERS), or a name and a figure, such as tto/fig8. A second call goes on where the first
    one ended.

    Examples:
        antiphon reproduce tto --list
        antiphon reproduce tto/fig14 --store out
        antiphon reproduce themis/fig5 --quick --store out --format csv

    Args:
        store: Folder of runs, report, tables and plots.  [required]
        list_: Only list the figures.
        quick: A few points of every figure; no claims.
        open_: Show the page in a browser when done.
    """
    from antiphon.repro.reproduction import choose, reproduce
    from antiphon.repro.terminal import reproduction_document

    chosen, wanted = choose(PAPERS, paper, figures)
    if list_:
        rows = [{"name": figure.name, "title": chosen.data.figures[figure.name]["title"]} for figure in wanted]
        tell("reproduce", {"paper": chosen.name, "figures": rows}, output, partial(list_document, rows), rows)
        return
    if store is None:
        raise click.UsageError("Missing option '--store'.")
    if not store.strip():
        raise AntiphonError("--store is empty; name a folder, . for the current one", "bad-file")
    with progress_bar() as progress:
        done = reproduce(chosen, wanted, store, quick=quick, jobs=jobs, progress=progress)
    document = done.to_dict()
    rows = [{"figure": figure["name"], **row} for figure in document["figures"] for row in figure["rows"]]
    tell("reproduce", document, output, partial(reproduction_document, done), rows)
    if open_:
        show_page(done.report)


reproduce_command.help = (reproduce_command.help or "").replace("PAPERS", ", ".join(PAPERS))
