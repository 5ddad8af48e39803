"""Gradients of one type in one piece of memory, layer by layer, and their exchange."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch.distributed import ReduceOp

from antiphon._core import Plan
from antiphon.execution.layers import Range, dealt, layer_parts
from antiphon.torch.elements import reduction
from antiphon.torch.memory import Pieces, array
from antiphon.torch.plans.chained import chained_schedule
from antiphon.torch.work import Steps, Work

WHOLE_BYTES = 8
"""The memory has a multiple of so many bytes."""


class Gradients:
    """The gradients of a model that have one type.

    Attributes:
        views: where the gradient of each parameter lies, in its shape.
        algorithm: what exchanges them.
    """

    def __init__(self, group: Any, dtype: Any, layers: Sequence[Sequence[Any]], algorithm: str | None) -> None:
        """Lays them out.

        Args:
            group: of the ranks, an ``AntiphonGroup``.
            dtype: of all.
            layers: parameters of each layer in the order of the forward pass; some layers may have none.
            algorithm: a specification; None: the best one that completes its chunks in order.
        """
        self.group, self.dtype, self.asked, self.algorithm = group, dtype, algorithm, algorithm
        self.sizes = [sum(each.numel() for each in layer) * dtype.itemsize for layer in layers]
        self.sizes[-1] += -sum(self.sizes) % WHOLE_BYTES
        self.memory = torch.zeros(sum(self.sizes) // dtype.itemsize, dtype=dtype)
        self.views: dict[Any, Any] = {}
        first = 0
        for layer in layers:
            for parameter in layer:
                part = self.memory[first : first + parameter.numel()]
                self.views[parameter] = part.view(parameter.shape)
                first += parameter.numel()
        self.final = [threading.Event() for _ in layers]
        self.fabric: Any = None
        self.plan: Any = None
        self.pieces: Pieces = []
        self.parts: list[list[Range]] = []
        self.work: Work | None = None

    def begin(self) -> None:
        """Begins the exchange; all ranks do, in the same order of calls."""
        planned = self.group.planned
        if planned.plans is None:
            return  # alone
        if self.fabric is not planned.plans.fabric:
            self._lay()
        for each in self.final:
            each.clear()
        how = reduction(self.dtype, ReduceOp.SUM)
        request = planned.request(self.plan, self.pieces, how, parts=self.parts)
        name = f"exchange of gradients at rank {self.group.own}"
        self.work = Work(self.group.worker, name, [], self.group.limit_s)
        self.work.told, self.work.steps = self._told, self._steps(request)
        if self.work.prepare():
            self.group.worker.begin(self.work, alone=True)

    def wait(self, layer: int | None = None) -> None:
        """Waits until the sums of a layer may be read; without one, until all is over and they may be changed.

        Raises:
            torch.distributed.DistBackendError: the exchange failed, or the time is over.
        """
        if self.work is None:
            return
        over = None if layer is None else self.final[layer]
        if not (over or self.work.over).is_set():
            self.group.worker.finish(self.work, None, over)
        if self.work.error is not None:
            raise self.work.error

    def _lay(self) -> None:
        """Plans for the links that there are."""
        planned = self.group.planned
        self.fabric = planned.plans.fabric
        size, itemsize = self.memory.numel() * self.dtype.itemsize, self.dtype.itemsize
        schedule = chained_schedule(self.fabric, size, planned.world.planner.system, self.asked)
        self.algorithm, self.plan = schedule.algorithm, Plan(self.fabric, schedule, planned.rank)
        pieces, data = dealt(schedule, itemsize), array(self.memory)
        cuts = np.cumsum([each.bytes for each in pieces[:-1]])
        own = zip(pieces, np.split(data, cuts), strict=True)
        self.pieces = sorted(((each.place, part) for each, part in own), key=lambda piece: piece[0])
        self.parts = layer_parts(pieces, self.sizes)

    def _steps(self, request: Any) -> Steps:
        try:
            yield [request]
        finally:
            self._told(range(len(self.final)))

    def _told(self, layers: Sequence[int]) -> None:
        for layer in layers:
            self.final[layer].set()


def fingerprint(names: Sequence[str]) -> int:
    """A number below 2^62 that is equal where names are."""
    return int.from_bytes(sha256("\n".join(names).encode()).digest()[:8], "big") >> 2
