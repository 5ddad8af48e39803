"""Collectives by plans: which memory, and what is copied before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from antiphon.execution.layers import Range
from antiphon.torch.elements import COPIED, Reduction, divide
from antiphon.torch.memory import SHARD_STEP_BYTES, Bytes, Call, Pieces, copy, joined, over
from antiphon.torch.recovery import Kept
from antiphon.torch.work import Request, Steps, Work
from antiphon.torch.world import World

AGREED = 8
"""How many numbers ranks agree on at once."""


class Planned:
    """A group's collectives by plans.

    Attributes:
        nodes: of its ranks in the fabric, in the group's order.
        rank: of this process in the group.
        number: of the group; its ranks agree on it.
    """

    def __init__(self, world: World, nodes: Sequence[int], rank: int, number: int, limit_s: float) -> None:
        self.world, self.nodes, self.rank, self.number, self.limit_s = world, list(nodes), rank, number, limit_s
        self.size = len(self.nodes)
        self.calls = 0
        self.plans: Any = None
        if self.size > 1:
            self.plans = world.planner.group(self.nodes)
            self.plans.agree = self.agree
        self._control: Any = None

    def request(
        self,
        plan: Any,
        memory: Pieces,
        how: Reduction,
        of: Callable[[Any], Pieces] | None = None,
        parts: Sequence[Sequence[Range]] = (),
    ) -> Request:
        """One collective, counted now and begun by whoever drives; ``of`` gives the memory of another plan. ``parts``
        of the memory are told when they are final, but only at the end where links that fail are left out."""
        self.calls += 1
        if self.world.recovery is not None:
            return partial(Kept, self, plan, self.calls, memory, how, of)
        begin = self.world.carrier.collective
        return partial(begin, plan, self.number, self.calls, memory, how.element, how.operation, parts)

    def again(self, plan: Any) -> Any:
        """The plan that does what another one did, on the links that are left."""
        return self.plans.again(plan.collective, plan.bytes, plan.root)

    def control(self) -> Any:
        """The plan of an all-reduce of few numbers, always the same."""
        if self._control is None or self._control.fabric is not self.plans.fabric:
            self._control = self.plans.again("all-reduce", AGREED * 8)
        return self._control

    def agree(self, numbers: list[int]) -> list[int]:
        """The minimum of each number over the group's ranks; all call it at the same time."""
        agreed: list[int] = []
        for first in range(0, len(numbers), AGREED):
            part = numbers[first : first + AGREED]
            values = np.zeros(AGREED, dtype=np.int64)
            values[: len(part)] = part
            self.run(self._small(values), f"an agreement of group {self.number}", self.limit_s)
            agreed += [int(value) for value in values[: len(part)]]
        return agreed

    def run(self, steps: Steps, name: str, limit_s: float) -> None:
        """Takes steps to their end.

        Raises:
            torch.distributed.DistBackendError: they failed, or took longer than ``limit_s``.
        """
        work = Work(self.world.worker, name, [], limit_s)
        work.steps = steps
        if work.prepare():
            self.world.worker.begin(work, alone=False)
        work.wait()

    def _small(self, values: Any) -> Steps:
        yield [self.request(self.control(), [(0, values.view(np.uint8))], Reduction("int64", "min"))]

    def barrier(self) -> Steps:
        """All have come."""
        if self.size > 1:
            yield from self._small(np.zeros(AGREED, dtype=np.int64))

    def all_reduce(self, call: Call, tensors: Sequence[Any], how: Reduction) -> Steps:
        """Tensors of one type, in place, as if they were one."""
        arrays = [call.target(tensor, filled=True) for tensor in tensors]
        memory = joined(arrays)
        if memory and self.plans is not None:
            plan = self.plans.plan("all-reduce", sum(each.nbytes for each in arrays))
            request = self.request(plan, memory, how)
            yield call.arrived()
            yield [request]
        else:
            yield call.arrived()
        if how.mean:
            for each, tensor in zip(arrays, tensors, strict=True):
                divide(torch.from_numpy(each).view(tensor.dtype), self.size)

    def broadcast(self, call: Call, tensor: Any, root: int) -> Steps:
        """In place."""
        data = call.target(tensor, filled=self.rank == root)
        if data.nbytes and self.plans is not None:
            request = self.request(self.plans.plan("broadcast", data.nbytes, root), joined([data]), COPIED)
            yield call.arrived()
            yield [request]

    def reduce(self, call: Call, tensor: Any, root: int, how: Reduction) -> Steps:
        """In place at the root; the others keep their numbers."""
        data = call.target(tensor, filled=True) if self.rank == root else call.source(tensor)
        if data.nbytes and self.plans is not None:
            memory = joined([data]) if self.rank == root else over([data], call.scratch(data.nbytes))
            request = self.request(self.plans.plan("reduce", data.nbytes, root), memory, how)
            yield call.arrived()
            yield [request]
        else:
            yield call.arrived()
        if how.mean and self.rank == root:
            divide(torch.from_numpy(data).view(tensor.dtype), self.size)

    def all_gather(self, call: Call, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any]) -> Steps:
        """``outputs``: for each rank, tensors for its inputs, cut in any way."""
        given = [call.source(tensor) for tensor in inputs]
        taken = [[call.target(tensor, filled=False) for tensor in part] for part in outputs]
        yield from self.gathered(call, taken, given)

    def gathered(self, call: Call, taken: Sequence[Sequence[Bytes]], given: Sequence[Bytes]) -> Steps:
        """An all-gather of bytes."""
        shard = sum(each.nbytes for each in given)
        step = -(-shard // SHARD_STEP_BYTES) * SHARD_STEP_BYTES
        if not shard or self.plans is None:
            yield call.arrived()
            copy(taken[self.rank], given)
            return
        request_plan = self.plans.plan("all-gather", step * self.size)
        if step == shard:
            request = self.request(request_plan, joined(each for part in taken for each in part), COPIED)
            yield call.arrived()
            copy(taken[self.rank], given)
            yield [request]
            return
        whole = call.scratch(step * self.size)
        request = self.request(request_plan, joined([whole]), COPIED)
        yield call.arrived()
        copy([_shard(whole, self.rank, step, shard)], given)
        yield [request]
        for rank, part in enumerate(taken):
            copy(part, [_shard(whole, rank, step, shard)])

    def reduce_scatter(
        self, call: Call, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], how: Reduction
    ) -> Steps:
        """``inputs``: for each rank, tensors for its outputs, cut in any way; they keep their numbers."""
        taken = [call.target(tensor, filled=False) for tensor in outputs]
        given = [[call.source(tensor) for tensor in part] for part in inputs]
        yield from self.scattered(call, taken, given, how)
        if how.mean:
            for each, tensor in zip(taken, outputs, strict=True):
                divide(torch.from_numpy(each).view(tensor.dtype), self.size)

    def scattered(self, call: Call, taken: Sequence[Bytes], given: Sequence[Sequence[Bytes]], how: Reduction) -> Steps:
        """A reduce-scatter of bytes."""
        shard = sum(each.nbytes for each in taken)
        step = -(-shard // SHARD_STEP_BYTES) * SHARD_STEP_BYTES
        if not shard or self.plans is None:
            yield call.arrived()
            copy(taken, given[self.rank])
            return
        plan = self.plans.plan("reduce-scatter", step * self.size)
        # The rest of the memory is written over, so it is not that of the inputs.
        whole = call.scratch(step * self.size)
        own = slice(self.rank * step, (self.rank + 1) * step)
        if step == shard:
            memory = over((each for part in given for each in part), whole)
            others = [piece for piece in memory if not own.start <= piece[0] < own.stop]
            sums = [(own.start + first, each) for first, each in joined(taken)]
            request = self.request(plan, sorted(others + sums, key=lambda piece: piece[0]), how)
            yield call.arrived()
            copy(taken, given[self.rank])
            yield [request]
            return
        request = self.request(plan, joined([whole]), how)
        yield call.arrived()
        whole[:] = 0  # what pads a shard is added, too
        for rank, part in enumerate(given):
            copy([_shard(whole, rank, step, shard)], part)
        yield [request]
        copy(taken, [_shard(whole, self.rank, step, shard)])

    def all_to_all(self, call: Call, output: Any, source: Any) -> Steps:
        """Equal shards of ``source``, one for each rank, to their places in ``output``."""
        given, taken = call.source(source), call.target(output, filled=False)
        shard = given.nbytes // self.size
        step = -(-shard // SHARD_STEP_BYTES) * SHARD_STEP_BYTES
        if not shard or self.plans is None:
            yield call.arrived()
            copy([taken], [given])
            return
        plan = self.plans.plan("all-to-all", step * self.size)
        sent, got = given, taken
        if step != shard:
            sent, got = call.scratch(step * self.size), call.scratch(step * self.size)

        def memory(of: Any) -> Pieces:
            return _exchanged(of, sent, got, self.rank, self.size, call)

        request = self.request(plan, memory(plan), COPIED, memory)
        yield call.arrived()
        for rank in range(self.size if step != shard else 0):
            copy([_shard(sent, rank, step, shard)], [_shard(given, rank, shard, shard)])
        yield [request]
        for rank in range(self.size):
            if rank == self.rank:
                copy([_shard(taken, rank, shard, shard)], [_shard(given, rank, shard, shard)])
            elif step != shard:
                copy([_shard(taken, rank, shard, shard)], [_shard(got, rank, step, shard)])


def _shard(whole: Bytes, rank: int, step: int, size: int) -> Bytes:
    return whole[rank * step : rank * step + size]


def _exchanged(plan: Any, sent: Bytes, got: Bytes, rank: int, ranks: int, call: Call) -> Pieces:
    """The memory of an all-to-all: what is sent in part ``rank``; what comes from a rank in its part, at the same
    shard; and scratch wherever else the plan passes something on."""
    part = sent.nbytes
    step = part // ranks
    known: list[tuple[int, int, Bytes]] = []  # first, end, bytes
    for source in range(ranks):
        if source == rank:
            known.append((source * part, (source + 1) * part, sent))
        else:
            first = source * part + rank * step
            known.append((first, first + step, got[source * step : (source + 1) * step]))
    gaps: list[tuple[int, int]] = []
    for start, end in plan.touched():
        for first, last, _ in known:
            if last <= start or first >= end:
                continue
            if start < first:
                gaps.append((start, first))
            start = last
        if start < end:
            gaps.append((start, end))
    rest = call.scratch(max(1, sum(end - start for start, end in gaps)))
    memory: Pieces = [(first, each) for first, _, each in known]
    place = 0
    for start, end in gaps:
        memory.append((start, rest[place : place + end - start]))
        place += end - start
    return sorted(memory, key=lambda piece: piece[0])
