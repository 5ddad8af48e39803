"""The plans of a group: which one a call takes follows from the calls and from agreements alone."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from antiphon._core import Fabric
from antiphon.collective.result import REFUSALS
from antiphon.errors import AntiphonError
from antiphon.torch.plans.building import Key, quick_spec, schedule_of
from antiphon.torch.plans.document import Document
from antiphon.torch.plans.system import bound_s, predicted_s

if TYPE_CHECKING:
    from antiphon.torch.plans.planner import Planner

KEPT = 256
"""Plans that a group keeps; the one unused for longest goes."""
CHOICES = 4096
"""Quick choices of algorithms that a group remembers."""
EARLY = (2, 4, 8, 16)
"""Calls of a key at which ranks agree first; then every ``LATER``, after ``MANY`` calls every ``MANY``."""
LATER, MANY = 32, 1024
NEAR = 2.0
"""A size takes the algorithm of another one at most this many times larger or smaller."""
NEAR_BUILD_S = 0.01
"""Only algorithms that are built in this time are taken for other sizes."""
SEARCHED_LATER = 8
"""Call at which a better plan is looked for, where a near size has one."""


class _Entry:
    """A key in use; ``adopted`` is the document that all ranks took, ``arrived`` the newest that this rank has."""

    def __init__(self) -> None:
        self.plan: Any = None
        self.spec, self.near, self.calls = "", False, 0
        self.adopted: Document | None = None
        self.arrived: tuple[int, Document, Any] | None = None


class GroupPlans:
    """Plans of a group at one of its ranks.

    Attributes:
        fabric: of the group.
        rank: in the group.
        agree: the minimum over the group's ranks of each number, called at the same calls on all of them; None: quick
            plans are all there is.
    """

    def __init__(self, planner: Planner, fabric: Fabric, rank: int, name: str, epoch: int = 0) -> None:
        self.fabric, self.rank = fabric, rank
        self.agree: Callable[[list[int]], list[int]] | None = None
        self.searched: set[Key] = set()
        self.published: dict[Key, int] = {}
        self._planner, self._name, self._epoch = planner, name, epoch
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._choices: OrderedDict[Key, str] = OrderedDict()
        # Links fail at any time, and whoever drives the carrier then renews this, whatever other threads do.
        self._lock = threading.RLock()

    def plan(self, collective: str, bytes: int, root: int = 0) -> Any:
        """The plan of the next call of a collective, the same on all ranks that call the same.

        Args:
            collective: such as ``all-reduce``.
            bytes: of the full buffer, at least 1.
            root: rank in the group, for broadcast and reduce.

        Raises:
            AntiphonError: ``unknown-name``, ``bad-size`` or ``bad-spec``; ``not-applicable`` if ranks are not joined.
        """
        key = (collective, bytes, root)
        with self._lock:
            entry = self._entry(key)
            self._entries.move_to_end(key)
        entry.calls += 1
        if entry.calls == (SEARCHED_LATER if entry.near else 1):
            self._planner.look(self, key)
        due = entry.calls in EARLY or entry.calls % (LATER if entry.calls < MANY else MANY) == 0
        # Also where the best is known: ranks that hear of a failure at different calls would else differ in this.
        if due and self.agree is not None:
            self._settle(key, entry, self.agree)
        return self._entry(key).plan  # a failure in the agreement takes away what was planned

    def again(self, collective: str, bytes: int, root: int = 0) -> Any:
        """A quick plan, not counted as a call: the same on all ranks, whatever each has called so far."""
        key = (collective, bytes, root)
        with self._lock:
            return self._built(self._quick(key), key)

    def facts(self, collective: str, bytes: int, root: int = 0) -> dict[str, Any]:
        """The plan in use: ``algorithm``, ``predicted_s``, and ``bound_s``, less than which no plan takes."""
        key = (collective, bytes, root)
        schedule = schedule_of(self.fabric, self._entry(key).spec, key, self._planner.system)
        system = self._planner.system
        return {
            "algorithm": schedule.algorithm,
            "predicted_s": predicted_s(self.fabric, schedule, system),
            "bound_s": bound_s(self.fabric, collective, bytes, root, system=system),
        }

    def renew(self, fabric: Fabric, epoch: int) -> None:
        """Goes on with the links that are left: with quick plans, until all ranks have better ones."""
        with self._lock:
            self.fabric, self._epoch = fabric, epoch
            self.searched, self.published = set(), {}
            self._choices.clear()
            for entry in self._entries.values():
                entry.plan, entry.adopted, entry.arrived = None, None, None

    def name_of(self, key: Key, version: int) -> str:
        """Where the store has a version of a plan."""
        return f"{self._name}@{self._epoch}/{key[0]}/{key[1]}/{key[2]}/{version}"

    def version(self, key: Key) -> int | None:
        """The newest version of a plan that is here, 0 for none; None if the key is no longer in use."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.arrived[0] if entry.arrived else 0

    def arrive(self, key: Key, version: int, found: Document, plan: Any, fabric: Fabric) -> None:
        """A better plan is here, for a fabric. It is used when all ranks have it."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and self.fabric is fabric:
                entry.arrived = (version, found, plan)

    def _settle(self, key: Key, entry: _Entry, agree: Callable[[list[int]], list[int]]) -> None:
        """All take the plan that has arrived if it is the same one everywhere."""
        # Later arrivals wait for the next agreement.
        with self._lock:
            arrived, fabric = entry.arrived, self.fabric
        hash, mark = (0, 0) if arrived is None else (int(arrived[2].hash), 2 * arrived[0] + arrived[1].final)
        least = agree([hash, -hash, mark, -mark])
        with self._lock:
            if self.fabric is not fabric:  # links failed meanwhile
                return
            if arrived is not None and least == [hash, -hash, mark, -mark]:
                entry.plan, entry.adopted, entry.spec = arrived[2], arrived[1], arrived[1].spec
        if arrived is None and entry.calls >= SEARCHED_LATER:
            self._planner.look(self, key)

    def _entry(self, key: Key) -> _Entry:
        """A key in use, with a plan."""
        with self._lock:
            entry = self._entries.get(key) or _Entry()
            if entry.plan is None:
                self._fill(key, entry)
            self._entries.setdefault(key, entry)
            if len(self._entries) > KEPT:
                self._entries.popitem(last=False)
        return entry

    def _fill(self, key: Key, entry: _Entry) -> None:
        near = self._nearest(key)
        if near is not None:
            try:
                entry.plan, entry.spec, entry.near = self._built(near, key), near, True
                return
            except AntiphonError as error:
                if error.code not in REFUSALS:
                    raise
        spec = self._quick(key)
        entry.plan, entry.spec, entry.near = self._built(spec, key), spec, False

    def _quick(self, key: Key) -> str:
        """The quick choice for a key."""
        spec = self._choices.get(key)
        if spec is None:
            spec = self._choices[key] = quick_spec(self.fabric, key, self._planner.system)
            if len(self._choices) > CHOICES:
                self._choices.popitem(last=False)
        return spec

    def _built(self, spec: str, key: Key) -> Any:
        schedule = schedule_of(self.fabric, spec, key, self._planner.system)
        return self._planner.plan_of(self.fabric, schedule, self.rank)

    def _nearest(self, key: Key) -> str | None:
        """The algorithm that all ranks took for the nearest size."""
        collective, bytes, root = key
        found: list[tuple[float, int, str]] = []
        for (other, size, its_root), entry in self._entries.items():
            document = entry.adopted
            if document is None or (other, its_root) != (collective, root) or document.build_s > NEAR_BUILD_S:
                continue
            distance = abs(math.log(size / bytes))
            if distance <= math.log(NEAR):
                found.append((distance, size, document.spec))
        return min(found)[2] if found else None
