"""What commands that run collectives do with ``--chain``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.groups import Outcome
from antiphon.errors import AntiphonError
from antiphon.view.documents.measured import chain_document
from antiphon.view.terminal.console import progress_bar


def check_chain(model: str | None, only: dict[str, Any], **given: Any) -> None:
    """Refuses options that say nothing with ``--chain``; without it those that are ``only`` for it.

    Raises:
        click.UsageError: naming the first that was given.
    """
    for name, value in (only if model is None else given).items():
        if value:
            raise click.UsageError(
                f"--{name} is for --chain" if model is None else f"--chain: leave out {_option(name)}"
            )


def _option(name: str) -> str:
    return "all ALGORITHMS but one" if name == "algorithms" else f"--{name}"


def chained(model: str, algorithm: str | None, network: antiphon.Fabric, **given: Any) -> Outcome:
    """Runs chained iterations; ``given`` are arguments of ``measure_chain``."""
    with progress_bar() as progress:
        found = antiphon.measure_chain(network, model, algorithm, **given, progress=partial(progress, "running"))
    failure = None
    if not found.correct:
        failure = AntiphonError("weights are not what the gradients of all ranks make them", "not-proven")
    return Outcome(found.to_dict(), partial(chain_document, found), failure)
