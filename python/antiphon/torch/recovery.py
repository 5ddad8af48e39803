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
from contextlib import suppress
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
    """A world's way on after failures of links. But for `help`, whoever drives the carrier calls it.

    Attributes:
        epoch: how often links were left out.
        under_way: collectives that are not over at all ranks.
        lost: why there is no way on.
    """

    def __init__(self, world: World, store: Any, rank: int, size: int, timeout_s: float) -> None:
        self.world, self.store, self.rank, self.size, self.timeout_s = world, store, rank, size, timeout_s
        self.first = json.loads(world.planner.fabric.to_json())
        self.links = [each for line in self.first["links"] for each in _ways(line)]
        self.failed: set[int] = set()
        self.epoch = 0
        self.under_way: list[Kept] = []
        self.over: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self.lost: str | None = None

    def go_on(self) -> None:
        """Meets all other ranks and goes on with the links that are left. All collectives under way are repeated unless
        all their ranks were done. They fail if a rank has ended, does not come, or what is left does not join all.
        """
        try:
            while self.lost is None and not self._repeated(self._met()):
                pass  # more has failed meanwhile
        except AntiphonError as error:
            self.lost = error.message
        if self.lost is not None:
            for each in list(self.under_way):
                each.fail(self.lost)
        # What is over by now is looked at before more is driven.
        self.world.carrier.wake()

    def help(self) -> None:
        """Takes part where others go on, for a rank that has nothing more to do itself."""
        if self.lost is None and self.store.check([_called(self.epoch + 1)]):
            self.under_way.clear()
            self.go_on()

    def _met(self) -> list[Any]:
        """What all ranks say of their collectives, when all have left out the links that failed at any."""
        self.epoch += 1
        self.store.set(_called(self.epoch), "")
        meeting = Meeting(_Watched(self), self.rank, self.size, self.timeout_s)
        failures = self.world.carrier.failures()
        own = {
            "failed": sorted({link for links, _, _ in failures for link in links}),
            "words": [what for _, _, what in failures],
            "done": [[each.number, each.sequence] for each in self.under_way if each.is_done_here],
            "over": [[number, sequence] for number, all_over in self.over.items() for sequence in all_over],
        }
        with meeting.failing_together():
            told = meeting.exchange("state", own)
            self.failed |= {link for each in told for link in each["failed"]}
            fabric = self._rest()
            self.world.carrier.renew(fabric, self.epoch % 256, sorted(self.failed))
            self.world.planner.renew(fabric)
            if self.rank == 0:
                words = "; ".join(dict.fromkeys(what for each in told for what in each["words"]))
                left = len(self.links) - len(self.failed)
                LOG.warning("antiphon: %s. %d links are left; all ranks plan again on them", words, left)
            meeting.barrier("renewed")
        return told

    def _repeated(self, told: list[Any]) -> bool:
        """Begins again what is not done; whether it could."""
        done = [{(number, sequence) for number, sequence in [*each["done"], *each["over"]]} for each in told]
        for each in list(self.under_way):
            if all((each.number, each.sequence) in done[node] for node in each.nodes):
                each.finish()
        for each in list(self.under_way):
            try:
                each.begin_again()
            except AntiphonError as error:
                if self.world.carrier.failures():
                    return False
                each.fail(error.message)
        return True

    def _rest(self) -> Fabric:
        """The first fabric without links that have failed."""
        links = [each for number, each in enumerate(self.links) if number not in self.failed]
        try:
            return Fabric.from_json(json.dumps({**self.first, "links": links}))
        except AntiphonError as error:
            raise AntiphonError(f"the links that are left do not join all ranks: {error.message}", "stalled") from None


class _Watched:
    """The store of an epoch, until a rank has ended: who has will not come."""

    def __init__(self, recovery: Recovery) -> None:
        self.carrier = recovery.world.carrier
        store = dist.PrefixStore(f"antiphon/recovery/{recovery.epoch}", recovery.store)
        self.get, self.set, self.add, self.looked = store.get, store.set, store.add, store.check

    def check(self, keys: list[str], /) -> bool:
        """Whether all have a value."""
        for _, node, what in self.carrier.failures():
            if node is not None:
                raise AntiphonError(what, "stalled")
        return bool(self.looked(keys))


def _called(epoch: int) -> str:
    """The key by which ranks say that they go on."""
    return f"antiphon/recovery/{epoch}/called"


def _ways(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The links of a line of a fabric, which may stand for two."""
    there = {**line, "both": False}
    return [there, {**there, "from": line["to"], "to": line["from"]}] if line.get("both", True) else [there]


class Kept:
    """A collective whose inputs are kept until all its ranks are done; in place of the carrier's operation.

    Attributes:
        operation: of the carrier, which is under way now.
        done: whether it is over at all ranks.
        failure: why it cannot go on.
    """

    def __init__(
        self,
        planned: Planned,
        plan: Any,
        sequence: int,
        memory: Pieces,
        how: Reduction,
        of: Callable[[Any], Pieces] | None = None,
    ) -> None:
        assert planned.world.recovery is not None
        self.planned, self.plan, self.recovery = planned, plan, planned.world.recovery
        self.nodes, self.number = planned.nodes, planned.number
        self.sequence, self.memory, self.how, self.of = sequence, memory, how, of
        self.inputs: list[tuple[Bytes, Bytes]] = [(each, each.copy()) for _, each in memory if each.flags.writeable]
        self.operation: Any = None
        self.is_done_here = self.done = False
        self.failure: str | None = None
        self.source = 0
        self.recovery.under_way.append(self)
        # Links may have failed since it was planned.
        self._trying(self._begin if plan.fabric is planned.plans.fabric else self.begin_again)

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
        if self.recovery.lost is None and not self.recovery.world.carrier.failures():
            self.fail(reason)
        else:
            self.recovery.go_on()

    def fail(self, reason: str) -> None:
        """It cannot go on."""
        self.failure, self.done = reason, True
        self.forget()

    def forget(self) -> None:
        """Nobody waits for it any more."""
        with suppress(ValueError):
            self.recovery.under_way.remove(self)

    def begin_again(self) -> None:
        """Begins from the inputs.

        Raises:
            AntiphonError: more has failed.
        """
        for memory, inputs in self.inputs:
            memory[:] = inputs
        self.plan = self.planned.again(self.plan)
        if self.of is not None:
            self.memory = self.of(self.plan)
        self._begin()

    def finish(self) -> None:
        """All ranks are done."""
        self.done = True
        self.forget()
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
