"""A word has one meaning, on docs/reference/words.md, and one type of the core, in ARCHITECTURE.md."""

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


def test_the_types_of_words_are_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("## Words and their types\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row[-1])]
    assert len(names) > 30
    assert sorted(set(names) - declared().keys()) == []


def test_words_are_explained_once() -> None:
    page = (ROOT / "docs" / "reference" / "words.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    assert {tuple(row) for row in rows if row[0] == "Word"} == {("Word", "Meaning", "In the papers")}
    told = [row for row in rows if row[0] != "Word"]
    assert [row for row in told if len(row) != 3 or not row[1].endswith(".")] == []
    assert [word for word, count in Counter(row[0].lower() for row in told).items() if count > 1] == []
    assert len(told) > 100
