"""The words of docs/reference/words.md, and their meanings as tooltips."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "words.md"
QUIET = {"a", "abbr", "button", "code", "h1", "h2", "h3", "h4", "pre", "script", "style", "svg", "th"}
"""Elements in whose text nothing is marked."""


def words(page: str) -> dict[str, str]:
    """Every word of the page's tables with its meaning as plain text; a row may have several words with commas."""
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) >= 2 and cells[0] != "Word" and not set(cells[0]) <= set("-: "):
            meaning = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cells[1]).replace("`", "").replace("*", "")
            for word in re.split(r", *", re.sub(r"[`*]", "", cells[0])):
                found[word] = meaning[:1].upper() + meaning[1:]
    return found


def forms(word: str) -> Iterator[str]:
    """A word as it may stand on a page."""
    ends = [word, word + "s"]
    if word.endswith(("s", "x", "ch", "sh")):
        ends = [word, word + "es"]
    elif re.search(r"[^aeiou]y$", word):
        ends = [word, word[:-1] + "ies"]
    for end in ends:
        yield end
        yield end[:1].upper() + end[1:]


def texts(html: str) -> Iterator[tuple[str, bool, str]]:
    """The pieces of a page: a tag or a text, whether words in it may be marked, and the tag's name."""
    inside: list[str] = []
    for piece in re.split(r"(<!--.*?-->|<[^>]+>)", html, flags=re.DOTALL):
        tag = re.match(r"<(/?)([a-zA-Z][\w-]*)", piece)
        if tag and tag[2].lower() in QUIET:
            if tag[1]:
                if tag[2].lower() in inside:
                    inside.remove(tag[2].lower())
            elif not piece.endswith("/>"):
                inside.append(tag[2].lower())
        yield piece, not piece.startswith("<") and not inside, tag[2].lower() if tag and not tag[1] else ""


def marked(html: str, known: dict[str, str]) -> str:
    """A page with a tooltip on each word where it is first used in a section."""
    of = {form: word for word in known for form in forms(word)}
    if not of:
        return html
    longest_first = "|".join(sorted(map(re.escape, of), key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w:=@/.-])({longest_first})(?![\w=@/-]|:\S)")
    seen: set[str] = set()

    def tooltip(found: re.Match[str]) -> str:
        word = of[found[1]]
        if word in seen:
            return found[0]
        seen.add(word)
        return f'<abbr title="{escape(unescape(known[word]))}">{found[0]}</abbr>'

    made = []
    for piece, open_, tag in texts(html):
        if tag == "h2":
            seen.clear()
        made.append(pattern.sub(tooltip, piece) if open_ else piece)
    return "".join(made)
