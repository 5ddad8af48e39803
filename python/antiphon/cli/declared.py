"""Commands from functions: arguments and options follow from signatures and docstrings.

A command is a function. What it takes by position are arguments, what it takes by name are options: one of ``SHARED``
(``options.py``), one of the function of the package that it is ``of``, or one that its own docstring explains.
``**given`` takes all others of that function. A dataclass, such as ``Problem``, takes the options of its fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from antiphon.cli.documented import Documented, Section, option_of
from antiphon.cli.group import main
from antiphon.cli.options import COMPLETIONS, FILE, METAVARS, SHARED, completing
from antiphon.declared import REQUIRED, Input, inputs, meanings

HANDLED = ("progress", "system")
"""Inputs of functions that commands give by themselves."""


def command(
    of: Callable[..., Any] | None = None,
    *,
    common: str = "",
    parent: click.Group = main,
    name: str | None = None,
    without: str = "",
    system: str = "generic",
    titles: Mapping[str, str] | None = None,
    former: tuple[str, str] = ("", ""),
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command of a function.

    Args:
        of: the function of the package that it calls.
        common: options that its help shows first, by name; the rest are in ``--help all``.
        parent: the group of commands that it belongs to.
        name: as on the command line, if not that of the function.
        without: inputs of ``of`` that it does not take.
        system: the platform where none is named.
        titles: of sections of the help, by the first of their options.
        former: another name of an option, and its argument: it works until the next release, with a hint.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        title = "Options"
        parameters: list[click.Parameter] = []
        for parameter in _parameters(function, of, without.split(), system):
            key = parameter.name or ""
            title = (titles or {}).get(key, title)
            if isinstance(parameter, Section):
                parameter.section = parameter.section or title
                parameter.common = key in common.split() or not common
            parameters.append(parameter)
            if key == former[1]:
                parameters.append(_formerly(former[0], parameter))
        order = common.split()
        parameters.sort(key=lambda each: order.index(each.name or "") if each.name in order else len(order))
        text = re.sub(r"\n *Args:\n(?: {4,}.*\n?|\n)*", "\n", inspect.cleandoc(function.__doc__ or "") + "\n")
        made = Documented(
            name or function.__name__.replace("_", "-"), params=parameters, callback=_filling(function), help=text
        )
        parent.add_command(made)
        return made

    return decorate


def _parameters(
    function: Callable[..., Any], of: Callable[..., Any] | None, without: Sequence[str], system: str
) -> Iterator[click.Parameter]:
    known = inputs(of) if of else {}
    hints, said = get_type_hints(function), meanings(inspect.getdoc(function) or "")
    own = list(_own(function))
    for each in own:
        if each.kind is each.VAR_KEYWORD:
            taken = {one.name for one in own} | {*HANDLED, *without}
            yield from (_option(one) for key, one in known.items() if key not in taken and not one.called)
        elif each.kind is each.KEYWORD_ONLY and each.name in SHARED:
            default = system if each.name == "system" else None if each.default is REQUIRED else each.default
            for key, shared in SHARED[each.name].items():
                yield shared.option(key, default if key == each.name else None, said.get(key, ""))
        elif each.kind is each.KEYWORD_ONLY:
            like = known.get(each.name) if each.name not in said else None
            given = Input(each.name, str(hints[each.name]), each.default, said.get(each.name, ""))
            yield _option(like or given, whole=like is None)
        else:
            yield _argument(each, hints[each.name], function.__name__)


def _own(function: Any) -> Iterator[inspect.Parameter]:
    """The parameters of a function; in place of dataclasses their fields."""
    hints = get_type_hints(function)
    for each in inspect.signature(function).parameters.values():
        yield from _own(hints[each.name]) if is_dataclass(hints[each.name]) else [each]


def _filling(function: Any) -> Callable[..., Any]:
    """The function, which takes the fields of its dataclasses by name."""
    kinds = {key: kind for key, kind in get_type_hints(function).items() if is_dataclass(kind)}

    def filled(**given: Any) -> Any:
        for key, kind in kinds.items():
            given[key] = _filling(kind)(**{each.name: given.pop(each.name) for each in _own(kind)})
        return function(**given)

    return filled


def _argument(parameter: inspect.Parameter, hint: Any, command: str) -> click.Argument:
    settings: dict[str, Any] = {"nargs": -1} if "tuple" in str(hint) else {}
    if "Path" in str(hint):
        settings["type"] = click.Path(path_type=Path)
    elif get_origin(hint) is Literal:
        settings["type"] = click.Choice(get_args(hint))
    return click.Argument(
        [parameter.name],
        required=parameter.default is REQUIRED,
        shell_complete=COMPLETIONS.get(f"{command} {parameter.name}") or COMPLETIONS.get(parameter.name),
        metavar=METAVARS.get(parameter.name),
        **settings,
    )


def _option(given: Input, whole: bool = False) -> click.Option:
    settings: dict[str, Any] = {"help": _help(given, whole)}
    if given.takes("bool"):
        settings["is_flag"] = True
    elif given.takes("tuple"):
        settings["multiple"] = True
    elif given.takes("Path"):
        settings["type"] = click.Path(path_type=Path)
    elif not given.takes("str") and not given.choices:
        settings["type"] = click.FLOAT if given.takes("float") else click.INT
    if given.choices:
        settings["metavar"] = "|".join(given.choices)
        settings["shell_complete"] = completing(lambda: list(given.choices))
    else:
        settings["metavar"] = METAVARS.get(given.key)
        settings["shell_complete"] = COMPLETIONS.get(given.key) or (FILE if given.takes("PathLike") else None)
    if given.default is REQUIRED:
        settings["required"] = True
    elif not given.takes("tuple"):
        settings["default"] = given.default
        settings["show_default"] = given.default is not None and given.default is not False
    return Section([option_of(given.key), given.key], **settings)


def _help(given: Input, whole: bool) -> str:
    """What is said of an input, or the first sentence of it, and what holds if it is not given."""
    text = given.meaning[:1].upper() + given.meaning[1:]
    text = text if whole else re.split(r"\.(?= |$)", text)[0]
    unless = given.unless
    if given.default is None and (found := re.search(r"[;,] (?:None:|default:?) (.*)$", text)):
        text, unless = text[: found.start()], found[1]
    text = re.sub(r" \(``\w+\(\)``\)", "", text)  # what lists the values in Python
    text, unless = (each.replace("``", "").replace("`", "") for each in (text, unless))
    return text + "." * (text[-1:] not in "].") + (f"  [default: {unless}]" if unless else "")


def _formerly(name: str, option: click.Parameter) -> click.Option:
    """A hidden option, what is given for which is given for another one."""

    def keep(context: click.Context, _parameter: click.Parameter, given: Any) -> None:
        if given is not None:
            hint = f"hint: {name} is called {option.opts[0]} now; the old name works until the next release"
            click.echo(hint, err=True)
        context.meta["antiphon.former"] = given

    def either(context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
        return context.meta["antiphon.former"] if given is None else given

    option.callback = either
    return click.Option([name, "former"], hidden=True, is_eager=True, expose_value=False, callback=keep)
