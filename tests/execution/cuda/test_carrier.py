"""Runs by the kernel itself, on a GPU that this machine stands in for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from cuda_stand_in import Driver
from random_schedules import random_schedule, with_waits

import antiphon
from antiphon.execution.cuda.carrier import Loaded, measure_cuda
from antiphon.execution.cuda.device import Gpu
from antiphon.execution.cuda.program import flatten
from antiphon.execution.measure import Plan

Machine = Callable[..., Driver]


@pytest.mark.parametrize("element", ["float32", "float16", "bfloat16", "int32"])
def test_every_collective_and_element(element: str, stand_in: Machine) -> None:
    driver = stand_in()
    schedules = [antiphon.build("mesh:2x2", "direct", each, 8 * 515, root=3) for each in antiphon.collectives()]
    for each in measure_cuda(schedules, Plan(element, 0, 1), 20.0):
        assert (each.out_of_place.wrong, each.in_place.wrong) == (0, 0)
        assert each.out_of_place.time_ns == 500_000
    assert driver.memory == {}


def test_several_gpus_share_the_ranks(stand_in: Machine) -> None:
    driver = stand_in(gpus=2)
    (found,) = measure_cuda([antiphon.build("ring:4", "ring-bi", bytes=4096)], Plan("float32", 0, 1), 20.0)
    assert found.out_of_place.wrong == found.in_place.wrong == 0
    assert len(driver.launched) == 2 * 2 * 2  # GPUs, places, runs
    assert driver.memory == {}


def test_a_stalled_run_says_what_waits(stand_in: Machine) -> None:
    stand_in()
    schedule, gpu = antiphon.build("ring:4", "ring", bytes=4096), Gpu()
    program = flatten(schedule, 4)
    last = len(program.tasks) - 1
    program.waits[int(program.column("waits")[last])] = last  # it waits for itself
    loaded = Loaded([gpu], program, schedule, "int32", 0.5)
    with pytest.raises(antiphon.AntiphonError) as error:
        loaded.run()
    assert error.value.code == "stalled"
    assert "waited for transfer 21 (rank 3 to rank 0), chunk 0" in str(error.value)
    loaded.close()
    gpu.close()


def test_an_interrupted_run_ends(stand_in: Machine) -> None:
    driver = stand_in()

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    # Each block waits until it is told to stop: there is one too few.
    loaded_blocks = Loaded.run

    def too_few(self: Loaded, in_place: bool = True, progress: Callable[[], object] | None = None) -> float:
        for *_, arguments in self._launches:
            arguments[15] += 1
        return loaded_blocks(self, in_place, progress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loaded, "run", too_few)
        with pytest.raises(KeyboardInterrupt):
            measure_cuda([antiphon.build("ring:4", "ring", bytes=4096)], Plan("int32", 0, 1), 60.0, interrupt)
    assert driver.memory == {}


def test_a_measurement(stand_in: Machine) -> None:
    stand_in()
    found = antiphon.measure("mesh:2x2", "ring", sizes="4KiB", transport="cuda", iterations=1, progress=lambda _: None)
    assert (found.correct, found.transport) == (True, "cuda")


@pytest.mark.parametrize("seed", range(20))
def test_random_schedules_over_links(seed: int, stand_in: Machine) -> None:
    stand_in()
    random, gpu = Random(seed), Gpu()
    schedule = with_waits(random, random_schedule(random))
    program = flatten(schedule, 4, antiphon.Fabric(schedule.fabric))
    loaded = Loaded([gpu], program, schedule, "int32", 20.0, is_paced=True)
    for in_place in (True, False):
        loaded.run(in_place)
        assert loaded.wrong() == 0
    gpu.close()
