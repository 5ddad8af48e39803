"""What goes on after a link has failed (``ANTIPHON_RESILIENT=1``): all ranks leave it out, plan again on the links that
are left, and repeat the collectives that were under way.

A collective counts as over when all its ranks are done: each then takes part in a small one, the *commit*. So where a
rank was not done when a link failed, no rank has given its result back, and all still have their inputs.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch.distributed as dist

from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.torch.discovery.meeting import Meeting
from antiphon.torch.memory import Bytes, Pieces

if TYPE_CHECKING:
    from antiphon.torch.collectives import Planned
    from antiphon.torch.elements import Reduction
    from antiphon.torch.world import World

COMMITS, COMMIT_BYTES = 1 << 31, 64
"""The bit in the number of a group by which its commits are told from its collectives, and what each sends."""
REMEMBERED = 1024
"""Collectives of a group of which a rank knows that they are over."""
LOG = logging.getLogger("antiphon")


class Recovery:
    """A world's way on after failures of links."""

    def __init__(self, world: World, store: Any, rank: int, size: int, timeout_s: float) -> None:
        self.world, self.store, self.rank, self.size, self.timeout_s = world, store, rank, size, timeout_s
        self.first = json.loads(world.planner.fabric.to_json())
        self.failed: set[int] = set()
        self.epoch = 0
        self.under_way: list[Kept] = []
        self.over: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def go_on(self) -> None:
        """Meets all other ranks and goes on with the links that are left. All collectives under way are repeated unless
        all their ranks were done.

        Raises:
            AntiphonError: ``stalled`` if a rank has ended, does not come, or what is left does not join all.
        """
        failures = self.world.carrier.failures()
        for _, node, what in failures:
            if node is not None:
                raise AntiphonError(what, "stalled")
        self.epoch += 1
        store = dist.PrefixStore(f"antiphon/recovery/{self.epoch}", self.store)
        meeting = Meeting(store, self.rank, self.size, self.timeout_s)
        own = {
            "failed": sorted({link for link, _, _ in failures if link is not None}),
            "done": [[each.number, each.sequence] for each in self.under_way if each.is_done_here],
            "over": [[number, sequence] for number, all_over in self.over.items() for sequence in all_over],
        }
        told = meeting.exchange("state", own)
        self.failed |= {link for each in told for link in each["failed"]}
        fabric = self._rest()
        self.world.carrier.renew(fabric, self.epoch % 256)
        self.world.planner.renew(fabric)
        if self.rank == 0:
            words = "; ".join(what for _, _, what in failures) or "another rank says that a link has failed"
            LOG.warning("antiphon: %s. %d links are left; all ranks plan again on them", words, len(fabric.links))
        meeting.barrier("renewed")
        done = [{(number, sequence) for number, sequence in [*each["done"], *each["over"]]} for each in told]
        for each in list(self.under_way):
            if all((each.number, each.sequence) in done[node] for node in each.nodes):
                each.finish()
            else:
                each.begin_again()

    def _rest(self) -> Fabric:
        """The first fabric without links that have failed, in either direction."""
        ends = [(link["from"], link["to"]) for link in self.first["links"]]
        gone = {frozenset(ends[link]) for link in self.failed}
        # Of parallel cables only those that failed: each has a link there and the next one back.
        paired = {link ^ 1 for link in self.failed if frozenset(ends[link ^ 1]) in gone}
        links = [each for number, each in enumerate(self.first["links"]) if number not in self.failed | paired]
        try:
            return Fabric.from_json(json.dumps({**self.first, "links": links}))
        except AntiphonError as error:
            raise AntiphonError(f"the links that are left do not join all ranks: {error.message}", "stalled") from None


class Kept:
    """A collective whose inputs are kept until all its ranks are done; in place of the carrier's operation.

    Attributes:
        operation: of the carrier, which is under way now.
        done: whether it is over at all ranks.
        failure: why it cannot go on.
    """

    def __init__(self, planned: Planned, plan: Any, sequence: int, memory: Pieces, how: Reduction) -> None:
        assert planned.world.recovery is not None
        self.planned, self.plan, self.recovery = planned, plan, planned.world.recovery
        self.nodes, self.number = planned.nodes, planned.number
        self.sequence, self.memory, self.how = sequence, memory, how
        self.inputs: list[Bytes] = [each.copy() for _, each in memory]
        self.operation: Any = None
        self.is_done_here = self.done = False
        self.failure: str | None = None
        self.source = 0
        self.recovery.under_way.append(self)
        self._trying(self._begin)

    def _begin(self) -> None:
        carrier = self.recovery.world.carrier
        self.is_done_here = False
        self.operation = carrier.collective(
            self.plan, self.number, self.sequence, self.memory, self.how.element, self.how.operation
        )

    def _commit(self) -> None:
        self.is_done_here = True
        memory = [(0, np.zeros(COMMIT_BYTES, np.uint8))]
        self.operation = self.recovery.world.carrier.collective(
            self.planned.control(), self.number | COMMITS, self.sequence, memory, "int64", "min"
        )

    def _trying(self, step: Callable[[], None]) -> None:
        """Takes a step; where a link has failed, goes on without it."""
        try:
            step()
        except AntiphonError as error:
            self._recover(error.message)

    def _recover(self, reason: str) -> None:
        if not self.recovery.world.carrier.failures():
            self._fail(reason)
            return
        try:
            self.recovery.go_on()
        except AntiphonError as error:
            self._fail(error.message)

    def _fail(self, reason: str) -> None:
        self.failure, self.done = reason, True
        self.recovery.under_way.remove(self)

    def begin_again(self) -> None:
        """Begins from the inputs."""
        for (_, memory), inputs in zip(self.memory, self.inputs, strict=True):
            if memory.flags.writeable:
                memory[:] = inputs
        self.plan = self.planned.again(self.plan)
        self._trying(self._begin)

    def finish(self) -> None:
        """All ranks are done."""
        self.done = True
        self.recovery.under_way.remove(self)
        self.recovery.over[self.number].append(self.sequence)

    def advance(self) -> None:
        """Takes it as far as it goes without waiting."""
        while not self.done and self.operation.done:
            if self.operation.failure is not None:
                self._recover(self.operation.failure)
            elif self.is_done_here:
                self.finish()
            else:
                self._trying(self._commit)
