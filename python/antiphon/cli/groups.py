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

TIMED = ("bound", "compare", "simulate", "tune")
"""Commands whose times would be others if switches reduced."""


def chosen(fabric: antiphon.Fabric, group: str | None, groups: str | None) -> list[antiphon.Fabric]:
    """A fabric, a group of it or several.

    Raises:
        AntiphonError: for ranks or groups that it does not have.
    """
    if group is not None and groups is not None:
        raise click.UsageError("give either --group or --groups")
    if groups is not None:
        return fabric.groups(groups)
    return [fabric if group is None else fabric.group(group)]


def one_file(option: str, path: str | None, groups: str | None) -> None:
    """Refuses an option that writes a file about one group where there are several."""
    if path is not None and groups is not None:
        raise click.UsageError(f"{option} is for one group: give --group instead of --groups")


@dataclass(frozen=True)
class Outcome:
    """What a command found on one fabric: as JSON, for people, and why it fails after all."""

    document: dict[str, Any]
    show: Callable[[], Document]
    failure: AntiphonError | None = None


def each_group(
    command: str,
    specs: str | Sequence[str],
    group: str | None,
    groups: str | None,
    output: str,
    work: Callable[[antiphon.Fabric], Outcome],
    rows: str | None = None,
    summary: Callable[[Sequence[dict[str, Any]]], Document] = lambda _documents: Document(),
) -> None:
    """Does ``work`` on one or more fabrics, on one group of each, or on each of ``groups``, and prints what it found;
    ``rows`` as for ``tell``, and at the end, for people, a ``summary`` of the documents of several fabrics.

    Raises:
        AntiphonError: the first failure, when everything has been printed.
    """
    fabrics = [read_fabric(spec) for spec in ([specs] if isinstance(specs, str) else specs)]
    alone = len(fabrics) == 1
    outcomes = []
    for part in [part for fabric in fabrics for part in chosen(fabric, group, groups)]:
        outcome = work(part)
        if command in TIMED:
            outcome = replace(outcome, show=noting_switches(outcome.show, part))
        outcomes.append(outcome)
        if groups is None and alone:
            tell(command, outcome.document, output, outcome.show, rows)
        elif output in PROSE:
            tell(command, {}, output, partial(_titled, part.name, outcome.show))
    documents = [outcome.document for outcome in outcomes]
    if output in PROSE:
        if not alone:
            tell(command, {}, output, partial(summary, documents))
    elif groups is not None or not alone:
        table = [row for each in documents for row in table_of(each, rows)]
        whole = {"fabric": fabrics[0].name, "groups": documents} if alone else {"fabrics": documents}
        tell(command, whole, output, Document, table)
    for outcome in outcomes:
        if outcome.failure is not None:
            raise outcome.failure


def _titled(title: str, show: Callable[[], Document]) -> Document:
    return Document([Heading(title), *show().parts])
