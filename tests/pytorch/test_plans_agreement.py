"""Groups decide the same on all ranks, whatever the timing of their background threads."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pytorch.discovery_standins import together
from pytorch.planning import FABRICS, SlowStore, StandIn

from antiphon import Fabric

pytest.importorskip("torch", reason="torch is too large for the development environment")

from antiphon.torch.plans import GroupPlans, Planner, group, planner
from antiphon.torch.plans.building import search

LIMIT_S = 20.0


class Meeting:
    """Agreements of ranks that are threads; fails where not all come, or not at the same place."""

    def __init__(self, ranks: int) -> None:
        self.barrier = threading.Barrier(ranks, timeout=LIMIT_S)
        self.numbers: list[list[int]] = [[] for _ in range(ranks)]

    def of(self, rank: int) -> Callable[[list[int]], list[int]]:
        """``agree`` of a rank."""

        def agree(numbers: list[int]) -> list[int]:
            self.numbers[rank] = numbers
            self.barrier.wait()
            least = [min(column) for column in zip(*self.numbers, strict=True)]
            self.barrier.wait()
            return least

        return agree


@contextmanager
def ranks_of(
    fabric: Fabric, store: Any, cache: Path | None = None, members: list[int] | None = None
) -> Iterator[list[GroupPlans]]:
    """The groups of all ranks, each with a planner of its own."""
    members = members or list(range(fabric.ranks))
    planners = [Planner(fabric, rank, store, cache=cache, plan_of=StandIn) for rank in members]
    groups = [each.group(members) for each in planners]
    meeting = Meeting(len(members))
    for rank, each in enumerate(groups):
        each.agree = meeting.of(rank)
    try:
        yield groups
    finally:
        for planner in planners:
            planner.close()


def run(
    groups: list[GroupPlans], calls: list[tuple[str, int]], pauses_s: float = 0.0, seed: int = 0
) -> list[list[int]]:
    """Hashes of the plans of the calls at every rank, each a thread that pauses as it likes."""

    def rank(number: int) -> list[int]:
        pause, hashes = random.Random(f"{seed}-{number}"), []
        for collective, bytes in calls:
            time.sleep(pause.random() * pauses_s)
            hashes.append(groups[number].plan(collective, bytes).hash)
        return hashes

    return together(len(groups), rank)


def until(what: Callable[[], object]) -> None:
    """Waits until something holds."""
    end = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.005)


def test_all_ranks_take_the_same_plan_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred runs with random delays of store and ranks, few plans kept, and versions before the last."""
    monkeypatch.setattr(group, "KEPT", 3)
    monkeypatch.setattr(planner, "FIRST_S", 0.0)
    monkeypatch.setattr(planner, "POLL_S", (0.0005, 0.002))
    fabric = FABRICS["triangle of different cables"]
    switched = 0
    for seed in range(200):
        choose = random.Random(seed)
        sizes = [choose.choice((4096, 6000, 1 << 16, 100_000, 1 << 20)) for _ in range(4)]
        calls = [(choose.choice(("all-reduce", "all-gather")), choose.choice(sizes)) for _ in range(20)]
        with ranks_of(fabric, SlowStore(choose.choice((0, 0.001)), seed)) as groups:
            first, *others = run(groups, calls, choose.choice((0, 0.0005)), seed)
        assert all(each == first for each in others), f"seed {seed}"
        of_key: dict[tuple[str, int], set[int]] = {}
        for call, hash in zip(calls, first, strict=True):
            of_key.setdefault(call, set()).add(hash)
        switched += any(len(hashes) > 1 for hashes in of_key.values())
    # Else nothing would have been decided.
    assert switched > 10


def test_the_better_plan_is_taken_at_an_agreement_and_from_then_on() -> None:
    fabric = FABRICS["leaf behind a relay"]
    key = ("all-reduce", 1 << 20, 0)
    with ranks_of(fabric, SlowStore()) as groups:
        quick = run(groups, [key[:2]])[0][0]
        until(lambda: all(each.version(key) for each in groups))
        hashes = run(groups, [key[:2]] * 3)
        assert hashes[0][0] != quick
        assert len(set(hashes[0])) == 1
        best = list(search(groups[0].fabric, key, groups[0]._planner.system, lambda _: None))[-1]
        adopted = groups[1]._entries[key]
        assert adopted.plan.schedule == best.schedule


def test_a_plan_for_what_is_left_is_the_same_at_all_ranks_whatever_they_have_adopted() -> None:
    with ranks_of(FABRICS["pair"], SlowStore()) as groups:
        groups[0]._entries[("all-reduce", 1 << 20, 0)] = entry = group._Entry()
        entry.plan = object()
        assert groups[0].again("all-reduce", 1 << 20).hash == groups[1].again("all-reduce", 1 << 20).hash


