"""The documentation site: it builds, its links lead somewhere, its search finds, and its pages are plain to read."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import glossary
import pytest
import reference
from conftest import Browser
from spellchecker import SpellChecker

import antiphon

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
MARKDOWN = sorted([*ROOT.glob("*.md"), *ROOT.glob("data/*.md"), *PAGES])
SPECIFICATIONS = {f"reference/{name}.md" for name in ("simulation", "schedule", "formats", "fabric")}
"""Pages whose sentences may be long."""
MOST_WORDS = 50_000
LONGEST = 35
"""Words of a sentence."""


def name(page: Path) -> str:
    """The place of a page in docs/."""
    return page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name


# The built site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: MkDocs fails at a page outside the navigation and at a link that leads nowhere."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


class Links(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.anchors = {""}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given.get("id") or "", given.get("name") or ""}
        if (link := given.get("href")) is not None:
            loads = tag == "link" and given.get("rel") in ("stylesheet", "preload", "preconnect", "icon")
            (self.loaded if loads else self.targets).append(link)
        if link := given.get("src"):
            self.loaded.append(link)


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[str, Links]:
    """Every page of the site by its place."""
    files = site.glob("**/*.html")
    return {file.relative_to(site).as_posix(): Links(file.read_text("utf-8")) for file in files}


def test_every_link_of_the_site_leads_somewhere(site: Path, parsed: dict[str, Links]) -> None:
    lost = []
    for place, page in parsed.items():
        for link in page.targets:
            path, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(place), unquote(path))) if path else place
            if re.match(r"[a-z]+:", link) or place == "404.html":
                continue
            known = target in parsed and unquote(anchor) in parsed[target].anchors
            if not known and not (not anchor and (site / target).is_file()):
                lost.append(f"{place}: {link}")
    assert not lost


def test_the_site_fetches_nothing(site: Path, parsed: dict[str, Links]) -> None:
    assert not {link for page in parsed.values() for link in page.loaded if re.match(r"(https?:)?//", link)}
    for style in site.glob("**/*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text("utf-8")), style


def test_every_public_name_and_command_has_its_place(parsed: dict[str, Links]) -> None:
    anchors = set[str]().union(*(page.anchors for place, page in parsed.items() if place.startswith("reference/api/")))
    assert {f"antiphon.{each}" for each in antiphon.__all__ if callable(getattr(antiphon, each))} <= anchors
    assert {"antiphon.models.from_onnx", "antiphon.torch.chain"} <= anchors
    assert "reference/commands/compare.html" in parsed


def found(browser: Browser, site: Path, query: str) -> list[str]:
    """The pages that the site's search finds in a browser, best first."""
    page = site / "found.html"
    # The theme searches for what the address asks.
    frame = f'<!doctype html><meta http-equiv="refresh" content="0; url=index.html?q={query}">'
    page.write_text(frame, "utf-8")
    dom = browser.dump_dom(page, 15000)
    page.unlink()
    return list(dict.fromkeys(re.findall(r'href="([^"?#]+)[^"]*" class="md-search-result__link"', dom)))


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("strength", "explanation/bounds.html"),
        ("three%20machines", "how-to/torch.html"),
        ("--chain", "reference/commands/run.html"),
    ],
)
def test_search_finds(browser: Browser, site: Path, query: str, page: str) -> None:
    assert any(link.endswith(page) for link in found(browser, site, query)[:10])


AXE = """<script>{axe}</script><script>
addEventListener("load", () => setTimeout(() => axe.run().then(({{ violations }}) => {{
  const serious = violations.filter(({{ impact }}) => impact === "serious" || impact === "critical");
  document.title = "found " + JSON.stringify(serious.map(({{ id, nodes }}) => [id, nodes[0].html]));
}}), 500))</script></body>"""


@pytest.mark.parametrize("place", ["index", "explanation/optimal", "reference/commands/compare", "gallery"])
def test_readers_of_screens_can_read(browser: Browser, site: Path, place: str) -> None:
    """The rules of axe-core find nothing serious."""
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    page = (site / f"{place}.html").with_name("axe.html")
    page.write_text((site / f"{place}.html").read_text("utf-8").replace("</body>", AXE.format(axe=axe)), "utf-8")
    title = re.search(r"<title>(found .*?)</title>", browser.dump_dom(page, 20000), re.DOTALL)
    page.unlink()
    assert title
    assert title[1] == "found []"


def test_words_of_the_glossary_have_tooltips(site: Path) -> None:
    page = (site / "explanation/combs.html").read_text("utf-8")
    assert '<abbr title="' in page


