"""``torchrun ... -m antiphon.torch.bench``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from pytorch.lab import local

import antiphon
from antiphon.view.document import Table

torch = pytest.importorskip("torch", reason="torch is too large for the development environment")

BENCH = ["-m", "antiphon.torch.bench", "--backend", "gloo"]


@pytest.mark.covers_processes
def test_every_collective_is_right_and_timed(tmp_path: Path) -> None:
    from antiphon.execution.timed import COLLECTIVES
    from antiphon.view.documents.job import runs_document

    given = ["--collective", ",".join(COLLECTIVES), "--bytes", "3072,12288", "--iterations", "3", "--warmup", "1"]
    ended = local([*BENCH, *given, "--element", "int32", "--json"], tmp_path, 3).wait()
    found = ended[0].document
    assert found["schema"] == "antiphon-bench/1"
    assert (found["backend"], found["ranks"], found["element"]) == ("gloo", 3, "int32")
    assert [(row["collective"], row["bytes"]) for row in found["runs"]] == [
        (collective, size) for collective in COLLECTIVES for size in (3072, 12_288)
    ]
    for row in found["runs"]:
        assert (row["wrong"], row["elements"]) == (0, row["bytes"] // 4)
        assert 0 < row["least_us"] <= row["time_us"] <= row["most_us"]
        bandwidth = row["bytes"] / row["time_us"] / 1e3 * antiphon.bus_factor(row["collective"], 3)
        assert row["bus_bandwidth_gb_per_s"] == pytest.approx(bandwidth)
        assert row["bound_us"] is row["algorithm"] is None
    (table, _) = runs_document(found, found["runs"]).parts
    assert isinstance(table, Table)
    assert [name for name, _ in table.heads] == ["Collective", "Size", "Count", "Time", "algbw", "busbw", "Wrong"]
    planned = [{**found["runs"][0], "time_us": 100.0, "bound_us": 95.0, "algorithm": "ring", "wrong": 2}]
    (table, _) = runs_document(found, planned).parts
    assert isinstance(table, Table)
    assert list(table.rows[0][-4:]) == ["2", "95.0 µs", "95%", "ring"]
    assert table.styles == ["bold red"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--collective", "gossip"], "error: --collective is 'gossip'; known: all-reduce"),
        (["--element", "float8"], "error: --element is 'float8'; known: float32"),
        (["--iterations", "0"], "error: --iterations is 0; give 1 to 100,000"),
        (["--bytes", "64KiB..8KiB"], "error: sizes '64KiB..8KiB': the first is larger than the last"),
        ([], "error: no job: start it on every host with torchrun, such as torchrun --nproc-per-node 2 -m"),
    ],
)
def test_mistakes_get_one_line(given: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from antiphon.cli.group import main
    from antiphon.torch.bench import bench

    assert main.commands["antiphon.torch.bench"] is bench
    monkeypatch.delenv("RANK", raising=False)
    done = CliRunner().invoke(main, [*BENCH[1:], *given])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(said), done.stderr
    assert done.stderr.count("\n") == 1


def test_what_no_rank_can_do_gets_one_line_from_rank_0(tmp_path: Path) -> None:
    first, second = local([*BENCH, "--collective", "all-gather", "--bytes", "4100", "--json"], tmp_path, 2).wait()
    assert (first.status, second.status, second.text) == (2, 2, "")
    assert first.text == "error: 4,100 bytes: give a multiple of 8, for 2 shards of 4-byte elements\n"


def test_what_no_rank_can_do_is_known_before() -> None:
    from antiphon.torch.measuring import check

    check(["all-reduce", "all-gather"], [24], "gloo", "float64", 3)
    with pytest.raises(antiphon.AntiphonError, match="backend is 'pigeon'; known: gloo"):
        check(["all-reduce"], [4], "pigeon", "float32", 2)
    with pytest.raises(antiphon.AntiphonError, match="2 bytes: give a multiple of 4, for 4-byte elements"):
        check(["all-reduce"], [2], "gloo", "float32", 2)


def test_wrong_elements_are_counted() -> None:
    from antiphon.torch.measuring import differing

    found = torch.tensor([1, 2, 3, 4])
    assert differing(found, torch.tensor([1, 3, 3, 5])) == 2
    assert differing(found, None) == 0
