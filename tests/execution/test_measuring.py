"""`antiphon.measure` by threads, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.execution.measure import Plan
from antiphon.execution.threads import measure_threads

BROKEN = antiphon.ScheduleBuilder("mesh:2x2", "all-reduce", 4096)
BROKEN.copy(0, 1, BROKEN.lane(0, 4096), 0)
ODD: dict[str, Any] = {"matrix": 4 * [[3, 3, 3, 3]], "sizes": None}


@pytest.mark.parametrize("element", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
def test_every_collective_and_element_by_threads(element: str) -> None:
    schedules = [antiphon.build("mesh:2x3", "direct", each, 8 * 515, root=4) for each in antiphon.collectives()]
    measured = measure_threads(schedules, Plan(element, 1, 2))
    assert [each.schedule for each in measured] == list(range(len(schedules)))
    for each in measured:
        assert (each.out_of_place.wrong, each.in_place.wrong) == (0, 0)
        assert min(each.out_of_place.time_ns, each.in_place.time_ns) > 0


def test_bandwidths_follow_from_size_and_time() -> None:
    found = antiphon.measure("mesh:2x2", "direct", "reduce-scatter", [4096, 1 << 20], transport="threads")
    for row in found.runs.rows():
        for place in ("", "in_place."):
            algorithm = row[f"{place}algorithm_bandwidth_gb_per_s"]
            assert math.isclose(algorithm, row["bytes"] / row[f"{place}time_ns"])
            assert math.isclose(row[f"{place}bus_bandwidth_gb_per_s"], algorithm * 3 / 4)
        assert row["elements"] == row["bytes"] / 4


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"element": "float8"}, "unknown-name", "float8"),
        ({"transport": "pigeon"}, "unknown-name", "mpi, threads"),
        ({"warmup": -1}, "bad-size", "warmup -1"),
        ({"iterations": 0}, "bad-size", "iterations 0"),
        ({"iterations": 1_000_001}, "bad-size", "1 to 1,000,000"),
        ({"timeout_s": 0.4}, "bad-size", "timeout_s"),
        ({"timeout_s": math.nan}, "bad-size", "timeout_s"),
        ({"timeout_s": math.inf}, "bad-size", "timeout_s"),
        ({"sizes": []}, "bad-size", "at least one"),
        ({"sizes": "4098"}, "bad-size", "4-byte elements"),
        ({"sizes": [4100], "element": "float64"}, "bad-size", "8-byte elements"),
        ({"sizes": "8GiB"}, "too-large", "bytes of buffers on 4 ranks"),
        ({"fabric": "mesh:17x17"}, "too-large", "289 ranks"),
        ({"algorithm": "none"}, "unknown-name", "none"),
        ({"algorithm": "no.json"}, "bad-file", "no.json"),
        ({"collective": "broadcast"}, "not-applicable", "broadcast"),
        (ODD | {"algorithm": "direct", "collective": "all-to-all"}, "bad-size", "4-byte elements"),
        ({"algorithm": BROKEN.finish(), "sizes": None}, "not-proven", "rank"),
    ],
)
@pytest.mark.parametrize("transport", ["mpi", "threads"])
def test_what_it_refuses(
    given: dict[str, Any], code: str, said: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for runner in ("launch", "measure_threads"):
        monkeypatch.setattr(f"antiphon.execution.measuring.{runner}", lambda *_: pytest.fail("it started"))
    arguments: dict[str, Any] = {
        "fabric": "mesh:2x2",
        "algorithm": "ring",
        "sizes": "4KiB",
        "transport": transport,
    } | given
    with pytest.raises(antiphon.AntiphonError) as error:
        antiphon.measure(**arguments)
    assert (error.value.code, said in str(error.value)) == (code, True), error.value


def test_results_are_kept_and_read(tmp_path: Path) -> None:
    shares: list[float] = []
    found = antiphon.measure(
        "mesh:2x2", "ring", sizes="4KiB,8KiB", transport="threads", element="bfloat16", progress=shares.append
    )
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1
    assert repr(found) == "<Measurement ring on mesh:2x2 by threads: 2 sizes, correct>"
    path = tmp_path / "found.json"
    found.save(path)
    again = antiphon.Measurement.load(path)
    assert (again.to_dict(), repr(again), again.correct) == (found.to_dict(), repr(found), True)
    bandwidths = {"algorithm_bandwidth_gb_per_s", "bus_bandwidth_gb_per_s"}
    keys = {"bytes", "elements", "correct", "wrong", "time_ns", "predicted_ns", "in_place"} | bandwidths
    assert [set(row) for row in found.to_dict()["runs"]] == [keys] * 2
    pytest.importorskip("pandas")
    assert list(found.to_frame()["bytes"]) == [4096, 8192]


def test_all_that_stands_for_an_algorithm_and_a_size(tmp_path: Path) -> None:
    schedule = antiphon.build("mesh:2x2", "ring", "all-gather", 8192)
    path = tmp_path / "ring.json"
    path.write_text(schedule.to_json())
    for given in (schedule, path, str(path)):
        found = antiphon.measure("mesh:2x2", given, transport="threads", iterations=1)
        assert (found.correct, found.collective, found.runs["bytes"].tolist()) == (True, "all-gather", [8192])
    for sizes, expected in (([4096], [4096]), ("1KiB..4KiB", [1024, 2048, 4096])):
        assert antiphon.measure("mesh:2x2", "ring", sizes=sizes, transport="threads").runs["bytes"].tolist() == expected
    matrix = [[0, 8, 0, 4], [16, 0, 0, 0], [0, 0, 0, 40], [4, 4, 4, 0]]
    assert antiphon.measure("fc:4", "direct", "all-to-all", matrix=matrix, transport="threads").correct
    rooted = antiphon.measure("mesh:2x2", "multitree", "reduce", "4KiB", root=3, transport="threads")
    assert (rooted.correct, rooted.root) == (True, 3)
    group = antiphon.measure("mesh:4x4[5,6,9,10]", "combs", sizes="4KiB", transport="threads")
    assert (group.correct, group.ranks) == (True, 4)


def test_wrong_results_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.execution.numbers.Data.wrong", lambda _: 1)
    found = antiphon.measure("mesh:2x2", "ring", sizes="4KiB", transport="threads", iterations=1)
    assert (found.correct, "WRONG" in repr(found)) == (False, True)
