"""Work on all cores."""

from __future__ import annotations

import os
import threading
import time

import pytest

import antiphon
from antiphon.parallel import check, cores, free_memory, in_parallel


@pytest.mark.parametrize("jobs", [None, 1, 2, 5])
def test_results_are_in_order(jobs: int | None) -> None:
    def work(item: int) -> int:
        time.sleep(0.002 * (5 - item))
        return item * item

    assert in_parallel(work, range(5), jobs) == [0, 1, 4, 9, 16]
    assert in_parallel(work, [], jobs) == []
    assert cores() >= 1


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_what_takes_memory_waits_for_it(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.parallel.free_memory", lambda: 10)
    memory = [6, 6, 1, 1, 1, 99]
    running: set[int] = set()
    started, taken = [], []
    lock = threading.Lock()

    def work(item: int) -> int:
        with lock:
            running.add(item)
            started.append(item)
            taken.append((len(running), sum(memory[each] for each in running)))
        time.sleep(0.03 * (6 - item))
        with lock:
            running.remove(item)
        return item

    assert in_parallel(work, range(6), jobs, memory) == [0, 1, 2, 3, 4, 5]
    assert all(count == 1 or sum_of <= 10 for count, sum_of in taken)
    assert started[:2] == ([0, 1] if jobs == 1 else [0, 2])
    assert started[-1] == 5


def test_free_memory_is_what_the_machine_has() -> None:
    assert 1 << 20 < free_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_failure_ends_the_others() -> None:

    def work(item: int) -> None:
        if item == 0:
            raise ValueError("first")
        while True:  # ends by check only
            check()
            time.sleep(0.001)

    with pytest.raises(ValueError, match="first"):
        in_parallel(work, range(20), 2)
    check()  # outside of work nothing is to be ended


def test_jobs_change_no_output() -> None:
    """Nor do cores: a network of 64 nodes goes on in two parts."""
    mesh, schedule = antiphon.Fabric("mesh:4x4"), antiphon.build("mesh:12x12", "dbtree", bytes="1MiB")
    specs = "combs,tto,ring-bi,bruck"
    for of in (
        lambda jobs: antiphon.compare(mesh, bytes="1MiB", jobs=jobs).to_dict() | {"seconds": []},
        lambda jobs: antiphon.tune(mesh, sizes="64KiB,1MiB", algorithms=specs, jobs=jobs).to_dict(),
        lambda jobs: antiphon.simulate("mesh:12x12", schedule, jobs=jobs),
        lambda jobs: antiphon.noc("mesh:8x8", rate=0.3, warm_up_cycles=200, cycles=500, jobs=jobs).to_dict(),
    ):
        assert of(1) == of(2) == of(2**70)


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "2"])
def test_a_run_on_no_cores_is_refused(jobs: object) -> None:
    schedule = antiphon.build("ring:4", "ring", bytes="1MiB")
    with pytest.raises(antiphon.AntiphonError, match="give a whole number of at least 1"):
        antiphon.simulate("ring:4", schedule, jobs=jobs)  # type: ignore[arg-type]
    with pytest.raises(antiphon.AntiphonError, match="give a whole number of at least 1"):
        antiphon.noc("ring:4", jobs=jobs)  # type: ignore[arg-type]
