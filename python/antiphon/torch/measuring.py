"""What collectives of a job take: calls on data whose results are known, between barriers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from antiphon._core import bus_factor, format_bytes
from antiphon.errors import AntiphonError

BACK_TO_BACK_BYTES, MOST_BACK_TO_BACK = 1 << 20, 64
"""A run of less is several calls, each with data of its own, so that how calls begin counts little."""
STEPS = 5
"""Different numbers: sums of so few are exact in every type."""
TIMEOUT_S = 120


@dataclass(frozen=True)
class Case:
    """One call at one rank.

    Attributes:
        reset: writes the rank's own data.
        call: does the collective.
        wrong: how many elements of the result are not as the collective defines.
    """

    reset: Callable[[], None]
    call: Callable[[], object]
    wrong: Callable[[], int]


def check(collectives: Sequence[str], sizes: Sequence[int], backend: str, element: str, ranks: int) -> None:
    """Refuses what no rank could do.

    Raises:
        AntiphonError: ``missing-extra`` without PyTorch; ``unknown-name`` of the backend; ``bad-size`` where a shard is
            no whole number of elements.
    """
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        raise AntiphonError("this needs PyTorch: pip install 'antiphon[torch]'", "missing-extra") from None
    if backend not in dist.Backend.backend_list:
        known = ", ".join(each for each in dist.Backend.backend_list if each != "undefined")
        raise AntiphonError(f"backend is '{backend:.40}'; known: {known}", "unknown-name")
    itemsize = getattr(torch, element).itemsize
    for collective, size in product(collectives, sizes):
        parts = parts_of(collective, ranks)
        if size % (itemsize * parts):
            what = f"{itemsize}-byte elements" if parts == 1 else f"{ranks} shards of {itemsize}-byte elements"
            raise AntiphonError(f"{size:,} bytes: give a multiple of {itemsize * parts}, for {what}", "bad-size")


def joined() -> tuple[Any, int, int]:
    """Of the job that this process is a rank of: the store, its rank, and how many there are."""
    import torch.distributed as dist

    store, rank, ranks = next(dist.rendezvous("env://", timeout=timedelta(seconds=TIMEOUT_S)))
    return store, rank, ranks


def leave(store: Any, rank: int, ranks: int) -> None:
    """The store is in the process of rank 0, which waits here until no rank needs it any more."""
    store.add("done", 1)
    while rank == 0 and store.add("done", 0) < ranks:
        time.sleep(0.01)


def parts_of(collective: str, ranks: int) -> int:
    """Of a buffer."""
    return 1 if collective in ("all-reduce", "broadcast", "reduce") else ranks


def measured(
    store: Any,
    rank: int,
    ranks: int,
    collectives: Sequence[str],
    sizes: Sequence[int],
    *,
    backend: str = "antiphon",
    element: str = "float32",
    iterations: int,
    warmup: int,
    progress: Callable[[str, float], None] = lambda _name, _share: None,
) -> list[dict[str, Any]]:
    """A row for each collective and size; at all ranks the same. All ranks call it, in no process group.

    Args:
        store: in which all ranks meet.
        rank: of this process.
        ranks: how many.
        collectives: names.
        sizes: of full buffers, in bytes.
        backend: of the process group that it makes.
        element: type of the numbers.
        iterations: timed runs.
        warmup: runs before them, which are only checked.
        progress: is told what is done, as a share of all.

    Raises:
        AntiphonError: ``stalled`` where the process group fails.
    """
    import torch
    import torch.distributed as dist

    store = dist.PrefixStore("antiphon-bench", store)
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=TIMEOUT_S))
        rows: list[dict[str, Any]] = []
        cases_of = list(product(collectives, sizes))
        for done, (collective, size) in enumerate(cases_of):
            progress(f"{collective} {format_bytes(size)}", done / len(cases_of))
            several = max(1, min(BACK_TO_BACK_BYTES // max(1, size), MOST_BACK_TO_BACK))
            cases = [_case(collective, size, getattr(torch, element), rank, ranks, each) for each in range(several)]
            spans, wrong = [], 0
            for _ in range(warmup + iterations):
                for case in cases:
                    case.reset()
                dist.barrier()
                start = time.monotonic_ns()
                for case in cases:
                    case.call()
                spans.append((start, time.monotonic_ns()))
                wrong += sum(case.wrong() for case in cases)
            key = f"{len(rows)}"
            store.set(f"{key}-{rank}", json.dumps([_clock(), spans[warmup:], wrong]))
            found = [json.loads(store.get(f"{key}-{each}")) for each in range(ranks)]
            took = _times_ns([each[0] for each in found], [each[1] for each in found])
            time_us = median(took) / several / 1e3
            facts = _facts(collective, size)
            rows.append(
                {
                    "collective": collective,
                    "bytes": size,
                    "elements": size // getattr(torch, element).itemsize,
                    "time_us": time_us,
                    "least_us": min(took) / several / 1e3,
                    "most_us": max(took) / several / 1e3,
                    "bus_bandwidth_gb_per_s": size / time_us / 1e3 * bus_factor(collective, ranks),
                    "bound_us": facts["bound_s"] and facts["bound_s"] * 1e6,
                    "predicted_us": facts["predicted_s"] and facts["predicted_s"] * 1e6,
                    "algorithm": facts["algorithm"],
                    "wrong": sum(each[2] for each in found),
                }
            )
        leave(store, rank, ranks)
    except dist.DistBackendError as error:
        raise AntiphonError(str(error), "stalled") from None
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return rows


def _facts(collective: str, size: int) -> dict[str, Any]:
    """How the process group does a collective, if it is Antiphon's: ``algorithm``, ``predicted_s`` and ``bound_s``."""
    import torch.distributed as dist

    plans = getattr(getattr(dist.group.WORLD, "planned", None), "plans", None)
    nothing: dict[str, Any] = dict.fromkeys(("algorithm", "predicted_s", "bound_s"))
    return nothing if plans is None else nothing | plans.facts(collective, size)


