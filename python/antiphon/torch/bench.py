"""``torchrun ... -m antiphon.torch.bench``: what collectives of a job take, in the columns of the NCCL tests."""

from __future__ import annotations

import io
import json
import os
import sys
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
from antiphon.cli.declared import command
from antiphon.cli.group import main
from antiphon.cli.output import tell
from antiphon.collective.tuning import size_range
from antiphon.errors import AntiphonError
from antiphon.view.document import Document, dim, document, table_of

ELEMENTS = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce")
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


@command(name="antiphon.torch.bench")
def bench(
    *,
    collective: str = "all-reduce",
    bytes: str = "8KiB..64MiB",
    backend: str = "antiphon",
    element: str = "float32",
    iterations: int = 5,
    warmup: int = 5,
    output: str,
) -> None:
    """Time collectives between the ranks of a job, and check every element of their results.

    Examples:
        torchrun --nproc-per-node 2 -m antiphon.torch.bench --bytes 8KiB..1MiB
        torchrun ... -m antiphon.torch.bench --collective all-to-all --backend gloo --json

    Args:
        collective: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or reduce; several with commas.
        bytes: Full buffer sizes, such as 8KiB..64MiB (in powers of two) or 1MiB,16MiB.
        backend: antiphon, or another that PyTorch has for CPU tensors, such as gloo.
        element: Type of the numbers: float32, float64, float16, bfloat16, int8, uint8, int32 or int64.
        iterations: Timed runs; what counts is the median.
        warmup: Runs before them, which are only checked.
    """
    collectives = collective.split(",")
    named = [("collective", each, COLLECTIVES) for each in collectives] + [("element", element, ELEMENTS)]
    for name, value, known in named:
        if value not in known:
            raise AntiphonError(f"{name} is '{value:.40}'; known: {', '.join(known)}", "unknown-name")
    for name, count, least in (("iterations", iterations, 1), ("warmup", warmup, 0)):
        if not least <= count <= 100_000:
            raise AntiphonError(f"{name} is {count}; give {least} to 100,000", "bad-size")
    sizes = size_range(bytes)
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(os.environ):
        example = "torchrun --nproc-per-node 2 -m antiphon.torch.bench"
        raise AntiphonError(f"no job: start it on every host with torchrun, such as {example}", "bad-spec")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    _check(collectives, sizes, backend, element, ranks)
    sys.stderr = sys.__stderr__  # what goes wrong from here on may do so at any rank
    try:
        rows = _measured(collectives, sizes, backend, element, iterations, warmup)
    except AntiphonError as error:
        raise AntiphonError(f"rank {rank}: {error.message}", error.code) from error
    if rank == 0:
        head = {"backend": backend, "ranks": ranks, "element": element, "iterations": iterations, "warmup": warmup}
        tell("bench", head | {"runs": rows}, output, partial(_document, head, rows), rows="runs")
    if any(row["wrong"] for row in rows):
        raise AntiphonError("a result is not what the collective defines", "not-proven")


def _document(head: dict[str, Any], rows: list[dict[str, Any]]) -> Document:
    """A row for each size."""
    table = table_of(
        rows,
        "Collective {collective} | Size: {size} | Count: {count} | Time: {time_ns} | algbw: {algbw_gb_per_s}"
        " | busbw: {bus_bandwidth_gb_per_s} | Wrong: {wrong} | Bound: {bound} | Of bound: {share} | Algorithm {name}",
        f"{head['backend']}, {head['ranks']} ranks, {head['element']}",
        lambda row: "bold red" if row["wrong"] else "",
        () if any(row["bound_us"] for row in rows) else ("Bound:", "Of bound:", "Algorithm"),
        size=lambda row: format_bytes(row["bytes"]),
        count=lambda row: f"{row['elements']:,}",
        time_ns=lambda row: row["time_us"] * 1e3,
        algbw_gb_per_s=lambda row: row["bytes"] / row["time_us"] / 1e3,
        bound=lambda row: f"{row['bound_us']:,.0f} us" if row["bound_us"] else "",
        share=lambda row: f"{row['bound_us'] / row['time_us']:.0%}" if row["bound_us"] else "",
        name=lambda row: row["algorithm"] or "",
    )
    line = f"Median of {head['iterations']:,} runs, from the first rank's call to the last rank's return"
    return document(table, dim(f"{line}; every element was compared with the definition"))


def _check(collectives: Sequence[str], sizes: Sequence[int], backend: str, element: str, ranks: int) -> None:
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
        parts = _parts(collective, ranks)
        if size % (itemsize * parts):
            what = f"{itemsize}-byte elements" if parts == 1 else f"{ranks} shards of {itemsize}-byte elements"
            raise AntiphonError(f"{size:,} bytes: give a multiple of {itemsize * parts}, for {what}", "bad-size")


def _parts(collective: str, ranks: int) -> int:
    """Of a buffer."""
    return 1 if collective in ("all-reduce", "broadcast", "reduce") else ranks


def _measured(
    collectives: Sequence[str], sizes: Sequence[int], backend: str, element: str, iterations: int, warmup: int
) -> list[dict[str, Any]]:
    """A row for each size; at all ranks the same."""
    import torch
    import torch.distributed as dist

    store, rank, ranks = next(dist.rendezvous("env://", timeout=timedelta(seconds=TIMEOUT_S)))
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=TIMEOUT_S))
    store = dist.PrefixStore("antiphon-bench", store)
    try:
        rows: list[dict[str, Any]] = []
        for collective, size in product(collectives, sizes):
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
        store.add("done", 1)
        while rank == 0 and store.add("done", 0) < ranks:  # the store is of one of the processes
            time.sleep(0.01)
    finally:
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

    parts = _parts(collective, ranks)
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
        return Case(partial(_set, one, given), call, partial(_differing, one, expected))
    if collective == "broadcast":
        given = data(rank) if rank == 0 else torch.zeros_like(one)
        return Case(partial(_set, one, given), partial(dist.broadcast, one, 0), partial(_differing, one, data(0)))
    if collective == "all-gather":
        expected = torch.cat([data(of) for of in range(ranks)])
        one.copy_(data(rank))
        call = partial(dist.all_gather_into_tensor, all_, one)
        return Case(all_.zero_, call, partial(_differing, all_, expected))
    given = torch.cat([data(rank, part) for part in range(ranks)])
    if collective == "reduce-scatter":
        call = partial(dist.reduce_scatter_tensor, one, all_)
        return Case(partial(_set, all_, given), call, partial(_differing, one, total(rank)))
    result = torch.empty_like(all_)
    expected = torch.cat([data(of, rank) for of in range(ranks)])
    all_.copy_(given)
    return Case(result.zero_, partial(dist.all_to_all_single, result, all_), partial(_differing, result, expected))


def _set(tensor: Any, to: Any) -> None:
    tensor.copy_(to)


def _differing(found: Any, expected: Any) -> int:
    return 0 if expected is None else int((found != expected).sum())


if __name__ == "__main__":
    if os.environ.get("RANK", "0") != "0":
        sys.stderr = io.StringIO()  # what is wrong with the options, rank 0 says
    main(["antiphon.torch.bench", *sys.argv[1:]], prog_name="torchrun ... -m")
