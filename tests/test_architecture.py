"""Guards the floors of the core that ARCHITECTURE.md draws; pyproject.toml has the package's directions of imports."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from core_imports import CRATES, floors, imports_between_folders, lines, rust_code

ROOT = Path(__file__).resolve().parent.parent


def test_the_floors_are_those_that_the_document_draws() -> None:
    drawn = re.search(r"```\n(py .*?)```", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.DOTALL)
    assert drawn is not None
    assert [set(line.split("  ")[0].split()) for line in drawn[1].splitlines()] == list(reversed(floors()))


@pytest.mark.parametrize("crate", CRATES)
def test_no_two_folders_of_a_crate_import_each_other(crate: str) -> None:
    arrows = imports_between_folders(crate)
    assert not [(a, b) for a, b in combinations(sorted(arrows), 2) if a in arrows[b] and b in arrows[a]]


@pytest.mark.parametrize("crate", CRATES)
def test_no_crate_is_too_large_to_know(crate: str) -> None:
    assert lines(crate) <= 17_000


def test_tests_comments_and_literals_are_no_code() -> None:
    text = r"""
    //! crate::simulate
    use crate::units::Bytes; /* crate::bound */
    fn f<'a>(x: &'a str) -> char { g("crate::rails // \" "); r#"crate::energy"#; '"' }
    #[cfg(test)]
    mod tests { use crate::algorithm; fn g() { {} } }
    """
    assert re.findall(r"crate::(\w+)", rust_code(text)) == ["units"]
