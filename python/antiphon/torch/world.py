"""What the process groups of a process share: the wires, the carrier, the plans and the worker."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch.distributed as dist

from antiphon.errors import AntiphonError
from antiphon.torch.failures import failure
from antiphon.torch.memory import Scratch
from antiphon.torch.recovery import Recovery
from antiphon.torch.worker import Worker

CLOSING_S = 5.0
"""How long the last group waits for the other ranks, whose messages this one may still pass on."""

LOOK_S = 0.01
"""How often it looks whether they have left, too."""

_worlds: list[World] = []
_lock = threading.Lock()


def joined(store: Any, rank: int, size: int, timeout_s: float) -> tuple[Any, Any, bool]:
    """Finds the wiring; gives the carrier of this rank, its planner, and whether to go on after links have failed.

    Args:
        store: PyTorch's, for this job alone.
        rank: of this process.
        size: number of ranks.
        timeout_s: until a rank that does not come is given up.

    Raises:
        AntiphonError: no wiring joins the ranks, or a rank did not come.
    """
    from antiphon import _core
    from antiphon.torch.discovery import Settings, connect
    from antiphon.torch.plans import Planner

    settings = Settings.from_environment()
    connected = connect(store, rank, size, timeout_s=timeout_s, settings=settings)
    spin = {} if settings.spin_us is None else {"spin_us": settings.spin_us}
    carrier = _core.Carrier(connected.wires, connected.fabric, rank, **spin)
    planner = Planner(connected.fabric, rank, store, cache=Path("~/.cache/antiphon/plans").expanduser())
    return carrier, planner, settings.resilient


class World:
    """Processes that are joined. The first group of all makes it; groups of some of its ranks use it.

    Attributes:
        ranks: the global ranks in it; a rank's place is its node in the fabric.
    """

    def __init__(self, store: Any, rank: int, ranks: Sequence[int], timeout_s: float) -> None:
        self.ranks = tuple(ranks)
        self.store, self.rank, self.timeout_s = store, rank, timeout_s
        self.open = 0
        self.carrier: Any = None
        self.planner: Any = None
        self.recovery: Recovery | None = None
        if len(self.ranks) > 1:
            self.carrier, self.planner, is_resilient = joined(store, rank, len(self.ranks), timeout_s)
            if is_resilient:
                self.recovery = Recovery(self, store, rank, len(self.ranks), timeout_s)
        self.worker = Worker(self.carrier)
        self.scratch = Scratch()
        # Processes of `multiprocessing` end with the second alone.
        atexit.register(self.close, patience_s=0.0)
        self.last_call = Finalize(None, self.close, (0.0,), exitpriority=10)

    def leave(self) -> None:
        """A group is over; with the last one the world is."""
        with _lock:
            self.open -= 1
            if self.open or self not in _worlds:
                return
            _worlds.remove(self)
        self.close(CLOSING_S)

    def close(self, patience_s: float) -> None:
        """Leaves the other ranks, which may still need this one to pass on their messages: at most so long."""
        atexit.unregister(self.close)
        self.last_call.cancel()
        self.worker.close()
        if self.carrier is None:
            return
        self.planner.close()
        with suppress(Exception):  # the store may be gone, with the rank that had it
            until_s = time.monotonic() + patience_s
            left = self.store.add("left", 1)
            while left < len(self.ranks) and time.monotonic() < until_s and not self._has_ended():
                time.sleep(LOOK_S)
                if self.recovery is not None:
                    self.recovery.help()
                left = self.store.add("left", 0)
            # Where others still look, the store must be there; mostly it is rank 0's.
            gone = self.store.add("gone", 1)
            while self.rank == 0 and gone < left and time.monotonic() < until_s and not self._has_ended():
                time.sleep(LOOK_S)
                gone = self.store.add("gone", 0)
        self.carrier.close()

    def _has_ended(self) -> bool:
        """Whether nobody can go on."""
        return any(self.recovery is None or node is not None for _, node, _ in self.carrier.failures())


def enter(store: Any, rank: int, ranks: Sequence[int], timeout_s: float) -> World:
    """The world of a group: the first that has all its ranks, or a new one.

    Args:
        store: PyTorch's, for this group alone; it may have been used by an earlier group of that name.
        rank: of this process in the group.
        ranks: the global ranks of the group, in its order.
        timeout_s: until a rank that does not come is given up.

    Raises:
        torch.distributed.DistBackendError: no wiring joins the ranks, or a rank did not come.
    """
    with _lock:
        world = next((each for each in _worlds if set(ranks) <= set(each.ranks)), None)
        if world is None:
            try:
                # All ranks of a round come before the first of the next.
                turn = (store.add("antiphon/round", 1) - 1) // len(ranks)
                world = World(dist.PrefixStore(f"antiphon/{turn}", store), rank, ranks, timeout_s)
            except AntiphonError as error:
                raise failure(error, "joining the ranks") from None
            _worlds.append(world)
        world.open += 1
    return world


def identifier(world: World, store: Any, rank: int, timeout_s: float) -> int:
    """A number that a group's ranks agree on and no other group of the world has.

    Args:
        world: of the group.
        store: PyTorch's, for this group alone.
        rank: of this process in the group.
        timeout_s: until rank 0 of the group is given up.
    """
    turn = store.add(f"antiphon/group/{rank}", 1)
    key = f"antiphon/group/name/{turn}"
    if rank == 0:
        store.set(key, str(world.store.add("groups", 1)))
    else:
        store.wait([key], timedelta(seconds=timeout_s))
    return int(store.get(key))
