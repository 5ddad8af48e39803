"""Collectives between MPI ranks: every element against the definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import antiphon
from antiphon.execution.launch import launch
from antiphon.execution.measure import Measured, Plan

pytest.importorskip("mpi4py")

ONCE = Plan("int32", warmup=0, iterations=1)
TIMEOUT_S = 60.0


def every(specs: Sequence[str], bytes: int, root: int) -> Iterator[tuple[str, str, antiphon.Schedule]]:
    """Each collective of each algorithm on the first of the fabrics where it applies and is complete."""
    for algorithm in antiphon.algorithms():
        for collective in antiphon.collectives():
            for spec in specs:
                try:
                    schedule = antiphon.build(spec, algorithm.name, collective, bytes, root=root)
                except antiphon.NotApplicable:
                    continue
                if antiphon.verify(spec, schedule).complete:
                    yield algorithm.name, collective, schedule
                    break


def all_right(schedules: Sequence[antiphon.Schedule], plan: Plan) -> None:
    """Runs schedules by one job, out of place and in place."""
    measured = launch(schedules, plan, TIMEOUT_S)
    assert [each.schedule for each in measured] == list(range(len(schedules)))
    wrong = {
        (schedule.algorithm, schedule.collective): (each.out_of_place.wrong, each.in_place.wrong)
        for schedule, each in zip(schedules, measured, strict=True)
        if not is_right(each)
    }
    assert not wrong


def is_right(measured: Measured) -> bool:
    timings = (measured.out_of_place, measured.in_place)
    return all(timing.wrong == 0 and timing.time_ns > 0 for timing in timings)


@pytest.mark.parametrize(
    ("specs", "root"),
    [
        (("mesh:2x2", "ring:4", "fc:4"), 2),
        pytest.param(("mesh:2x4", "torus:2x4", "ring:8", "fc:8"), 5, marks=pytest.mark.slow),
        (("mesh:3x3", "torus:3x3", "ring:9", "fc:9"), 4),
    ],
    ids=["4", "8", "9"],
)
def test_every_algorithm_and_collective(specs: tuple[str, ...], root: int) -> None:
    # 1,003 elements: shards and chunks are of unlike sizes.
    cases = list(every(specs, 4 * 1003, root))
    assert len(cases) >= 40
    assert {collective for _, collective, _ in cases} == set(antiphon.collectives())
    all_right([schedule for *_, schedule in cases], ONCE)


@pytest.mark.parametrize(
    "element",
    ["bfloat16", "int64", *(pytest.param(name, marks=pytest.mark.slow) for name in ("float16", "float32", "float64"))],
)
def test_elements(element: str) -> None:
    schedules = [
        antiphon.build("mesh:2x2", algorithm, collective, 8 * 515, root=3)
        for algorithm in ("optimal", "direct")
        for collective in antiphon.collectives()
    ]
    all_right(schedules, Plan(element, warmup=1, iterations=2))


def test_a_group_and_a_matrix() -> None:
    group = antiphon.Fabric("mesh:4x4").group([0, 1, 2, 3])
    matrix = np.array([[0, 4, 400, 0], [8, 0, 0, 4000], [0, 0, 0, 12], [4, 4, 4, 0]])
    schedules = [
        antiphon.build(group, "combs", bytes=4096),
        antiphon.build(group, "direct", "all-to-all", matrix=matrix),
        antiphon.build("fc:4", "direct", "all-to-all", matrix=matrix),
    ]
    all_right(schedules, ONCE)


@pytest.mark.covers_processes
def test_measure_starts_a_process_a_rank() -> None:
    shares: list[float] = []
    found = antiphon.measure(
        "mesh:2x2", "multitree", "broadcast", "4KiB,64KiB", root=3, iterations=2, progress=shares.append
    )
    assert found.correct
    assert (found.ranks, found.root, found.transport) == (4, 3, "mpi")
    assert found.runs["bytes"].tolist() == [4096, 65536]
    assert shares
    assert all(0 <= share <= 1 for share in shares)


def test_what_progress_raises_ends_the_run() -> None:
    def interrupted(_share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        antiphon.measure("mesh:2x2", "ring", sizes="4KiB", iterations=1_000_000, progress=interrupted)


def test_elements_that_do_not_fit_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.execution.measuring.launch", lambda *_: pytest.fail("it started"))
    for bytes, element, code in (
        (4098, "float32", "bad-size"),
        (4100, "int64", "bad-size"),
        (4096, "int8", "unknown-name"),
    ):
        with pytest.raises(antiphon.AntiphonError) as error:
            antiphon.measure("mesh:2x2", "ring", sizes=[bytes], element=element)
        assert error.value.code == code
    matrix = np.array([[0, 3], [3, 0]])
    with pytest.raises(antiphon.InputError, match="4-byte elements"):
        antiphon.measure("ring:2", "direct", "all-to-all", matrix=matrix)
    broken = antiphon.ScheduleBuilder(antiphon.Fabric("ring:2"), "all-reduce", 4096)
    broken.copy(0, 1, broken.lane(0, 4096), 0)
    with pytest.raises(antiphon.NotProven):
        antiphon.measure("ring:2", broken.finish())
