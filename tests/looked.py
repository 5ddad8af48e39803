"""A page as a test looks at it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "col", "source", "wbr"}
ADDRESSES = ("src", "href", "xlink:href", "action", "data", "srcset", "poster")
LARGEST = 1_000_000
"""Bytes of a page."""


class Looked(HTMLParser):
    """Well-formed HTML that needs nothing else: whether elements are closed in their order, what is visible, and how
    many there are of each tag and class.

    Raises:
        AssertionError: for a page that is not so.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: dict[str, int] = {}
        self.classes: dict[str, int] = {}
        self.text = ""
        assert len(page.encode()) < LARGEST
        assert page.startswith("<!doctype html>")
        assert not re.search(r"@import|url\((?!#)|\bnan\b", page)
        self.feed(page)
        self.close()
        assert self.open == []
        assert self.tags["h1"] == self.tags["main"] == 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        given = dict(attrs)
        for each in (given.get("class") or "").split():
            self.classes[each] = self.classes.get(each, 0) + 1
        assert all((given.get(name) or "#").startswith(("#", "data:")) for name in ADDRESSES), given
        if tag == "svg":
            assert given.get("aria-label") or given.get("aria-hidden") == "true", "a picture without words"

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data
