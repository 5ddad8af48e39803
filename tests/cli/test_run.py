"""`antiphon run`: what it prints, and how it answers to bad input, also within a job of MPI."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.execution.launch import mpiexec

THREADS = ("--transport", "threads", "--iterations", "1")
FIGURES = ("wrong", "time_ns", "algorithm_bandwidth_gb_per_s", "bus_bandwidth_gb_per_s")


def test_the_document(commands: Any) -> None:
    document = commands.document("run", "mesh:2x2", "ring", "--bytes", "4KiB,8KiB", *THREADS)
    runs = document.pop("runs")
    assert {key: document[key] for key in document if key not in ("schema", "version")} == {
        "fabric": "mesh:2x2",
        "algorithm": "ring",
        "collective": "all-reduce",
        "root": None,
        "ranks": 4,
        "element": "float32",
        "transport": "threads",
        "warmup": 1,
        "iterations": 1,
    }
    assert [(row["bytes"], row["elements"], row["correct"]) for row in runs] == [(4096, 1024, True), (8192, 2048, True)]
    for row in runs:
        assert set(row) == {"bytes", "elements", "correct", "predicted_ns", "in_place", *FIGURES}
        assert set(row["in_place"]) == set(FIGURES)
        assert row["wrong"] == row["in_place"]["wrong"] == 0
        assert row["time_ns"] > 0


def test_the_table(commands: Any) -> None:
    result = commands.invoke("run", "mesh:2x2", "multitree", "--collective", "reduce", "--bytes", "4KiB", *THREADS)
    assert result.exit_code == 0, result.stderr
    for text in ("multitree, reduce of float32, 4 ranks in threads", "busbw", "4KiB", "1,024", "compared with the def"):
        assert text in result.stdout
    assert (
        commands.invoke("run", "mesh:2x2", "ring", *THREADS, "--bytes", "4KiB", "--format", "markdown").exit_code == 0
    )


CHAIN = ("run", "ring:2", "--chain", "alexnet", "--batch", "1", "--iterations", "1", "--transport", "threads")


def test_chained_iterations(commands: Any) -> None:
    document = commands.document(*CHAIN)
    assert [row["variant"] for row in document["runs"]] == ["B", "C1", "C2", "CC", "R"]
    for row in document["runs"]:
        assert row["equal"] is True
        assert row["predicted_us"] is None
        assert document["compute_us"] <= row["least_us"] <= row["iteration_us"] <= row["most_us"]
    assert document["layers"] == 5
    shown = commands.invoke(*CHAIN[:3], "alexnet", *CHAIN[4:], "--compute", "roofline").stdout
    assert "alexnet on ring:2, 2 ranks by threads" in shown
    assert "Of ideal" in shown
    assert "Predicted" not in shown


def test_wrong_weights_are_a_finding(commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.execution.chain.rank.ChainedRank.wrong", lambda _: 1)
    result = commands.invoke(*CHAIN)
    assert "DIFFERENT" in result.stdout
    assert "error: weights are not what the gradients of all ranks make them" in result.stderr


def test_rows_of_csv(commands: Any) -> None:
    result = commands.invoke("run", "mesh:2x2", "ring", "--bytes", "1KiB..4KiB", *THREADS, "--format", "csv")
    rows = list(csv.DictReader(StringIO(result.stdout)))
    assert [row["bytes"] for row in rows] == ["1024", "2048", "4096"]
    assert {"fabric", "algorithm", "time_ns", "in_place.time_ns", "correct"} <= set(rows[0])


def test_groups_and_files(commands: Any, tmp_path: Path) -> None:
    document = commands.document("run", "mesh:4x4", "combs", "--bytes", "4KiB", "--group", "0-3", *THREADS)
    assert document["ranks"] == 4
    path = tmp_path / "ring.json"
    path.write_text(antiphon.build("mesh:2x2", "ring", "all-gather", 4096).to_json())
    document = commands.document("run", "mesh:2x2", "--schedule", path, *THREADS)
    assert (document["collective"], document["runs"][0]["bytes"]) == ("all-gather", 4096)


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [
        (("mesh:2x2", "ring", "--element", "int7"), "one of float32", 2),
        (("mesh:2x2", "ring", "--bytes", "4KiB", "--matrix", "no.csv"), "either --bytes or --matrix", 2),
        (("mesh:2x2", "direct", "--collective", "all-to-all", "--matrix", "no.csv"), "no.csv", 2),
        (("mesh:2x2", "ring", "--bytes", ""), "size ''", 2),
        (("mesh:2x2", "ring", "--bytes", "4100", "--element", "float64"), "8-byte elements", 2),
        (("mesh:2x2", "ring", "--timeout", "0"), "--timeout 0.0", 2),
        (("mesh:2x2", "ring", "--timeout", "soon"), "--timeout", 2),
        (("mesh:2x2", "ring", "--iterations", "0"), "iterations", 2),
        (("mesh:2x2",), "give either an ALGORITHM or --schedule", 2),
        (("mesh:2x2", "ring", "--schedule", "ring.json"), "give either an ALGORITHM or --schedule", 2),
        (("mesh:2x2", "--schedule", "ring.json", "--root", "1"), "leave it out", 2),
        (("mesh:2x2", "--schedule", "no.json"), "no.json", 2),
        (("mesh:2x2", "ring", "--collective", "broadcast"), "does not apply", 1),
        (("mesh:2x2", "ring", "--busy"), "--busy is for --chain", 2),
        (("mesh:2x2", "--chain", "alexnet", "--bytes", "4KiB"), "--chain: leave out --bytes", 2),
        (("mesh:2x2", "--chain", "alexnet", "--element", "int32"), "--chain: leave out --element", 2),
        (("mesh:2x2", "--chain", "alexnet", "--transport", "cuda"), "testbed --device cuda", 2),
        (("mesh:2x2", "--chain", "alexnet", "--timeout", "nan"), "--timeout nan", 2),
        (("mesh:2x2", "--chain", "alexnet", "--batch", "1000000"), "take a smaller batch", 2),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], said: str, status: int, commands: Any) -> None:
    result = commands.invoke("run", *arguments)
    assert said in commands.error(result)
    assert (result.exit_code, result.stdout) == (status, "")


@pytest.mark.parametrize("transport", ["mpi", "threads"])
def test_what_is_not_proven_is_not_run(transport: str, commands: Any, tmp_path: Path) -> None:
    builder = antiphon.ScheduleBuilder(antiphon.Fabric("mesh:2x2"), "all-reduce", 4096)
    builder.copy(0, 1, builder.lane(0, 4096), 0)
    path = tmp_path / "copy.json"
    path.write_text(builder.finish().to_json())
    result = commands.invoke("run", "mesh:2x2", "--schedule", path, "--transport", transport)
    assert "rank" in commands.error(result)
    assert result.exit_code == 1


def test_wrong_results_are_a_finding(commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.execution.numbers.Data.wrong", lambda _: 1)
    result = commands.invoke("run", "mesh:2x2", "ring", "--bytes", "4KiB", *THREADS)
    assert "not what the collective defines" in commands.error(result)
    assert result.exit_code == 1
    assert "busbw" in result.stdout


def in_a_job(processes: int, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mpi4py")
    command = [*mpiexec(processes), sys.executable, *arguments]
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)


RUN = ("-m", "antiphon", "run")
KILLED = """
import os, signal, sys, threading
from antiphon.cli.group import main
from antiphon.execution import measuring

