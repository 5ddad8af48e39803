"""Studies whose processes are killed: nothing finished is lost, nothing is run twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
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


@contextlib.contextmanager
def observed(folder: Path) -> Iterator[sqlite3.Connection]:
    """The database of a study, which from now on writes down every record that anyone wants to keep."""
    (folder / "grid.toml").write_text(GRID.format(sizes=", ".join(str(1 << 16 | n) for n in range(POINTS))))
    first = start(folder)
    with contextlib.closing(wait_for_database(folder / "grid.runs" / "runs.sqlite")) as database:
        first.kill()
        first.communicate()
        database.execute("DELETE FROM runs")
        database.execute("CREATE TABLE kept (key TEXT)")
        database.execute("CREATE TRIGGER each BEFORE INSERT ON runs BEGIN INSERT INTO kept VALUES (new.key); END")
        yield database


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


def check(folder: Path, database: sqlite3.Connection) -> None:
    """A thousand records, none kept twice, none lost, each of its point."""
    assert count(database) == POINTS
    assert count(database, "kept") == POINTS
    assert count(database, "claims") == 0
    sizes = {json.loads(run)["bytes"] for (run,) in database.execute("SELECT run FROM runs")}
    assert sizes == {1 << 16 | n for n in range(POINTS)}
    done = start(folder)
    document = json.loads(done.communicate(timeout=60)[0])
    assert (document["new_runs"], len(document["points"])) == (0, POINTS)
    assert all(point["result"]["bytes"] == point["values"]["bytes"] for point in document["points"])


@pytest.mark.slow
def test_kill_9_twenty_times_with_two_processes(tmp_path: Path) -> None:
    chance = random.Random(15)
    with observed(tmp_path) as database:
        workers = [start(tmp_path), start(tmp_path)]
        for _ in range(20):
            wait_for(database, count(database) + chance.randrange(1, 40))
            time.sleep(chance.random() * 0.02)
            victim = workers.pop(chance.randrange(2))
            victim.kill()
            victim.communicate()
            assert victim.returncode == -signal.SIGKILL, "the study was too short for this test"
            workers.append(start(tmp_path))
        for worker in workers:
            _, stderr = worker.communicate(timeout=300)
            assert (worker.returncode, stderr) == (0, "")
        check(tmp_path, database)
    assert os.listdir(tmp_path / "grid.runs") == ["runs.sqlite"]


@pytest.mark.slow
def test_a_dask_worker_is_killed_mid_run(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with observed(tmp_path) as database, dask_cluster(tmp_path) as (address, workers):
        study = start(tmp_path, "--cluster", address)
        wait_for(database, 300)
        workers[0].kill()
        assert count(database) < POINTS, "the study was too short for this test"
        stdout, _ = study.communicate(timeout=300)
        assert study.returncode == 0
        document = json.loads(stdout)
        assert not [point for point in document["points"] if point["refused"]]
        assert document["new_runs"] == POINTS
        check(tmp_path, database)


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
