"""The store of runs: nothing is computed twice, nothing stored is lost, nothing stale is used."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from study_jobs import Cheap

import antiphon
from antiphon.studies import Heartbeat, Job, Point, RailsPoint, Record, Store, TrainingPoint, identity, running
from antiphon.studies import store as study_store

POINTS = [Point("mesh:3x3", algorithm, size, "tto") for algorithm in ("ring", "tto") for size in (65536, 131072)]


KILLER = """
import json, os, random, signal, sys, time
from dataclasses import dataclass
from antiphon.studies import Job, Store

folder, path = sys.argv[1:]
log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@dataclass(frozen=True)
class Slow(Job):
    number: int

    def measure(self, progress=None):
        # Long until all are killed, so that the others do not finish the study meanwhile on a busy machine.
        if not os.path.exists(path + ".killed"):
            time.sleep(0.02)
        os.write(log, b"%d\\n" % self.number)
        return {"number": self.number}

def start():
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with Store(folder) as store:
            store.ensure(map(Slow, range(3000)), progress=lambda done, all: os.write(tell, b"."))
        os._exit(0)
    os.close(tell)
    return pid, told

chance = random.Random(7)
workers = [start(), start()]
kills = 0
for _ in range(20):
    pid, told = workers.pop(chance.randrange(2))
    for _ in range(chance.randrange(1, 15)):
        os.read(told, 1)
    time.sleep(chance.random() * 0.006)
    os.kill(pid, signal.SIGKILL)
    kills += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    os.close(told)
    workers.append(start())
open(path + ".killed", "w").close()
for pid, told in workers:
    while os.read(told, 4096):
        pass
    assert os.waitpid(pid, 0)[1] == 0
