"""The store of runs: nothing is computed twice, nothing stored is lost, nothing stale is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import antiphon
from antiphon import study
from antiphon.study import Point, Store

POINTS = [Point("mesh:3x3", algorithm, size, "tto") for algorithm in ("ring", "tto") for size in (65536, 131072)]


def lines(folder: Path) -> list[str]:
    return (folder / "runs.jsonl").read_text("utf-8").splitlines()


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
        assert told == [(4, 4)]
        assert {point: store[point] for point in POINTS[:3]} == first
        assert store.ensure(POINTS) == 0
    assert len(lines(tmp_path)) == 4


def test_changes_of_the_system_are_part_of_a_point(tmp_path: Path) -> None:
    slow = Point("mesh:3x3", "ring", 1 << 20, "tto", (("reduce_rate_gb_per_s", 10),))
    with Store(tmp_path) as store:
        store.ensure([slow, Point("mesh:3x3", "ring", 1 << 20, "tto")])
    with Store(tmp_path) as store:
        assert store.ensure([slow]) == 0
        assert store[slow]["time_ns"] > store[Point("mesh:3x3", "ring", 1 << 20, "tto")]["time_ns"]


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.ensure(POINTS)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with Store(tmp_path) as store:
        assert POINTS[0] in store
        assert len([point for point in POINTS if point in store]) == 3
        assert store.ensure(POINTS) == 1
    assert len([json.loads(line) for line in lines(tmp_path)]) == 4


@pytest.mark.parametrize("line", ["{", "[]", '{"point": {}, "build": "BUILD", "run": {}}', "\x00"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "runs.jsonl").write_text(line.replace("BUILD", study.build_id()) + "\n")
    with pytest.raises(antiphon.AntiphonError, match="line 1 is not a stored run"):
        Store(tmp_path)


def test_runs_of_another_build_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path) as store:
        store.ensure(POINTS)
    monkeypatch.setattr(study, "build_id", lambda: "another")
    with Store(tmp_path) as store:
        assert store.of_other_builds == 4
        assert store.ensure(POINTS) == 4


def test_what_does_not_fit_is_a_record_and_a_mistake_is_an_error(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        odd = Point("mesh:3x3", "ring-bi", 65536)
        store.ensure([odd])
        assert store[odd]["refused"]["code"] == "not-applicable"
        with pytest.raises(antiphon.AntiphonError, match="did you mean 'ring'"):
            store.ensure([*POINTS, Point("mesh:3x3", "rnig", 65536)])
        assert store.ensure(POINTS) <= len(POINTS)  # what was done before stays
    with Store(tmp_path) as store:
        assert store.ensure([*POINTS, odd]) == 0


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
    (tmp_path / "taken" / "runs.jsonl").mkdir(parents=True)
    with pytest.raises(antiphon.AntiphonError, match=r"runs\.jsonl: exists and is not a file"):
        Store(tmp_path / "taken")
