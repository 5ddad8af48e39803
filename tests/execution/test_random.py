"""Random schedules, and such with a small change: what is proven runs exactly right, what is not is not run."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from definition import defined
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schedules import ELEMENT_BYTES, random_schedule, spoiled

import antiphon
from antiphon._core import Executor
from antiphon.execution.launch import launch
from antiphon.execution.measure import Plan


def is_proven(schedule: antiphon.Schedule) -> bool:
    try:
        return antiphon.verify(schedule.fabric, schedule).complete
    except antiphon.NotProven:
        return False


def runs_right(schedule: antiphon.Schedule, seed: int, threads: int) -> bool:
    """Whether threads compute what the collective defines, in whatever order they go."""
    parts = schedule.ranks if schedule.collective == "all-to-all" else 1
    elements = parts * schedule.bytes // ELEMENT_BYTES
    random = np.random.default_rng(seed)
    before = [random.integers(-(2**31), 2**31, elements, dtype=np.int32) for _ in range(schedule.ranks)]
    arrays = [array.copy() for array in before]
    antiphon.execute(schedule, arrays, threads=threads)
    return all(
        np.array_equal(arrays[rank][place], expected)
        for rank in range(schedule.ranks)
        for place, expected in defined(schedule, before, rank)
    )


def assert_refused(schedule: antiphon.Schedule) -> None:
    """It is not run by anything, and the arrays are as they were."""
    parts = schedule.ranks if schedule.collective == "all-to-all" else 1
    elements = parts * schedule.bytes // ELEMENT_BYTES
    arrays = [np.full(elements, rank, dtype=np.int32) for rank in range(schedule.ranks)]
    with pytest.raises(antiphon.NotProven):
        antiphon.execute(schedule, arrays)
    assert all((array == rank).all() for rank, array in enumerate(arrays))
    with pytest.raises(antiphon.NotProven):
        Executor(schedule, 0, "int32")
    for transport in ("threads", "mpi"):
        with pytest.raises(antiphon.NotProven):
            antiphon.measure(schedule.fabric, schedule, transport=transport)


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_what_is_proven_runs_right_and_nothing_else_runs(seed: int, threads: int) -> None:
    random = Random(seed)
    schedule = random_schedule(random)
    assert is_proven(schedule)
    assert runs_right(schedule, seed, threads)
    for _ in range(4):
        changed = spoiled(random, schedule)
        if changed is None:
            continue
        if is_proven(changed):
            assert runs_right(changed, seed, threads)
        else:
            assert_refused(changed)


def test_changes_are_of_both_kinds() -> None:
    random = Random(0)
    changed = [spoiled(random, random_schedule(random)) for _ in range(100)]
    proven = [is_proven(each) for each in changed if each is not None]
    assert 20 < sum(proven) < len(proven) - 20


def test_what_is_proven_runs_right_by_mpi() -> None:
    pytest.importorskip("mpi4py")
    random = Random(7)
    schedules: list[antiphon.Schedule] = []
    while len(schedules) < 60:
        schedule = random_schedule(random)
        changed = spoiled(random, schedule)
        schedules.append(schedule)
        if changed is not None and is_proven(changed):
            schedules.append(changed)
    measured = launch(schedules, Plan("int32", warmup=0, iterations=3), 60.0)
    wrong = [each.schedule for each in measured if each.out_of_place.wrong or each.in_place.wrong]
    assert len(measured) == len(schedules)
    assert not wrong
