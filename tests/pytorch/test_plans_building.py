"""Quick and long choices of schedules."""

from __future__ import annotations

import time

import numpy as np
import pytest
from pytorch.planning import FABRICS, ring, wired

import antiphon
from antiphon.errors import AntiphonError

pytest.importorskip("torch", reason="torch is too large for the development environment")

from antiphon.torch.plans.building import QUICK, quick_spec, schedule_of, search
from antiphon.torch.plans.doubling import recursive_doubling
from antiphon.torch.plans.system import bound_s, carrier_system, predicted_s

SIZES = (1, 3, 4, 7, 8190, 65536, 1048577, 1 << 30)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 9, 16])
def test_recursive_doubling_sums_everywhere(ranks: int) -> None:
    """Proven, and the same sum to the last bit at every rank, in any order of messages."""
    fabric = ring(ranks) if ranks > 2 else FABRICS["pair"]
    schedule = recursive_doubling(fabric, 40)
    assert schedule.verify(fabric).complete
    rng = np.random.default_rng(ranks)
    buffers = [rng.standard_normal(10).astype(np.float32) for _ in range(ranks)]
    for seed in range(20):
        results = schedule.execute([each.copy() for each in buffers], seed)
        assert np.allclose(results[0], np.sum(buffers, axis=0), atol=1e-5)
        assert all(np.array_equal(each, results[0]) for each in results)


def test_two_ranks_need_one_exchange() -> None:
    schedule = recursive_doubling(FABRICS["pair"], 4096)
    assert len(schedule.transfers["from"]) == 2
    assert set(schedule.transfers["step"]) == {0}


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("collective", QUICK)
def test_quick_plans_are_proven_for_every_size(name: str, collective: str) -> None:
    fabric = FABRICS[name]
    system = carrier_system(fabric)
    for bytes in SIZES:
        root = fabric.ranks - 1 if collective in ("broadcast", "reduce") else 0
        key = (collective, bytes, root)
        schedule = schedule_of(fabric, quick_spec(fabric, key, system), key, system)
        proof = schedule.verify(fabric)
        assert proof.complete
        assert (schedule.bytes, schedule.root or 0) == (bytes, root)


def test_many_ranks_have_quick_plans_without_simulation() -> None:
    fabric = ring(40)
    system = carrier_system(fabric)
    for collective in QUICK:
        for bytes in (4, 1 << 20):
            key = (collective, bytes, 0)
            assert schedule_of(fabric, quick_spec(fabric, key, system), key, system).verify(fabric).complete


def test_quick_plans_are_quick() -> None:
    """Far from 50 ms: the least of three, since the machine has other work."""
    fabric = FABRICS["clique of 8"]
    system = carrier_system(fabric)
    key = ("all-reduce", 1 << 30, 0)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        schedule_of(fabric, quick_spec(fabric, key, system), key, system).verify(fabric)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.05


def test_small_data_take_few_steps_and_large_data_the_links() -> None:
    pair = FABRICS["pair"]
    system = carrier_system(pair)
    assert quick_spec(pair, ("all-reduce", 4, 0), system) == "recursive-doubling"
    assert quick_spec(pair, ("all-reduce", 1 << 26, 0), system) != "recursive-doubling"


def test_the_search_gets_better_and_near_the_bound() -> None:
    fabric = FABRICS["triangle of different cables"]
    system = carrier_system(fabric)
    key = ("all-reduce", 1 << 24, 0)
    found = list(search(fabric, key, system, lambda _: None))
    times = [each.time_ns for each in found]
    assert times == sorted(times, reverse=True)
    assert times[-1] / 1e9 < 1.02 * bound_s(fabric, *key)
    assert times[-1] / 1e9 == pytest.approx(predicted_s(fabric, found[-1].schedule))


def test_the_search_keeps_the_root() -> None:
    fabric = FABRICS["line"]
    best = list(search(fabric, ("broadcast", 1 << 20, 2), carrier_system(fabric), lambda _: None))[-1]
    assert best.schedule.root == 2


def test_bounds_are_of_the_group() -> None:
    fabric = FABRICS["line"]
    whole, part = (bound_s(fabric, "all-gather", 1 << 20, 0, ranks) for ranks in (None, [0, 1]))
    assert part < whole


def test_unknown_collectives_are_refused() -> None:
    fabric = FABRICS["pair"]
    with pytest.raises(AntiphonError, match="no collective 'gather' is planned; known: all-reduce"):
        quick_spec(fabric, ("gather", 4, 0), carrier_system(fabric))


def test_shared_memory_costs_less_than_tcp() -> None:
    # Its links say no latency.
    assert carrier_system(antiphon.Fabric("ring:4")).hand_off_ns == 5000
    assert carrier_system(FABRICS["pair"]).hand_off_ns == 5000
    assert carrier_system(wired(2, [(0, 1)], [4.0], latency_ns=500)).hand_off_ns == 1000
