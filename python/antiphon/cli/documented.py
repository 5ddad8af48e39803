"""Commands whose help ends with examples: the lines after ``Examples:`` in their docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

import click

from antiphon.errors import AntiphonError


def with_options(message: str, command: click.Command) -> str:
    """A message, in which arguments of more than one word are options: ``in_flight`` is ``--in-flight``."""
    options = {each.name: each.opts[0] for each in command.params if isinstance(each, click.Option) and each.name}
    known = [name for name, option in options.items() if "_" in name and option == "--" + name.replace("_", "-")]
    return re.sub(rf"(?<![\w-])({'|'.join(known)})(?!\w)", lambda each: options[each[1]], message) if known else message


class Documented(click.Command):
    """Takes the examples out of the help, and shows them as they are."""

    def __init__(self, name: str | None = None, **settings: Any) -> None:
        text, _, examples = inspect.cleandoc(settings.pop("help", None) or "").partition("\nExamples:\n")
        self.examples = [line.strip() for line in examples.splitlines() if line.strip()]
        super().__init__(name, help=text, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        # Messages name arguments as in Python; here they are options.
        try:
            return super().invoke(ctx)
        except AntiphonError as error:
            message = with_options(error.message, self)
            if message == error.message:
                raise
            raise AntiphonError(message, error.code) from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class DocumentedGroup(Documented, click.Group):
    """A group of such commands."""

    command_class = Documented

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1000)) for name, command in commands if command])
