"""Commands that list what is known, and shell completion."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Literal

import click
from click.shell_completion import get_completion_class

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.group import main
from antiphon.cli.output import tell
from antiphon.platforms import read_endpoint, read_system
from antiphon.view.document import Document
from antiphon.view.documents.lists import algorithms_document, entries_table, list_document, options_document


@command()
def fabrics(*, output: str) -> None:
    """List the kinds of fabrics, each with an example of a specification.

    Examples:
        antiphon fabrics
    """
    rows = [{"kind": each.name, "example": each.example, "summary": each.summary} for each in antiphon.fabrics()]
    tell("fabrics", {"fabrics": rows}, output, partial(list_document, rows), "fabrics")


def entry_row(entry: antiphon.Entry) -> dict[str, Any]:
    """The name of what is known, what it is, and its options."""
    options = [asdict(option) for option in entry.options]
    return {"name": entry.name, "summary": entry.summary, "options": options}


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
    rows = [entry_row(a) | {"source": a.source, "collectives": a.collectives} for a in known]
    tell("algorithms", {"algorithms": rows}, output, partial(algorithms_document, known), "algorithms")


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

    def show() -> Document:
        if name is None:
            return list_document([{"name": preset.name, "summary": preset.description} for preset in presets])
        title = presets[0].description if name in antiphon.systems() else presets[0].name
        return options_document("Parameter", name, parameters, title)

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
    rows = [{"name": "", "summary": "", "stands_for": each.example} | entry_row(each) for each in known]

    def show() -> Document:
        if name and known[0].options:
            return options_document("Option", known[0].name, known[0].options, known[0].summary)
        return Document([entries_table("Endpoint", known, examples=True)])

    tell("endpoints", {"endpoints": rows}, output, show, rows[0]["options"] if name else rows)


def _endpoint(spec: str) -> antiphon.Entry:
    """An endpoint, whose options have its values."""
    whole = antiphon.System().with_(endpoint=read_endpoint(spec)).endpoint
    model, _, given = whole.partition(":")
    entry = next(each for each in antiphon.endpoints() if each == model)
    values = dict(part.split("=", 1) for part in given.split(",") if part)
    options = [replace(option, default=values.get(option.key, option.default)) for option in entry.options]
    return antiphon.Entry(spec, entry.summary, options=options, example=whole)


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
