"""Tables for NCCL's tuner plugin."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import antiphon
from antiphon import AntiphonError
from antiphon.cli import main
from antiphon.collective.choices import Candidate, Choice, Tuning


def tuning(*rankings: list[Candidate]) -> Tuning:
    """Tuned for 100, 200, ... bytes."""
    bound = antiphon.lower_bound("ring:4", bytes=1)
    choices = [Choice(100 * place, ranking, bound) for place, ranking in enumerate(rankings, 1)]
    return Tuning("ring:4", "all-reduce", antiphon.System("generic"), "packet", choices, [], [])


def ranking(*names: str) -> list[Candidate]:
    return [Candidate(name, float(place), []) for place, name in enumerate(names)]


def test_rows_are_runs_of_the_same_winner() -> None:
    tree, ring = ranking("combs", "dbtree:chunk=4KiB", "ring"), ranking("ring", "dbtree")
    unknown, apart = ranking("ring", "combs"), [Candidate("dbtree", 0.0, [3]), *ranking("ring")]
    table = tuning(tree, tree, unknown, tree, ring, apart, ring, ring).to_nccl(4)
    assert table.splitlines() == [
        "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff",
        "allreduce,100,200,tree,simple,-1,-1,4,-1,-1",
        "allreduce,400,400,tree,simple,-1,-1,4,-1,-1",
        "allreduce,500,500,ring,simple,-1,-1,4,-1,-1",
        "allreduce,700,800,ring,simple,-1,-1,4,-1,-1",
    ]
    assert tuning(ring).to_nccl().splitlines()[1] == "allreduce,100,100,ring,simple,-1,-1,-1,-1,-1"
    with pytest.raises(AntiphonError, match="at no size all of ring and dbtree were timed on ring:4") as error:
        tuning(unknown, apart).to_nccl()
    assert error.value.code == "not-applicable"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["tune", "switch:8", *map(str, arguments)])


def test_the_command_writes_either_table(tmp_path: Path) -> None:
    path = tmp_path / "nccl.csv"
    tuned = ("--sizes", "1KiB,64MiB", "--algorithms", "ring,dbtree", "--fidelity", "alpha-beta")
    result = call(*tuned, "--out", path, "--json")
    assert result.exit_code == 0
    choices = json.loads(result.output)["choices"]
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    names = {"ring": "ring", "dbtree": "tree"}
    for choice in choices:
        (row,) = [row for row in rows if int(row["min_bytes"]) <= choice["bytes"] <= int(row["max_bytes"])]
        assert row["algorithm"] == names[choice["algorithm"].partition(":")[0]]
        assert row["nRanks"] == "8"
    call(*tuned, "--out", tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text())["schema"] == "antiphon-tune/1"


def test_refusals_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "nccl.csv"
    result = call("--collective", "all-gather", "--out", path)
    assert isinstance(result.exception, AntiphonError | SystemExit)
    assert result.exit_code != 0
    assert "not for all-gather" in result.output + str(result.exception)
    result = call("--sizes", "1MiB", "--algorithms", "ring", "--fidelity", "alpha-beta", "--out", path)
    assert "no row for NCCL" in result.output + str(result.exception)
    assert not path.exists()
