"""Runs the snippets of the Markdown pages, so that what they show works.

Of each page, in order and in one folder that has only `examples/`: fenced `python` blocks, which share their names, and
the lines `$ antiphon ...` of `console` blocks, which start no process unless a shell has to read them. A block after a
line `<!-- not run: REASON -->` is left out.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from antiphon.cli import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
BLOCK = re.compile(
    r"^(?P<skip><!-- not run: .+ -->\n)?```(?P<language>python|console)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Snippet(NamedTuple):
    line: int
    language: str
    text: str


def snippets(page: str) -> list[Snippet]:
    """The snippets of a page that are to run; `line` is the first line inside the fence."""
    return [
        Snippet(page.count("\n", 0, found.start("text")) + 1, found["language"], found["text"])
        for found in BLOCK.finditer(page)
        if not found["skip"]
    ]


def commands(text: str) -> list[str]:
    """The `$ antiphon ...` commands of a console block, lines that end in a backslash joined."""
    joined = text.replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ antiphon ")]


def failure(command: str) -> str:
    """What a command said if it failed."""
    if re.search(r"[$<>|&;`~*]", command):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=300)
        return "" if done.returncode == 0 else f"{command}\n{done.stdout}{done.stderr}"
    result = CliRunner().invoke(main, shlex.split(command)[1:])
    return "" if result.exit_code == 0 else f"{command}\n{result.output}{result.exception!r}"


@pytest.fixture(autouse=True)
def _commands_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


RUNNABLE = [page for page in PAGES if snippets(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for snippet in snippets(page.read_text("utf-8")):
        where = f"{page.relative_to(ROOT)}:{snippet.line}"
        if snippet.language == "python":
            # The blank lines make tracebacks name the page's own lines.
            exec(compile("\n" * (snippet.line - 1) + snippet.text, str(page), "exec"), names)
            continue
        for command in commands(snippet.text):
            assert not (said := failure(command)), f"{where}: {said}"


def test_finds_what_to_run() -> None:
    page = (
        "# T\n```python\nx = 1\n```\n<!-- not run: needs a GPU -->\n```python\ny\n```\n"
        "```console\n$ antiphon a \\\n  b\nout\n$ ls\n```\n"
    )
    assert snippets(page) == [
        Snippet(3, "python", "x = 1\n"),
        Snippet(10, "console", "$ antiphon a \\\n  b\nout\n$ ls\n"),
    ]
    assert commands(snippets(page)[1].text) == ["antiphon a    b"]


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