def test_near_sizes_take_the_algorithm_without_the_store() -> None:
    fabric = FABRICS["pair"]
    store = SlowStore()
    with ranks_of(fabric, store) as groups:
        run(groups, [("all-reduce", 1 << 20)])
        until(lambda: all(each.version(("all-reduce", 1 << 20, 0)) for each in groups))
        run(groups, [("all-reduce", 1 << 20)])
        hashes = run(groups, [("all-reduce", (1 << 20) + 4 * number) for number in range(1, 20)])
        assert hashes[0] == hashes[1]
        # More of the first size may be published at any time.
        assert {key.split("/")[5] for key in store.values} == {str(1 << 20)}
        spec = groups[0]._entries[("all-reduce", 1 << 20, 0)].adopted
        assert spec is not None
        taken = groups[0]._entries[("all-reduce", (1 << 20) + 4, 0)].plan.schedule.algorithm
        assert taken.split(":")[0] == spec.spec.split(":")[0]


def test_a_rank_that_has_nothing_keeps_all_at_the_quick_plan() -> None:
    class Deaf(SlowStore):
        def check(self, keys: list[str]) -> bool:
            return False

    with ranks_of(FABRICS["leaf behind a relay"], Deaf()) as groups:
        run(groups, [("all-reduce", 1 << 20)])
        until(lambda: groups[0].version(("all-reduce", 1 << 20, 0)))
        hashes = run(groups, [("all-reduce", 1 << 20)] * 40)
    assert len({hash for each in hashes for hash in each}) == 1


@pytest.mark.parametrize("damage", [b"", b"nonsense", "cut", "other"])
def test_damaged_plans_from_the_store_are_ignored_with_one_note(damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Damaging(SlowStore):
        def get(self, key: str) -> bytes:
            data = self.values[key]
            if damage == "other":
                return next(value for name, value in self.values.items() if name != key)
            return data[:-3] if damage == "cut" else damage

    calls = [("all-reduce", 1 << 20), ("all-gather", 1 << 20)]
    with caplog.at_level(logging.WARNING, "antiphon"), ranks_of(FABRICS["pair"], Damaging()) as groups:
        quick = run(groups, calls)
        until(lambda: all(groups[0].version((*call, 0)) for call in calls))
        until(lambda: caplog.records)
        assert run(groups, calls) == quick
    assert len(caplog.records) == 1
    assert "no better plan for" in caplog.text


def test_a_failing_store_never_reaches_the_program(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(SlowStore):
        def set(self, key: str, value: bytes) -> None:
            raise ConnectionError("the store is gone")

    with ranks_of(FABRICS["pair"], Failing()) as groups:
        run(groups, [("all-reduce", 4096)])
        until(lambda: "the store is gone" in caplog.text)
        run(groups, [("all-reduce", 4096), ("broadcast", 4096)] * 4)
    assert caplog.text.count("the store is gone") == 1


def test_plans_are_kept_on_disk_by_wiring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second job with slightly other rates searches nothing; a damaged file is planned anew."""
    searches: list[object] = []

    def counted(*arguments: Any) -> Any:
        searches.append(arguments)
        return search(*arguments)

    monkeypatch.setattr(planner, "search", counted)
    key = ("all-reduce", 1 << 20, 0)

    def job(text: str) -> None:
        with ranks_of(Fabric.from_json(text), SlowStore(), tmp_path) as groups:
            run(groups, [key[:2]])
            until(lambda: all(each.version(key) for each in groups))

    text = FABRICS["pair"].to_json()
    job(text)
    job(text.replace("0.0375", "0.0379"))
    assert len(searches) == 1
    until(lambda: list(tmp_path.iterdir()))
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-5])
    job(text)
    assert len(searches) == 2
    job(text.replace("0.0375", "0.075"))
    assert len(searches) == 3


def test_a_first_call_waits_for_no_search() -> None:
    class Stuck(SlowStore):
        def set(self, key: str, value: bytes) -> None:
            time.sleep(0.5)
            super().set(key, value)

    with ranks_of(FABRICS["pair"], Stuck()) as groups:
        run(groups, [("all-reduce", 4096)])
        began = time.perf_counter()
        run(groups, [("all-reduce", 1 << 20)] * 3)
        assert time.perf_counter() - began < 0.4


def test_groups_plan_for_their_own_ranks() -> None:
    """Ranks 4 and 0, which are no neighbours, in this order."""
    fabric = FABRICS["leaf behind a relay"]
    with ranks_of(fabric, SlowStore(), members=[4, 0]) as groups:
        hashes = run(groups, [("broadcast", 5000)])
        assert hashes[0] == hashes[1]
        assert groups[0].plan("all-gather", 64).schedule.group == [4, 0]


def test_an_agreement_may_plan() -> None:
    """The process group's agreement is itself an all-reduce that is planned."""
    with ranks_of(FABRICS["pair"], SlowStore()) as groups:
        for each in groups:
            agree = each.agree
            assert agree is not None

            def planning(numbers: list[int], each: GroupPlans = each, agree: Any = agree) -> list[int]:
                each.plan("all-reduce", 64)
                least: list[int] = agree(numbers)
                return least

            each.agree = planning
        hashes = run(groups, [("all-reduce", 64)] * 10 + [("all-reduce", 4096)] * 10)
        assert hashes[0] == hashes[1]


def test_the_thread_ends_with_the_planner() -> None:
    before = threading.active_count()
    with ranks_of(FABRICS["pair"], SlowStore()) as groups:
        run(groups, [("all-reduce", 4096)])
    assert threading.active_count() == before
