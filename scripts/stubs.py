"""Writes `python/antiphon/_core.pyi`, what the extension offers, from its declarations in `crates/py/src`.

It reads Rust as rustfmt writes it: signatures, types, comments, and what `lib.rs` exports. Every build of the extension
runs it (`crates/py/build.rs`), pip's too; the file is not kept. mypy's stubtest holds it against the extension.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "crates/py/src").glob("*.rs"))}
ALL = "\n".join(SOURCES.values())
PARTS = ("mod", "packet", "interface", "router", "energy")
SYSTEM = "\n".join((ROOT / f"crates/model/src/system/{part}.rs").read_text("utf-8") for part in PARTS)

HEAD = '''"""The native core. Sizes are bytes, as an int or text with a unit (`"64MiB"`, `"375kB"`)."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Final, SupportsIndex, TypeAlias, final

import numpy as np
from typing_extensions import Unpack

from antiphon._options import *
from antiphon.results import *

_Size: TypeAlias = str | SupportsIndex
_Columns: TypeAlias = dict[str, Column]
"""Column name to array; `antiphon.Table` makes a table of it."""
_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

__version__: Final[str]
'''

# What is not made of others, in Python.
TYPES = {
    "": "None",
    "String": "str",
    "Text": "str",
    "OwnText": "str",
    "Named": "str",
    "Size": "_Size",
    "Int": "SupportsIndex",
    "Number": "float",
    "FlitRate": "float",
    "f64": "float",
    "Matrix": "np.ndarray[Any, np.dtype[np.uint64]]",
    "ChunkTable": "_Columns",
    "Table": "_Columns",
    "Progress": "Callable[[float], object]",
    "PyDict": "dict[str, Any]",
    "PyBytes": "bytes",
    "PyTuple": "tuple[Any, ...]",
    "PyAny": "Any",
}
INTEGERS = {"i128", "u8", "u16", "u32", "u64", "usize", "LaneId", "TransferId", "NodeId", "LinkId"}
ALIASES = dict(re.findall(r"^type (\w+)(?:<'py>)? = (.*?);$", ALL, re.M | re.S))
UNIONS = dict(re.findall(r"^#\[derive\(FromPyObject\)\]\n(?:pub )?enum (\w+) \{\n(.*?)^\}", ALL, re.M | re.S))
# Parameters of a system: in Rust, when given, as a property.
PARAMETERS = {
    "bool": ("bool", "bool"),
    "Bytes": ("_Size", "int"),
    "u16": ("SupportsIndex", "int"),
    "u32": ("SupportsIndex", "int"),
    "u64": ("SupportsIndex", "int"),
    "Option<u32>": ("SupportsIndex | float", "float"),
} | dict.fromkeys(["Rate", "Picos", "Millionths", "Option<Rate>", "Option<Picos>", "Option<u64>"], ("float", "float"))

DOCS = r"(?P<docs>(?:^ *///[^\n]*\n)*)"
ATTRIBUTES = r"(?P<attributes>(?:^ *#\[[^\n]*\n(?:^(?! *(?:#\[|pub |fn ))[^\n]*\n)*)*)"
CLASS = r"^#\[pyclass\((?P<options>.*)\)\]\n(?:#.*\n)*pub struct (?P<name>\w+)(?P<fields>\(.*;| \{\n(?:.*\n)*?\})"
FIELD = r"^ *#\[pyo3\(get\)\]\n *pub (?P<name>\w+): (?P<type>.*),"
GETTER = r"^ {8}(?P<name>\w+): (?P<type>[^=\n]*) = "
FUNCTION = r"^ *(?:pub )?fn (?P<name>\w+)(?:<[^>]*>)?\((?P<arguments>.*?)\)(?: -> (?P<type>[^{]*?))? \{\n"
PARAMETER = r'^ *#\[parameter\(\s*"(?P<name>\w+)"[^#]*?\n *pub \w+: (?P<type>\S+)'
DECLARED = list(re.finditer(DOCS + PARAMETER, SYSTEM, re.M))
# How a method begins in Python, by its attribute.
FIRST = {"new": ("", "cls"), "classmethod": ("@classmethod\n", "cls"), "staticmethod": ("@staticmethod\n", "")}


def parts(text: str) -> Iterator[str]:
    """What commas divide, outside of brackets."""
    depth, part = 0, ""
    for character in text + ",":
        depth += (character in "([<") - (character in ")]>")
        if character != "," or depth:
            part += character
        elif part := part.strip():
            yield part
            part = ""


def python(rust: str, own: str, many: str = "list") -> str:
    """A type in Python; `many` is what a vector is, `own` the class that is declared."""
    if found := re.fullmatch(r"&?(?:\((.*)\)|\[(.*)\])", rust, re.S):
        inside = [python(part, own, many) for part in parts(found[1] or found[2] or "")]
        return f"{many}[{inside[0]}]" if found[2] else f"tuple[{', '.join(inside)}]" if inside else "None"
    outer, _, inner = re.sub(r"'\w+(, )?|\bmut |[&\s]|\w+::", "", rust).partition("<")
    inside = [python(part, own, many) for part in parts(inner[:-1])]
    if outer in UNIONS:
        return " | ".join(python(each, own, many) for each in re.findall(r"\((.*)\),", UNIONS[outer]))
    if outer in ALIASES:
        return python(ALIASES[outer], own, many)
    if outer in INTEGERS:
        return "int" if many == "list" else "SupportsIndex"
    if "Array" in outer:
        return f"np.ndarray[Any, np.dtype[np.{inner[:-1].replace('u', 'uint')}]]"
    match outer:
        case "PyResult" | "Fit" | "Py" | "Bound":
            return inside[0]
        case "Option":
            return f"{inside[0]} | None"
        case "Vec":
            return f"{many}[{inside[0]}]"
        case "HashMap":
            return f"dict[{', '.join(inside)}]"
    return own if outer == "Self" else TYPES.get(outer, outer)


def documented(found: re.Match[str]) -> str:
    """The comment as an indented docstring."""
    text = "\n".join(line.strip()[4:] for line in found["docs"].splitlines())
    return indent(f'"""{text}"""' if text else "...", "    ") + "\n"


def attribute(found: re.Match[str], own: str) -> str:
    """A property that is declared as a field."""
    kind = PARAMETERS.get(found["type"], ("", "str"))[1] if own == "System" else python(found["type"], own)
    return f"@property\ndef {found['name']}(self) -> {kind}:\n{documented(found)}"


def argument(item: str, types: dict[str, str], own: str) -> str:
    """An argument, as in `#[pyo3(signature = (...))]`."""
    declared, _, default = item.partition(" = ")
    key, _, annotation = declared.partition(": ")
    if key == "**parameters":
        given = {each["name"]: PARAMETERS.get(each["type"], ("str",))[0] for each in DECLARED}
        return ", ".join(f"{name}: {kind} | None = None" for name, kind in given.items())
    if key == "*":
        return key
    kind = annotation.strip('"') or python(types[key.strip("*")], own, "Sequence")
    if key.startswith("**"):
        kind = annotation.strip('"') or "object"
    elif key.startswith("*"):
        kind = kind.removeprefix("Sequence[").removesuffix("]")
    shown = {"true": "True", "false": "False"}.get(default, "..." if "(" in default else default)
    return f"{key}: {kind}{shown and f' = {shown}'}"


def function(found: re.Match[str], own: str = "") -> str:
    """A function, or a method of the class `own`."""
    types = {each.partition(":")[0]: each.partition(":")[2].strip() for each in parts(found["arguments"])}
    signature = re.search(r"signature = \((.*?)\)(?: -> \"(.*?)\")?(?:\)\]|,\s*text_sig)", found["attributes"], re.S)
    before, first = FIRST.get(
        (re.findall(r"#\[(new|\w+method)\]", found["attributes"]) or [""])[0], ("", own and "self")
    )
    if "#[getter]" in found["attributes"]:
        before = "@property\n"
    named = [each for each in types if each not in ("py", "&self", "&mut self", "slf", "class", "_class")]
    items = parts(signature[1]) if signature else iter(named)
    result = (signature and signature[2]) or python(found["type"] or "", own)
    name = "__new__" if first == "cls" and not before else found["name"]
    arguments = ", ".join(filter(None, [first, *(argument(item, types, own) for item in items)]))
    return f"{before}def {name}({arguments}) -> {result}:\n{documented(found)}"


def declared_class(found: re.Match[str]) -> str:
    """A class with its members."""
    own = found["name"]
    block = re.search(rf"^#\[pymethods\]\nimpl {own} \{{\n(.*?)^\}}", ALL, re.M | re.S)
    methods = block[1] if block else ""
    members = [attribute(each, own) for each in re.finditer(DOCS + FIELD, found["fields"], re.M)]
    members += [function(each, own) for each in re.finditer(DOCS + ATTRIBUTES + FUNCTION, methods, re.M | re.S)]
    for getters in re.findall(r"^    getters! \{\n(.*?)^    \}", methods, re.M | re.S):
        members += [attribute(each, own) for each in re.finditer(DOCS + GETTER, getters, re.M)]
    members += [attribute(each, own) for each in DECLARED if own == "System"]
    for name in ("__eq__", "__ne__") if "eq" in found["options"] else ():
        members.append(f"def {name}(self, other: object, /) -> bool: ...\n")
    return f"@final\nclass {own}:\n{documented(found)}{indent(''.join(members), '    ')}"


def stub() -> str:
    """The text of the file."""
    exports = re.search(r"use super::\{\n(.*?)\};", SOURCES["lib"], re.S)
    names = sorted(["__version__", *re.findall(r"\b\w+\b(?!::)", exports[1] if exports else "")])
    classes = [declared_class(found) for found in re.finditer(DOCS + CLASS, ALL, re.M)]
    functions = re.finditer(DOCS + ATTRIBUTES + FUNCTION, ALL, re.M | re.S)
    declared = [function(found) for found in functions if "#[pyfunction]" in found["attributes"]]
    return "\n".join([HEAD, f"__all__ = {names}\n", *classes, *declared])


if __name__ == "__main__":
    (ROOT / "python/antiphon/_core.pyi").write_text(stub(), "utf-8")
