"""Commands whose help ends with examples: the lines after ``Examples:`` in their docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

import click

from antiphon.errors import AntiphonError

ALL = "antiphon.all"
"""In the context: whether the help shows all options."""


def with_options(message: str, command: click.Command) -> str:
    """A message, in which arguments are options: ``in_flight`` is ``--in-flight``, and ``batch is 0`` is ``--batch is
    0``; elsewhere a word such as ``batch`` may be just a word."""
    options = {each.name: each.opts[0] for each in command.params if isinstance(each, click.Option) and each.name}
    options = {name: option for name, option in options.items() if option == option_of(name)}
    long = [name for name in options if "_" in name]
    for known, where in ((long, r"(?<![\w-])({})(?!\w)"), (options, r"^({})(?==| is )")):
        names = "|".join(known)
        message = re.sub(where.format(names), lambda each: options[each[1]], message) if names else message
    return message


def option_of(key: str) -> str:
    """The option for an input.

    Times in seconds have units of their own, or say that they are; names that Python has end in an underscore.
    """
    return "--" + key.removesuffix("_s").strip("_").replace("_", "-")


class Section(click.Option):
    """An option that the help shows always, if it is ``common``, or else in a ``section`` of ``--help all``."""

    def __init__(self, *names: Any, section: str = "", **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section, self.common = section, True


class Documented(click.Command):
    """Takes the examples out of the help, and shows them as they are."""

    def __init__(self, name: str | None = None, **settings: Any) -> None:
        text, _, examples = inspect.cleandoc(settings.pop("help", None) or "").partition("\nExamples:\n")
        self.examples = [line.strip() for line in examples.splitlines() if line.strip()]
        super().__init__(name, help=text, **settings)
        self._help_all: click.Option | None = None

    def invoke(self, ctx: click.Context) -> Any:
        # Messages name arguments as in Python; here they are options.
        try:
            return super().invoke(ctx)
        except AntiphonError as error:
            message = with_options(error.message, self)
            if message == error.message:
                raise
            raise AntiphonError(message, error.code) from error

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        if all(each.common for each in self.params if isinstance(each, Section)):
            return super().get_help_option(ctx)
        if self._help_all is None:  # click compares the option with itself
            self._help_all = click.Option(
                self.get_help_option_names(ctx),
                is_flag=False,
                flag_value="short",
                is_eager=True,
                expose_value=False,
                metavar="[all]",
                callback=_show_help,
                help="Show this message, or all options, and exit.",
            )
        return self._help_all

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        everything = ctx.meta.get(ALL, False)
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        left_out = 0
        for option in (each for each in self.get_params(ctx) if isinstance(each, click.Option)):
            common = not isinstance(option, Section) or option.common
            record = option.get_help_record(ctx)
            if record and (common or everything):
                section = "Options" if common else option.section  # type: ignore[attr-defined]
                sections.setdefault(section if common or section != "Options" else "More options", []).append(record)
            left_out += bool(record) and not common and not everything
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)
        if left_out:
            formatter.write(f"\n  --help all shows {left_out} more.\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _show_help(context: click.Context, _parameter: click.Parameter, given: str | None) -> None:
    if given is not None and not context.resilient_parsing:
        context.meta[ALL] = given == "all"
        click.echo(context.get_help(), color=context.color)
        context.exit()


class DocumentedGroup(Documented, click.Group):
    """A group of such commands."""

    command_class = Documented

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        click.Group.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1000)) for name, command in commands if command])
