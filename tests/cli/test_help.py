"""Help: every page has examples, which are understood, and no summary is cut."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from antiphon.cli import main
from antiphon.cli.documented import Documented

ROOT = Path(__file__).resolve().parents[2]


def pages(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Documented]]:
    """Every command, and its place."""
    assert isinstance(command, Documented), f"{path} has no examples"
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from pages(below, (*path, name))


PAGES = dict(pages(main))
EXAMPLES = {example: path for path, command in PAGES.items() for example in command.examples}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_ends_with_examples(commands: Any, path: str) -> None:
    shown = PAGES.get(f"{path} run", PAGES[path])
    assert shown.examples
    printed = commands.invoke(*path.split(), "--help").stdout
    assert printed.endswith("\n".join(["Examples:", *(f"  {example}" for example in shown.examples), ""]))
    for example in shown.examples:
        assert example.startswith(f"antiphon {path}".removesuffix(" run"))


@pytest.mark.parametrize("path", [path for path, command in PAGES.items() if isinstance(command, click.Group)])
def test_lists_of_commands_cut_nothing(commands: Any, path: str) -> None:
    group = PAGES[path]
    if path == "study":
        return  # its page is that of a command
    printed = "".join(commands.invoke(*path.split(), "--help").stdout.split())
    for below, command in PAGES.items():
        if below.rpartition(" ")[0] == path and command is not group:
            assert "".join(command.get_short_help_str(1000).split()) in printed


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_understood(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their options, values and files are, without running them; docs/*.md run much the same."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(example.partition(" > ")[0])[1:]
    if "--help" in arguments:
        return
    context: click.Context | None = None
    name: str | None = None
    command: click.Command = main
    while isinstance(command, click.Group):
        context = command.make_context("antiphon", list(arguments), parent=context, resilient_parsing=False)
        name, found, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command = found
    command.make_context(name, arguments, parent=context)
