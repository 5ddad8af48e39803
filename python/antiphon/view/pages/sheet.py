"""Pages made of a verdict and sections, each with a chart, a table or both; the page is ``templates/sheet.html``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup

from antiphon.view.document import Document, Either, Heading, Part, Table, document, more
from antiphon.view.drawing import Drawing
from antiphon.view.html import html
from antiphon.view.pages.page import page_template

MOST_ROWS = 1000
"""Of a table on a page."""


@dataclass(frozen=True)
class Section:
    """A part of a page: what stands above its charts and tables.

    Attributes:
        charts: of ``plots``, or of ``player.gantt`` with a ``label``.
        shown: tables and lines that come after them.
        body: elements that come last.
    """

    title: str
    text: str = ""
    charts: Sequence[Any] = ()
    shown: Document = field(default_factory=Document)
    body: str = ""

    @property
    def elements(self) -> str:
        """What comes after the charts."""
        return Markup(html(self.shown, sortable=True)) + Markup(self.body)


@dataclass(frozen=True)
class Picture:
    """A fabric that is drawn above the sections: classes and tooltips as in ``Drawing.svg``; ``signs`` are further ones
    of the legend, each the class of a link and a text."""

    drawing: Drawing
    title: str
    text: str
    label: str
    name: str
    classes: Sequence[str] | None = None
    titles: Sequence[str] | None = None
    node_classes: Sequence[str] | None = None
    signs: Sequence[tuple[str, str]] = ()


def sheet(
    title: str,
    about: str,
    verdict: str,
    sections: Sequence[Section],
    tiles: Sequence[tuple[str, str]] = (),
    *,
    wrong: bool = False,
    picture: Picture | None = None,
    player: dict[str, Any] | None = None,
    template: str = "sheet.html",
    **more: Any,
) -> str:
    """The page as text.

    Args:
        about: one line on what was done, where and how.
        verdict: what came of it, in a sentence.
        tiles: figures, each with what it is.
        wrong: whether the verdict is bad news.
        picture: of the fabric.
        player: what plays on it, of ``pages.player``.
        template: one that adds to ``sheet.html``.
        more: what it needs for that.
    """
    given: dict[str, Any] = {"title": title, "about": about, "verdict": verdict, "sections": sections, "tiles": tiles}
    plays = any(isinstance(chart, dict) for section in sections for chart in section.charts)
    given |= {"wrong": wrong, "picture": picture, "player": player, "plays": plays}
    return page_template(template).render(**given, **more)


def document_page(document: Document) -> str:
    """A document as a page."""
    sections = sections_of(document)
    title = next((section.title for section in sections if section.title), "Result")
    if sections[:1] and sections[0].title == title:
        sections[0] = replace(sections[0], title="")
    return sheet(title, "", "", sections)


def sections_of(document: Document) -> list[Section]:
    """A section for each heading, and for each table that has a title, with what follows it."""
    sections: list[Section] = []
    lead: list[Part] = []
    for part in _wide(document.parts):
        if isinstance(part, Heading):
            sections.append(Section(part.text))
        elif isinstance(part, Table) and (part.title or not sections):
            title, _, more = part.title.partition("\n")
            sections.append(Section(title, more.strip("()"), shown=Document([*lead, replace(part, title="")])))
            lead = []
        elif sections:
            last = sections[-1]
            sections[-1] = replace(last, shown=last.shown.with_(part))
        else:
            lead.append(part)
    return [*sections, Section("", shown=Document(lead))] if lead else sections


def result_page(result: Any) -> str:
    """The tables of a result that nobody puts in words."""
    sections = []
    for name, table in result.tables.items():
        rows = table.rows()[:MOST_ROWS]
        heads = [f"{key}:" if column.dtype.kind in "iuf" else key for key, column in table.items()]
        cells = [[_plain(value) for value in row.values()] for row in rows]
        sections.append(Section(name, shown=document(Table(heads, cells), more(table.height, MOST_ROWS, "to_frame()"))))
    return sheet(type(result).__name__, "", repr(result).strip("<>"), sections)


def _plain(value: Any) -> str:
    """A value of a table."""
    return value if isinstance(value, str) else str(value) if isinstance(value, bool) else f"{value:,.6g}"


def _wide(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield from _wide(part.wide) if isinstance(part, Either) else [part]
