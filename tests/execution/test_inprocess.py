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
@pytest.mark.parametrize("spec", ["mesh:3x3", "fc:5"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.float16])
def test_results_are_what_the_collective_defines(spec: str, collective: str, dtype: Any) -> None:
    schedule = antiphon.build(spec, "direct", collective, 8 * 333, root=3)
    elements = 8 * 333 // np.dtype(dtype).itemsize * (schedule.ranks if collective == "all-to-all" else 1)
    random = np.random.default_rng(1)
    before = [random.integers(0, 200, elements).astype(dtype) for _ in range(schedule.ranks)]
    after = [array.copy() for array in before]
    antiphon.execute(schedule, after)
    for rank in range(schedule.ranks):
        for place, expected in defined(schedule, before, rank):
            np.testing.assert_array_equal(after[rank][place], expected)


def test_uint16_is_bfloat16() -> None:
    # 1.5, 2.5 and two zeros.
    given = [np.full(2048, bits, dtype=np.uint16) for bits in (0x3FC0, 0x4020, 0, 0)]
    antiphon.execute(RING, given)
    assert all((array == 0x4080).all() for array in given)  # 4.0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums_of_integers_wrap_around(dtype: Any) -> None:
    largest = np.iinfo(dtype).max
    given = [np.full(4096 // np.dtype(dtype).itemsize, largest, dtype=dtype) for _ in range(4)]
    antiphon.execute(RING, given)
    assert all((array == -4).all() for array in given)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7, 1024])
def test_any_number_of_threads_does(threads: int) -> None:
    given = arrays()
    for factor in (1, 4, 16):  # the same schedule again
        antiphon.execute(RING, given, threads=threads)
        assert all((array == 6 * factor).all() for array in given)


def test_a_tuple_of_views_does() -> None:
    memory = np.arange(4096, dtype=np.float32)
    given = tuple(memory[1024 * rank :][:1024] for rank in range(4))
    expected = np.sum(given, axis=0)
    antiphon.execute(RING, given)
    np.testing.assert_array_equal(memory.reshape(4, 1024), [expected] * 4)


def refused(given: list[Any], code: str = "bad-spec", **named: Any) -> str:
    """What is said of arrays that are refused, and left as they are."""
    before = [np.array(array) for array in given]
    with pytest.raises(antiphon.AntiphonError) as error:
        antiphon.execute(RING, given, **named)
    assert error.value.code == code, error.value
    assert "\n" not in str(error.value)
    for array, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    return str(error.value)


def test_arrays_that_are_none_of_its_business() -> None:
    read_only = arrays()
    read_only[2].flags.writeable = False
    assert "writable" in refused(read_only)
    twice = arrays()
    twice[3] = twice[0]
    assert "different" in refused(twice)
    overlapping = arrays(elements=2048)
    assert "different" in refused([overlapping[0][:1024], overlapping[0][1023:2047], *arrays()[:2]])
    strided = [array[::2] for array in arrays(elements=2048)]
    assert "contiguous" in refused(strided)
    assert "one-dimensional" in refused([array.reshape(32, 32) for array in arrays()])
    assert "all of" in refused([*arrays()[:3], arrays(np.float64, 1024)[3]])
    for dtype in (np.int8, np.uint32, np.complex64, np.bool_, ">f4"):
        assert "float32" in refused(arrays(dtype, 1024))
    assert "numpy arrays" in refused([array.tolist() for array in arrays()])


def test_wrong_lengths_and_numbers() -> None:
    assert "4 buffers of 1024 elements" in refused(arrays(elements=1023), "bad-size")
    assert "4 buffers" in refused(arrays(ranks=3), "bad-size")
    assert "4 buffers" in refused(arrays(ranks=5), "bad-size")
    assert "4 buffers" in refused([], "bad-size")
    assert "threads 0" in refused(arrays(), "bad-size", threads=0)
    assert "threads 1025" in refused(arrays(), "bad-size", threads=1025)
    odd = antiphon.build("mesh:2x2", "ring", bytes=4092)
    with pytest.raises(antiphon.InputError, match="8-byte elements"):
        antiphon.execute(odd, arrays(np.float64, 511))


def test_an_excluded_rank_must_have_zeros() -> None:
    schedule = antiphon.build("mesh:3x3", "ring-bi-odd", bytes=4096)
    given = [np.full(1024, 0 if rank in schedule.excluded else rank + 1, dtype=np.int32) for rank in range(9)]
    total = sum(int(array[0]) for array in given)
    antiphon.execute(schedule, given)
    assert all((array == total).all() for rank, array in enumerate(given) if rank not in schedule.excluded)


def test_ctrl_c_ends_a_run() -> None:
    schedule = antiphon.build("mesh:4x4", "tto:chunk=256", bytes="4MiB")
    given = [np.zeros(1 << 20, dtype=np.int32) for _ in range(16)]
    antiphon.execute(schedule, given)  # takes half a second, and proves it first
    for rank in set(range(16)) - set(schedule.excluded):
        given[rank][:] = 1
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            antiphon.execute(schedule, given)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert any((array == 1).any() for array in given)  # not all are summed up


def test_gaps_and_mistakes_are_refused() -> None:
    builder = antiphon.ScheduleBuilder(antiphon.Fabric("mesh:2x2"), "all-reduce", 4096)
    builder.copy(0, 1, builder.lane(0, 4096), 0)
    given = arrays()
    with pytest.raises(antiphon.NotProven):
        antiphon.execute(builder.finish(), given)
    assert [array[0] for array in given] == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="schedule"):
        antiphon.execute("ring", given)  # type: ignore[arg-type]
