"""Guards the direction of imports in the core that ARCHITECTURE.md draws; that of the package is in pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "crates" / "core" / "src"

# What each module of the core may import. Everything not listed is forbidden.
FABRIC = {"error", "units", "watch"}
COLLECTIVE = FABRIC | {"fabric", "options", "parameter", "system"}
SCHEDULE = COLLECTIVE | {"collective"}
ABOVE = SCHEDULE | {"energy", "schedule"}
ALLOWED: dict[str, set[str]] = {
    "error": set(),
    "units": {"error"},
    "watch": {"error"},
    "parts": set(),
    "parameter": FABRIC,
    "options": FABRIC | {"parameter"},
    "fabric": FABRIC | {"options", "parameter"},
    "system": FABRIC | {"fabric", "options", "parameter"},
    "energy": COLLECTIVE,
    "noc": COLLECTIVE | {"energy", "parts"},
    "collective": COLLECTIVE,
    "schedule": SCHEDULE,
    "cost": FABRIC,
    "synthesis": {"error", "watch", "fabric", "system", "collective"},
    "algorithm": ABOVE | {"bound", "cost", "rails", "simulate", "synthesis"},
    "verify": ABOVE,
    "execute": ABOVE | {"verify"},
    "bound": ABOVE | {"simulate", "synthesis"},
    "formats": ABOVE | {"compute", "execute", "replay", "simulate", "verify"},
    "simulate": ABOVE | {"noc", "parts"},
    "rails": ABOVE | {"verify"},
    "workload": FABRIC | {"collective"},
    "compute": FABRIC | {"parameter", "system", "workload"},
    "replay": ABOVE | {"simulate"},
    "replan": ABOVE | {"algorithm", "bound", "verify"},
    "configure": ABOVE | {"algorithm", "bound", "simulate", "verify"},
    "training": ABOVE | {"simulate", "rails", "replay", "workload", "compute"},
}

# Comments (block comments do not nest here), and string, raw string and character literals.
NOT_CODE = re.compile(
    r"""
      //[^\n]*
    | /\*.*?\*/
    | \bb?r(?P<hashes>\#*)".*?"(?P=hashes)
    | \bb?"(?:\\.|[^"\\])*" | "(?:\\.|[^"\\])*"
    | b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'
    """,
    re.VERBOSE | re.DOTALL,
)
TEST_ITEM = re.compile(r"#\[cfg\(test\)\]")
PATH = re.compile(r"\b(?:crate|super(?:\s*::\s*super)*)\s*::\s*(?:\{|\w+)")


def rust_code(text: str) -> str:
    """The text without comments, literals and items under `#[cfg(test)]`; the lines keep their numbers."""
    text = NOT_CODE.sub(lambda found: "_" + "\n" * found[0].count("\n"), text)
    while found := TEST_ITEM.search(text):
        end = end_of_item(text, found.end())
        text = text[: found.start()] + "\n" * text.count("\n", found.start(), end) + text[end:]
    return text


def end_of_item(text: str, start: int) -> int:
    """Where the item from `start` on ends: after its first `;` or `{...}` outside other brackets."""
    depth = 0
    for at in range(start, len(text)):
        letter = text[at]
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0 and letter == "}" and not text[at + 1 :].lstrip().startswith(";"):
                return at + 1
        elif letter == ";" and depth == 0:
            return at + 1
    return len(text)


def group_heads(text: str, start: int) -> Iterator[str]:
    """The first names inside the `{...}` that begins at `start`: `{a, b::{c, d}}` gives a and b."""
    depth, fresh = 0, False
    for found in re.finditer(r"[{},]|\w+", text[start:]):
        token = found[0]
        if token == "{":
            depth += 1
            fresh = depth == 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                return
        elif token == ",":
            fresh = depth == 1
        elif fresh:
            yield token
            fresh = False


def rust_imports(text: str, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and first name of every path from the crate's root in `text`, the code of `module`."""
    code = rust_code(text)
    for found in PATH.finditer(code):
        supers = found[0].count("super")
        if supers and supers < len(module):
            continue  # stays inside the top-level module
        line = code.count("\n", 0, found.start()) + 1
        if found[0].endswith("{"):
            yield from ((line, name) for name in group_heads(code, found.end() - 1))
        else:
            yield line, re.split(r"\W+", found[0])[-1]


def module_of(file: Path) -> tuple[str, ...]:
    """`simulate/packet.rs` is `("simulate", "packet")`; `simulate/mod.rs` is `("simulate",)`."""
    parts = file.relative_to(CORE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "mod" else parts


def core_files() -> list[Path]:
    """Every source file of the core but its root and test-only files."""
    return [
        file
        for file in sorted(CORE.rglob("*.rs"))
        if file.parent != CORE or file.name not in {"lib.rs", "main.rs"}
        if "tests" not in module_of(file)
    ]


def test_every_core_module_has_its_place() -> None:
    unplaced = {module_of(file)[0] for file in core_files()} - ALLOWED.keys()
    assert not unplaced, f"say in ALLOWED and in ARCHITECTURE.md what these may import: {sorted(unplaced)}"


def test_the_allowed_directions_have_no_cycle() -> None:
    rest = {name: set(imports) for name, imports in ALLOWED.items()}
    while ready := {name for name, imports in rest.items() if not imports}:
        rest = {name: imports - ready for name, imports in rest.items() if name not in ready}
    assert not rest


@pytest.mark.parametrize("file", core_files(), ids=lambda file: str(file.relative_to(CORE)))
def test_core_imports_point_down(file: Path) -> None:
    module = module_of(file)
    allowed = ALLOWED.get(module[0], set()) | {module[0]}
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {module[0]} must not import {name}"
        for line, name in rust_imports(file.read_text("utf-8"), module)
        if name in ALLOWED and name not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_the_scanner_sees_imports_and_skips_tests_comments_and_strings() -> None:
    text = r"""
    //! crate::simulate
    use crate::units::Bytes; /* crate::bound */
    use crate::{error::{Code, verify}, fabric};
    use super::system;
    fn f<'a>(x: &'a str) -> char { g("crate::rails // \" "); r#"crate::energy"#; crate::collective::g(); '"' }
    #[cfg(test)]
    use crate::training::{A, B};
    #[cfg(test)]
    mod tests { use crate::algorithm; fn g() { {} } }
    fn h() { crate::schedule::h() }
    """
    assert list(rust_imports(text, ("formats",))) == [
        (3, "units"),
        (4, "error"),
        (4, "fabric"),
        (5, "system"),
        (6, "collective"),
        (11, "schedule"),
    ]
    assert "system" not in [name for _line, name in rust_imports(text, ("formats", "json"))]
