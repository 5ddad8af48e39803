"""What a release says of itself, in the places where it stands."""

from __future__ import annotations

import re
from pathlib import Path

import antiphon

ROOT = Path(__file__).resolve().parent.parent


def test_one_version() -> None:
    changes = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert changes is not None
    assert changes[1] == antiphon.__version__
    assert f"version: {changes[1]}\ndate-released: {changes[2]}\n" in citation
