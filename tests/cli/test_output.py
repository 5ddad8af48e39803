"""Forms of output: what each command prints as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.cli.output import table_of
from antiphon.flat import flat, plain, write_csv
from antiphon.view.document import Document, Note, Table
from antiphon.view.markdown import markdown

SMALL = ("--bytes", "64KiB")
COMMANDS: dict[tuple[str, ...], str | None] = {
    ("compare", "ring:4", *SMALL, "--algorithms", "ring,direct"): "runs",
    ("simulate", "ring:4", "ring", *SMALL): None,
    ("verify", "ring:4", "ring", *SMALL): None,
    ("show", "ring:4", "ring", *SMALL): None,
    ("bound", "ring:4", *SMALL): None,
    ("flights", "mesh:4x4", "examples/flights.json", "--fidelity", "alpha-beta"): "flights",
    ("noc", "ring:4", "--rate", "0.1,0.2", "--cycles", "500", "--warm-up-cycles", "100"): "runs",
    ("tune", "ring:4", "--sizes", "1KiB,64KiB", "--algorithms", "ring,direct"): "choices",
    ("train", "alexnet", "ring:4,ring:8", "ring"): "runs",
    ("train", "alexnet", "ring:4", "ring"): None,
    ("rails", "2D-SW_SW"): "runs",
    ("advise", "rails", "2D-SW_SW"): "dimensions",
    ("advise", "trees"): "ways",
    ("fabrics",): "fabrics",
    ("algorithms",): "algorithms",
    ("systems",): "systems",
    ("systems", "tto"): "settings",
    ("workloads",): "workloads",
}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_csv_has_the_rows_of_json(commands: Any, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    document = json.loads(commands.invoke(*command, "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(commands.invoke(*command, "--format", "csv").stdout)))
    name = COMMANDS[command]
    expected = [document] if name is None else document[name]
    assert len(rows) == len(expected)
    for row, record in zip(rows, expected, strict=True):
        for key, value in flat(record).items():
            if key not in ("schema", "version"):
                assert row[key] == ("" if value is None else str(plain(value)))
    markdown = commands.invoke(*command, "--format", "markdown").stdout
    assert not any(line.startswith(("┏", "│")) for line in markdown.splitlines())
    assert command[0] == "verify" or "| ---" in markdown


def test_several_groups_are_rows_of_one_table(commands: Any) -> None:
    command = ("bound", "mesh:2x3", "--groups", "rows", "--format")
    rows = list(csv.DictReader(io.StringIO(commands.invoke(*command, "csv").stdout)))
    assert [row["group"] for row in rows] == ["0 1 2", "3 4 5"]
    titles = [line for line in commands.invoke(*command, "markdown").stdout.splitlines() if line.startswith("## ")]
    assert titles == ["## mesh:2x3[0-2]", "## mesh:2x3[3-5]"]


def test_json_is_a_format(commands: Any) -> None:
    command = ("bound", "ring:4")
    printed = commands.invoke(*command, "--json").stdout
    assert commands.invoke(*command, "--format", "json").stdout == printed
    assert commands.invoke(*command, "--format", "json", "--json").stdout == printed
    for order in (("--json", "--format", "csv"), ("--format", "csv", "--json")):
        assert "give either --json or --format" in commands.refused(*command, *order)
    assert "'xml' is not one of" in commands.refused(*command, "--format", "xml")


def test_rows_are_behind_what_holds_for_all() -> None:
    document = {"fabric": "ring:4", "runs": [{"time_ns": 1}, {"time_ns": 2, "fabric": "other"}], "refused": []}
    assert table_of(document, "runs") == [{"fabric": "ring:4", "time_ns": 1}, {"fabric": "other", "time_ns": 2}]
    assert table_of(document, "choices") == [{"fabric": "ring:4"}]


def test_markdown_of_special_characters() -> None:
    text = markdown(Document([Table(("a|b", "c"), [("x\ny", "1")], "t"), Note("text")]))
    assert text == "**t**\n\n| a\\|b | c |\n| --- | --- |\n| x<br>y | 1 |\n\ntext\n\n"


def test_former_names_of_options_work_with_a_hint(commands: Any, tmp_path: Path) -> None:
    results = []
    for option in ("--schedule-json", "--out"):
        file = tmp_path / f"{option}.json"
        result = commands.invoke("show", "ring:4", "ring", *SMALL, option, file)
        assert result.exit_code == 0
        results.append((result.stdout, file.read_text()))
        hint = "hint: --schedule-json is called --out now; the old name works until the next release\n"
        assert result.stderr == (hint if option != "--out" else "")
        assert option == "--out" or option not in commands.invoke("show", "--help").stdout
    assert results[0] == results[1]
    refused = commands.invoke("reproduce", "tto/fig15", "--out", tmp_path).stderr.splitlines()
    assert refused[0].startswith("hint: --out is called --store now")
    assert "Missing option '--store'" in commands.refused("reproduce", "tto")


def test_ones_own_schedule_is_compared_with_the_others(commands: Any, tmp_path: Path) -> None:
    mesh = antiphon.Fabric("mesh:3x3")
    file = tmp_path / "own.json"
    file.write_text(antiphon.build(mesh, "multitree", "broadcast", "64KiB", root=4).to_json())
    compare = ("compare", "mesh:3x3", "--schedule", file)
    found = commands.document(*compare, "--algorithms", "multitree")
    assert [run["algorithm"] for run in found["runs"]] == 2 * ["multitree"]
    assert (found["collective"], found["bytes"]) == ("broadcast", 65536)
    assert {run["root"] for run in found["runs"]} == {4}
    for option in (("--bytes", "1MiB"), ("--collective", "reduce"), ("--root", "1")):
        assert "is what the schedule says" in commands.refused(*compare, *option)
    other = tmp_path / "other.json"
    other.write_text(antiphon.build(mesh, "ring", bytes="1MiB").to_json())
    message = "ring does all-reduce of 1MiB: compare it with others that do the same"
    assert message in commands.refused(*compare, "--schedule", other)


HOSTILE = "\x1b[31mX\x1b]0;pwn\x07\r\u202e\x9b2J"


def _is_harmless(text: str) -> bool:
    return not any(each in text for each in "\x1b\x07\r\u202e\x9b")


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_names_in_files_reach_no_terminal_as_commands(commands: Any, tmp_path: Path, form: str) -> None:
    flights = [{"name": HOSTILE, "algorithm": "ring", "bytes": "1MiB"}]
    (tmp_path / "flights.json").write_text(json.dumps(flights))
    (tmp_path / "system.json").write_text(json.dumps({"preset": "tto", "name": HOSTILE}))
    commands.invoke("show", "ring:4", "ring", *SMALL, "--out", tmp_path / "schedule.json")
    schedule = json.loads((tmp_path / "schedule.json").read_text()) | {"algorithm": HOSTILE}
    (tmp_path / "schedule.json").write_text(json.dumps(schedule))
    for command in (
        ("flights", "ring:4", tmp_path / "flights.json"),
        ("simulate", "ring:4", "ring", *SMALL, "--system", tmp_path / "system.json"),
        ("simulate", "ring:4", "--schedule", tmp_path / "schedule.json"),
        ("verify", "ring:4", "--schedule", tmp_path / "schedule.json"),
    ):
        found = commands.invoke(*command, "--format", form)
        assert found.exit_code == 0
        assert _is_harmless(found.stdout)
        assert form == "json" or "\ufffd[31mX" in found.stdout
    for wrong in ([{"name": "a", "algorithm": HOSTILE}], [{HOSTILE: 1}], [{"algorithm": "ring", "after": [HOSTILE]}]):
        (tmp_path / "flights.json").write_text(json.dumps(wrong))
        assert _is_harmless(commands.refused("flights", "ring:4", tmp_path / "flights.json"))
    with pytest.raises(antiphon.AntiphonError) as error:
        antiphon.read_flights(json.dumps(wrong), "ring:4")
    assert _is_harmless(str(error.value))


def test_cells_that_begin_a_formula_are_quoted() -> None:
    cells = ["=1+1", "@sum", "+a", "-cmd", "\t=1", "-5", "-5 -6", "+1.5e3", "a=b", -5, None, True]
    text = io.StringIO()
    write_csv([{"cell": cell} for cell in cells], text)
    quoted = [row["cell"] for row in csv.DictReader(io.StringIO(text.getvalue()))]
    assert quoted == ["'=1+1", "'@sum", "'+a", "'-cmd", "'\t=1", "-5", "-5 -6", "+1.5e3", "a=b", "-5", "", "true"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_page_has_what_a_text_has(commands: Any, command: tuple[str, ...]) -> None:
    page = commands.invoke(*command, "--format", "html").stdout
    assert page.count("<html") == 1
    assert page.rstrip().endswith("</html>")
    text = commands.invoke(*command, "--format", "markdown").stdout
    assert page.count("<table") == len(re.findall(r"^\|[ :|-]*-[ :|-]*\|$", text, re.MULTILINE))


def test_several_fabrics_and_groups_are_one_page(commands: Any) -> None:
    asked = ("--bytes", "4KiB", "--algorithms", "ring", "--format", "html")
    for where in (("ring:4", "mesh:2x2"), ("mesh:2x2", "--groups", "rows")):
        page = commands.invoke("compare", *where, *asked).stdout
        assert page.count("<html") == 1
        assert page.count("<h2>") >= 2
