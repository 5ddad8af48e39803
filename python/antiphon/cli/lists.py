"""Commands that list what is known, and shell completion."""

from __future__ import annotations

import json

import click
from click.shell_completion import get_completion_class
from rich.table import Table
from rich.text import Text

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import JSON
from antiphon.terminal import open_console, print_json, print_list


@main.command()
@JSON
def fabrics(as_json: bool) -> None:
    """List the kinds of fabrics, each with an example of a specification."""
    rows = [dict(zip(("kind", "example", "summary"), preset, strict=True)) for preset in antiphon.fabrics()]
    print_list("fabrics", rows, as_json)


@main.command()
@JSON
def algorithms(as_json: bool) -> None:
    """List the algorithms and their options."""
    known = antiphon.algorithms()
    if as_json:
        rows = [
            {
                "name": a.name,
                "summary": a.summary,
                "options": [{"key": key, "meaning": meaning} for key, meaning in a.options],
                "source": a.source,
                "collectives": a.collectives,
            }
            for a in known
        ]
        print_json("algorithms", {"algorithms": rows})
        return
    table = Table("Algorithm", "What it does", "Options", "Collectives", "Source", show_lines=True)
    for a in known:
        options = "\n".join(f"{key}: {meaning}" for key, meaning in a.options)
        table.add_row(Text(a.name, style="bold"), a.summary, options, ", ".join(a.collectives), a.source)
    open_console().print(table)


@main.command()
@JSON
def systems(as_json: bool) -> None:
    """List the system presets."""
    rows = []
    for name in antiphon.systems():
        system = antiphon.System(name)
        rows.append({"name": name, "summary": system.description, "parameters": json.loads(system.to_json())})
    if not as_json:
        rows = [{"name": row["name"], "summary": row["summary"]} for row in rows]
    print_list("systems", rows, as_json)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    For bash: antiphon completion bash > ~/.local/share/bash-completion/completions/antiphon
    """
    complete = get_completion_class(shell)
    assert complete is not None  # the choices above are the classes click has
    click.echo(complete(main, {}, "antiphon", "_ANTIPHON_COMPLETE").source())