def test_tooltips_mark_prose_once_a_section() -> None:
    page = "<h2>Rank</h2><p>A rank, two ranks.</p><pre>rank</pre><a>rank</a><h2>B</h2><p>Ranks crank.</p>"
    made = glossary.marked(page, {"rank": "who takes part"})
    assert made.count("<abbr") == 2
    assert '<p>A <abbr title="who takes part">rank</abbr>, two ranks.</p>' in made
    assert "</abbr> crank." in made


# Markdown, as code hosts show it


def slug(heading: str) -> str:
    """The anchor that code hosts give a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def without_fences(markdown: str) -> str:
    return re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", markdown, flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(file: Path) -> set[str]:
    markdown = without_fences(file.read_text("utf-8"))
    return {slug(each) for each in re.findall(r"^#+ (.*)$", markdown, re.MULTILINE)} | {""}


@pytest.mark.parametrize("page", MARKDOWN, ids=name)
def test_links_of_markdown_lead_somewhere(page: Path) -> None:
    """In the repository: a page that the site's build makes can only be named there, not linked to."""
    prose = re.sub(r"`[^`\n]+`", "code", without_fences(page.read_text("utf-8")))
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not re.match(r"[a-z]+:", link) and not (
            target.exists() and (target.suffix != ".md" or anchor in anchors(target))
        ):
            lost.append(link)
    assert not lost


# Plain pages


class Sentence(NamedTuple):
    text: str
    words: int


ABBREVIATIONS = "".join(
    rf"(?<!\b{re.escape(each)})" for each in ("e.g.", "i.e.", "vs.", "al.", "cf.", "Eq.", "Eqs.", "Fig.", "Sec.", "No.")
)
END = re.compile(rf"(?<=[.!?])[)\"”*_]*{ABBREVIATIONS}(?<!\b[A-Z]\.)\s+(?=[\"“(*_]*[A-Z0-9`\[])")


def blocks(markdown: str) -> Iterator[str]:
    """The paragraphs and items of lists of a page, each on one line; no tables, code, headings or pictures."""
    text = re.sub(r"<!--.*?-->", "", without_fences(markdown), flags=re.DOTALL)
    text = re.sub(r"<(svg|figure|style|table)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        line = re.sub(r"^[\s>]*", "", line)
        item = re.match(r"(?:[-*+]|\d+\.)\s+", line)
        if not line or item or line.startswith(("|", "#", "!!!", "---")):
            if block:
                yield " ".join(block)
            block = []
        if line and not line.startswith(("|", "#", "!!!", "---")):
            block.append(line[item.end() :] if item else line)


def prose(block: str) -> str:
    """What a reader reads: code and formulas are one word each, links their text."""
    text = re.sub(r"`+[^`]+`+", "CODE", block)
    text = re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)
    return re.sub(r"<[^>]+>", "", text)


def sentences(markdown: str) -> Iterator[Sentence]:
    """The sentences of a page. A colon or semicolon ends none."""
    for block in blocks(markdown):
        for text in END.split(prose(block)):
            yield Sentence(text, sum(bool(re.search(r"\w", word)) for word in text.split()))


def test_finds_sentences() -> None:
    page = (
        "# One two\n\nA rank (e.g. GPU 3) sends 3.5 MB: `a b c`. It\nwaits; see [the page](x.md). "
        "As B. Smith et al. say.\n"
        "- first item\n  goes on. And ends!\n- second\n\n| a | b |\n|---|---|\n\n```text\nno. No.\n```\n"
        "> Quoted. **Bold.** Last\n"
    )
    assert list(sentences(page)) == [
        Sentence("A rank (e.g. GPU 3) sends 3.5 MB: CODE.", 9),
        Sentence("It waits; see the page.", 5),
        Sentence("As B. Smith et al. say.", 6),
        Sentence("first item goes on.", 4),
        Sentence("And ends!", 2),
        Sentence("second", 1),
        Sentence("Quoted.", 1),
        Sentence("**Bold.", 1),
        Sentence("Last", 1),
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) not in SPECIFICATIONS], ids=name)
def test_sentences_are_short(page: Path) -> None:
    long = [each for each in sentences(page.read_text("utf-8")) if each.words > LONGEST]
    assert not long, f"{name(page)}: " + "\n".join(f"{each.words} words: {each.text}" for each in long)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_says_for_whom_it_is(page: Path) -> None:
    first = next(blocks(page.read_text("utf-8")), "")
    assert re.search(r"(?:^|[.!?] )For \w", first), f"{name(page)} begins: {first[:120]}"