def measure_rank(carrier, schedules, plan, started):
    ended = threading.Timer(2, os.kill, (os.getpid(), signal.SIGKILL))
    if carrier.rank == 2:
        ended.start()
    yield from at_work(carrier, schedules, plan, started)

at_work, measuring.measure_rank = measuring.measure_rank, measure_rank
main(["run", "mesh:2x2", "ring", "--bytes", "64KiB", "--iterations", "1000000"])
"""


@pytest.mark.covers_processes
def test_processes_of_a_job_are_the_ranks(tmp_path: Path) -> None:
    done = in_a_job(4, *RUN, "mesh:2x2", "ring", "--bytes", "4KiB", "--iterations", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("busbw") == 1
    assert "4 MPI ranks" in done.stdout
    assert done.stderr == ""


def test_a_job_of_another_size_is_refused(tmp_path: Path) -> None:
    done = in_a_job(3, *RUN, "mesh:2x2", "ring", "--bytes", "4KiB", folder=tmp_path)
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert said == ["error: the job has 3 processes, the fabric 4 ranks: start as many"]
    assert done.stdout == ""
    assert done.returncode in (1, 2)


def test_a_rank_of_a_job_that_is_killed_and_what_was_waited_for(tmp_path: Path) -> None:
    done = in_a_job(4, "-c", KILLED, folder=tmp_path)
    assert re.search(
        r"^error: rank \d was ended; it waited for (transfer \d+ \(rank \d to \d, |the others$)",
        done.stderr,
        re.MULTILINE,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode != 0
