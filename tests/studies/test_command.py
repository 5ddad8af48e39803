"""``antiphon study``: what is run, what is written, and what is said."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.studies import Store, identity
from antiphon.studies import commands as commands_of_studies

GRID = """
command = "simulate"

[fixed]
fidelity = "alpha-beta"

[axes]
fabric = ["mesh:3x3", "ring:4"]
algorithm = ["ring", "tto"]
bytes = ["64KiB", "128KiB"]
"""


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a study, in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = Path("grid.toml")
    file.write_text(GRID)
    return file


def test_every_point_is_what_its_command_prints(commands: Any, grid: Path) -> None:
    found = commands.document("study", grid)
    assert (found["command"], found["new_runs"], len(found["points"])) == ("simulate", 8, 8)
    for point in found["points"]:
        values = point["values"]
        run = ("simulate", values["fabric"], values["algorithm"], "--fidelity", "alpha-beta", "--bytes")
        if point["refused"] is None:
            printed = commands.document(*run, str(values["bytes"]))
            assert point["result"] == {key: printed[key] for key in printed if key in point["result"]}
            assert point["result"]["time_ns"] > 0
        else:
            assert (values["fabric"], values["algorithm"], point["result"]) == ("ring:4", "tto", None)
            assert point["refused"]["reason"] in commands.refused(*run, str(values["bytes"]))
    assert commands.document("study", grid)["new_runs"] == 0
    assert os.listdir("grid.runs") == ["runs.sqlite"]


def test_tables_have_what_varies_first(commands: Any, grid: Path) -> None:
    printed = commands.invoke("study", grid, "--out", "grid.csv").stdout
    assert "Runs: 8 made, 0 taken from earlier calls" in printed
    assert "2 x tto does not apply to ring:4" in printed
    assert "Table: grid.csv" in printed
    with open("grid.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:6] == ["fabric", "algorithm", "bytes", "refused.reason", "refused.code", "time_ns"]
    assert [row["refused.code"] for row in rows].count("not-applicable") == 2
    assert rows[0]["verified"] == "true"
    assert rows[6]["time_ns"] == ""
    assert commands.invoke("study", grid, "--format", "csv").stdout == Path("grid.csv").read_text()
    assert "| mesh:3x3 | ring | 64KiB |" in commands.invoke("study", grid, "--format", "markdown").stdout


def test_columns_are_the_main_ones_or_chosen(commands: Any, grid: Path) -> None:
    varies = ["fabric", "algorithm", "bytes", "refused.reason", "refused.code"]

    def columns(*options: str) -> list[str]:
        return next(csv.reader(commands.invoke("study", grid, "--format", "csv", *options).stdout.splitlines()))

    main = commands_of_studies.COMMANDS["simulate"].columns
    assert columns() == [*varies, *(name for name in main if name not in ("algorithm", "energy.total_j"))]
    assert len(columns("--columns", "all")) > 40
    chosen = ("--columns", "bound.cut_ns, time_ns")
    assert columns(*chosen) == [*varies, "bound.cut_ns", "time_ns"]
    header = commands.invoke("study", grid, *chosen).stdout.splitlines()[2]
    assert re.findall(r"[a-z_.]+", header) == [*varies[:3], "bound.cut_ns", "time_ns"]
    message = "columns: no column 'tim_ns'; did you mean 'time_ns'?"
    assert message in commands.refused("study", grid, "--columns", "tim_ns")
    found = antiphon.study(grid, columns=["steps"])
    assert list(found[0]) == [*varies, "steps"]
    assert list(replace(found, columns=None)[0]) == columns("--columns", "all")
    with pytest.raises(antiphon.AntiphonError, match=r"no column 'step'; did you mean 'steps'\?"):
        antiphon.study(grid, columns="step")[0]
    with pytest.raises(TypeError, match="columns"):
        antiphon.study(grid, columns=[1])  # type: ignore[list-item]


def test_parquet(commands: Any, grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    assert commands.invoke("study", grid, "--out", "grid.parquet").exit_code == 0
    rows = parquet.read_table("grid.parquet").to_pylist()
    assert rows == list(antiphon.study(grid))
    found = antiphon.study(grid)
    found.write("again.parquet")
    assert parquet.read_table("again.parquet").to_pylist() == rows
    assert "<table>" in found._repr_html_()
    assert parquet.read_table("grid.parquet")["time_ns"].drop_null().to_pylist() == [
        row["time_ns"] for row in pyarrow.table(found).to_pylist() if row["time_ns"] == row["time_ns"]
    ]
    assert found.to_frame()["bytes"].tolist() == [row["bytes"] for row in rows]
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    message = "Parquet needs pyarrow: pip install 'antiphon[parquet]', or write .csv"
    assert message in commands.refused("study", grid, "--out", "grid.parquet")
    assert "must end in .csv or .parquet" in commands.refused("study", grid, "--out", "grid.xlsx")


def test_columns_of_several_types_are_text(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    axes = {"topology": ["2D-SW_SW"], "chunks": [16, "best"]}
    antiphon.study({"command": "rails", "axes": axes}).write(tmp_path / "rails.parquet")
    assert parquet.read_table(tmp_path / "rails.parquet")["chunks"].to_pylist() == ["16", "best"]


def test_shards_are_merged(commands: Any, grid: Path) -> None:
    for number in (1, 2, 3):
        assert commands.document("study", grid, "--shard", f"{number}/3", "--store", "runs")["new_runs"] in (2, 3)
    shards = [f"runs/shard-{number}-of-3" for number in (1, 2, 3)]
    printed = commands.invoke("study", "merge", *shards, "--store", "runs").stdout
    assert printed == "8 runs from 3 folders are new in runs\n"
    assert commands.document("study", grid, "--store", "runs")["new_runs"] == 0
    assert commands.invoke("study", "merge", *shards, "--store", "runs").stdout.startswith("0 runs")
    assert "runs: is the store itself" in commands.refused("study", "merge", "runs", "--store", "runs")
    assert "nowhere: has no runs.sqlite" in commands.refused("study", "merge", "nowhere", "--store", "runs")
    for shard in ("0/3", "4/3", "1", "a/b"):
        assert "write for example 1/8" in commands.refused("study", grid, "--shard", shard)


def test_a_result_is_worth_more_than_a_time_limit(tmp_path: Path) -> None:
    from study_jobs import Cheap

    one, two = Cheap(1), Cheap(2)
    with Store(tmp_path / "a") as store, Store(tmp_path / "b") as other:
        for place, point in ((store, one), (other, two)):
            place.keep(identity.key_of(point), point, {"refused": {"code": "time-limit"}}, 1.0)
        store.add(two, two.measure())
        other.add(one, one.measure())
    with Store(tmp_path / "a") as store:
        assert store.merge(tmp_path / "b") == 0
        assert [store[point] for point in (one, two)] == [{"number": 1}, {"number": 2}]
        assert store.missing([]) == []
        assert one in store


def test_a_dry_run_runs_nothing(commands: Any, grid: Path) -> None:
    planned = commands.document("study", grid, "--dry-run")
    assert (planned["stored"], len(planned["points"])) == (0, 8)
    assert planned["points"][0] == {"fabric": "mesh:3x3", "algorithm": "ring", "bytes": 65536}
    assert os.listdir() == ["grid.toml"]
    commands.document("study", grid)
    assert "8 of 8 points are stored" in commands.invoke("study", grid, "--dry-run").stdout


def test_without_a_result_the_status_says_so(commands: Any, grid: Path) -> None:
    grid.write_text('command = "simulate"\nfixed = {fabric = "ring:4", algorithm = "tto"}')
    result = commands.invoke("study", grid)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no point of grid.toml has a result: tto does not apply to ring:4")


def test_what_a_time_limit_left_out_is_the_status(commands: Any, grid: Path) -> None:
    problem = '{fabric = "mesh:10x10", bytes = "64MiB", system = "tto"}'
    grid.write_text(f'command = "simulate"\nfixed = {problem}\naxes = {{algorithm = ["ring", "direct"]}}')
    result = commands.invoke("study", grid, "--jobs", "1", "--time-limit", "700ms")
    assert result.exit_code == 3
    end = "the time limit left out 1 of 2 points; a call with a larger one runs only these\n"
    assert result.stderr == f"error: {end}"
    space = grid.with_name("space.toml")
    axes = 'algorithms = ["ring", "direct"]\nfabrics = {mesh = "mesh:10x10"}\nbytes = "64MiB"\nsystem = "tto"'
    space.write_text(axes)
    explore = ("explore", space, "--jobs", "1", "--no-prune", "--no-sensitivity", "--store", "grid.runs")
    late = commands.invoke(*explore, "--time-limit", "700ms")
    assert (late.exit_code, late.stderr) == (3, f"error: {end.replace('points', 'designs')}")
    assert "1 x mesh direct: it took longer than 0.7 s" in late.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.toml",), "none.toml: cannot be read: No such file"),
        (("grid.toml", "--time-limit", "soon"), "write for example 90s, 5min or 2h"),
        (("grid.toml", "--time-limit", "0"), "write for example 90s, 5min or 2h"),
        (("grid.toml", "--out", "no/grid.csv"), "no/grid.csv: cannot be written"),
        (("grid.toml", "--store", "grid.toml"), "grid.toml: exists and is not a folder"),
        ((), "FILE"),
    ],
)
def test_mistakes(commands: Any, grid: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in commands.refused("study", *arguments)


def test_time_limits_have_units(commands: Any, grid: Path) -> None:
    for limit in ("90", "90s", "1.5min", "2h", "90000ms"):
        assert commands.invoke("study", grid, "--time-limit", limit, "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    "description",
    [
        {"command": "compare", "axes": {"fabric": ["mesh:3x3"], "algorithms": ["ring,tto"], "bytes": [65536]}},
        {"command": "tune", "axes": {"fabric": ["ring:4"], "sizes": [65536, "1MiB"], "algorithms": ["ring"]}},
        {"command": "bound", "axes": {"fabric": ["ring:4", "mesh:3x3"], "bytes": ["1MiB"]}},
        {"command": "noc", "axes": {"fabric": ["ring:4"], "rate": [0.1], "vcs": [2]}, "fixed": {"cycles": 500}},
        {
            "command": "noc",
            "axes": {"fabric": ["ring:4"]},
            "fixed": {"saturation": True, "warm_up_cycles": 500, "cycles": 500},
        },
        {"command": "train", "axes": {"model": ["alexnet"], "fabric": ["ring:4"], "algorithm": ["ring"], "batch": [4]}},
        {"command": "train", "fixed": {"model": "alexnet", "fabric": "rails:2D-SW_SW", "algorithm": "themis"}},
        {"command": "rails", "axes": {"topology": ["2D-SW_SW"], "scheduler": ["themis"]}},
        {"command": "configure", "fixed": {"fabric": "aries:4x4", "algorithms": "ring", "bytes": "64KiB"}},
    ],
    ids=lambda description: description["command"],
)
def test_every_command_can_be_studied(description: dict[str, Any]) -> None:
    command = commands_of_studies.COMMANDS[description["command"]]
    energy = {"energy": True} if "energy" in command.keys else {}
    found = antiphon.study(description | {"fixed": description.get("fixed", {}) | energy})
    assert not found.refused
    assert set(command.columns) - set(found[0]) <= {"unstable_rate"}
    json.dumps(found.records)


def test_a_schedule_of_ones_own_is_studied_by_its_content(tmp_path: Path) -> None:
    fabric = antiphon.Fabric("ring:4")
    file = tmp_path / "own.json"
    times = []
    for algorithm in ("ring", "direct"):
        file.write_text(antiphon.build(fabric, algorithm, bytes="1MiB").to_json())
        description = {"command": "simulate", "fixed": {"fabric": "ring:4", "schedule": str(file)}}
        found = antiphon.study(description, tmp_path / "runs")
        assert (found.made, found[0]["algorithm"]) == (1, algorithm)
        times.append(found[0]["time_ns"])
        compared = antiphon.study(description | {"command": "compare"})
        assert times[-1] >= compared[0]["best.time_ns"]
    assert times[0] != times[1]
    wrong = {"fabric": "ring:4", "schedule": str(file), "bytes": 1}
    for command in ("simulate", "compare"):
        reasons = antiphon.study({"command": command, "fixed": wrong}).refused
        assert list(reasons) == ["bytes: this is what the schedule says; leave it out"]


@pytest.mark.parametrize(
    ("command", "values", "message"),
    [
        ("simulate", {"fabric": "ring:4"}, "give either algorithm or schedule"),
        ("simulate", {"fabric": "ring:4", "algorithm": "ring", "schedule": "x"}, "give either algorithm or schedule"),
        ("compare", {"fabric": "mesh:3x3", "algorithms": "ring-bi"}, "no algorithm could do all-reduce on mesh:3x3"),
        ("train", {"model": "alexnet", "fabric": "rails:2D-SW_SW", "algorithm": "themis", "group": "0"}, "groups are"),
        ("noc", {"fabric": "ring:4", "rate": 0.1, "saturation": True}, "give either rate or saturation"),
        ("simulate", {"fabric": "ring:4", "algorithm": "ring", "group": "0,9"}, "9"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_together_are_records(command: str, values: dict[str, Any], message: str) -> None:
    (reason,) = antiphon.study({"command": command, "fixed": values}).refused
    assert message in reason


def test_a_group_is_a_key() -> None:
    fixed = {"fabric": "mesh:3x3", "algorithm": "ring", "bytes": "64KiB", "set": {"link_rate": "50GB/s"}}
    found = antiphon.study({"command": "simulate", "fixed": fixed, "axes": {"group": ["0-2", "0-5"]}}, columns="all")
    assert [row["ranks"] for row in found] == [3, 6]
    assert {row["system"] for row in found} == {"generic, link_rate=50GB/s"}
