"""Writes what follows from the parameters that the core declares: the tables of docs/reference/parameters.md, the
arguments of `antiphon.noc`, the fields of `antiphon.Router`; and the public names of docs/reference/python.md.

Run by `make tables`; a test sees that all is current.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import antiphon
from antiphon import Parameter, declared
from antiphon._core import inputs as core_inputs

ROOT = Path(__file__).resolve().parent.parent
GIVEN = {"bytes": "_Size", "count": "SupportsIndex", "number": "float", "flag": "bool"}
HELD = {"bytes": "int", "count": "int", "number": "float", "flag": "bool"}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def row(parameter: Parameter, json: str) -> list[str]:
    """The row of a parameter with its place in JSON."""
    values = ", ".join(map(code, parameter.choices)) if parameter.kind == "choice" else parameter.values
    return [code(parameter.key), values, code(parameter.default), parameter.meaning, code(json), parameter.source]


def systems() -> str:
    """Every parameter of systems."""
    header = ["Parameter", "Values", "Default", "Meaning", "JSON", "From"]
    return table(header, (row(each, each.json) for each in antiphon.System().parameters()))


def presets() -> str:
    """What every preset replaces."""
    usual = {each.key: each.default for each in antiphon.System().parameters()}
    rows = []
    for name in antiphon.systems():
        system = antiphon.System(name)
        replaced = [each for each in system.parameters() if each.default != usual[each.key]]
        settings = ", ".join(code(f"{each.key}={each.default}") for each in replaced)
        rows.append([code(name), system.description, settings])
    return table(["System", "What it models", "What it replaces"], rows)


def models() -> str:
    """The options of compute models."""
    rows = []
    for name, options in ((each.name, each.options) for each in antiphon.compute_models()):
        rows += [[code(name), *row(each, f"processor.{name}.{each.json}")] for each in options]
    return table(["Model", "Option", "Values", "Default", "Meaning", "JSON", "From"], rows)


def algorithms() -> str:
    """The options of algorithms, those that all have once."""
    rows = []
    known = antiphon.algorithms()
    shared = set.intersection(*({option.key for option in algorithm.options} for algorithm in known))
    options = [(code(each.name), option) for each in known for option in each.options if option.key not in shared]
    options += [("all", option) for option in known[0].options if option.key in shared]
    for name, option in options:
        key, values, _, meaning, *_ = row(option, "")
        default = option.default if " " in option.default else code(option.default)
        rows.append([name, key, values, default, meaning])
    return table(["Algorithm", "Option", "Values", "Default", "Meaning"], rows)


def infinite(parameter: Parameter) -> bool:
    """Whether it is a whole number or infinite."""
    return parameter.kind == "count" and bool(parameter.choices)


def given(parameter: Parameter) -> str:
    """The type of an argument."""
    return "SupportsIndex | float" if infinite(parameter) else GIVEN.get(parameter.kind, "str")


def held(parameter: Parameter, missing: str) -> str:
    """The type of a value; ``missing`` is that of an infinite one."""
    return missing if infinite(parameter) else HELD.get(parameter.kind, "str")


def inputs() -> str:
    """The options of commands that the core declares."""
    rows = []
    for command in ("train", "noc", "routers", "rails"):
        for parameter, optional, _ in core_inputs(command):
            key, values, default, meaning, *_ = row(parameter, "")
            of = "noc" if command == "routers" else command
            rows.append([code(of), key, values, parameter.default if optional else default, meaning])
    return table(["Command", "Key", "Values", "Default", "Meaning"], rows)


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


KINDS = (
    ("Functions", inspect.isroutine),
    ("Errors", lambda thing: inspect.isclass(thing) and issubclass(thing, Exception)),
    ("Results", lambda thing: inspect.isclass(thing) and issubclass(thing, antiphon.Result)),
    ("What is given, and records", inspect.isclass),
)


def first_sentence(thing: object) -> str:
    """What something is, by its help."""
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return text.replace("``", "`")


def names() -> str:
    """Every public name and the first sentence of its help."""
    rest = [name for name in antiphon.__all__ if callable(getattr(antiphon, name))]
    lines = []
    for title, belongs in KINDS:
        named = [name for name in rest if belongs(getattr(antiphon, name))]
        rest = [name for name in rest if name not in named]
        rows = [[code(name), first_sentence(getattr(antiphon, name))] for name in named]
        lines += [f"## {title}", "", table(("Name", "What it is"), rows)]
    assert not rest
    return "\n".join(lines)


PARTS = (
    ("docs/reference/python.md", "names", names),
    ("docs/reference/parameters.md", "systems", systems),
    ("docs/reference/parameters.md", "presets", presets),
    ("docs/reference/parameters.md", "models", models),
    ("docs/reference/parameters.md", "algorithms", algorithms),
    ("docs/reference/parameters.md", "inputs", inputs),
    ("python/antiphon/_options.pyi", "options", options),
    ("python/antiphon/results/network.py", "fields", fields),
)
"""File, name of the part in it, what is written there."""


def current(file: str) -> str:
    """What a file should be."""
    text = (ROOT / file).read_text("utf-8")
    for path, name, write in PARTS:
        if path == file:
            start, close = ("<!-- ", " -->") if path.endswith(".md") else ("# ", "")
            part = rf"(?<={start}{name}: make tables{close}\n).*?(?=^ *{start}end of {name}{close}$)"
            text, count = re.subn(part, lambda _, write=write: write(), text, flags=re.DOTALL | re.MULTILINE)
            assert count == 1, f"{file} has no place for {name}"
    return text


if __name__ == "__main__":
    for file in {path for path, _, _ in PARTS}:
        (ROOT / file).write_text(current(file), "utf-8")
