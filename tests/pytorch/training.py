"""A rank that trains a small transformer in several ways: ``training.py BACKEND OUT.json [STEPS [KIND,... [PAUSE]]]``.

Its text is what Python's own help says of the language. Rank 0 writes the mean losses of all ranks at each step; it
waits at the step PAUSE, such as ``ddp 20``, until there is a file OUT.go. The kind ``rounds`` trains nothing: it looks
at every number that all kinds of collectives give, several at once and in several groups.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

STEPS = 200
LETTERS, WIDTH, HEADS, LAYERS = 128, 64, 4, 2
BATCH, LENGTH = 4, 32
RATE, MOMENTUM = 0.05, 0.9
BUCKET_MB = 0.1
"""So small that a step has several."""

TOLD = 10
"""Every so many steps rank 0 says where it is."""
SIZES = (1, 300, 5_000, 20_000)
pause, go = "", Path()


class Block(nn.Module):  # type: ignore[misc]
    """A layer of the transformer; of heads it has as many as its projections give."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        heads = [
            each(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for each in (self.query, self.key, self.value)
        ]
        x = x + self.out(scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.between(x))))


class Transformer(nn.Module):  # type: ignore[misc]
    """Predicts the next letter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.letters(x) + self.places(torch.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batches(seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Letters and those that follow them, at random places of the text."""
    text = torch.frombuffer(bytearray("\n".join(topics.values()).encode("ascii", "replace")), dtype=torch.uint8)
    places = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(text) - LENGTH - 1, (BATCH,), generator=places)
        rows = torch.stack([text[start : start + LENGTH + 1] for start in starts.tolist()]).long()
        yield rows[:, :-1], rows[:, 1:]


def tell(kind: str, number: int) -> None:
    """Rank 0 says where it is."""
    if dist.get_rank() == 0 and number % TOLD == 0:
        print(kind, number, flush=True)
    while dist.get_rank() == 0 and pause == f"{kind} {number}" and not go.exists():
        time.sleep(0.01)


def steps(model: nn.Module, optimizer: Any, data: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> Iterator[float]:
    """Trains; the losses, of all ranks."""
    for number, (given, wanted) in enumerate(data):
        tell("step", number)
        loss = cross_entropy(model(given).flatten(0, 1), wanted.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().double()
        dist.all_reduce(mean)
        yield float(mean) / dist.get_world_size()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), RATE, MOMENTUM)


def sharded() -> nn.Module:
    """The model, its layers and itself in shards on all ranks."""
    model = Transformer()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def taken(count: int, found: Iterator[float]) -> list[float]:
    return [next(found) for _ in range(count)]


def ddp(count: int) -> list[float]:
    """Each rank has the whole model and data of its own."""
    model = DistributedDataParallel(Transformer(), bucket_cap_mb=BUCKET_MB)
    return taken(count, steps(model, optimizer_of(model), batches(dist.get_rank())))


def fsdp(count: int) -> list[float]:
    """Each rank has a shard of every parameter, and data of its own."""
    model = sharded()
    return taken(count, steps(model, optimizer_of(model), batches(dist.get_rank())))


def tensor_parallel(count: int) -> list[float]:
    """Each rank has some heads and some of the hidden layer; all have the same data."""
    model = Transformer()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    columns = dict.fromkeys(("query", "key", "value", "up"), ColwiseParallel())
    for block in model.blocks:
        parallelize_module(block, mesh, columns | dict.fromkeys(("out", "down"), RowwiseParallel()))
    return taken(count, steps(model, optimizer_of(model), batches(0)))


def restored(count: int) -> list[float]:
    """As ``fsdp``, but in the middle all is written to a checkpoint, and read into a new model."""
    model, data = sharded(), batches(dist.get_rank())
    optimizer = optimizer_of(model)
    losses = taken(count // 2, steps(model, optimizer, data))
    names: list[Any] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    with torch.no_grad():
        kept = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.save(kept, checkpoint_id=names[0])
        model = sharded()
        for parameter in model.parameters():
            parameter.zero_()
        optimizer = optimizer_of(model)
        empty = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.load(empty, checkpoint_id=names[0])
        set_state_dict(model, optimizer, model_state_dict=empty["model"], optim_state_dict=empty["optimizer"])
    return losses + taken(count - len(losses), steps(model, optimizer, data))


def one_of_each(group: dist.ProcessGroup, number: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Collectives: what came, and what should have."""
    size, rank = group.size(), group.rank()
    length = SIZES[number % len(SIZES)]
    shard = slice(rank * length, (rank + 1) * length)
    given = [(torch.arange(size * length) * 7 + 13 * each + number) % 1000 for each in range(size)]
    own, total = given[rank], torch.stack(given).sum(0)
    summed, moved, taken = [own.clone(), own.clone()], [torch.empty_like(own) for _ in range(2)], own[:length].clone()
    works = [dist.all_reduce(each, group=group, async_op=True) for each in summed]
    works.append(dist.reduce_scatter_tensor(taken, own, group=group, async_op=True))
    works.append(dist.all_to_all_single(moved[0], own, group=group, async_op=True))
    works.append(dist.all_gather_into_tensor(moved[1], own[:length], group=group, async_op=True))
    for work in works:
        work.wait()
    root = number % size
    dist.broadcast(own := given[rank].clone(), dist.get_global_rank(group, root), group=group)
    yield from ((each, total) for each in summed)
    yield taken, total[shard]
    yield moved[0], torch.cat([each[shard] for each in given])
    yield moved[1], torch.cat([each[:length] for each in given])
    yield own, given[root]


def rounds(count: int) -> list[float]:
    """Looks at collectives of all ranks and of pairs; there are no losses."""
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    for number in range(count):
        tell("round", number)
        for group in [dist.group.WORLD, *([pairs[dist.get_rank() % 2]] if number % 5 == 0 else [])]:
            for at, (found, wanted) in enumerate(one_of_each(group, number)):
                if not torch.equal(found, wanted):
                    raise ValueError(f"number {at} of round {number} in a group of {group.size()} is wrong")
    return []


KINDS: dict[str, Callable[[int], list[float]]] = {
    "ddp": ddp,
    "fsdp": fsdp,
    "tensor-parallel": tensor_parallel,
    "restored": restored,
    "rounds": rounds,
}


def main(backend: str, out: str, count: str = str(STEPS), kinds: str = ",".join(KINDS), wait: str = "") -> None:
    """Trains in all ways, one after the other."""
    global pause, go
    pause, go = wait, Path(f"{out}.go")
    if backend == "antiphon":
        import antiphon.torch  # noqa: F401
    torch.set_num_threads(1)
    dist.init_process_group(backend, timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    print(f"rank {rank} joined", flush=True)
    try:
        losses = {kind: KINDS[kind](int(count)) for kind in kinds.split(",")}
        if rank == 0:
            Path(out).write_text(json.dumps(losses), "utf-8")
        dist.barrier()
    except (RuntimeError, ValueError) as error:
        os.write(1, f"rank {rank} failed at {time.time():.3f}: {' '.join(str(error).split())}\n".encode())
        os._exit(1)  # what waits in other threads may wait for ever
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
