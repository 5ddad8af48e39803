"""Points through executors: threads, processes, with time limits; whatever happens to one, the others are run."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from study_jobs import Broken, Cheap, Endless

import antiphon
from antiphon.studies import Heartbeat, Job, Record, Store, Workers, running, study

CHEAP = [Cheap(number) for number in range(20)]


def executors() -> list[Any]:
    return [
        pytest.param(lambda: Workers(2), id="workers"),
        pytest.param(lambda: ThreadPoolExecutor(2), id="threads"),
        pytest.param(lambda: ProcessPoolExecutor(1, mp_context=get_context("spawn")), id="processes"),
    ]


@pytest.mark.covers_processes
@pytest.mark.parametrize("executor", executors())
def test_any_executor_runs_points(executor: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with executor() as pool:
        found = study(CHEAP, tmp_path, executor=pool, progress=lambda *counts: told.append(counts))
        assert [row["number"] for row in found] == list(range(20))
        assert study(CHEAP, tmp_path, executor=pool).made == 0
    assert found.made == len(found) == 20
    assert told[-1] == (20, 20)
    assert repr(found) == "<Study of 20 points, 20 run now, 0 without a result>"


@pytest.mark.covers_processes
def test_a_point_that_takes_too_long_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.studies.workers.GRACE_S", 0.3)
    points = [Endless(tells=True), Endless(tells=False), *CHEAP]
    with Workers(2, limit_s=0.2) as pool:
        found = study(points, tmp_path, executor=pool, time_limit_s=0.2)
        assert found.refused == {"it took longer than 0.2 s; give it more with a larger time limit": 2}
        assert [row["refused.code"] for row in found][:3] == ["time-limit", "time-limit", None]
        assert study(points, tmp_path, executor=pool, time_limit_s=0.2).made == 0
        assert study(points, tmp_path, executor=pool, time_limit_s=0.1).made == 0
        assert study(points, tmp_path, executor=pool, time_limit_s=0.21).made == 2, "more time, another try"


def test_a_process_that_dies_costs_one_point(tmp_path: Path) -> None:
    once = Broken("dies", str(tmp_path / "was-here"))
    with Workers(1) as pool:
        found = study([Broken("dies"), once, Broken("raises"), *CHEAP], tmp_path, executor=pool)
        assert found.records[1] == {"survived": True}
        reasons = list(found.refused)
        assert reasons[0].startswith("WorkerLost: its process ended with status 9")
        assert reasons[1] == "RuntimeError: a fault"
        assert [row["refused.code"] for row in found][:3] == ["internal", None, "internal"]
        # They say nothing about the points, which are run again.
        assert study([Broken("raises"), *CHEAP], tmp_path, executor=pool).made == 1


def test_short_points_go_several_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is lost with one of them is run by itself."""
    monkeypatch.setattr("antiphon.studies.workers.GRACE_S", 0.3)
    last = Broken("dies")
    points = [*map(Cheap, range(200)), Endless(tells=False), last, *map(Cheap, range(200, 400))]
    given: list[int] = []

    class Counting(Workers):
        def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
            given.append(len(args[0]))
            return super().submit(work, *args, **kwargs)

    with Counting(1, limit_s=0.3) as pool:
        found = study(points, tmp_path, executor=pool, time_limit_s=0.3)
    assert [row["number"] for row in found if row["refused.code"] is None] == list(range(400))
    assert sum(found.refused.values()) == 2
    assert max(given) == running.MOST_TOGETHER
    assert len(given) < 100


def test_an_executor_that_ends_is_an_error(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, Store(tmp_path) as store:
        with pytest.raises(antiphon.AntiphonError, match=r"the executor ended: .*; points that are done are kept"):
            study([Broken("dies")], tmp_path, executor=pool)
        assert store.ensure(CHEAP) == 20


def test_what_cannot_be_sent_is_a_record(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Local(Job):
        def measure(self, progress: Heartbeat | None = None) -> Record:
            raise AssertionError

    with Workers(1) as pool:
        found = study([Local(), *CHEAP], tmp_path, executor=pool)
    assert next(iter(found.refused)).startswith(("AttributeError: Can't", "PicklingError: Can't"))
    assert len(found) == 21


def test_workers_are_shut_down(tmp_path: Path) -> None:
    pool: Executor = Workers(1)
    pool.shutdown(cancel_futures=True)
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(os.getpid)


def test_another_build_on_a_worker_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Workers(1) as pool:
        study(CHEAP[:1], executor=pool)
        monkeypatch.setattr(running, "build_id", lambda: "another")
        with pytest.raises(antiphon.AntiphonError, match=r"a worker runs Antiphon .*, this process another"):
            study(CHEAP[1:], tmp_path, executor=pool)


def test_errors_are_pickled_where_dask_has_its_own_way() -> None:
    pytest.importorskip("distributed")  # changes it for all exceptions that there are
    error = antiphon.AntiphonError("all wait", "stalled")
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (type(each), each.message, each.code) == (antiphon.Stalled, "all wait", "stalled")


def test_a_study_needs_points() -> None:
    with pytest.raises(TypeError, match="argument 'grid': expected a file, a description or points, not int"):
        study(3)  # type: ignore[arg-type]
    for limit in (0, -1, float("inf"), float("nan")):
        with pytest.raises(antiphon.AntiphonError, match="time_limit_s"):
            study(CHEAP, time_limit_s=limit)
    with Workers(1) as pool, pytest.raises(antiphon.AntiphonError, match="jobs is -1"):
        study(CHEAP, executor=pool, jobs=-1)
    with pytest.raises(antiphon.AntiphonError, match="the first is 1/2, the last 2/2"):
        study(CHEAP, shard=(0, 2))
