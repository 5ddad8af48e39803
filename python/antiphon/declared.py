"""What a function of the package takes, each declared once: where it is used, by its signature and its docstring, or in
the core. Command-line options, keys of studies and ``help()`` follow from this."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from textwrap import fill
from typing import Any, TypeVar, get_args

from antiphon import names
from antiphon._core import inputs as core_inputs
from antiphon.results import Parameter

F = TypeVar("F", bound=Callable[..., Any])
REQUIRED = inspect.Parameter.empty
ENTRY = re.compile(r"    (\w+): ")
"""The first line of what is said about an argument."""
SIZE = "str | SupportsIndex"
GIVEN = {"bytes": SIZE, "specification": SIZE, "count": "SupportsIndex", "number": "float", "flag": "bool"}
"""Types of what is given for parameters of the core, by their kind; of others text."""


@dataclass(frozen=True)
class Input:
    """Something that a function takes.

    Attributes:
        key: its name.
        type: as annotated.
        default: what holds if it is not given; ``REQUIRED`` if it must be.
        meaning: sentences of plain text.
        unless: what holds if it is not given, in words; empty where the default says it.
        choices: what there is to choose from; empty where that is no matter of a few names.
        needs: what it changes nothing without; empty if it always does something.
    """

    key: str
    type: str
    default: Any
    meaning: str
    unless: str = ""
    choices: tuple[str, ...] = ()
    needs: str = ""

    @property
    def called(self) -> bool:
        """Whether it is a function, which no option or file can give."""
        return any(map(self.takes, ("Callable", "Progress", "Heartbeat", "Timer")))

    def takes(self, kind: str) -> bool:
        """Whether a type is one of those it takes."""
        return re.search(rf"\b{kind}\b", self.type) is not None


def takes(*commands: str) -> Callable[[F], F]:
    """Of a function with ``**options``, which the core declares for some commands (``_core.inputs``): its signature and
    docstring have them by name."""

    def decorate(function: F) -> F:
        options = [each for command in commands for each in core_options(command)]
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        by_name = inspect.Parameter.KEYWORD_ONLY
        more = [inspect.Parameter(each.key, by_name, default=each.default, annotation=each.type) for each in options]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        function._core_inputs = {each.key: each for each in options}  # type: ignore[attr-defined]
        said = "\n".join(map(_entry, options))
        before, raises, after = (function.__doc__ or "").partition("\n\n    Raises:")
        function.__doc__ = f"{before}\n{said}{raises}{after}"
        return function

    return decorate


def _entry(option: Input) -> str:
    """What the docstring says of an option."""
    unless = f" None: {option.unless}." if option.unless else ""
    text = f"{option.key}: {option.meaning[0].lower()}{option.meaning[1:]}{unless}".replace("`", "``")
    return fill(text, 116, initial_indent=" " * 8, subsequent_indent=" " * 12)


def core_options(command: str) -> list[Input]:
    """What the core takes of a command."""
    return [_of_core(*each) for each in core_inputs(command)]


def _of_core(parameter: Parameter, optional: bool, needs: str) -> Input:
    infinite = parameter.kind == "count" and bool(parameter.choices)
    kind = GIVEN.get(parameter.kind, "str")
    if infinite:
        kind += " | float | str"
    default: Any = None
    if not optional and not infinite:
        texts: dict[str, Any] = {"yes": True, "no": False}
        default = texts.get(parameter.default) if parameter.kind == "flag" else parameter.default
        if parameter.kind == "count":
            default = int(default)
    if default is None:
        kind += " | None"
    choices = tuple(parameter.choices) if parameter.kind == "choice" else ()
    unless = parameter.default if optional else "no limit" if infinite else ""
    return Input(parameter.key, kind, default, parameter.meaning, unless, choices, needs=needs)


@cache
def inputs(function: Callable[..., Any]) -> dict[str, Input]:
    """All that a function takes, by name, but ``**`` and what is called."""
    declared: dict[str, Input] = getattr(function, "_core_inputs", {})
    said = meanings(inspect.getdoc(function) or "")
    found = {}
    for each in inspect.signature(function).parameters.values():
        kind = str(each.annotation)
        if each.name in declared:
            found[each.name] = declared[each.name]
        elif each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            choices = [get_args(getattr(names, name)) for name in re.findall(r"\w+", kind) if hasattr(names, name)]
            of = tuple(choices[0]) if choices else ()
            found[each.name] = Input(each.name, kind, each.default, said.get(each.name, ""), "", of)
    return found


def meanings(docstring: str) -> dict[str, str]:
    """What a docstring says of each argument, in its section ``Args``, as ``inspect.getdoc`` gives it.

    >>> meanings(inspect.getdoc(meanings))
    {'docstring': 'the text, or none.'}

    Args:
        docstring: the text,
            or none.
    """
    section = re.split(r"\n\w+:\n|\n\n(?!    )", docstring.partition("\nArgs:\n")[2])[0]
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if entry := ENTRY.match(line):
            name = entry[1]
            found[name] = line[entry.end() :]
        elif line.strip():
            found[name] += " " + line.strip()
    return found
