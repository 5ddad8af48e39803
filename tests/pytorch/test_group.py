"""The process group of `antiphon.torch`: memory, work, time limits, failures, and real processes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pytorch.planning import ring, wired

from antiphon.errors import AntiphonError

torch = pytest.importorskip("torch", reason="torch is too large for the development environment")
dist = torch.distributed
c10d = torch._C._distributed_c10d


@dataclass(eq=False)
class Operation:
    """Of the carrier below. ``memory``: what it was given."""

    kind: str
    memory: Any
    done: bool = False
    failure: str | None = None
    source: int = 1
    given: tuple[Any, ...] = ()


@dataclass
class Carrier:
    """Ends operations at once, or when it is told to."""

    at_once: bool = True
    begun: list[Operation] = field(default_factory=list)
    given_up: list[Operation] = field(default_factory=list)
    woken: threading.Event = field(default_factory=threading.Event)
    closed: bool = False
    alone: bool = False  # refuses to drive two operations at once

    def _begin(self, kind: str, memory: Any, *given: Any) -> Operation:
        self.begun.append(Operation(kind, memory, given=given))
        return self.begun[-1]

    def collective(
        self, plan: Any, group: int, sequence: int, memory: Any, element: str, how: str, parts: Any = ()
    ) -> Operation:
        return self._begin(plan.collective, memory, group, sequence, element, how)

    def send(self, group: int, to: int, tag: int, data: Any) -> Operation:
        return self._begin("send", data, group, to, tag)

    def receive(self, group: int, source: int | None, tag: int, data: Any) -> Operation:
        return self._begin("receive", data, group, source, tag)

    def drive(self, operations: list[Operation], timeout_s: float) -> None:
        if self.alone and len(operations) > 1:
            raise AntiphonError("an array is in use by another operation", "bad-spec")
        until_s = time.monotonic() + timeout_s
        while not any(each.done for each in operations):
            if self.at_once:
                operations[0].done = True
            elif self.woken.wait(0.005):
                self.woken.clear()
                return
            elif time.monotonic() > until_s:
                raise AntiphonError("waited for rank 1", "time-limit")

    def wake(self) -> None:
        self.woken.set()

    def give_up(self, operation: Operation) -> None:
        self.given_up.append(operation)

    def failures(self) -> list[Any]:
        return [(None, 1, "rank 1 has ended")]

    def close(self) -> None:
        self.closed = True


@dataclass
class Plan:
    """``relayed``: bytes of the rank's memory that it only passes on."""

    collective: str
    bytes: int
    root: int
    fabric: Any = None
    relayed: tuple[tuple[int, int], ...] = ()

    def touched(self) -> list[tuple[int, int]]:
        own = [(0, self.bytes), (self.bytes, self.bytes + self.bytes // 2)]
        return sorted([*own, *self.relayed]) if self.collective == "all-to-all" else [(0, self.bytes)]


class Plans:
    """Of a group, and of all groups."""

    agree: Any = None
    fabric: Any = None
    relayed: tuple[tuple[int, int], ...] = ()

    def plan(self, collective: str, size: int, root: int = 0) -> Plan:
        return Plan(collective, size, root, self.fabric, self.relayed)

    again = plan

    def group(self, ranks: Any) -> Plans:
        return self

    def close(self) -> None:
        pass


@dataclass
class Made:
    """Rank 0 of two, on a carrier that is not there."""

    group: Any
    carrier: Carrier
    plans: Plans


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    from antiphon.torch import group, world

    carrier, plans = Carrier(), Plans()
    monkeypatch.setattr(world, "joined", lambda *_: (carrier, plans, False))
    found = group.open_group(dist.HashStore(), 0, 2, timedelta(seconds=5), name="0", ranks=[])
    yield Made(found, carrier, plans)
    found.shutdown()
    assert carrier.closed


def options(kind: Any, **given: Any) -> Any:
    made = kind()
    if hasattr(made, "asyncOp"):  # since PyTorch 2.8
        made.asyncOp = False
    for name, value in given.items():
        setattr(made, name, value)
    return made


def test_small_all_reduces_take_their_own_memory(made: Made) -> None:
    tensor = torch.ones(6, dtype=torch.bfloat16)
    made.group.allreduce([tensor], options(dist.AllreduceOptions)).wait()
    (operation,) = made.carrier.begun
    ((first, data),) = operation.memory
    assert (first, data.nbytes, operation.given[2:]) == (0, 12, ("bfloat16", "sum"))
    assert data.__array_interface__["data"][0] == tensor.data_ptr()


def test_a_mean_is_a_sum_that_is_divided(made: Made) -> None:
    tensors = [torch.full((3,), 7, dtype=dtype) for dtype in (torch.float32, torch.int16, torch.complex64)]
    for tensor in tensors:
        made.group.allreduce([tensor], options(dist.AllreduceOptions, reduceOp=dist.ReduceOp.AVG)).wait()
    assert [tensor[0].item() for tensor in tensors] == [3.5, 3, 3.5]
    assert [each.given[2] for each in made.carrier.begun] == ["float32", "int16", "float32"]


def test_what_is_not_offered_has_a_name(made: Made) -> None:
    for dtype, op, name in [
        (torch.float32, dist.ReduceOp.BXOR, "BXOR of torch.float32"),
        (torch.complex64, dist.ReduceOp.MAX, "MAX of torch.complex64"),
        (torch.uint16, dist.ReduceOp.SUM, "SUM of torch.uint16"),
    ]:
        with pytest.raises(NotImplementedError, match=name):
            made.group.allreduce([torch.ones(2).to(dtype)], options(dist.AllreduceOptions, reduceOp=op))
    with pytest.raises(ValueError, match="give one, or use a coalesced form"):
        made.group.broadcast([torch.ones(2)] * 2, options(dist.BroadcastOptions))
    with pytest.raises(ValueError, match="give 2 times as many"):
        made.group.all_gather_single(torch.ones(5), torch.ones(2), options(c10d.AllgatherOptions))
    with pytest.raises(ValueError, match="give 2 numbers that add up"):
        made.group.all_to_all_single(torch.ones(4), torch.ones(4), [1, 2], [2, 2], None)
    assert made.carrier.begun == []


def test_lists_are_pieces_without_a_copy(made: Made) -> None:
    outputs = [torch.zeros(2) for _ in range(2)]
    made.group.allgather([outputs], [torch.ones(2)], options(c10d.AllgatherOptions)).wait()
    memory = made.carrier.begun[0].memory
    assert [first for first, _ in memory] == [0, 8]
    assert [data.__array_interface__["data"][0] for _, data in memory] == [each.data_ptr() for each in outputs]
    assert outputs[0].tolist() == [1, 1]


def test_shards_that_are_no_multiple_of_four_bytes_are_padded(made: Made) -> None:
    output = torch.zeros(6, dtype=torch.uint8)
    made.group.all_gather_single(output, torch.full((3,), 5, dtype=torch.uint8), options(c10d.AllgatherOptions)).wait()
    ((_, data),) = made.carrier.begun[0].memory
    assert (data.nbytes, output[:3].tolist()) == (8, [5, 5, 5])
    given, taken = torch.arange(6, dtype=torch.uint8), torch.zeros(3, dtype=torch.uint8)
    made.group.reduce_scatter_single(taken, given, options(dist.ReduceScatterOptions)).wait()
    ((_, data),) = made.carrier.begun[1].memory[:1]
    assert data.tolist()[:4] == [0, 1, 2, 0]
    assert sum(each.nbytes for _, each in made.carrier.begun[1].memory) == 8


def test_inputs_keep_their_numbers(made: Made) -> None:
    given, taken = torch.arange(4.0), torch.zeros(2)
    made.group.reduce_scatter_single(taken, given, options(dist.ReduceScatterOptions)).wait()
    made.group.reduce([given], options(dist.ReduceOptions, rootRank=1)).wait()
    for begun in made.carrier.begun[:2]:
        assert [first for first, data in begun.memory if not data.flags.writeable] in ([8], [0])
        for _, data in begun.memory:
            if data.flags.writeable:
                data[:] = 255
    assert given.tolist() == [0, 1, 2, 3]


def test_an_all_to_all_lends_what_the_plan_touches(made: Made) -> None:
    """Part 0 is sent; what comes from rank 1 is in part 1; the rest of it is scratch where the plan passes it on."""
    given, taken = torch.arange(4.0), torch.zeros(4)
    made.plans.relayed = ((26, 30),)
    made.group.all_to_all_single(taken, given, [], [], options(dist.AllToAllOptions)).wait()
    memory = made.carrier.begun[0].memory
    assert [(first, data.nbytes) for first, data in memory] == [(0, 16), (16, 8), (26, 4)]
    memory[1][1][:] = np.array([8, 9], dtype=np.float32).view(np.uint8)
    assert taken.tolist() == [0, 1, 8, 9]


def test_tensors_in_any_order_are_copied_back(made: Made) -> None:
    tensor = torch.arange(6.0).reshape(2, 3).t()
    made.carrier.at_once = False
    work = made.group.broadcast([tensor], dist.BroadcastOptions())
    while not made.carrier.begun:
        time.sleep(0.001)
    ((_, data),) = made.carrier.begun[0].memory
    assert data.view(np.float32).tolist() == [0, 3, 1, 4, 2, 5]
    data.view(np.float32)[:] = range(6)
    made.carrier.begun[0].done = True
    work.wait()
    assert tensor.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_gathers_are_messages(made: Made) -> None:
    outputs = [torch.zeros(2), torch.zeros(3)]
    made.group.gather([outputs], [torch.ones(2)], options(dist.GatherOptions)).wait()
    assert [(each.kind, each.given[1], each.memory.nbytes) for each in made.carrier.begun] == [("receive", 1, 12)]
    assert outputs[0].tolist() == [1, 1]


def test_whoever_receives_from_anyone_learns_from_whom(made: Made) -> None:
    work = made.group.recv_anysource([torch.zeros(2)], 7)
    work.wait()
    assert (work.source_rank(), made.carrier.begun[0].given[1:]) == (1, (None, 7))


def test_a_time_limit_says_what_was_waited_for(made: Made) -> None:
    made.carrier.at_once = False
    limit = timedelta(seconds=0.05)
    for call, kind in (
        (made.group.allreduce, dist.AllreduceOptions),
        (made.group.broadcast, dist.BroadcastOptions),
    ):
        with pytest.raises(dist.DistBackendError, match=r"timeout of 0\.05 s: waited for rank 1"):
            call([torch.ones(2)], options(kind, timeout=limit)).wait()
    assert made.carrier.given_up == made.carrier.begun
    work = made.group.broadcast([torch.ones(2)], dist.BroadcastOptions())
    with pytest.raises(dist.DistBackendError, match=r"timeout of 0\.02 s"):
        work.wait(timedelta(seconds=0.02))
    made.carrier.begun[-1].done = True
    assert work.wait()


def test_a_failure_reaches_whoever_waits_and_the_future(made: Made) -> None:
    made.carrier.at_once = False
    work = made.group.broadcast([torch.ones(2)], dist.BroadcastOptions())
    future = work.get_future()
    while not made.carrier.begun:
        time.sleep(0.001)
    made.carrier.begun[0].failure, made.carrier.begun[0].done = "host-a eth0 - host-b eth1 is dead", True
    with pytest.raises(dist.DistBackendError, match="broadcast of group 0 at rank 0 failed: host-a eth0"):
        work.wait()
    with pytest.raises(RuntimeError, match="host-a eth0"):
        future.wait()
    assert (work.is_completed(), work.is_success()) == (True, False)


def test_what_is_chained_to_a_future_may_wait(made: Made) -> None:
    made.carrier.at_once = False

    def again(future: Any) -> Any:
        made.carrier.at_once = True
        return made.group.broadcast([future.value()[0]], dist.BroadcastOptions()).get_future().wait()[0]

    work = made.group.allreduce([torch.ones(2)], dist.AllreduceOptions())
    chained = work.get_future().then(again)
    while not made.carrier.begun:
        time.sleep(0.01)
    made.carrier.begun[0].done = True
    assert chained.wait().tolist() == [1, 1]
    assert [each.kind for each in made.carrier.begun] == ["all-reduce", "broadcast"]


def test_calls_on_the_same_numbers_take_turns(made: Made) -> None:
    tensor = torch.ones(4)
    made.carrier.at_once, made.carrier.alone = False, True
    works = [made.group.broadcast([tensor], dist.BroadcastOptions()) for _ in range(3)]
    made.carrier.at_once = True
    assert all(work.wait() for work in works)


def test_all_parts_of_a_call_are_counted_when_it_is_made(made: Made) -> None:
    """Not when the first is done, which is at another place between other calls at each rank."""
    made.carrier.at_once = False
    tensors = [torch.ones(2), torch.ones(2, dtype=torch.int64)]
    made.group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions())
    assert made.group.planned.calls == 2
    made.group.reduce_scatter([torch.ones(2)], [[torch.ones(2), torch.ones(3)]], dist.ReduceScatterOptions())
    assert made.group.planned.calls == 4
    made.carrier.at_once = True
    made.group.barrier().wait()
    assert sorted(each.given[1] for each in made.carrier.begun) == [1, 2, 3, 4, 5]


def test_what_was_planned_before_a_failure_is_planned_again_on_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from antiphon.torch import group, world
    from antiphon.torch.elements import COPIED
    from antiphon.torch.recovery import Kept

    carrier, plans = Carrier(), Plans()
    plans.fabric = ring(3)
    monkeypatch.setattr(world, "joined", lambda *_: (carrier, plans, True))
    found = group.open_group(dist.HashStore(), 0, 2, timedelta(seconds=5), name="0", ranks=[])
    before, control = plans.plan("all-to-all", 16), found.planned.control()
    plans.fabric = wired(3, [(0, 1), (1, 2)])
    memory = np.zeros(16, dtype=np.uint8)
    kept = Kept(found.planned, before, 1, [], COPIED, lambda plan: [(0, memory)] if plan is not before else [])
    assert kept.memory == carrier.begun[0].memory == [(0, memory)]
    assert kept.plan.fabric is found.planned.control().fabric is plans.fabric is not control.fabric
    kept.fail("it is a test")
    found.shutdown()


def test_a_batch_is_one_work(made: Made) -> None:
    made.group.start_coalescing()
    for _ in range(2):
        made.group.send([torch.ones(2)], 1, 0)
    work = made.group.end_coalescing()
    assert work.wait()
    assert work.is_success()
    assert [each.kind for each in made.carrier.begun] == ["send", "send"]


def test_a_group_that_is_destroyed_ends_what_is_under_way(made: Made) -> None:
    made.carrier.at_once = False
    work = made.group.broadcast([torch.ones(2)], dist.BroadcastOptions())
    made.group.shutdown()
    with pytest.raises(dist.DistBackendError, match="destroyed before it was done"):
        work.wait()
    with pytest.raises(dist.DistBackendError, match="was destroyed"):
        made.group.barrier()


def test_ranks_agree_on_the_least(made: Made) -> None:
    assert made.plans.agree([3, -1]) == [3, -1]
    assert made.carrier.begun[0].given[2:] == ("int64", "min")


def test_the_monitored_barrier_names_who_is_missing(made: Made) -> None:
    made.carrier.at_once = False
    with pytest.raises(dist.DistBackendError, match="Rank 1 failed to pass monitoredBarrier in 20 ms"):
        made.group.monitored_barrier(timedelta(seconds=0.02))
    with pytest.raises(dist.DistBackendError, match="Rank 0 timed out"):
        made.group.monitored_barrier(timedelta(0))


def test_a_group_of_one_needs_nobody() -> None:
    from antiphon.torch.group import open_group

    group = open_group(dist.HashStore(), 0, 1, timedelta(seconds=5), name="0", ranks=[])
    tensor, output = torch.arange(3.0), torch.zeros(3)
    group.allreduce([tensor]).wait()
    group.all_gather_single(output, tensor).wait()
    group.all_to_all_single(output, tensor * 2, [3], [3]).wait()
    group.barrier().wait()
    group.shutdown()
    assert (tensor.tolist(), output.tolist()) == ([0, 1, 2], [0, 2, 4])


def test_what_a_small_all_reduce_costs(made: Made) -> None:
    """A bound that only a change of kind breaks, such as a plan made anew; it takes about 8 us, 70 us while coverage is
    measured on a busy machine."""
    tensor, given = torch.ones(2048), options(dist.AllreduceOptions)
    times_s = []
    for _ in range(5):
        began_s = time.perf_counter()
        for _ in range(500):
            made.group.allreduce([tensor], given)
        times_s.append((time.perf_counter() - began_s) / 500)
    assert min(times_s) < (500e-6 if hasattr(given, "asyncOp") else 2e-3)


@pytest.mark.parametrize("first", ["torch", "antiphon.torch.bench"])
def test_pytorch_finds_it_by_its_entry_point(first: str) -> None:
    if torch.__version__.startswith("2.4."):
        first = f"antiphon.torch, {first}"
    program = f"import {first}, torch.distributed as dist; assert 'antiphon' in dist.Backend.backend_list"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
