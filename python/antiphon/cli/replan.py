"""The command that plans again after a failure."""

from __future__ import annotations

from functools import partial

import click

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import note, tell, writing
from antiphon.collective.schedules import read_schedule
from antiphon.view.documents.collective import replanned_document
from antiphon.view.documents.fabric import noting_switches
from antiphon.view.terminal.console import progress_bar


@command()
def replan(
    schedule: str,
    *,
    fabric: str,
    fail: tuple[str, ...] = (),
    system: antiphon.System,
    out: str | None = None,
    output: str,
) -> None:
    """Plan again after a failure, from a schedule for the intact fabric (docs/explanation/optimal.md).

    The schedule is one of optimal, as antiphon show FABRIC optimal --out writes it. What is found is proven, and says
    how near it is to the new optimum.

    Examples:
        antiphon replan before.json --fabric dgx-a100:2 --fail 0-17
        antiphon replan before.json --fabric dgx-h100:2 --fail rail0,gpu0.1-rail1
        antiphon replan before.json --fabric mesh:8x8 --fail 3-4 --system ideal --out after.json

    Args:
        fabric: The intact fabric that the schedule is for.
        fail: What has failed: links between nodes (numbers or names), A-B or one way A>B, or a node; several with
            commas. Repeatable.
        out: Also write the schedule, OUT.json.
    """
    if not fail:
        raise click.UsageError("Missing option '--fail'.")
    network = read_fabric(fabric)
    before = read_schedule(schedule, network)
    with writing(out, ".json") as write:
        with progress_bar() as progress:
            found = antiphon.replan(before, network, fail, system=system, progress=partial(progress, "planning"))
        write(found.schedule.to_json)
    show = noting_switches(partial(replanned_document, found, system.name), network)
    tell("replan", found.to_dict() | {"system": system.name}, output, show)
    note(output, out and f"Schedule: {out}; use it with --schedule {out} on {found.fabric.name}, system {system.name}")