def test_there_is_not_too_much_to_read() -> None:
    # Bars of tables and rules are no words.
    assert sum(len(re.findall(r"\S*\w\S*", page.read_text("utf-8"))) for page in PAGES) <= MOST_WORDS


# The glossary against the pages

NAMES = ROOT / "tests" / "site_names.txt"
"""Words of no dictionary that are names or units: ``word: what it is``, a line each, sorted."""
COMMON = 330
"""How often common English is in the dictionary's texts, of 1.6e9 words: `latency` is not common, `router` is."""
ENDINGS = {
    ending: others.split(",")
    for ending, others in {
        "ies": "y", "es": ",e", "s": "", "ed": ",e", "ing": ",e", "er": ",e", "ers": ",e", "ly": "", "ally": "",
        "able": ",e", "ness": "", "wards": "ward",
    }.items()
}  # fmt: skip
BRITISH = (("our", "or"), ("tre", "ter"), ("is(e|ing|ed|ation)", r"iz\1"), ("ll(ed|ing|er)", r"l\1"))


@cache
def english() -> SpellChecker:
    return SpellChecker(language="en")


def stems(word: str) -> Iterator[str]:
    """A word, and what it may be a form of."""
    yield word
    for british, american in BRITISH:
        if (other := re.sub(british, american, word)) != word:
            yield other
    for ending, others in ENDINGS.items():
        if word.endswith(ending) and len(word) > len(ending) + 1:
            stem = word.removesuffix(ending)
            yield from (stem + other for other in others)
            if len(stem) > 2 and stem[-1] == stem[-2]:  # planned
                yield stem[:-1]


def is_common(word: str) -> bool:
    """Whether a word, or what it is a form of, is common English."""
    forms = [other for stem in stems(word) for other in (stem, *stems(stem))]
    tried = [each for stem in forms for each in (stem, re.sub(r"^(?:un|re|non|sub|pre|over|multi)", "", stem))]
    return any(english()[each] >= COMMON for each in tried if len(each) > 1)


def listed() -> dict[str, str]:
    """The names that the glossary does not explain."""
    lines = (line.partition(": ") for line in NAMES.read_text("utf-8").splitlines())
    return {word: reason for word, _, reason in lines}


def explained() -> set[str]:
    """Every word that is in an entry of the glossary, in lower case."""
    words = glossary.words(glossary.PAGE.read_text("utf-8"))
    return {part for word in words for part in re.findall(r"[a-z][a-z']+", word.lower())}


def rare(page: Path) -> set[str]:
    """The words of a page's prose that are not common English. Code, units behind numbers and formulas are left out."""
    known = explained() | {each.lower() for each in listed()}
    found = set()
    for block in blocks(page.read_text("utf-8")):
        text = re.sub(r"\([^()]*\b(?:19|20)\d\d\b[^()]*\)", " ", prose(block).replace("CODE", " "))  # sources
        text = re.sub(r"https?:\S+|\b[\w./-]*[/_=^×·][\w./-]*|\b[\w.,-]*\d[\w.-]*(?: [a-zA-Z]{1,3}\b)?", " ", text)
        text = re.sub(r"\b(?:Eqs?|Figs?|Sec)\.|\b[IVX]+(?:-[A-Z])?\b", " ", text)  # where something stands
        for word in re.findall(r"(?<![\w'])[A-Za-z][a-zA-Z]+(?:'[a-z]+)?", text):
            plain = word.removesuffix("'s").lower()
            if not any(stem in known for stem in stems(plain)) and not is_common(plain):
                found.add(word)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_words_are_common_or_explained(page: Path) -> None:
    """A word that fails belongs in the glossary, in code, or is a name (tests/site_names.txt)."""
    assert not sorted(rare(page))


def test_the_glossary_has_only_words_that_pages_use() -> None:
    text = " ".join(page.read_text("utf-8") for page in PAGES if page != glossary.PAGE).lower()
    text += " ".join(reference.pages().values()).lower()
    words = glossary.words(glossary.PAGE.read_text("utf-8"))
    unused = [
        word
        for word in words
        if not any(re.search(rf"\b{re.escape(form)}\b", text) for form in glossary.forms(word.lower()))
    ]
    assert not unused


def test_names_are_sorted_used_and_say_what_they_are() -> None:
    lines = NAMES.read_text("utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: line.partition(":")[0].lower())
    text = " ".join(page.read_text("utf-8") for page in PAGES)
    assert [
        word for word, reason in listed().items() if not reason or not re.search(rf"\b{re.escape(word)}", text, re.I)
    ] == []
    assert not {word.lower() for word in listed()} & explained()
