"""Collectives whose parts differ from rank to rank: by messages, each straight from rank to rank."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch

from antiphon.errors import AntiphonError
from antiphon.torch.collectives import Planned
from antiphon.torch.failures import failure
from antiphon.torch.memory import Bytes, Call, copy
from antiphon.torch.work import Request, Steps

TAG = 0
"""Of the messages of monitored barriers; other calls have tags of their own, for they may go on in any order."""
TAGS = 1 << 31


class Messages:
    """A group's collectives by messages.

    Attributes:
        channel: the group of the messages, apart from those of `send` and `recv`.
    """

    def __init__(self, planned: Planned, channel: int) -> None:
        self.planned, self.channel = planned, channel
        self.carrier, self.nodes = planned.world.carrier, planned.nodes
        self.rank, self.size = planned.rank, planned.size
        self.calls = 0

    def exchange(
        self, call: Call, taken: Sequence[Bytes | None], given: Sequence[Bytes | None], tag: int | None = None
    ) -> Steps:
        """To and from each rank, in the order of ranks; nothing where there are no bytes."""
        tag = self._tag() if tag is None else tag
        yield call.arrived()
        own, kept = given[self.rank], taken[self.rank]
        if own is not None and kept is not None and own.nbytes:
            copy([kept], [own])
        requests: list[Request] = []
        for rank in range(self.size):
            if rank != self.rank:
                for kind, data in (("receive", taken[rank]), ("send", given[rank])):
                    if data is not None and data.nbytes:
                        requests.append(partial(getattr(self.carrier, kind), self.channel, self.nodes[rank], tag, data))
        yield requests

    def _tag(self) -> int:
        """Of the next call, when it is made."""
        self.calls += 1
        return self.calls % TAGS

    def gather(self, call: Call, outputs: Sequence[Any], tensor: Any, root: int) -> Steps:
        """Every rank's tensor to the root's outputs."""
        nothing: list[Bytes | None] = [None] * self.size
        taken, given = list(nothing), list(nothing)
        given[root] = call.source(tensor)
        if self.rank == root:
            taken = [call.target(each, filled=False) for each in outputs]
        yield from self.exchange(call, taken, given)

    def scatter(self, call: Call, output: Any, tensors: Sequence[Any], root: int) -> Steps:
        """The root's tensors, one to each rank."""
        nothing: list[Bytes | None] = [None] * self.size
        taken, given = list(nothing), list(nothing)
        taken[root] = call.target(output, filled=False)
        if self.rank == root:
            given = [call.source(each) for each in tensors]
        yield from self.exchange(call, taken, given)

    def all_to_all(self, call: Call, outputs: Sequence[Any], inputs: Sequence[Any]) -> Steps:
        """A tensor from each rank and to each rank, of any sizes."""
        given = [call.source(each) for each in inputs]
        yield from self.exchange(call, [call.target(each, filled=False) for each in outputs], given)

    def all_to_all_split(self, call: Call, output: Any, source: Any, outs: Sequence[int], ins: Sequence[int]) -> Steps:
        """Parts of one tensor to parts of another; ``outs`` and ``ins`` are their rows."""
        given = _parts(call.source(source), source, ins)
        yield from self.exchange(call, _parts(call.target(output, filled=False), output, outs), given)

    def all_gather(self, call: Call, outputs: Sequence[Any], tensor: Any, tag: int | None = None) -> Steps:
        """Every rank's tensor, of any size, to every rank."""
        given = call.source(tensor)
        yield from self.exchange(call, [call.target(each, filled=False) for each in outputs], [given] * self.size, tag)

    def all_reduce_sparse(self, call: Call, tensor: Any) -> Steps:
        """The sum of sparse tensors, in place."""
        tag = self._tag()
        own = tensor.detach().cpu().coalesce()
        places, values = own.indices().contiguous(), own.values().contiguous()
        counts = torch.zeros(self.size, dtype=torch.int64)
        mine = torch.tensor([values.shape[0]], dtype=torch.int64)
        yield from self.planned.gathered(
            call, [[call.target(each, filled=False)] for each in counts.split(1)], [call.source(mine)]
        )
        all_places = [places.new_empty((places.shape[0], int(each))) for each in counts]
        all_values = [values.new_empty((int(each), *values.shape[1:])) for each in counts]
        yield from self.all_gather(call, all_places, places, tag)
        yield from self.all_gather(call, all_values, values, tag)
        total = torch.sparse_coo_tensor(torch.cat(all_places, 1), torch.cat(all_values), own.shape).coalesce()

        def replace() -> None:
            with torch.no_grad():  # what is detached from a sparse tensor has places and values of its own
                tensor.copy_(total)

        call.after.append(replace)

    def monitored_barrier(self, timeout_s: float, wait_all_ranks: bool, channel: int) -> None:
        """Waits for all ranks; rank 0 says which did not come.

        Args:
            timeout_s: until those that did not come are given up.
            wait_all_ranks: name all that did not come, not only the first.
            channel: the group of its messages.

        Raises:
            torch.distributed.DistBackendError: a rank did not come.
        """
        if self.size == 1:
            return
        if self.rank == 0:
            self._watch(timeout_s, wait_all_ranks, channel)
            return
        name, answer = f"monitoredBarrier at rank {self.rank}", np.zeros(1, dtype=np.uint8)
        try:
            self._run(channel, [(0, np.ones(1, dtype=np.uint8))], [(0, answer)], timeout_s)
        except AntiphonError:
            answer[0] = 0
        if not answer[0]:
            raise failure(
                f"Rank {self.rank} successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank 0; what rank 0 says names the rank that is missing",
                name,
            )

    def _watch(self, timeout_s: float, wait_all_ranks: bool, channel: int) -> None:
        name = "monitoredBarrier at rank 0"
        if timeout_s <= 0:
            raise failure(f"Rank 0 timed out in monitoredBarrier after {timeout_s * 1e3:g} ms", name)
        came = [np.zeros(1, dtype=np.uint8) for _ in self.nodes]
        missing: list[int] = []
        try:
            self._run(channel, [], [(rank, came[rank]) for rank in range(1, self.size)], timeout_s)
        except AntiphonError:
            missing = [rank for rank in range(1, self.size) if not came[rank][0]]
        answer = np.full(1, not missing, dtype=np.uint8)
        with suppress(AntiphonError):  # whom it does not reach, its own time limit does
            self._run(channel, [(rank, answer) for rank in range(1, self.size) if rank not in missing], [], 1.0)
        if missing:
            ranks = ", ".join(map(str, missing)) if wait_all_ranks else str(missing[0])
            who = f"Rank{'s' if wait_all_ranks else ''} {ranks}"
            raise failure(f"{who} failed to pass monitoredBarrier in {timeout_s * 1e3:g} ms", name)

    def _run(
        self, channel: int, given: list[tuple[int, Bytes]], taken: list[tuple[int, Bytes]], timeout_s: float
    ) -> None:
        """Messages, within a time.

        Raises:
            AntiphonError: not all in time.
        """

        def steps() -> Steps:
            yield [
                *(partial(self.carrier.send, channel, self.nodes[rank], TAG, data) for rank, data in given),
                *(partial(self.carrier.receive, channel, self.nodes[rank], TAG, data) for rank, data in taken),
            ]

        try:
            self.planned.run(steps(), "monitoredBarrier", timeout_s)
        except RuntimeError as error:
            raise AntiphonError(str(error), "time-limit") from None


def _parts(data: Bytes, tensor: Any, rows: Sequence[int]) -> list[Bytes]:
    """The bytes of a tensor cut by rows."""
    row = data.nbytes // max(1, tensor.shape[0])
    ends = np.cumsum([0, *rows]) * row
    return [data[ends[index] : ends[index + 1]] for index in range(len(rows))]
