"""`antiphon expect`: what it prints, its page and files, and how it answers to bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logged import log_text

import antiphon
from antiphon.view.documents import document_of
from antiphon.view.documents.expected import summary

LOG = Path(__file__).parents[2] / "examples/h100x16.log"
KEYS = "bytes bound_us expected_us algorithm protocol limit measured_us share verdict"


def test_the_example_is_explained(commands: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = commands.document("expect", "dgx-h100:2", "--log", LOG)
    assert " ".join(found["rows"][0]) == KEYS
    assert found["causes"][0]["fault"] == "no NVLS"
    assert found["rows"][-1]["verdict"] == "too slow"
    assert found["rows"][0]["measured_us"] == found["floor_us"]
    told = commands.invoke("expect", "dgx-h100:2", "--log", LOG, "--report", page).stdout
    assert told.count("too slow") == 9
    text = page.read_text()
    assert text.count("<circle") == len(found["rows"]) == 24
    assert "no NVLS: 44.9 ms" in text


def test_a_fit_is_a_system_of_every_command(commands: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    measured = commands.document("expect", "dgx-h100:2", "--log", LOG, "--fit", file)
    fitted = commands.document("expect", "dgx-h100:2", "--log", LOG, "--system", file)
    assert (fitted["library"], fitted["floor_from"]) == (str(file), "log")
    assert sum(abs(row["share"] - 1) for row in fitted["rows"]) / len(fitted["rows"]) < 0.05
    run = commands.document("simulate", "dgx-h100:2", "ring", "--bytes", "1KiB", "--system", file)
    assert run["time_ns"] / 1e3 >= measured["floor_us"]
    assert commands.document("expect", "dgx-h100:1", "--system", "h100-nccl")["rows"][0]["protocol"] == "ll"


def test_without_a_log_nothing_is_measured(commands: Any) -> None:
    found = commands.document("expect", "mi300x", "--bytes", "64KiB,1GiB", "--collective", "allreduce")
    assert (found["library"], found["causes"], found["floor_from"]) == ("rccl", [], "library")
    assert [row["measured_us"] for row in found["rows"]] == [None, None]
    assert "Measured" not in commands.invoke("expect", "mi300x", "--format", "markdown").stdout
    assert (
        commands.invoke("expect", "mi300x", "--bytes", "1KiB..4KiB", "--format", "csv").stdout.count("launch floor\n")
        == 3
    )


def test_a_notebook_shows_what_a_terminal_does() -> None:
    found = antiphon.expect("dgx-h100:2", log=LOG)
    assert "as expected" in repr(antiphon.expect("dgx-h100:2,switches=plain", log=LOG))
    assert repr(found).endswith("8 of 24 sizes too slow>")
    assert document_of(found) is not None
    assert summary(antiphon.expect("dgx-h100:1")) == []


@pytest.mark.parametrize(
    ("bus_gb_per_s", "line"),
    [(445, "8GiB takes 7% more than expected, which the model may be wrong by"), (90, "No single fault")],
)
def test_what_is_said_of_a_box(bus_gb_per_s: float, line: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(log_text({size: size * 1.75 / bus_gb_per_s / 1e3 for size in (1 << 32, 1 << 33)}, 8))
    assert any(each.startswith(line) for each in summary(antiphon.expect("dgx-h100:1", log=log)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["ring:8"], "is no cluster that libraries are modelled on"),
        (["dgx-h100", "--log", "none.log"], "none.log: cannot be read"),
        (["dgx-h100", "--fit", "a.json"], "must end in .toml"),
        (["dgx-h100", "--fit", "a.toml"], "two sizes"),
        (["dgx-h100", "--system", "tto"], "system tto has no protocols"),
        (["dgx-h100:2", "--system", "h100-nccl"], "are of rings in one box"),
    ],
)
def test_bad_input_is_one_line(
    given: list[str], message: str, commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in commands.refused("expect", *given)
    assert not list(tmp_path.iterdir())
