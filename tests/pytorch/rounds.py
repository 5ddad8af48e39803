"""A rank that calls all kinds of collectives, several at once and in several groups, and looks at every number: ``rounds.py COUNT``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist

import antiphon.torch  # noqa: F401

SIZES = (1, 300, 5_000, 70_000, 400_000)
TOLD = 10
"""Every so many rounds rank 0 says where it is."""


def wholes(rank: int, number: int, size: int) -> torch.Tensor:
    return (torch.arange(size) * 7 + 13 * rank + number) % 1000


def one_of_each(group: dist.ProcessGroup, number: int) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Calls, with what came and what should have."""
    size, rank = group.size(), group.rank()
    length = SIZES[number % len(SIZES)]
    given = [wholes(each, number, size * length) for each in range(size)]
    total = torch.stack(given).sum(0)
    summed = [given[rank].clone() for _ in range(3)]
    works = [dist.all_reduce(each, group=group, async_op=True) for each in summed]
    taken = torch.empty(length, dtype=torch.int64)
    works.append(dist.reduce_scatter_tensor(taken, given[rank], group=group, async_op=True))
    exchanged = torch.empty_like(given[rank])
    works.append(dist.all_to_all_single(exchanged, given[rank], group=group, async_op=True))
    gathered = torch.empty(size * length, dtype=torch.int64)
    works.append(dist.all_gather_into_tensor(gathered, given[rank][:length], group=group, async_op=True))
    for work in works:
        work.wait()
    root = number % size
    told = given[root].clone() if rank == root else torch.empty_like(given[rank])
    dist.broadcast(told, group=group, group_src=root)
    yield from (("all-reduce", each, total) for each in summed)
    yield "reduce-scatter", taken, total[rank * length : (rank + 1) * length]
    yield "all-to-all", exchanged, torch.cat([each[rank * length : (rank + 1) * length] for each in given])
    yield "all-gather", gathered, torch.cat([each[:length] for each in given])
    yield "broadcast", told, given[root]


def main(count: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("antiphon", timeout=timedelta(seconds=40))
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    try:
        for number in range(int(count)):
            if rank == 0 and number % TOLD == 0:
                print("step", number, flush=True)
            for group in [dist.group.WORLD, *([pairs[rank % 2]] if number % 7 == 0 else [])]:
                for name, found, wanted in one_of_each(group, number):
                    if not torch.equal(found, wanted):
                        raise ValueError(f"{name} of round {number} in a group of {group.size()} is wrong")
        dist.barrier()
    except (RuntimeError, ValueError) as error:
        os.write(1, f"rank {rank} failed at {time.time():.3f}: {' '.join(str(error).split())}\n".encode())
        os._exit(1)  # what waits in other threads may wait for ever
    print(f"rank {rank} is done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
