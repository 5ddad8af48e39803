"""`antiphon testbed`: what it prints, its page, and how it answers to bad input."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.execution.result import Emulated
from antiphon.execution.testbed import emulation


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the command asked for; it gets made-up times, of which one result is wrong if it asks for dbtree."""
    asked: list[tuple[Any, ...]] = []

    def emulate(fabric: antiphon.Fabric, algorithms: list[str], *others: Any, **options: Any) -> Emulated:
        asked.append((fabric.name, algorithms, *others, options))
        schedules = [antiphon.build(fabric, each, others[0], others[1]) for each in algorithms]
        rows = [
            {
                "algorithm": schedule.algorithm,
                "bytes": schedule.bytes,
                "correct": schedule.algorithm != "dbtree",
                "measured_ns": 2e6 + number,
                "predicted_ns": 2e6,
                "least_ns": 1e6,
                "most_ns": 3e6,
            }
            for number, schedule in enumerate(schedules)
        ]
        rate = emulation.bits_per_s(options["link_rate"])
        return Emulated.of(fabric, schedules[0], rate, options["repeat"], (0.99, 1.0), rows)

    monkeypatch.setattr(antiphon, "emulate", emulate)
    return asked


def test_the_document(commands: Any, given: list[tuple[Any, ...]]) -> None:
    document = commands.document("testbed", "mesh:3x3", "--compare", "--bytes", "1MiB", "--link-rate", "50mbit")
    assert [row["algorithm"] for row in document["runs"]] == ["ring", "ring-bi-odd", "tto", "combs"]
    assert (document["fabric"], document["link_rate_bit_per_s"], document["repeat"]) == ("mesh:3x3", 50_000_000, 5)
    assert {"measured_ns", "predicted_ns", "correct"} <= set(document["runs"][0])
    assert given[0][:4] == ("mesh:3x3", ["ring", "ring-bi-odd", "tto", "combs"], "all-reduce", "1MiB")


def test_tables_and_a_page(commands: Any, given: list[tuple[Any, ...]], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = commands.invoke("testbed", "mesh:2x2", "ring,combs", "--repeat", "3", "--report", str(page))
    assert result.exit_code == 0, result.stderr
    assert "an emulated mesh:2x2, links of 200 Mbit/s" in result.stdout
    assert "Median of 3 runs" in result.stdout
    assert "combs" in page.read_text()
    rows = list(csv.DictReader(StringIO(commands.invoke("testbed", "mesh:2x2", "ring", "--format", "csv").stdout)))
    assert rows[0]["algorithm"] == "ring"
    assert len(given) == 2


@pytest.mark.usefixtures("given")
def test_wrong_results_are_a_finding(commands: Any) -> None:
    result = commands.invoke("testbed", "mesh:2x2", "dbtree")
    assert (result.exit_code, "not what the collective defines" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give ALGORITHMS, --schedule FILE or --compare"),
        (("ring", "--link-rate", "fast"), "200mbit or 1gbit"),
        (("rings",), "did you mean 'ring'"),
        (("ring", "--schedule", "none.json"), "none.json"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], said: str, commands: Any) -> None:
    result = commands.invoke("testbed", "mesh:2x2", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
