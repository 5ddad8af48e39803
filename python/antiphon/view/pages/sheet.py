"""Pages made of a verdict and sections, each with a chart, a table or both; the page is ``templates/sheet.html``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.view.document import Document, Part
from antiphon.view.html import html
from antiphon.view.pages.page import page_template


@dataclass(frozen=True)
class Section:
    """A part of a page: what stands above its charts and tables.

    Attributes:
        charts: of ``plots``.
        body: elements that come after them.
    """

    title: str
    text: str = ""
    charts: Sequence[Any] = ()
    body: str = ""


def sheet(
    title: str,
    about: str,
    verdict: str,
    sections: Sequence[Section],
    tiles: Sequence[tuple[str, str]] = (),
    *,
    wrong: bool = False,
    template: str = "sheet.html",
    **more: Any,
) -> str:
    """The page as text.

    Args:
        about: one line on what was done, where and how.
        verdict: what came of it, in a sentence.
        tiles: figures, each with what it is.
        wrong: whether the verdict is bad news.
        template: one that adds to ``sheet.html``.
        more: what it needs for that.
    """
    given = {"title": title, "about": about, "verdict": verdict, "sections": sections, "tiles": tiles, "wrong": wrong}
    return page_template(template).render(**given, **more)


def tables(*parts: Part) -> str:
    """Elements of the parts of a document."""
    return html(Document(parts))
