"""`antiphon.execute`: results on numpy arrays, and arrays that it refuses."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest
from definition import defined

import antiphon

RING = antiphon.build("mesh:2x2", "ring", bytes=4096)


def arrays(dtype: Any = np.float32, elements: int | None = None, ranks: int = 4) -> list[np.ndarray]:
    count = 4096 // np.dtype(dtype).itemsize if elements is None else elements
    return [np.full(count, rank, dtype=dtype) for rank in range(ranks)]


@pytest.mark.parametrize("collective", antiphon.collectives())
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.float16])
def test_results_are_what_the_collective_defines(collective: str, dtype: Any) -> None:
    schedule = antiphon.build("mesh:3x3", "direct", collective, 8 * 333, root=3)
    elements = 8 * 333 // np.dtype(dtype).itemsize * (schedule.ranks if collective == "all-to-all" else 1)
    random = np.random.default_rng(1)
    before = [random.integers(0, 200, elements).astype(dtype) for _ in range(schedule.ranks)]
    after = [array.copy() for array in before]
    antiphon.execute(schedule, after)
    for rank in range(schedule.ranks):
        for place, expected in defined(schedule, before, rank):
            np.testing.assert_array_equal(after[rank][place], expected)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7, 1024])
def test_any_number_of_threads_does(threads: int) -> None:
    given = arrays()
    for factor in (1, 4, 16):  # the same schedule again
        antiphon.execute(RING, given, threads=threads)
        assert all((array == 6 * factor).all() for array in given)


def test_ctrl_c_ends_a_run() -> None:
    schedule = antiphon.build("mesh:4x4", "tto:chunk=64", bytes="4MiB")
    given = [np.zeros(1 << 20, dtype=np.int32) for _ in range(16)]
    antiphon.execute(schedule, given)  # takes a third of a second, and proves it first
    for rank in set(range(16)) - set(schedule.excluded):
        given[rank][:] = 1
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            antiphon.execute(schedule, given)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert any((array == 1).any() for array in given)  # not all are summed up


def test_numbers_of_all_kinds() -> None:
    # Bits of bfloat16: 1.5, 2.5 and two zeros are 4.0. Sums of integers wrap around.
    for dtype, values, total in (
        (np.uint16, (0x3FC0, 0x4020, 0, 0), 0x4080),
        (np.int32, [np.iinfo(np.int32).max] * 4, -4),
        (np.int64, [np.iinfo(np.int64).max] * 4, -4),
    ):
        given = [np.full(4096 // np.dtype(dtype).itemsize, value, dtype=dtype) for value in values]
        antiphon.execute(RING, given)
        assert all((array == total).all() for array in given)
    memory = np.arange(4096, dtype=np.float32)
    views = tuple(memory[1024 * rank :][:1024] for rank in range(4))
    expected = np.sum(views, axis=0)
    antiphon.execute(RING, views)
    np.testing.assert_array_equal(memory.reshape(4, 1024), [expected] * 4)
    # An excluded rank must have zeros.
    schedule = antiphon.build("mesh:3x3", "ring-bi-odd", bytes=4096)
    given = [np.full(1024, 0 if rank in schedule.excluded else rank + 1, dtype=np.int32) for rank in range(9)]
    whole = sum(int(array[0]) for array in given)
    antiphon.execute(schedule, given)
    assert all((array == whole).all() for rank, array in enumerate(given) if rank not in schedule.excluded)


def wrong_arrays() -> dict[str, list[tuple[list[Any], dict[str, Any]]]]:
    """What is said of them."""
    read_only, twice, overlapping = arrays(), arrays(), arrays(elements=2048)[0]
    read_only[2].flags.writeable = False
    twice[3] = twice[0]
    return {
        "writable": [(read_only, {})],
        "different": [(twice, {}), ([overlapping[:1024], overlapping[1023:2047], *arrays()[:2]], {})],
        "contiguous": [([array[::2] for array in arrays(elements=2048)], {})],
        "one-dimensional": [([array.reshape(32, 32) for array in arrays()], {})],
        "all of": [([*arrays()[:3], arrays(np.float64, 1024)[3]], {})],
        "float32": [(arrays(dtype, 1024), {}) for dtype in (np.int8, np.uint32, np.complex64, np.bool_, ">f4")],
        "numpy arrays": [([array.tolist() for array in arrays()], {})],
        "4 buffers": [(arrays(elements=1023), {}), (arrays(ranks=3), {}), (arrays(ranks=5), {}), ([], {})],
        "threads 0": [(arrays(), {"threads": 0})],
        "threads 1025": [(arrays(), {"threads": 1025})],
    }


@pytest.mark.parametrize("said", wrong_arrays())
def test_arrays_that_are_refused_are_left_as_they_are(said: str) -> None:
    for given, named in wrong_arrays()[said]:
        before = [np.array(array) for array in given]
        with pytest.raises(antiphon.InputError, match=said) as error:
            antiphon.execute(RING, given, **named)
        assert error.value.code == ("bad-size" if said in ("4 buffers", "threads 0", "threads 1025") else "bad-spec")
        assert "\n" not in str(error.value)
        for array, copy in zip(given, before, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_schedules_that_are_refused() -> None:
    builder = antiphon.ScheduleBuilder(antiphon.Fabric("mesh:2x2"), "all-reduce", 4096)
    builder.copy(0, 1, builder.lane(0, 4096), 0)
    given = arrays()
    with pytest.raises(antiphon.NotProven):
        antiphon.execute(builder.finish(), given)
    assert [array[0] for array in given] == [0, 1, 2, 3]
    with pytest.raises(antiphon.InputError, match="8-byte elements"):
        antiphon.execute(antiphon.build("mesh:2x2", "ring", bytes=4092), arrays(np.float64, 511))
    with pytest.raises(TypeError, match="schedule"):
        antiphon.execute("ring", given)  # type: ignore[arg-type]
