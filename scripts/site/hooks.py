"""What MkDocs calls when it builds the site: adds the generated pages, and mends what code hosts read otherwise.

Pages outside docs/ that pages link to are on the site, too: those of ``PROJECT``, and files as text.
"""

from __future__ import annotations

import posixpath
import re
from html import escape
from pathlib import Path
from typing import Any

import gallery
import glossary
import json_keys
import reference
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "index.md",
}
"""Markdown outside docs/ and its place on the site."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
BAR = "\\|"
CODE_WITH_BARS = re.compile(r"`([^`]*\\\|[^`]*)`")
ITEM = re.compile(r"( *)(?:[-*]|\d+\.) +(?=\S)")
VERBATIM = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)

generated: dict[str, str] = {}
known: dict[str, str] = {}


def on_config(config: Any) -> Any:
    """Makes the pages, and fills in what the navigation leaves open."""
    generated.clear()
    generated.update(reference.pages())
    generated.update(gallery.pages())
    generated["reference/json-keys.md"] = json_keys.page()
    known.clear()
    known.update(glossary.words(glossary.PAGE.read_text("utf-8")))
    config["nav"] = navigation(config["nav"])
    return config


def navigation(entries: list[Any]) -> list[Any]:
    """The navigation with the pages of its folders."""
    made: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            (title, below), *_ = entry.items()
            made.append({title: navigation(below) if isinstance(below, list) else below})
        elif entry.endswith("/"):
            made += sorted(page for page in generated if page.startswith(entry))
        else:
            made.append(entry)
    return made


def on_files(files: Files, config: Any) -> Files:
    """Adds what is generated, and what pages link to outside docs/."""
    for place, text in generated.items():
        files.append(File.generated(config, place, content=text))
    for path, place in PROJECT.items():
        if files.get_file_from_path(place) is None:
            files.append(File.generated(config, place, content=(ROOT / path).read_text("utf-8")))
    pages = [file for file in files if file.is_documentation_page()]
    for target in sorted({target for file in pages for target in outside(file.src_uri, file.content_string)}):
        file = File.generated(config, place_of(target), content=as_page(target))
        file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    return files


def repository(place: str) -> str:
    """Where the source of a page is in the repository."""
    return next((path for path, page in PROJECT.items() if page == place and path != "README.md"), f"docs/{place}")


def place_of(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return PROJECT.get(path) or f"project/files/{path.removesuffix('.md').rstrip('/')}.md"


def target_of(place: str, link: str) -> str:
    """The file of the repository that a link of a page names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(repository(place)), link))


def outside(place: str, markdown: str) -> set[str]:
    """The files of the repository that a page links to and that have no page yet."""
    prose = VERBATIM.sub("", markdown)
    targets = {target_of(place, found[1]) for found in LINK.finditer(prose)}
    return {each for each in targets if not each.startswith("docs/") and each not in PROJECT and (ROOT / each).exists()}


def as_page(path: str) -> str:
    """A file or folder as a page."""
    whole = ROOT / path
    if whole.is_dir():
        names = sorted(each.name for each in whole.iterdir())
        return f"# {path}\n\nThis folder of the repository has:\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = whole.read_text("utf-8")
    if path.endswith(".md"):
        return text
    language = {".py": "python", ".toml": "toml", ".json": "json"}.get(whole.suffix, "text")
    return f"# {path}\n\nA file of the repository.\n\n````{language}\n{text}````\n"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links as the site has them, and lists as code hosts show them."""
    place = page.file.src_uri

    def link(found: re.Match[str]) -> str:
        target = target_of(place, found[1])
        if not (ROOT / target).exists() and not target.startswith("docs/"):
            return found[0]  # MkDocs says that it is missing
        there = posixpath.relpath(place_of(target), posixpath.dirname(place) or ".")
        return there + (found[2] or "")

    if place == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    parts = VERBATIM.split(markdown)
    mended = [part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts)]
    return lists_apart(bars("".join(mended)))


def bars(markdown: str) -> str:
    """In tables, code in which the bars are escaped, as code hosts read it."""

    def mended(found: re.Match[str]) -> str:
        return f"<code>{escape(found[1], quote=False).replace(BAR, '&#124;')}</code>"

    lines = markdown.split("\n")
    return "\n".join(CODE_WITH_BARS.sub(mended, line) if line.startswith("|") else line for line in lines)


def lists_apart(markdown: str) -> str:
    """A list begins after an empty line, and what is in it is indented by four columns, as MkDocs wants it."""
    made: list[str] = []
    indents: list[int] = []  # where the text of each open item begins
    fence = ""
    for line in markdown.splitlines():
        begins, was_open = None if fence else ITEM.match(line), bool(indents)
        column = len(line) - len(line.lstrip())
        if not fence and line.strip():
            left = begins.end(1) if begins else column
            while indents and left < indents[-1]:
                indents.pop()
        if begins and not was_open and made and made[-1].strip():
            made.append("")
        made.append("    " * len(indents) + line[indents[-1] if indents else 0 :])
        if begins:
            indents.append(begins.end())
        if mark := re.match(r" *(`{3,})", line):
            fence = "" if fence == mark[1] else fence or mark[1]
    return "\n".join(made) + "\n"


def on_page_content(html: str, *, page: Any, files: Files, **_: Any) -> str:
    """Commands and names of pages become links, words of the glossary get tooltips."""
    place = page.file.src_uri

    def url(target: str) -> str:
        file = files.get_file_from_path(target)
        return escape(file.url_relative_to(page.file)) if file is not None else ""

    def command(found: re.Match[str]) -> str:
        there = url(f"{reference.COMMANDS}{found[2]}.md")
        return f'<a href="{there}">{found[0]}</a>' if there and not place.startswith(reference.COMMANDS) else found[0]

    def document(found: re.Match[str]) -> str:
        there = url(found[1])
        return f'<a href="{there}">{files.get_file_from_path(found[1]).page.title}</a>' if there else found[0]

    html = re.sub(
        r"(<a .*?</a>|<pre.*?</pre>|<h\d.*?</h\d>)|<code>antiphon ([a-z]+)\b[^<]*</code>",
        lambda found: found[0] if found[1] else command(found),
        html,
        flags=re.DOTALL,
    )
    made = []
    for piece, open_, _tag in glossary.texts(html):
        made.append(re.sub(r"\bdocs/([\w/-]+\.md)", document, piece) if open_ else piece)
    html = "".join(made)
    return html if place == "reference/words.md" else glossary.marked(html, known)


def on_post_page(output: str, **_: Any) -> str:
    """The name of the theme's search, for screen readers."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
