"""Pages that commands write: each is one file that needs nothing else; ``--open`` shows it."""

from __future__ import annotations

import json
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from looked import Looked

import antiphon

TINY = ("--bytes", "64KiB")
RUNS: dict[str, tuple[tuple[str, ...], str]] = {
    "compare": (("compare", "ring:4", *TINY, "--algorithms", "ring,direct"), "ring"),
    "simulate": (("simulate", "mesh:2x3", "combs", *TINY), "Links, the busiest first"),
    "show": (("show", "mesh:2x3", "ring", *TINY), "Proven: every rank ends with the right bytes."),
    "verify": (("verify", "mesh:2x2", "tto", *TINY), "Proven: every rank, except 2, ends with the right bytes."),
    "bound": (("bound", "mesh:2x3", *TINY), "No schedule takes less than"),
    "tune": (("tune", "ring:4", "--sizes", "1KiB,64KiB", "--algorithms", "ring,ring-bi"), "ring-bi is the fastest"),
    "rails": (("rails", "2D-SW_SW", "--bytes", "1MB", "--scheduler", "baseline,themis"), "themis takes"),
    "noc": (("noc", "mesh:2x2", "--rate", "0.1,0.3", "--cycles", "200", "--warm-up-cycles", "50"), "keeps up"),
    "saturation": (
        ("noc", "ring:4", "--saturation", "--cycles", "200", "--warm-up-cycles", "50", "--traffic", "neighbor"),
        "The network keeps up to",
    ),
    "train": (("train", "ncf", "ring:4", "ring"), "ncf"),
    "step": (
        ("step", "llama3-8b", "dgx-h100:1", "--plan", "tp=2,pp=2", "--batch", "16"),
        "What every stage does",
    ),
    "plan": (("plan", "llama3-8b", "dgx-h100:1", "--batch", "8"), "Why the first wins"),
    "infer": (("infer", "llama3-8b", "dgx-h100:1", "--plan", "tp=8"), "Where the time goes"),
    "beside": (("beside", "mesh:2x3", "ring", *TINY, "--load", "0.3", "--message", "1KiB"), "times as long as alone"),
    "scale": (("scale", "mesh:4x4", *TINY), "16 ranks"),
    "expect": (("expect", "dgx-h100:1", "--bytes", "1KiB..4KiB"), "all-reduce"),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_command_writes_a_page(commands: Any, tmp_path: Path, name: str) -> None:
    arguments, said = RUNS[name]
    page = tmp_path / "a page.html"
    told = commands.invoke(*arguments, "--report", page)
    assert told.exit_code == 0, told.stderr
    assert told.stdout.rstrip().endswith(f"Report: {page}")
    looked = Looked(page.read_text("utf-8"))
    assert said in " ".join(looked.text.split())


def test_flights_have_a_page(commands: Any, tmp_path: Path) -> None:
    flights = tmp_path / "flights.json"
    flights.write_text('[{"bytes": 1000000, "name": "first"}, {"bytes": 2000000, "start_ns": 5}]')
    page = tmp_path / "flights.html"
    commands.invoke("rails", "2D-SW_SW", "--flights", flights, "--scheduler", "themis", "--report", page)
    assert "themis ends all 2 collectives" in Looked(page.read_text("utf-8")).text


def test_a_study_has_a_page(commands: Any, tmp_path: Path) -> None:
    file = tmp_path / "rates.toml"
    file.write_text('command = "rails"\n[axes]\ntopology = ["2D-SW_SW"]\nscheduler = ["baseline", "themis"]\n')
    page = tmp_path / "study.html"
    told = commands.invoke("study", file, "--report", page)
    assert f"Report: {page}" in told.stdout
    looked = Looked(page.read_text("utf-8"))
    assert "Study rates" in looked.text
    assert "The least time_ns is" in looked.text


def wrong(tmp_path: Path) -> Path:
    """A schedule of mesh:3x3 that lacks its last transfer."""
    document = json.loads(antiphon.build("mesh:3x3", "ring", bytes="64KiB").to_json())
    document["transfers"].pop()
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("command", ["verify", "simulate"])
def test_a_counter_example_is_drawn(commands: Any, tmp_path: Path, command: str) -> None:
    page = tmp_path / "wrong.html"
    told = commands.invoke(command, "mesh:3x3", "--schedule", wrong(tmp_path), "--report", page)
    assert told.exit_code == 1
    looked = Looked(page.read_text("utf-8"))
    assert "Not proven: rank" in looked.text
    assert "and nobody sends it on to rank" in looked.text
    assert looked.classes["hot"] > 1


def test_a_comparison_draws_the_counter_example_of_a_given_schedule(commands: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    given = ("compare", "mesh:3x3", "--schedule", wrong(tmp_path), "--report", page)
    assert commands.invoke(*given, "--algorithms", "combs").exit_code == 0
    looked = Looked(page.read_text("utf-8"))
    assert "ring is wrong" in looked.text
    assert "combs" in looked.text
    assert looked.classes["hot"] > 1


def test_a_page_is_for_one_fabric(commands: Any) -> None:
    for command in ("simulate", "show", "verify"):
        assert "--report is for one group" in commands.refused(
            command, "mesh:2x2", "ring", "--groups", "rows", "--report", "x.html"
        )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that a browser was asked to show, on a machine with a display."""
    asked: list[str] = []

    def shown(address: str) -> bool:
        asked.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", shown)
    monkeypatch.setenv("DISPLAY", ":0")
    return asked


def test_open_shows_the_page(commands: Any, tmp_path: Path, opened: list[str]) -> None:
    page = tmp_path / "a page.html"
    told = commands.invoke("bound", "ring:4", *TINY, "--report", page, "--open")
    assert opened == [page.as_uri()]
    assert not told.stderr


@pytest.mark.parametrize("output", ["table", "json"])
def test_open_alone_writes_to_a_temporary_folder(
    commands: Any, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = commands.invoke("bound", "ring:4", *TINY, "--open", "--format", output)
    (page,) = tmp_path.glob("*/bound.html")
    assert opened == [page.as_uri()]
    assert f"Report: {page}" in (told.stdout if output == "table" else told.stderr)
    commands.refused("bound", "ring:0", "--open")
    assert len(list(tmp_path.iterdir())) == 1, "a folder without a page is gone"


def test_open_shows_a_counter_example(commands: Any, tmp_path: Path, opened: list[str]) -> None:
    assert commands.invoke("verify", "mesh:3x3", "--schedule", wrong(tmp_path), "--open").exit_code == 1
    assert len(opened) == 1


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is always a display")
def test_without_a_display_it_says_where_the_page_is(
    commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    page = tmp_path / "bound.html"
    told = commands.invoke("bound", "ring:4", *TINY, "--report", page, "--open")
    assert told.exit_code == 0
    assert told.stderr == f"note: no browser can be opened here; open {page} in one\n"
