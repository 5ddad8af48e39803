"""Options that run a command on a part of a fabric, or on several one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

import antiphon
from antiphon.cli.options import read_fabric
from antiphon.errors import AntiphonError
from antiphon.terminal import open_console, print_json

F = TypeVar("F", bound=Callable[..., Any])


def group_option(function: F) -> F:
    """One group of ranks."""
    option = click.option(
        "--group", metavar="RANKS", help="Only these ranks take part, others forward: 0,1,8,9 or 0-3,8-11."
    )
    return option(function)


def groups_option(function: F) -> F:
    """One group of ranks, or several."""
    option = click.option(
        "--groups", metavar="rows|columns|dimension=K|FILE", help="Each of these groups by itself, one after the other."
    )
    return group_option(option(function))


def grouped(spec: str, group: str | None) -> antiphon.Fabric:
    """The fabric of a specification, or a group of it."""
    fabric = read_fabric(spec)
    return fabric if group is None else fabric.group(group)


@dataclass(frozen=True)
class Outcome:
    """What a command found on one fabric: as JSON, as text, and why it fails after all."""

    document: dict[str, Any]
    show: Callable[[], None]
    failure: AntiphonError | None = None


def each_group(
    command: str,
    spec: str,
    group: str | None,
    groups: str | None,
    as_json: bool,
    work: Callable[[antiphon.Fabric], Outcome],
) -> None:
    """Does ``work`` on a fabric, on one group of it, or on each of ``groups``, and prints what it found.

    Raises:
        AntiphonError: the first failure, when everything has been printed.
    """
    if group is not None and groups is not None:
        raise click.UsageError("give either --group or --groups")
    if groups is None:
        outcomes = [work(grouped(spec, group))]
        if as_json:
            print_json(command, outcomes[0].document)
        else:
            outcomes[0].show()
    else:
        fabric = read_fabric(spec)
        outcomes = []
        for part in fabric.groups(groups):
            outcomes.append(work(part))
            if not as_json:
                open_console().rule(part.name, align="left")
                outcomes[-1].show()
        if as_json:
            documents = [outcome.document for outcome in outcomes]
            print_json(command, {"fabric": fabric.name, "groups": documents})
    for outcome in outcomes:
        if outcome.failure is not None:
            raise outcome.failure
