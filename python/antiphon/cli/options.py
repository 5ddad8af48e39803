"""Arguments and options that commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

import antiphon
from antiphon.cli.documented import Documented
from antiphon.collective.specs import known_names
from antiphon.errors import AntiphonError, harmless
from antiphon.parallel import MOST_JOBS
from antiphon.platforms import parameter_names, read_endpoint, read_system

F = TypeVar("F", bound=Callable[..., Any])


def completing(
    *known: Callable[[], Sequence[str]], several: bool = False, files: bool = False
) -> Callable[[Any, Any, str], list[CompletionItem]]:
    """Shell completion from lists of names, of ``several`` with commas that of the last; or of ``files``."""

    def complete(_context: Any, _parameter: Any, typed: str) -> list[CompletionItem]:
        before, comma, last = typed.rpartition(",") if several else ("", "", typed)
        found = [CompletionItem(before + comma + name) for of in known for name in of() if name.startswith(last)]
        # Shells complete a file where there is nothing else.
        return [CompletionItem(typed, type="file"), *found] if files else found

    return complete


FILE = completing(files=True)
"""Completion of files alone."""


def algorithm_specs() -> list[str]:
    """Names of algorithms, and their options behind them."""
    names = [f"{known.name}:{option.key}=" for known in antiphon.algorithms() for option in known.options]
    return [*known_names(), *names]


FABRICS = completing(antiphon.fabrics, files=True)
FABRIC = click.argument("fabric", shell_complete=FABRICS)
ALGORITHM = click.argument("algorithm", shell_complete=completing(algorithm_specs))


COLLECTIVE = click.option(
    "--collective",
    default="all-reduce",
    show_default=True,
    help="What to compute.",
    shell_complete=completing(antiphon.collectives),
)
ROOT = click.option("--root", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1), help="Root rank.")
ALGORITHMS = click.option(
    "--algorithms",
    multiple=True,
    metavar="A,B,...",
    help="Default: all that are known. Repeatable.",
    shell_complete=completing(algorithm_specs, several=True),
)


class Renamed(click.Option):
    """An option that had another name, which still works, with a hint, until the next release."""

    def __init__(self, *names: Any, former: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.former = former

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, click.core.ParameterSource]:
        if self.name not in opts and FORMER in opts:
            click.echo(
                f"hint: {self.former} is called {self.opts[0]} now; the old name works until the next release", err=True
            )
            return opts[FORMER], click.core.ParameterSource.COMMANDLINE
        return super().consume_value(ctx, opts)


FORMER = "former"
"""What is parsed of a former name."""


def renamed(former: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """An option that was called ``former``."""

    def decorate(function: F) -> F:
        hidden = click.option(former, FORMER, hidden=True, expose_value=False)(function)
        return click.option(*names, cls=Renamed, former=former, **settings)(hidden)

    return decorate


def read_fabric(spec: str, whole: str = "") -> antiphon.Fabric:
    """The fabric of ``spec``, a part of ``whole``; what was taken where its file says nothing is printed for people.
    If it is a rails topology, the error says where it can be used."""
    try:
        fabric = antiphon.Fabric(spec)
        for note in fabric.notes:
            click.echo(f"note: {harmless(note)}", err=True)
        return fabric
    except AntiphonError as error:
        for text in ((whole or spec).removeprefix("rails:"), spec.removeprefix("rails:")):
            if _is_rails(text):
                message = f"'{text}' is no fabric but a rails topology"
                if error.code == "too-large":
                    message = f"{error.message}, but a rails topology may have them"
                raise AntiphonError(f"{message}; write train MODEL rails:{text}, or rails {text}", error.code) from None
        raise


def _is_rails(text: str) -> bool:
    try:
        antiphon.advise_rails(text)
    except AntiphonError:
        return False
    return True


class Share(click.types.FloatParamType):
    """A share of something, as a number; what takes it knows its range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(value)
        except ValueError:
            self.fail(f"'{value:.40}' is no number; give a share such as 0.95", param, ctx)


JOBS = click.option("--jobs", type=click.IntRange(1, MOST_JOBS), help="Runs at a time.  [default: as many as cores]")


def fidelity_option(text: str) -> Callable[[F], F]:
    names = completing(antiphon.fidelities)
    return click.option("--fidelity", default="packet", show_default=True, help=text, shell_complete=names)


SECONDS = {"": 1, "s": 1, "ms": 0.001, "min": 60, "h": 3600}
"""Units of a time limit."""


