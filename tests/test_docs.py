"""Runs the snippets of the Markdown pages, so that what they show works.

Of each page, in order and in one folder that has only `examples/`: fenced `python` blocks, which share their names, and
the lines `$ antiphon ...` of `console` blocks, which start no process unless a shell has to read them. A block after a
line `<!-- not run: REASON -->` is left out; after `<!-- file: NAME -->` a block of any language is that file.

Tutorials show the output of their commands: it is compared, in any layout, but for what stands for `...`, and not after
`<!-- output varies: REASON -->`. After `<!-- output -->` a block is what the Python above printed.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from antiphon.cli import main
from antiphon.errors import NotApplicable
from antiphon.execution.testbed.emulation import own_network

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run|file|output varies|output)(?:: (?P<about>[^\n]+))? -->\n)?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Snippet(NamedTuple):
    line: int
    language: str
    text: str
    mark: str | None = None
    about: str | None = None


def snippets(page: str) -> list[Snippet]:
    """The snippets of a page that are to run, or to be there; `line` is the first line inside the fence."""
    return [
        Snippet(page.count("\n", 0, found.start("text")) + 1, found["language"], found["text"], *found.group(1, 2))
        for found in BLOCK.finditer(page)
        if found["mark"] in ("file", "output")
        or (found["language"] in ("python", "console") and found["mark"] != "not run")
    ]


def commands(text: str) -> list[tuple[str, str]]:
    """The `$ antiphon ...` commands of a console block, lines that end in a backslash joined, and what they print."""
    parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [
        (command, shown)
        for command, _, shown in (part.partition("\n") for part in parts)
        if command.startswith("antiphon ")
    ]


def plain(text: str) -> str:
    """Output without frames of tables and breaks of lines."""
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", text).split())


def missing(shown: str, output: str) -> str:
    """The first part of what a page shows that is not in the output, in the order of the page."""
    rest = plain(output)
    for part in plain(shown).split("..."):
        _, found, rest = rest.partition(part.strip()) if part.strip() else ("", "nothing", rest)
        if not found:
            return f"not in the output: {part.strip()}\n{output}"
    return ""


@cache
def emulates() -> bool:
    """Whether this machine can emulate hosts."""
    try:
        return bool(own_network())
    except NotApplicable:
        return False


def failure(command: str, shown: str = "") -> str:
    """What a command said if it failed, or if it did not print what is shown."""
    if re.search(r"[$<>|&;`~*]", command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=300)
        return missing(shown, done.stdout) if done.returncode == 0 else f"{command}\n{done.stdout}{done.stderr}"
    if command.startswith("antiphon testbed ") and not emulates():
        return ""
    result = CliRunner().invoke(main, shlex.split(command)[1:])
    if result.exit_code:
        return "" if f"error: {result.exit_code}" in shown else f"{command}\n{result.output}{result.exception!r}"
    return missing(shown, result.output)


@pytest.fixture(autouse=True)
def _commands_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


RUNNABLE = [page for page in PAGES if snippets(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    for snippet in snippets(page.read_text("utf-8")):
        where = f"{page.relative_to(ROOT)}:{snippet.line}"
        if snippet.mark == "file":
            (tmp_path / str(snippet.about)).write_text(snippet.text, "utf-8")
        elif snippet.mark == "output":
            assert not (said := missing(snippet.text, printed.getvalue())), f"{where}: {said}"
        elif snippet.language == "python":
            printed = io.StringIO()
            with redirect_stdout(printed):
                # The blank lines make tracebacks name the page's own lines.
                exec(compile("\n" * (snippet.line - 1) + snippet.text, str(page), "exec"), names)
        else:
            for command, shown in commands(snippet.text):
                compared = page.parent.name == "tutorials" and snippet.mark != "output varies"
                assert not (said := failure(command, shown if compared else "")), f"{where}: {said}"


def test_finds_what_to_run() -> None:
    page = (
        "# T\n```python\nx = 1\n```\n<!-- not run: needs a GPU -->\n```python\ny\n```\n"
        "```console\n$ antiphon a \\\n  b\nout\n$ ls\n```\n<!-- file: a.toml -->\n```toml\na = 1\n```\n"
    )
    assert snippets(page) == [
        Snippet(3, "python", "x = 1\n"),
        Snippet(10, "console", "$ antiphon a \\\n  b\nout\n$ ls\n"),
        Snippet(17, "toml", "a = 1\n", "file", "a.toml"),
    ]
    assert commands(snippets(page)[1].text) == [("antiphon a    b", "out\n")]


def test_what_a_tutorial_shows_must_be_printed() -> None:
    assert not failure("antiphon bound ring:4 --bytes 1MiB", "volume 31.9 µs ... latency")
    assert "not in the output: 32.0" in failure("antiphon bound ring:4 --bytes 1MiB", "volume ... 32.0 µs")


@pytest.mark.parametrize("output", ["", " > /dev/null"], ids=["here", "in a shell"])
def test_a_command_that_fails_is_heard(output: str) -> None:
    assert not failure("antiphon bound ring:4" + output)
    assert "no-such" in failure("antiphon bound no-such:4" + output)


def test_the_table_of_fidelities_is_current() -> None:
    module = runpy.run_path(str(ROOT / "scripts" / "fidelity_table.py"))
    written = module["TABLE"].search(module["PAGE"].read_text("utf-8"))[0]
    size = module["SIZES"][0]
    for fabric in module["FABRICS"]:
        agreeing = re.search(rf"\| {fabric} \| ([^|]*) \| {module['WITHIN']} \|", written)
        shared = agreeing[1].split(", ") if agreeing else []
        for algorithm, row in module["rows"](fabric, size).items():
            if algorithm in shared:
                assert module["agrees"](row)
            else:
                assert f"| {fabric} | {algorithm} | {module['cell'](row)} |" in written


def test_the_table_of_shares_is_current() -> None:
    module = runpy.run_path(str(ROOT / "scripts" / "optimal_table.py"))
    written = module["TABLE"].search(module["PAGE"].read_text("utf-8"))[0]
    assert all(f"| `{fabric}` |" in written for fabric in module["FABRICS"])
    for fabric in ("dgx1v", "fc:8"):
        assert f"{module['row'](fabric)}\n" in written, "run make tables"


def test_what_follows_from_parameters_is_current() -> None:
    module = runpy.run_path(str(ROOT / "scripts" / "parameter_tables.py"))
    for file in {path for path, _, _ in module["PARTS"]}:
        assert (ROOT / file).read_text("utf-8") == module["current"](file), f"{file}: run make tables"
