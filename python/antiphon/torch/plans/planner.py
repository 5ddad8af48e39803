"""The plans of a process: its groups, and the thread that looks for better ones."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from antiphon._core import Fabric, Schedule, System
from antiphon.torch.plans import cache as files
from antiphon.torch.plans import document
from antiphon.torch.plans.building import Built, Key, search
from antiphon.torch.plans.group import GroupPlans
from antiphon.torch.plans.system import carrier_system

log = logging.getLogger("antiphon")

FIRST_S = 10.0
"""A search that takes longer publishes the best so far."""
POLL_S = (0.05, 2.0)
"""Seconds between looks into the store: at first, and at most."""
PATIENCE_S = 600.0
"""Seconds after which a rank waits no longer for a plan, until the group's next agreement asks again."""


class StoreLike(Protocol):
    """What plans need of PyTorch's ``Store``."""

    def get(self, key: str, /) -> bytes: ...
    def set(self, key: str, value: Any, /) -> object: ...
    def check(self, keys: list[str], /) -> bool: ...


class _ClosedError(Exception):
    """Ends a search when the planner closes."""


class _Wanted:
    """A plan that another rank publishes."""

    def __init__(self, now: float) -> None:
        self.pause_s, self.next, self.end = POLL_S[0], now, now + PATIENCE_S


