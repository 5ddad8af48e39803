"""`antiphon testbed`: what it prints, its page, and how it answers to bad input."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import antiphon
import antiphon.cli.testbed  # its options are those of the function, not of what stands in for it
from antiphon.execution.result import Emulated
from antiphon.execution.testbed import emulation
from antiphon.results import Table


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the command asked for; it gets made-up times, of which one result is wrong if it asks for dbtree."""
    asked: list[tuple[Any, ...]] = []

    def emulate(fabric: antiphon.Fabric, algorithms: list[Any], *others: Any, **options: Any) -> Emulated:
        asked.append((fabric.name, algorithms, *others, options))
        schedules = [
            antiphon.build(fabric, each, others[0], others[1], root=options["root"]) if isinstance(each, str) else each
            for each in algorithms
        ]
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
        rate = emulation.bits_per_s(options["link_rate"] or "200mbit")
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
    assert "player" not in page.read_text()
    rows = list(csv.DictReader(StringIO(commands.invoke("testbed", "mesh:2x2", "ring", "--format", "csv").stdout)))
    assert rows[0]["algorithm"] == "ring"
    assert len(given) == 2


def test_a_file_says_what_all_do(commands: Any, given: list[tuple[Any, ...]], tmp_path: Path) -> None:
    path = tmp_path / "direct"  # whatever its name is
    path.write_text(antiphon.build("mesh:2x2", "direct", "broadcast", 8192, root=3).to_json())
    document = commands.document("testbed", "mesh:2x2", "multitree", "--schedule", path)
    assert (document["collective"], document["root"]) == ("broadcast", 3)
    assert [(row["algorithm"], row["bytes"]) for row in document["runs"]] == [("multitree", 8192), ("direct", 8192)]
    assert given[0][2:4] == ("broadcast", 8192)
    assert given[0][4]["root"] == 3
    for option, value in (("--bytes", "4KiB"), ("--collective", "broadcast"), ("--root", "3")):
        result = commands.invoke("testbed", "mesh:2x2", "--schedule", path, option, value)
        assert f"{option} is what the schedule says" in commands.error(result)


@pytest.mark.usefixtures("given")
def test_wrong_results_are_a_finding(commands: Any) -> None:
    result = commands.invoke("testbed", "mesh:2x2", "dbtree")
    assert (result.exit_code, "not what the collective defines" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give ALGORITHMS, --schedule FILE or --compare"),
        (("ring", "--link-rate", "fast"), "200mbit or 4GB/s"),
        (("rings",), "did you mean 'ring'"),
        (("ring", "--schedule", "none.json"), "none.json"),
        (("ring", "--schedule", "none"), "none: cannot be read"),
        (("--chain", "alexnet", "--report", "page.html"), "--chain: leave out --report"),
        (("--chain", "alexnet", "ring", "combs"), "--chain: leave out all ALGORITHMS but one"),
        (("--chain", "alexnet", "--repeat", "0"), "--repeat 0: 1 to 1,000"),
        (("ring", "--batch", "3"), "--batch is for --chain"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], said: str, commands: Any) -> None:
    result = commands.invoke("testbed", "mesh:2x2", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_where_nothing_can_be_compared(commands: Any) -> None:
    result = commands.invoke("testbed", "mesh:2x2", "--compare", "--collective", "all-to-all")
    assert "no ring, TTO or combs does all-to-all on mesh:2x2" in commands.error(result)
    assert result.exit_code == 1


def test_chained_iterations(commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def chained(*_: Any, progress: Any, **given: Any) -> antiphon.ChainMeasurement:
        assert given["transport"] == "testbed"
        assert (given["link_rate"], given["iterations"], given["batch"]) == ("50mbit", 2, 32)
        row = {"variant": "combs", "algorithm": "combs", "iteration_us": 2.0, "predicted_us": 1.0}
        rows = [row | {"least_us": 2.0, "most_us": 2.0, "equal": True}]
        return antiphon.ChainMeasurement("mesh:2x2", "m", "testbed", 4, 1, 4, 1.0, 2, Table.of_rows(rows))

    monkeypatch.setattr(antiphon, "measure_chain", chained)
    arguments = ("testbed", "mesh:2x2", "combs", "--chain", "m.csv", "--link-rate", "50mbit", "--repeat", "2")
    assert commands.document(*arguments)["runs"][0]["predicted_us"] == 1.0
    assert "2.000" in commands.invoke(*arguments).stdout
