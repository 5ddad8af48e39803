"""Commands that list what is known, and shell completion."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from click.shell_completion import get_completion_class
from rich.table import Column, Table
from rich.text import Text

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import JSON, completing
from antiphon.view.terminal.console import open_console, print_json
from antiphon.view.terminal.lists import option_text, print_list


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
                "options": [asdict(option) for option in a.options],
                "source": a.source,
                "collectives": a.collectives,
            }
            for a in known
        ]
        print_json("algorithms", {"algorithms": rows})
        return
    table = Table("Algorithm", "What it does", "Options", "Collectives", "Source", show_lines=True)
    for a in known:
        options = "\n".join(map(option_text, a.options))
        table.add_row(Text(a.name, style="bold"), a.summary, options, ", ".join(a.collectives), a.source)
    open_console().print(table)


@main.command()
@click.argument("name", required=False, shell_complete=completing(antiphon.systems))
@JSON
def systems(name: str | None, as_json: bool) -> None:
    """List the system presets, or the parameters of one, which --set replaces."""
    presets = [antiphon.System(each) for each in ([name] if name else antiphon.systems())]
    parameters = antiphon.System(name or "generic").parameters()
    if as_json:
        rows = [
            {"name": preset.name, "summary": preset.description, "parameters": json.loads(preset.to_json())}
            for preset in presets
        ]
        print_json("systems", {"systems": rows, "settings": [asdict(parameter) for parameter in parameters]})
    elif name:
        table = Table("Parameter", Column(name, overflow="fold"), "Values", "Meaning", title=presets[0].description)
        for each in parameters:
            table.add_row(Text(each.key, style="bold"), each.default, each.values, each.meaning)
        open_console().print(table)
    else:
        print_list("systems", [{"name": preset.name, "summary": preset.description} for preset in presets], as_json)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    For bash: antiphon completion bash > ~/.local/share/bash-completion/completions/antiphon
    """
    complete = get_completion_class(shell)
    assert complete is not None  # the choices above are the classes click has
    click.echo(complete(main, {}, "antiphon", "_ANTIPHON_COMPLETE").source())
