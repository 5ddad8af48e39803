"""Collectives between MPI ranks: every element against the definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest
from random_schedules import random_schedule, with_waits

import antiphon
from antiphon.execution.launch import launch
from antiphon.execution.measure import Plan

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
        if any(timing.wrong or timing.time_ns <= 0 for timing in (each.out_of_place, each.in_place))
    }
    assert not wrong


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
    [
        "bfloat16",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("int64", "float16", "float32", "float64")),
    ],
)
def test_elements(element: str) -> None:
    schedules = [
        antiphon.build("mesh:2x2", algorithm, collective, 8 * 515, root=3)
        for algorithm in ("optimal", "direct")
        for collective in antiphon.collectives()
    ]
    all_right(schedules, Plan(element, warmup=1, iterations=2))


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


def test_a_group_a_matrix_and_waits_of_all_kinds() -> None:
    group = antiphon.Fabric("mesh:4x4").group([0, 1, 2, 3])
    matrix = np.array([[0, 4, 400, 0], [8, 0, 0, 4000], [0, 0, 0, 12], [4, 4, 4, 0]])
    random = Random(7)
    schedules = [
        antiphon.build(group, "combs", bytes=4096),
        antiphon.build(group, "direct", "all-to-all", matrix=matrix),
        antiphon.build("fc:4", "direct", "all-to-all", matrix=matrix),
        *(with_waits(random, random_schedule(random)) for _ in range(60)),
    ]
    assert {schedule.collective for schedule in schedules} == set(antiphon.collectives())
    all_right(schedules, Plan("int32", warmup=0, iterations=3))
