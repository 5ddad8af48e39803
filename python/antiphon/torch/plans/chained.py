"""Schedules behind which a forward pass can run: their chunks are complete in order, soon, and sums are always the
same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from antiphon._core import Fabric, Schedule, System, simulate
from antiphon.collective.result import REFUSALS
from antiphon.errors import AntiphonError
from antiphon.execution.layers import in_turn
from antiphon.torch.plans.building import COMPARED_BYTES, schedule_of

TRIED = ("overlapped-tree", "forest", "combs", "multitree", "ring-bi")


def chained_schedule(fabric: Fabric, bytes: int, system: System, algorithm: str | None = None) -> Schedule:
    """An all-reduce of all ranks, the same on all ranks that ask for the same.

    Args:
        fabric: of the ranks.
        bytes: of the buffer.
        system: what carries.
        algorithm: a specification; None: the one of ``TRIED`` that completes the buffer's bytes soonest, on average.

    Raises:
        AntiphonError: as ``build``; ``not-applicable`` where none applies, or sums cannot be put in order.
    """
    if algorithm is None:
        compared = min(bytes, COMPARED_BYTES)
        found = [(wait_ns, name) for name in TRIED if (wait_ns := _tried(fabric, name, compared, system)) is not None]
        if not found:
            raise AntiphonError(f"no algorithm adds up gradients on {fabric.name}", "not-applicable")
        algorithm = min(found, key=lambda each: each[0])[1]
    return in_order(fabric, schedule_of(fabric, algorithm, ("all-reduce", bytes, 0), system))


def mean_wait_ns(fabric: Fabric, schedule: Schedule, system: System) -> float:
    """How long a byte waits, on average, until all bytes dealt out up to it are complete at all ranks."""
    chunks = simulate(fabric, schedule, system, "packet").chunks
    lanes, order = schedule.lanes, in_turn(schedule, chunks["lane"], chunks["chunk"])
    weights = (lanes["bytes"] / lanes["chunks"])[chunks["lane"]][order]
    return float(np.average(np.maximum.accumulate(chunks["complete_ns"][order]), weights=weights))


def in_order(fabric: Fabric, schedule: Schedule) -> Schedule:
    """The schedule in which every rank adds what comes of a chunk in one order, so that floating-point sums are the
    same in every run.

    Raises:
        AntiphonError: ``not-proven`` where that cannot be.
    """
    document = json.loads(schedule.to_json())
    last: dict[tuple[int, int], int] = {}
    transfers: list[dict[str, Any]] = document["transfers"]
    for number in sorted(range(len(transfers)), key=lambda at: (transfers[at].get("phase", 0), transfers[at]["step"])):
        transfer = transfers[number]
        if transfer["op"] != "reduce":
            continue
        waits = {last[key] for lane in _lanes(transfer) if (key := (transfer["to"], lane)) in last}
        if waits:
            transfer["apply_after"] = [*(transfer.get("apply_after") or []), *sorted(waits)]
        last.update(dict.fromkeys(((transfer["to"], lane) for lane in _lanes(transfer)), number))
    ordered = Schedule.from_json(json.dumps(document), fabric)
    ordered.verify(fabric)
    return ordered


def _lanes(transfer: dict[str, Any]) -> list[int]:
    """Of a payload: numbers, and pairs of a first one and how many."""
    found: list[int] = []
    for each in transfer["payload"]:
        found += [each] if isinstance(each, int) else range(each[0], each[0] + each[1])
    return found


def _tried(fabric: Fabric, name: str, bytes: int, system: System) -> float | None:
    try:
        return mean_wait_ns(fabric, schedule_of(fabric, name, ("all-reduce", bytes, 0), system), system)
    except AntiphonError as error:
        if error.code not in REFUSALS:
            raise
        return None