def _clock() -> str:
    """Equal at ranks that have the same clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _times_ns(clocks: Sequence[str], spans: Sequence[Sequence[Sequence[int]]]) -> list[int]:
    """Of each run: from the first call to the last return; with several clocks what the slowest rank took.

    >>> _times_ns(["a", "a"], [[(10, 20)], [(12, 25)]]), _times_ns(["a", "b"], [[(10, 20)], [(12, 25)]])
    ([15], [13])
    """
    runs = zip(*spans, strict=True)
    if len({*clocks, ""}) == 2:
        return [max(end for _, end in run) - min(start for start, _ in run) for run in runs]
    return [max(end - start for start, end in run) for run in runs]


def _case(collective: str, size: int, element: Any, rank: int, ranks: int, number: int) -> Case:
    """A call with data of its own."""
    import torch
    import torch.distributed as dist

    parts = parts_of(collective, ranks)
    count = size // element.itemsize // parts
    places = torch.arange(count, dtype=torch.int64) * 40_503 // 256

    def data(of: int, part: int = 0) -> Any:
        """What a rank has, for a part."""
        return ((places + 7 * of + 3 * part + number) % STEPS).to(element)

    def total(part: int = 0) -> Any:
        return torch.stack([data(of, part).to(torch.int64) for of in range(ranks)]).sum(0).to(element)

    one, all_ = torch.empty(count, dtype=element), torch.empty(count * parts, dtype=element)
    if collective in ("all-reduce", "reduce"):
        given = data(rank)
        expected = total() if collective == "all-reduce" or rank == 0 else None
        call = partial(dist.all_reduce, one) if collective == "all-reduce" else partial(dist.reduce, one, 0)
        return Case(partial(_set, one, given), call, partial(differing, one, expected))
    if collective == "broadcast":
        given = data(rank) if rank == 0 else torch.zeros_like(one)
        return Case(partial(_set, one, given), partial(dist.broadcast, one, 0), partial(differing, one, data(0)))
    if collective == "all-gather":
        expected = torch.cat([data(of) for of in range(ranks)])
        one.copy_(data(rank))
        call = partial(dist.all_gather_into_tensor, all_, one)
        return Case(all_.zero_, call, partial(differing, all_, expected))
    given = torch.cat([data(rank, part) for part in range(ranks)])
    if collective == "reduce-scatter":
        call = partial(dist.reduce_scatter_tensor, one, all_)
        return Case(partial(_set, all_, given), call, partial(differing, one, total(rank)))
    result = torch.empty_like(all_)
    expected = torch.cat([data(of, rank) for of in range(ranks)])
    all_.copy_(given)
    return Case(result.zero_, partial(dist.all_to_all_single, result, all_), partial(differing, result, expected))


def _set(tensor: Any, to: Any) -> None:
    tensor.copy_(to)


def differing(found: Any, expected: Any) -> int:
    return 0 if expected is None else int((found != expected).sum())
