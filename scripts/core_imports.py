"""Which crate of the core imports which, on which floor it is, and which of its folders import each other.

``python scripts/core_imports.py`` prints them. Test code does not count.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = sorted(manifest.parent.name for manifest in ROOT.glob("crates/*/Cargo.toml"))

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
# The modules of a test, whether in this file or in one of its own.
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(crate\))? )?mod (\w+)\s*([;{])")


def rust_code(text: str) -> str:
    """The text without comments, literals and modules of tests."""
    text = NOT_CODE.sub("_", text)
    while found := TESTS.search(text):
        end = found.end()
        depth = 1 if found[2] == "{" else 0
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[: found.start()] + text[end:]
    return text


def sources(crate: str) -> dict[Path, str]:
    """The code of every source file of a crate, by its path from `src`; not that of files with tests."""
    top = ROOT / "crates" / crate / "src"
    texts = {path.relative_to(top): path.read_text("utf-8") for path in sorted(top.rglob("*.rs"))}
    tests = set()
    for path, text in texts.items():
        folder = path.parent if path.name in {"mod.rs", "lib.rs"} else path.with_suffix("")
        tests |= {folder / name for name, rest in TESTS.findall(NOT_CODE.sub("_", text)) if rest == ";"}
    of_tests = {path for path in texts if {path.with_suffix(""), *path.parents} & tests}
    return {path: rust_code(text) for path, text in texts.items() if path not in of_tests}


def imports(crate: str) -> set[str]:
    """Crates that a crate imports."""
    return set(re.findall(r"\bantiphon_(\w+)", "".join(sources(crate).values()))) & set(CRATES)


def floors() -> list[set[str]]:
    """Crates by floor, those that import none first."""
    left = {crate: imports(crate) for crate in CRATES}
    result: list[set[str]] = []
    while left:
        floor = {crate for crate, below in left.items() if not below & left.keys()}
        assert floor, f"a circle among {sorted(left)}"
        result.append(floor)
        left = {crate: below for crate, below in left.items() if crate not in floor}
    return result


def imports_between_folders(crate: str) -> dict[str, set[str]]:
    """What the folders of a crate's `src` import from each other; files beside them are common ground."""
    texts = sources(crate)
    folders = {path.parts[0] for path in texts if len(path.parts) > 1}
    arrows: dict[str, set[str]] = defaultdict(set, {folder: set() for folder in folders})
    for path, text in texts.items():
        if path.parts[0] in folders:
            heads = re.findall(r"\bcrate::(\w+)", text)
            groups = " ".join(re.findall(r"\bcrate::\{(.*?)\};", text, re.DOTALL))
            heads += re.findall(r"\w+", groups)
            depth = len(path.parts) - (path.name == "mod.rs")
            heads += re.findall(r"\b" + "super::" * depth + r"(\w+)", text)
            arrows[path.parts[0]] |= set(heads) & folders - {path.parts[0]}
    return arrows


def lines(crate: str) -> int:
    """Lines of a crate's `src`, tests included."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in (ROOT / "crates" / crate / "src").rglob("*.rs"))


def main() -> None:
    """Prints all of it."""
    for number, floor in enumerate(floors()):
        for crate in sorted(floor):
            below = " ".join(sorted(imports(crate))) or "none"
            print(f"{number} {crate:8} {lines(crate):6} lines, imports {below}")
            for folder, others in sorted(imports_between_folders(crate).items()):
                if others:
                    print(f"    {folder} -> {' '.join(sorted(others))}")


if __name__ == "__main__":
    main()
