"""Holds the types of the core against docs/reference/words.md: a word has one meaning."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from core_imports import CRATES, sources

ROOT = Path(__file__).resolve().parent.parent


def declared() -> Counter[str]:
    """How often each type's name is declared.

    Bindings have the words of what they wrap. What a function or a trait's implementation declares does not count.
    """
    declaration = re.compile(
        r"^(?:(?: *pub |pub\([a-z ]+\) |)(?:struct|enum|trait|union)|(?:pub(?:\([a-z ]+\))? )?type) (\w+)", re.MULTILINE
    )
    texts = [text for crate in CRATES if crate != "py" for text in sources(crate).values()]
    return Counter(name for text in texts for name in declaration.findall(text))


def test_no_two_types_have_one_name() -> None:
    assert sorted(name for name, count in declared().items() if count > 1) == []


def test_the_types_of_the_page_are_there() -> None:
    page = (ROOT / "docs" / "reference" / "words.md").read_text("utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row[-1])]
    assert len(names) > 30
    assert sorted(set(names) - declared().keys()) == []


def test_words_are_explained_once() -> None:
    page = (ROOT / "docs" / "reference" / "words.md").read_text("utf-8")
    words = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert [word for word, count in Counter(words).items() if count > 1 and word != "Word"] == []
