"""The group of all commands: where they are, how a failure ends, how Ctrl-C is heard."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from antiphon.cli.commands import SECTIONS
from antiphon.cli.documented import DocumentedGroup
from antiphon.deadline import OVER_TIME
from antiphon.errors import AntiphonError, harmless
from antiphon.inputs import kept

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FOUND, WRONG, LATE, INTERRUPTED, GONE = 1, 2, 3, 130, 141
"""Exit status: a finding; mistakes, files, sizes; a time limit; Ctrl-C; the reader of the output has gone."""
ENDLESS = re.compile(r"(?<=\d{40})\d+")
"""What messages leave out of a number: more digits than any that is right has."""
OUTPUTS = ("--fit", "--out", "--picture", "--report", "--schedule-json", "--trace")
"""Options that name a file to write."""
FINDINGS = ("not-applicable", "not-proven", "stalled")
"""Codes of errors that answer what was asked: nothing fits, or a schedule is wrong."""


class ReaderGone(Exception):
    """Who read the output reads no more."""


class Interrupted(Exception):
    """The user wants no more."""


class Cli(DocumentedGroup):
    """Ends every failure with one line on stderr, and with an exit status that says what it was
    (docs/reference/cli.md).

    The module of a command is imported when the command is called: it registers what it has.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for section in SECTIONS.values():
            if cmd_name in section and cmd_name not in self.commands:
                importlib.import_module(f"antiphon.cli.{section[cmd_name].module}")
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, command.summary) for name, command in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=command.summary)
            for section in SECTIONS.values()
            for name, command in section.items()
            if name.startswith(incomplete)
        ]

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        arguments = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in arguments
        arguments = _plugins_first([argument for argument in arguments if argument != "--debug"])
        extra |= {"standalone_mode": False, "obj": not {"-h", "--help"}.isdisjoint(arguments)}
        try:
            _prepare_output()
            _check_text(arguments)
            if arguments[-1:] == ["--plugin"]:
                raise click.UsageError("Option '--plugin' requires an argument.")
            with kept(_inputs(arguments)):
                status = super().main(arguments, prog_name or "antiphon", **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else "", err=True)
            sys.exit(WRONG)
        except click.ClickException as error:
            _fail(error.format_message(), debug)
        except AntiphonError as error:
            status = FOUND if error.code in FINDINGS else LATE if error.code == OVER_TIME else WRONG
            _fail(error.message, debug, status)
        except (BrokenPipeError, ReaderGone):
            # The reader has gone: say nothing, and keep Python from flushing into the pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(GONE)
        except Interrupted:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except OSError as error:  # those of files the user names have become AntiphonErrors
            with suppress(OSError):
                sys.stdout.flush()
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _fail(f"the output cannot be written: {error.strerror or error}", debug)
        except MemoryError:
            _fail("out of memory; use a smaller fabric or size", debug)
        except Exception as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            _fail(f"internal error: {what}; please report it with the output of the same command and --debug", debug)
        sys.exit(status or 0)

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _before_click():  # help and version are printed here
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _before_click():
            return super().invoke(ctx)


@contextmanager
def _before_click() -> Iterator[None]:
    """Says what happened before click makes status 1 of a broken pipe, and an empty line of Ctrl-C."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except KeyboardInterrupt:
        raise Interrupted from None


def _fail(message: str, debug: bool, status: int = WRONG) -> NoReturn:
    if debug:
        import traceback

        click.echo(harmless(traceback.format_exc()), err=True)
    click.echo(f"error: {harmless(ENDLESS.sub('...', ' '.join(message.split())))}", err=True)
    sys.exit(status)


def _prepare_output() -> None:
    """Output that a stream cannot take, such as µ in ASCII, is replaced; a closed stdout is refused."""
    if sys.stdout is None:
        raise AntiphonError("the output cannot be written: standard output is closed", "bad-file")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _inputs(arguments: Sequence[str]) -> Iterator[str]:
    """All that may name a file to read."""
    before = ""
    for argument in arguments:
        option, _, value = argument.partition("=")
        if before not in OUTPUTS and option not in OUTPUTS:
            yield value if value and option.startswith("--") else argument
        before = argument


def _check_text(arguments: Sequence[str]) -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise AntiphonError(f"argument {argument!a} is not valid UTF-8", "bad-spec") from None


def _plugins_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with ``--plugin FILE``, wherever it stands, in front: the group has the option."""
    first, others, left = list[str](), list[str](), iter(arguments)
    for argument in left:
        given = [argument, *(islice(left, 1) if argument == "--plugin" else [])]
        # Without a file it stays where it is missed.
        (first if argument.startswith("--plugin=") or len(given) > 1 else others).extend(given)
    return first + others


def _project() -> Path | None:
    """The nearest ``pyproject.toml`` with ``tool.antiphon``, in the working folder or above."""
    with suppress(OSError):
        for folder in (Path.cwd(), *Path.cwd().parents):
            file = folder / "pyproject.toml"
            if file.is_file() and b"tool.antiphon" in file.read_bytes():
                return file
    return None


def _print_version(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked:
        from antiphon import __version__

        click.echo(f"antiphon, version {__version__}")
        context.exit()


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, expose_value=False, help="Print the traceback of an error (works anywhere).")
@click.option(
    "--plugin",
    "files",
    multiple=True,
    metavar="FILE.py",
    type=click.Path(),
    help="Load algorithms, fabrics or schedulers of your own (docs/how-to/plugins.md; works anywhere). Repeatable.",
)
def main(files: Sequence[str]) -> None:
    """Collective communication on accelerator fabrics: proven, bounded and timed.

    Examples:
        antiphon compare mesh:4x4 --bytes 1MiB
        antiphon simulate --help
    """
    if click.get_current_context().obj:  # help is asked for, and runs no plugin
        return
    if (project := _project()) or files:
        from antiphon.plugins import load, load_project

        if project:
            load_project(project)
        for file in files:
            load(file)
