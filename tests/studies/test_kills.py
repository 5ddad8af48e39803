"""Studies whose processes are killed: nothing finished is lost, nothing is run twice."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GRID = """
command = "simulate"

[fixed]
fabric = "mesh:4x4"
algorithm = "multitree"

[axes]
bytes = [{sizes}]
"""
POINTS = 1000


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "antiphon", "study", "grid.toml", "--jobs", "1", "--json", *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def dask_cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a Dask scheduler, and its two workers."""
    file = str(folder / "scheduler.json")
    common = ("--scheduler-file", file, "--host", "127.0.0.1", "--no-dashboard")
    commands = (
        ("scheduler", *common, "--port", "0"),
        *2 * [("worker", *common, "--nthreads", "1", "--no-nanny", "--death-timeout", "60")],
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{name}", *options], cwd=folder, stderr=subprocess.DEVNULL
        )
        for name, *options in commands
    ]
    try:
        while not os.path.exists(file):
            time.sleep(0.05)
        yield json.loads(Path(file).read_text())["address"], processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for_database(path: Path) -> sqlite3.Connection:
    while True:
        with contextlib.suppress(sqlite3.Error):
            database = sqlite3.connect(path, timeout=60, isolation_level=None)
            database.execute("SELECT count(*) FROM runs")
            return database
        time.sleep(0.02)


def count(database: sqlite3.Connection, table: str = "runs") -> int:
    return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def wait_for(database: sqlite3.Connection, runs: int) -> None:
    while count(database) < min(runs, POINTS):
        time.sleep(0.002)


@pytest.mark.slow
def test_a_dask_worker_is_killed_mid_run(tmp_path: Path) -> None:
    """All records are there, none lost, each of its point."""
    pytest.importorskip("distributed")
    (tmp_path / "grid.toml").write_text(GRID.format(sizes=", ".join(str(1 << 16 | n) for n in range(POINTS))))
    with dask_cluster(tmp_path) as (address, workers):
        study = start(tmp_path, "--cluster", address)
        with contextlib.closing(wait_for_database(tmp_path / "grid.runs" / "runs.sqlite")) as database:
            wait_for(database, 300)
            workers[0].kill()
            assert count(database) < POINTS, "the study was too short for this test"
            stdout, _ = study.communicate(timeout=300)
            assert study.returncode == 0
            assert (count(database), count(database, "claims")) == (POINTS, 0)
    document = json.loads(stdout)
    assert not [point for point in document["points"] if point["refused"]]
    assert document["new_runs"] == POINTS
    done = start(tmp_path)
    document = json.loads(done.communicate(timeout=60)[0])
    assert (document["new_runs"], len(document["points"])) == (0, POINTS)
    assert all(point["result"]["bytes"] == point["values"]["bytes"] for point in document["points"])


@pytest.mark.slow
def test_a_cluster_explores_as_this_machine_does(tmp_path: Path, commands: Any) -> None:
    pytest.importorskip("distributed")
    space = tmp_path / "space.toml"
    space.write_text('bytes = "64KiB"\nalgorithms = ["ring", "combs", "tto"]\nfabrics = {mesh = "mesh:3x3"}')
    with dask_cluster(tmp_path) as (address, _workers):
        there = commands.document("explore", space, "--store", tmp_path / "there", "--cluster", address)
    assert there == commands.document("explore", space, "--jobs", "1")
    assert (there["simulated"] + there["pruned"], there["refused"]) == (2, 1)


def test_clusters_that_are_not_there(commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "grid.toml").write_text(GRID.format(sizes="1"))
    study = ("study", tmp_path / "grid.toml", "--cluster")
    for address in ("nonsense", "nonsense://1:2", "tcp://127.0.0.1", "tcp://127.0.0.1:x"):
        assert f"cluster '{address}' is no address; write for example tcp://" in commands.refused(*study, address)
    monkeypatch.setattr("antiphon.studies.cluster.PATIENCE_S", 0.1)
    assert "no Dask scheduler at 'tcp://127.0.0.1:9'" in commands.refused(*study, "tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "clusters need Dask: pip install 'antiphon[cluster]'" in commands.refused(*study, "tcp://127.0.0.1:9")