print(kills)
"""


def runs_in(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / "runs.sqlite")) as database:
        return [run for (run,) in database.execute("SELECT run FROM runs")]


def ring_of(rate_gb_per_s: float) -> str:
    """A ring of four in JSON."""
    links = [{"from": rank, "to": (rank + 1) % 4, "both": True, "rate_gb_per_s": rate_gb_per_s} for rank in range(4)]
    return json.dumps({"schema": "antiphon-fabric/1", "nodes": [{"rank": True}] * 4, "links": links})


def test_a_record_is_the_run_that_simulate_prints(tmp_path: Path) -> None:
    fabric = antiphon.Fabric("mesh:3x3")
    run = antiphon.run(fabric, antiphon.build(fabric, "tto", bytes=65536, system="tto"), "tto")
    with Store(tmp_path / "new" / "folder") as store:
        point = Point("mesh:3x3", "tto", 65536, "tto", tables=("timeline", "ranks"))
        store.ensure([point])
        record = dict(store[point])
        tables = record.pop("tables")
        assert record == run.to_dict()
        assert [row["finish_ns"] for row in tables["ranks"]] == run.result.ranks["finish_ns"].tolist()
        assert set(tables) == {"timeline", "ranks"}


def test_a_second_call_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert store.ensure(POINTS[:3]) == 3
        first = {point: store[point] for point in POINTS[:3]}
    with Store(tmp_path) as store:
        told: list[tuple[int, int]] = []
        assert store.ensure([*POINTS, POINTS[0]], jobs=3, progress=lambda *counts: told.append(counts)) == 1
        assert told == [(3, 4), (4, 4)]
        assert {point: store[point] for point in POINTS[:3]} == first
        assert store.ensure(POINTS) == 0
    assert len(runs_in(tmp_path)) == 4


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE VIEW v AS SELECT * FROM runs",
        "CREATE TABLE more (key TEXT)",
    ],
)
def test_a_database_that_does_more_is_refused(tmp_path: Path, change: str) -> None:
    with Store(tmp_path) as store:
        store.add(Cheap(1), {"number": 1})
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as database, database:
        database.execute(change)
    with pytest.raises(antiphon.AntiphonError, match=r"is no store of runs \(it has the \w+ '\w+'\)"):
        Store(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"something else" * 1000, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs.sqlite").write_bytes(content)
    with pytest.raises(antiphon.AntiphonError, match=r"runs\.sqlite: is no store of runs"):
        Store(tmp_path)
    assert os.listdir(tmp_path) == ["runs.sqlite"]
    with contextlib.closing(sqlite3.connect(tmp_path / "others.sqlite")) as database, database:
        database.execute("CREATE TABLE runs (a)")
    (tmp_path / "others.sqlite").rename(tmp_path / "runs.sqlite")
    with pytest.raises(antiphon.AntiphonError, match="another format"):
        Store(tmp_path)


def test_runs_of_another_build_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path) as store:
        store.ensure(POINTS)
    for module in (identity, study_store, running):
        monkeypatch.setattr(module, "build_id", lambda: "another")
    with Store(tmp_path) as store:
        assert store.of_other_builds == 4
        assert store.ensure(POINTS) == 4


def test_refusals_and_mistakes_are_records_and_end_nothing(tmp_path: Path) -> None:
    points = {
        Point("mesh:3x3", "ring-bi", 65536): ("not-applicable", "Hamiltonian"),
        Point("mesh:3x3", "rnig", 65536): ("unknown-name", "did you mean 'ring'"),
        Point("mesh:3x3", "ring", 0): ("bad-size", "must be positive"),
        RailsPoint("2D-SW_SW", 1000, "best"): ("unknown-name", "'best'"),
        TrainingPoint("vgg", "mesh:3x3", "ring"): ("unknown-name", "'vgg'"),
    }
    with Store(tmp_path) as store:
        assert store.ensure([*points, *POINTS], jobs=2) == len(points) + len(POINTS)
        assert store.ensure([*points, *POINTS]) == 0
        for point, (code, reason) in points.items():
            assert store[point]["refused"]["code"] == code
            assert reason in store[point]["refused"]["reason"]
        with pytest.raises(KeyError):
            store[Point("mesh:3x3", "ring", 1 << 30)]


def test_a_file_that_changes_during_its_run_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "fabric.json"
    file.write_text(ring_of(100))

    class Edited(Point):
        def measure(self, progress: Heartbeat | None = None) -> Record:
            file.write_text(ring_of(10))
            return super().measure(progress)

    with Store(tmp_path) as store, pytest.raises(antiphon.AntiphonError, match="changed while it was used"):
        store.ensure([Edited(f"file:{file}", "ring", 65536)])
    assert runs_in(tmp_path) == []


def test_the_code_of_the_package_is_part_of_a_run(tmp_path: Path) -> None:
    """A constant that is changed in training/train.py changes the build, one of a page does not."""
    package = Path(antiphon.__file__).parent
    copy = tmp_path / "antiphon"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))

    def build() -> str:
        command = [sys.executable, "-c", "from antiphon import studies; print(studies.build_id(), studies.__file__)"]
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
        name, file = done.stdout.split()
        assert file == str(copy / "studies" / "__init__.py")
        return name

    first = build()
    with open(copy / "view" / "text.py", "a") as file:
        file.write("# more\n")
    assert build() == first
    with open(copy / "training" / "train.py", "a") as file:
        file.write("IMAGENET = 1\n")
    assert build() != first


def test_own_time_of_many_cheap_points_is_small_and_linear(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        with Store(tmp_path / str(count)) as store:
            start = time.process_time()
            assert store.ensure(map(Cheap, range(count)), progress=lambda _done, _all: None) == count
            return (time.process_time() - start) / count

    assert seconds(10_000) < 1e-3  # twice what a busy machine takes


def test_an_interruption_keeps_what_is_done(tmp_path: Path) -> None:
    def interrupt(done: int, _all: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with Store(tmp_path) as store, pytest.raises(KeyboardInterrupt):
        store.ensure(POINTS, progress=interrupt)
    with Store(tmp_path) as store:
        assert 2 <= sum(point in store for point in POINTS) <= 4


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(antiphon.AntiphonError, match="exists and is not a folder"):
        Store(file)
    with pytest.raises(antiphon.AntiphonError, match="cannot be written"):
        Store(file / "below")
    (tmp_path / "taken" / "runs.sqlite").mkdir(parents=True)
    with pytest.raises(antiphon.AntiphonError, match=r"runs\.sqlite: exists and is not a file"):
        Store(tmp_path / "taken")


def test_edited_files_are_others(tmp_path: Path) -> None:
    """A fabric, a configuration, a table of layers."""
    fabric, configuration, table = tmp_path / "fabric.json", tmp_path / "wires.json", tmp_path / "model.csv"
    points: list[Job] = [
        *(
            Point(f"file:{fabric}{rest}", "ring", 1 << 20, "ideal")
            for rest in ("", "@100", ",slow=0-1:0.5", "[0-2]", "@100,slow=0-1:0.5[0-2]")
        ),
        *(
            Point(f"aries:4x4,config={configuration}{rest}", "direct", 65536, "aries")
            for rest in ("", ",drop=0-1", "[0-2]")
        ),
        TrainingPoint(str(table), "ring:4", "ring", (("batch", 4),)),
    ]
    with Store(tmp_path / "runs") as store:
        for rate, wire, weights in ((100, "x0=0-3", 1000), (10, "x1=0-3", 500_000), (100, "x0=0-3", 1000)):
            fabric.write_text(ring_of(rate))
            configuration.write_text(antiphon.Fabric(f"aries:4x4,{wire}").configuration or "")
            table.write_text(f"layer,params,macs,input_elements,output_elements\none,{weights},1000,1000,1000\n")
            made = store.ensure(points)
            assert store[points[0]]["time_ns"] == points[0].measure()["time_ns"]
            assert store[points[-1]]["gradient_bytes"] == 4 * weights
        assert made == store.ensure(points) == 0, "as it was at first"
    assert len(runs_in(tmp_path / "runs")) == 2 * len(points)


def test_changes_of_the_system_are_part_of_a_point(tmp_path: Path) -> None:
    slow, fast = (
        Point("mesh:3x3", "ring", 1 << 20, "tto", changes) for changes in ((("reduce_rate_gb_per_s", 10),), ())
    )
    with Store(tmp_path) as store:
        store.ensure([slow, fast])
    with Store(tmp_path) as store:
        assert store.ensure([slow]) == 0
        assert store[slow]["time_ns"] > store[fast]["time_ns"]
    later, train = (
        TrainingPoint("ncf", "ring:4", "ring", changes=changes) for changes in ((("hand_off_ns", 1e6),), ())
    )
    steps = later.measure()["communication_ns"] - train.measure()["communication_ns"]
    assert steps == pytest.approx(6e6, rel=0.01)
    assert TrainingPoint("ncf", "ring:4", "ring", system="tto").measure()["system"] == "tto"


@pytest.mark.parametrize(
    "record", ["{}\0", b"{}", None, 7, "[" * 100_000, "[1]", b"\xff".decode("latin-1"), "as it was"]
)
def test_rows_that_were_changed_are_one_line(tmp_path: Path, record: object) -> None:
    """Also where their digest is right, unless the record is as it was."""
    with Store(tmp_path) as store:
        store.add(Cheap(1), {"number": 1})
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as database, database:
        if record == "as it was":
            database.execute("""UPDATE runs SET run = replace(run, '"number":', '"numbre":')""")
        else:
            key, build, point = database.execute("SELECT key, build, point FROM runs").fetchone()
            digest = hashlib.sha256("\n".join((key, build, point, str(record))).encode()).hexdigest()[:16]
            database.execute("UPDATE runs SET run = ?, digest = ?", (record if record is not None else "", digest))
        database.execute("INSERT INTO claims VALUES (?, ?)", ("other", "../\0"))
    with Store(tmp_path) as store:
        with pytest.raises(antiphon.AntiphonError, match=r"runs\.sqlite: run \w+ was changed"):
            store[Cheap(1)]
        assert store.claim("other") is True


def test_killed_at_any_moment_two_processes_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    folder, log = tmp_path / "runs", tmp_path / "log"
    command: list[str | Path] = [sys.executable, "-c", KILLER, folder, log]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "20\n", f"a process ended by itself: {done.stderr}"
    records = [json.loads(run)["number"] for run in runs_in(folder)]
    assert sorted(records) == list(range(3000))
    made = Counter(log.read_text().split())
    # Only what a process had not stored yet when it was killed is run again.
    assert len(made) == 3000
    assert sum(made.values()) - 3000 <= 20
    assert max(made.values()) <= 2
    assert os.listdir(folder) == ["runs.sqlite"]