def time_limit_option(what: str) -> Callable[[F], F]:
    """``--time-limit``, as the argument ``time_limit_s``."""
    return click.option(
        "--time-limit",
        "time_limit_s",
        metavar="TIME",
        callback=lambda _context, _parameter, given: _seconds(given),
        help=f"{what}: 90, 90s, 5min or 2h.  [default: none]",
    )


def _seconds(text: str | None) -> float | None:
    """The seconds of a time limit."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([a-z]*)", text)
    if not found or found[2] not in SECONDS or not float(found[1]):
        what = f"--time-limit is '{text[:40]}', not a time above 0; write for example 90s, 5min or 2h"
        raise AntiphonError(what, "bad-size")
    return float(found[1]) * SECONDS[found[2]]


def endpoint_specs() -> list[str]:
    """Names of endpoints, and their options behind them."""
    names = [f"{known}:{option.key}=" for known in antiphon.endpoints() for option in known.options]
    return [*antiphon.endpoints(), *names]


ENDPOINT_OF_SYSTEM = click.option(
    "--endpoint",
    is_eager=True,
    expose_value=False,
    callback=lambda context, _parameter, given: context.meta.update(endpoint=given),
    metavar="NAME[:KEY=VALUE,...]|FILE",
    help="What stands between memory and links where a run is timed: system, ideal, npu, ace, a preset "
    "(docs/endpoints.md), or a file of antiphon calibrate.  [default: system]",
    shell_complete=completing(endpoint_specs, files=True),
)
"""Replaces the system's."""


def platform_option(default: str) -> Callable[[F], F]:
    """The platform: a preset or a file, and parameters that replace its own."""

    def given(function: F) -> F:
        for option in (
            ENDPOINT_OF_SYSTEM,
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="KEY=VALUE",
                help="Replace a parameter of the system (antiphon systems NAME), such as link_rate=50GB/s. Repeatable.",
                is_eager=True,
                expose_value=False,
                callback=lambda context, _parameter, given: context.meta.update(settings=given),
                shell_complete=completing(lambda: [f"{name}=" for name in parameter_names()]),
            ),
            click.option(
                "--system",
                default=default,
                show_default=True,
                metavar="NAME|FILE",
                help="Platform: a preset, or one of your own in .toml or .json (docs/cli.md).",
                callback=lambda context, _parameter, name: _read_system(
                    name, context.meta["settings"], context.meta["endpoint"]
                ),
                shell_complete=completing(antiphon.systems, files=True),
            ),
        ):
            function = option(function)
        return function

    return given


system_option = platform_option("generic")
"""The platform of most commands."""
energy_option = click.option("--energy", is_flag=True, help="Also energy and power (docs/energy.md).")
trace_option = click.option(
    "--trace",
    metavar="OUT.json",
    help="Also write what each link and rank did when, for Perfetto or chrome://tracing (docs/formats.md).",
    shell_complete=FILE,
)


def _read_system(spec: str, settings: Sequence[str], endpoint: str | None) -> antiphon.System:
    """The system of a preset or file and of ``KEY=VALUE`` settings, with an endpoint if one is given."""
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise AntiphonError(f"--set takes KEY=VALUE, not '{setting[:40]}'", "bad-spec")
        if key in changes:
            raise AntiphonError(f"--set gives '{key[:40]}' twice", "bad-spec")
        changes[key] = value
    system = read_system(spec, changes)
    return system if endpoint is None else system.with_(endpoint=read_endpoint(endpoint))


MATRIX = click.option(
    "--matrix",
    metavar="FILE.csv",
    help="For all-to-all, instead of --bytes: a line for each rank, with its bytes for every rank (docs/cli.md).",
    shell_complete=FILE,
)
"""What every rank has for every other one."""


def problem_on(system: str) -> Callable[[F], F]:
    """The options that say what is to be done, and on what, with a default platform."""

    def given(function: F) -> F:
        for option in (
            platform_option(system),
            click.option("--bytes", "size", help="Full buffer size.  [default: 64MiB]"),
            ROOT,
            COLLECTIVE,
        ):
            function = option(function)
        return function

    return given


def problem(function: F) -> F:
    """The options of most commands for one collective."""
    return problem_on("generic")(MATRIX(function))


class Sectioned(Documented):
    """Lists its options in the sections they name."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        for option in sorted(options, key=lambda option: not isinstance(option, SectionedOption)):
            if record := option.get_help_record(ctx):
                sections.setdefault(getattr(option, "section", "Options"), []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


class SectionedOption(click.Option):
    """An option of a section of the help."""

    def __init__(self, *names: Any, section: str, **extra: Any) -> None:
        super().__init__(*names, **extra)
        self.section = section
