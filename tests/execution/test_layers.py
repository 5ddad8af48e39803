"""No layer is final before all its bytes are, on any schedule."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from random_schedules import random_schedule, with_waits

import antiphon
from antiphon.errors import AntiphonError
from antiphon.execution.layers import dealt, layer_parts


def memory_elements(schedule: antiphon.Schedule) -> int:
    parts = schedule.ranks if schedule.collective == "all-to-all" else 1
    return schedule.bytes * parts // 4


def began(schedule: antiphon.Schedule, seed: int) -> list[np.ndarray]:
    numbers = np.random.default_rng(seed)
    arrays = [numbers.integers(-99, 99, memory_elements(schedule), np.int32) for _ in range(schedule.ranks)]
    for rank in schedule.excluded:
        arrays[rank][:] = 0
    return arrays


@pytest.mark.parametrize("seed", range(30))
def test_what_is_told_to_be_final_stays_as_it_is(seed: int) -> None:
    random = Random(seed)
    schedule = random_schedule(random)
    if seed % 2:
        schedule = with_waits(random, schedule)
    ended = began(schedule, seed)
    antiphon.execute(schedule, ended)
    arrays, told = began(schedule, seed), Counter[tuple[int, int, int]]()

    def on_final(rank: int, first: int, end: int) -> None:
        told[rank, first, end] += 1
        assert (arrays[rank][first // 4 : end // 4] == ended[rank][first // 4 : end // 4]).all()

    antiphon.execute(schedule, arrays, on_final=on_final)
    chunks = schedule.chunk_ranges(4)
    pairs = list(zip(chunks["first"].tolist(), chunks["end"].tolist(), strict=True))
    assert told == Counter((rank, *pair) for rank in range(schedule.ranks) for pair in pairs)


@pytest.mark.parametrize(
    ("spec", "algorithm"), [("mesh:3x3", "combs"), ("mesh:2x4", "overlapped-tree"), ("ring:4", "ring")]
)
def test_layers_share_the_buffer_among_them(spec: str, algorithm: str) -> None:
    random = Random(7)
    for size in (4, 60, 4096, 100_000):
        schedule = antiphon.build(spec, algorithm, bytes=size)
        for itemsize in (1, 2, 4):
            pieces = dealt(schedule, itemsize)
            cuts = sorted(random.randrange(0, size + 1, itemsize) for _ in range(5))
            sizes = [end - start for start, end in zip([0, *cuts], [*cuts, size], strict=True)]
            parts = layer_parts(pieces, sizes)
            assert [sum(end - start for start, end in part) for part in parts] == sizes
            owner = np.full(size, -1)
            for layer, part in enumerate(parts):
                for start, end in part:
                    assert (owner[start:end] == -1).all()
                    owner[start:end] = layer
            # The model's bytes lie at the places of the pieces, in order.
            in_order = np.concatenate([owner[each.place : each.place + each.bytes] for each in pieces])
            assert (np.diff(in_order) >= 0).all()


def test_lanes_take_turns_by_their_share() -> None:
    schedule = antiphon.build("dgx1v", "overlapped-tree:mapping=numbered,trees=2,chunk=8", bytes=64)
    chunks = schedule.chunk_ranges(4)
    lane_of = dict(zip(chunks["first"].tolist(), chunks["lane"].tolist(), strict=True))
    assert [lane_of[each.place] for each in dealt(schedule, 4)] == [0, 1] * 4


def test_wrong_sizes_and_what_a_callback_raises() -> None:
    schedule = antiphon.build("ring:4", "ring", bytes=64)
    with pytest.raises(AntiphonError, match="layers of 60 bytes in memory of 64; give layers that fill it"):
        layer_parts(dealt(schedule, 4), [60])
    with pytest.raises(AntiphonError, match="1 to 16"):
        schedule.chunk_ranges(0)

    def refuse(*_: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        antiphon.execute(schedule, began(schedule, 0), on_final=refuse)
