"""Options that run a command on a part of a fabric, or on several one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.options import read_fabric
from antiphon.cli.output import PROSE, table_of, tell
from antiphon.errors import AntiphonError
from antiphon.view.document import Document, Heading
from antiphon.view.documents.fabric import noting_switches
from antiphon.view.terminal.console import progress_bar

TIMED = ("bound", "compare", "limits", "simulate", "tune")
"""Commands whose times would be others if switches reduced."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Ranks of a fabric: all, a group, or each of several groups."""

    group: str | None = None
    groups: str | None = None

    def of(self, fabric: antiphon.Fabric) -> list[antiphon.Fabric]:
        """A fabric, a group of it or several.

        Raises:
            AntiphonError: for ranks or groups that it does not have.
        """
        if self.group is not None and self.groups is not None:
            raise click.UsageError("give either --group or --groups")
        if self.groups is not None:
            return fabric.groups(self.groups)
        return [fabric if self.group is None else fabric.group(self.group)]

    def one_file(self, option: str, path: str | None) -> None:
        """Refuses an option that writes a file about one group where there are several."""
        if path is not None and self.groups is not None:
            raise click.UsageError(f"{option} is for one group: give --group instead of --groups")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is to be done, on which platform, by which ranks."""

    collective: str = "all-reduce"
    size: str | None = None
    root: int = 0
    matrix: str | None = None
    system: antiphon.System
    part: Part

    def build(self, fabric: antiphon.Fabric, algorithm: str) -> antiphon.Schedule:
        """The schedule of an algorithm."""
        with progress_bar() as progress:
            told = partial(progress, f"{algorithm} (building)")
            what = (self.collective, self.size, self.system, self.root)
            return antiphon.build(fabric, algorithm, *what, told, matrix=self.matrix)


@dataclass(frozen=True)
class Outcome:
    """What a command found on one fabric: as JSON, for people, and why it fails after all."""

    document: dict[str, Any]
    show: Callable[[], Document]
    failure: AntiphonError | None = None


def each_group(
    command: str,
    specs: str | Sequence[str],
    part: Part,
    output: str,
    work: Callable[[antiphon.Fabric], Outcome],
    rows: str | None = None,
    summary: Callable[[Sequence[dict[str, Any]]], Document] = lambda _documents: Document(),
) -> None:
    """Does ``work`` on one or more fabrics, or on a part or several of each, and prints what it found;
    ``rows`` as for ``tell``, and at the end, for people, a ``summary`` of the documents of several fabrics.

    Raises:
        AntiphonError: the first failure, when everything has been printed.
    """
    fabrics = [read_fabric(spec) for spec in ([specs] if isinstance(specs, str) else specs)]
    alone = len(fabrics) == 1
    outcomes = []
    networks = [network for fabric in fabrics for network in part.of(fabric)]
    for network in networks:
        outcome = work(network)
        if command in TIMED:
            outcome = replace(outcome, show=noting_switches(outcome.show, network))
        outcomes.append(outcome)
        if part.groups is None and alone:
            tell(command, outcome.document, output, outcome.show, rows)
        elif output in PROSE:
            tell(command, {}, output, partial(_titled, network.name, outcome.show))
    documents = [outcome.document for outcome in outcomes]
    if output == "html" and not (part.groups is None and alone):
        whole_page = [_titled(network.name, outcome.show) for network, outcome in zip(networks, outcomes, strict=True)]
        last = Document() if alone else summary(documents)
        tell(command, {}, output, lambda: Document([each for page in [*whole_page, last] for each in page.parts]))
    elif output in PROSE:
        if not alone:
            tell(command, {}, output, partial(summary, documents))
    elif part.groups is not None or not alone:
        table = [row for each in documents for row in table_of(each, rows)]
        whole = {"fabric": fabrics[0].name, "groups": documents} if alone else {"fabrics": documents}
        tell(command, whole, output, Document, table)
    for outcome in outcomes:
        if outcome.failure is not None:
            raise outcome.failure


def _titled(title: str, show: Callable[[], Document]) -> Document:
    return Document([Heading(title), *show().parts])