class Planner:
    """Plans for the groups of one process.

    Args:
        fabric: the whole, measured, the same on all ranks.
        rank: of this process in the fabric.
        store: that all ranks share.
        cache: folder of plans found before; None: none.
        system: what carries; None: ``carrier_system``.
        plan_of: makes a plan of a group's fabric, a schedule and a rank; None: ``antiphon._core.Plan``.
    """

    def __init__(
        self,
        fabric: Fabric,
        rank: int,
        store: StoreLike,
        *,
        cache: Path | None,
        system: System | None = None,
        plan_of: Callable[[Fabric, Schedule, int], Any] | None = None,
    ) -> None:
        if plan_of is None:
            from antiphon import _core

            plan_of = _core.Plan  # type: ignore[attr-defined, unused-ignore]
        self.fabric, self.rank, self.store, self.cache = fabric, rank, store, cache
        self.system = system or carrier_system(fabric)
        self.plan_of: Callable[[Fabric, Schedule, int], Any] = plan_of
        self._made: dict[tuple[int, ...], int] = {}
        self._groups: list[tuple[tuple[int, ...], weakref.ref[GroupPlans]]] = []
        self._epoch = 0
        self._change = threading.Condition()
        self._searches: list[tuple[GroupPlans, Key]] = []
        self._wanted: dict[tuple[GroupPlans, Key], _Wanted] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        self._logged: set[str] = set()

    def group(self, ranks: Sequence[int]) -> GroupPlans:
        """Plans of a group of the fabric's ranks, in the group's order. All its ranks make groups in the same order.

        Raises:
            AntiphonError: ``bad-spec`` for ranks that do not exist, and for fewer than two.
        """
        members = tuple(int(rank) for rank in ranks)
        with self._change:
            count = self._made[members] = self._made.get(members, 0) + 1
            name = f"antiphon/plans/{'.'.join(map(str, members))}/{count}"
            made = GroupPlans(self, self.fabric.group(list(members)), members.index(self.rank), name, self._epoch)
            self._groups.append((members, weakref.ref(made)))
        return made

    def renew(self, fabric: Fabric) -> None:
        """Goes on with another fabric on the same ranks, in all groups; all ranks do this at the same calls."""
        with self._change:
            self.fabric, self._epoch = fabric, self._epoch + 1
            self._searches.clear()
            self._wanted.clear()
            groups = [(members, reference()) for members, reference in self._groups]
        for members, group in groups:
            if group is not None:
                group.renew(fabric.group(list(members)), self._epoch)

    def look(self, group: GroupPlans, key: Key) -> None:
        """Looks for a better plan in the background: searches at the group's first rank, waits for it at the others."""
        with self._change:
            if self._closed:
                return
            if group.rank == 0 and key not in group.searched:
                group.searched.add(key)
                self._searches.append((group, key))
            elif group.rank != 0 or key in group.published:
                self._wanted.setdefault((group, key), _Wanted(time.monotonic()))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="antiphon-plans", daemon=True)
                # The interpreter must not end below a search.
                atexit.register(_close, weakref.ref(self))
                self._thread.start()
            self._change.notify()

    def close(self) -> None:
        """Ends the background work, within seconds."""
        with self._change:
            self._closed = True
            self._change.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)

    def _work(self) -> None:
        while True:
            with self._change:
                while not self._closed and not self._searches:
                    now = time.monotonic()
                    soonest = min((wanted.next for wanted in self._wanted.values()), default=None)
                    if soonest is not None and soonest <= now:
                        break
                    self._change.wait(None if soonest is None else soonest - now)
                if self._closed:
                    return
                job = self._searches.pop(0) if self._searches else None
                due = [] if job else [each for each, wanted in self._wanted.items() if wanted.next <= time.monotonic()]
            if job is not None:
                self._guarded(self._search, *job)
            for each in due:
                if not self._guarded(self._fetch, *each):
                    self._drop(*each)

    def _guarded(self, work: Callable[[GroupPlans, Key], None], group: GroupPlans, key: Key) -> bool:
        """Does work; what fails is told once and never reaches the user's program."""
        try:
            work(group, key)
        except _ClosedError:
            return False
        except BaseException as error:  # a panic of the core, too, only costs the better plan
            self._note(f"no better plan for {key[0]} of {key[1]} B: {error}", type(error).__name__)
            return False
        return True

    def _note(self, text: str, kind: str) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            log.warning("%s", text)

    def _watch(self, _: float) -> None:
        if self._closed:
            raise _ClosedError

    def _search(self, group: GroupPlans, key: Key) -> None:
        fabric = group.fabric
        name = files.name_of(fabric, key, self.system)
        stored = self._from_cache(group, key, name)
        if stored is not None:
            self._publish(group, key, stored, fabric)
            return
        began = time.monotonic()
        best: Built | None = None
        told: Built | None = None
        for best in search(fabric, key, self.system, self._watch):
            if told is None and time.monotonic() - began > FIRST_S:
                told = best
                self._publish(group, key, document.write(best, final=False), fabric)
        if best is None:
            return
        data = document.write(best, final=True)
        self._publish(group, key, data, fabric)
        if self.cache is not None:
            try:
                files.write(self.cache, name, data)
            except OSError as error:
                self._note(f"plans are not kept on disk: {error}", "cache")

    def _from_cache(self, group: GroupPlans, key: Key, name: str) -> bytes | None:
        if self.cache is None:
            return None
        try:
            data = files.read(self.cache, name)
            if data is not None:
                # Proves it, so that nothing wrong is published.
                self.plan_of(group.fabric, document.read(data, group.fabric, key).schedule, group.rank)
            return data
        except Exception as error:  # whatever is wrong with the file, it is planned anew
            self._note(f"the plan {self.cache / name} is ignored: {error}", "damaged")
            return None

    def _publish(self, group: GroupPlans, key: Key, data: bytes, fabric: Fabric) -> None:
        if group.fabric is not fabric:  # links have failed meanwhile
            return
        version = group.published.get(key, 0) + 1
        self.store.set(group.name_of(key, version), data)
        group.published[key] = version
        self._take(group, key, version, data)

    def _fetch(self, group: GroupPlans, key: Key) -> None:
        version = group.version(key)
        if version is None:
            self._drop(group, key)
            return
        name = group.name_of(key, version + 1)
        if self.store.check([name]):
            if self._take(group, key, version + 1, bytes(self.store.get(name))):
                self._drop(group, key)
            return
        with self._change:
            wanted = self._wanted.get((group, key))
            if wanted is not None:
                now = time.monotonic()
                wanted.pause_s = min(2 * wanted.pause_s, POLL_S[1])
                wanted.next = now + wanted.pause_s
                if now > wanted.end:
                    del self._wanted[(group, key)]

    def _take(self, group: GroupPlans, key: Key, version: int, data: bytes) -> bool:
        fabric = group.fabric
        found = document.read(data, fabric, key)
        group.arrive(key, version, found, self.plan_of(fabric, found.schedule, group.rank), fabric)
        return found.final

    def _drop(self, group: GroupPlans, key: Key) -> None:
        with self._change:
            self._wanted.pop((group, key), None)


def _close(planner: weakref.ref[Planner]) -> None:
    known = planner()
    if known is not None:
        known.close()
