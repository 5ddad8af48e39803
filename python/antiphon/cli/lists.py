"""Commands that list what is known, and shell completion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Literal

import click
from click.shell_completion import get_completion_class
from rich.table import Column, Table
from rich.text import Text

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.group import main
from antiphon.cli.output import tell
from antiphon.platforms import read_endpoint, read_system
from antiphon.view.terminal.console import is_markdown, open_console
from antiphon.view.terminal.lists import option_text, print_list


@command()
def fabrics(*, output: str) -> None:
    """List the kinds of fabrics, each with an example of a specification.

    Examples:
        antiphon fabrics
    """
    rows = [{"kind": each.name, "example": each.example, "summary": each.summary} for each in antiphon.fabrics()]
    tell("fabrics", {"fabrics": rows}, output, partial(print_list, rows), "fabrics")


@command()
def algorithms(name: str | None = None, *, output: str) -> None:
    """List the algorithms and their options, or those of one.

    Examples:
        antiphon algorithms
        antiphon algorithms combs
        antiphon algorithms --format csv
    """
    wanted = None if name is None else antiphon.Algorithm(name).name
    known = [each for each in antiphon.algorithms() if wanted in (None, each.name)]
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
    tell("algorithms", {"algorithms": rows}, output, partial(_print_algorithms, known), "algorithms")


def _print_algorithms(known: Sequence[antiphon.Entry]) -> None:
    """A paragraph for each, with an option on a line of its own; in Markdown, which has no width, a row."""
    console = open_console()
    if is_markdown():
        table = Table("Algorithm", "What it does", "Options", "Collectives", "Source")
        for each in known:
            options = "\n".join(map(option_text, each.options))
            table.add_row(each.name, each.summary, options, ", ".join(each.collectives), each.source)
        console.print(table)
        return
    for place, each in enumerate(known):
        if place:
            console.print("")
        console.print(Text(each.name, style="bold") + Text(f": {each.summary}"))
        for option in each.options:
            console.print(f"- {option_text(option)}")
        console.print(f"Does {', '.join(each.collectives)}.")
        console.print(f"Source: {each.source}", style="dim")


@command()
def systems(name: str | None = None, *, output: str) -> None:
    """List the system presets, or the parameters of one, which --set replaces.

    NAME may be a FILE of your own, .toml or .json.

    Examples:
        antiphon systems
        antiphon systems tto
        antiphon systems examples/system.toml
    """
    presets = [read_system(name)] if name else [antiphon.System(each) for each in antiphon.systems()]
    parameters = presets[0].parameters() if name else antiphon.System().parameters()
    settings = [asdict(parameter) for parameter in parameters]
    rows = [
        {"name": preset.name, "summary": preset.description, "parameters": json.loads(preset.to_json())}
        for preset in presets
    ]

    def show() -> None:
        if name is None:
            print_list([{"name": preset.name, "summary": preset.description} for preset in presets])
            return
        title = presets[0].description if name in antiphon.systems() else presets[0].name
        table = Table("Parameter", Column(name, overflow="fold"), "Values", "Meaning", title=title)
        for each in parameters:
            table.add_row(Text(each.key, style="bold"), each.default, each.values, each.meaning)
        open_console().print(table)

    tell("systems", {"systems": rows, "settings": settings}, output, show, settings if name else rows)


@command()
def endpoints(name: str | None = None, *, output: str) -> None:
    """List what can stand between a rank's memory and its links, or the options of one.

    NAME may have options, or be a FILE of antiphon calibrate.

    Examples:
        antiphon endpoints
        antiphon endpoints npu
        antiphon endpoints ace:sram=8MiB
    """
    known = [_endpoint(name)] if name else antiphon.endpoints()
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "summary": each.summary,
            "stands_for": each.example,
            "options": [asdict(option) for option in each.options],
        }
        for each in known
    ]

    show = partial(_print_options, known[0]) if name and known[0].options else partial(_print_endpoints, known)
    tell("endpoints", {"endpoints": rows}, output, show, rows[0]["options"] if name else rows)


def _endpoint(spec: str) -> antiphon.Entry:
    """An endpoint, whose options have its values."""
    whole = antiphon.System().with_(endpoint=read_endpoint(spec)).endpoint
    model, _, given = whole.partition(":")
    entry = next(each for each in antiphon.endpoints() if each == model)
    values = dict(part.split("=", 1) for part in given.split(",") if part)
    options = [replace(option, default=values.get(option.key, option.default)) for option in entry.options]
    return antiphon.Entry(spec, entry.summary, options=options, example=whole)


def _print_endpoints(known: Sequence[antiphon.Entry]) -> None:
    table = Table("Endpoint", "What it is", "Options", show_lines=True)
    for each in known:
        options = "\n".join(map(option_text, each.options)) or each.example
        table.add_row(Text(each.name, style="bold"), each.summary, options)
    open_console().print(table)


def _print_options(endpoint: antiphon.Entry) -> None:
    table = Table("Option", Column(endpoint.name, overflow="fold"), "Values", "Meaning", title=endpoint.summary)
    for each in endpoint.options:
        table.add_row(Text(each.key, style="bold"), each.default, each.values, each.meaning)
    open_console().print(table)


@command()
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the completion script of a shell.

    It completes commands, options, names and files. Bash reads it from
    ~/.local/share/bash-completion/completions/antiphon.

    Examples:
        antiphon completion bash > antiphon
        antiphon completion zsh > _antiphon
        antiphon completion fish > antiphon.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None  # the choices above are the classes click has
    click.echo(complete(main, {}, "antiphon", "_ANTIPHON_COMPLETE").source())
