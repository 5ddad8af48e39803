"""Writes what follows from the parameters that the core declares: arguments in `_options.pyi`, fields of `Router`.

Run by `make tables`; a test sees that all is current.
"""

from __future__ import annotations

import re
from pathlib import Path

import antiphon
from antiphon import Parameter, declared

ROOT = Path(__file__).resolve().parent.parent
HELD = {"bytes": "int", "count": "int", "number": "float", "flag": "bool"}


def infinite(parameter: Parameter) -> bool:
    """Whether it is a whole number or infinite."""
    return parameter.kind == "count" and bool(parameter.choices)


def held(parameter: Parameter, missing: str) -> str:
    """The type of a value; ``missing`` is that of an infinite one."""
    return missing if infinite(parameter) else HELD.get(parameter.kind, "str")


def options() -> str:
    """The options of commands that the core declares, as types of keyword arguments."""
    lines = []
    for name, commands in (("Train", ["train"]), ("Noc", ["noc", "routers"]), ("Rails", ["rails"])):
        lines += ["", f"class {name}Options(TypedDict, total=False):"]
        for each in (each for command in commands for each in declared.core_options(command)):
            literal = f"Literal{list(each.choices)} | ".replace("'", '"') if each.choices else ""
            lines.append(f"    {each.key}: {literal}{each.type}")
    return "\n".join([*lines, "", ""])


def fields() -> str:
    """The fields of a `Router`."""
    return "".join(f"    {each.key}: {held(each, 'int | None')}\n" for each in antiphon.router_parameters())


PARTS = (
    ("python/antiphon/_options.pyi", "options", options),
    ("python/antiphon/results/network.py", "fields", fields),
)
"""File, name of the part in it, what is written there."""


def current(file: str) -> str:
    """What a file should be."""
    text = (ROOT / file).read_text("utf-8")
    for path, name, write in PARTS:
        if path == file:
            part = rf"(?<=# {name}: make tables\n).*?(?=^ *# end of {name}$)"
            text, count = re.subn(part, lambda _, write=write: write(), text, flags=re.DOTALL | re.MULTILINE)
            assert count == 1, f"{file} has no place for {name}"
    return text


if __name__ == "__main__":
    for file in {path for path, _, _ in PARTS}:
        (ROOT / file).write_text(current(file), "utf-8")
