"""A rank that trains models chained, unchained and with DDP, all on one schedule: ``OUT.json STEPS all|models``.

Rank 0 writes for every case whether the weights of all ways are equal to the bit on all ranks, or why not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.utils.checkpoint import checkpoint

import antiphon.torch
from antiphon._core import Plan
from antiphon.torch.plans.building import schedule_of
from antiphon.torch.plans.chained import in_order
from antiphon.torch.plans.group import GroupPlans

ALGORITHM = "overlapped-tree"
"""Adds up every number in the same order, wherever it lies."""
Optimizer = Callable[[Any], torch.optim.Optimizer]
Make = Callable[[], nn.Module]


class Cnn(nn.Module):  # type: ignore[misc]
    """Convolutions of growing width."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 12, 3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(12 * 9, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x.unflatten(1, (1, 8, 8))).flatten(1))


class Transformer(nn.Module):  # type: ignore[misc]
    """Attention whose output projection is never called, and a head that shares its weights with the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16, bias=False)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.last = nn.Linear(16, 8, bias=False)
        self.last.weight = nn.Parameter(torch.zeros(8, 16))
        self.tied = nn.Linear(8, 16, bias=False)
        self.tied.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.unflatten(1, (8, 8)))
        for block in self.blocks:
            x = block(x)
        return self.tied(self.last(x)).mean(1)[:, :5]


class Checkpointed(Transformer):
    """Computes its first block again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        block = self.blocks[0]
        whole = block.forward
        block.forward = lambda x: checkpoint(whole, x, use_reentrant=False)


class Unchained(nn.Module):  # type: ignore[misc]
    """One all-reduce of all gradients after the backward pass, before the step."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.module = model

    def exchange(self) -> None:
        own = [each for each in self.module.parameters() if each.grad is not None]
        flat = torch.cat([each.grad.flatten() for each in own]) / dist.get_world_size()
        dist.all_reduce(flat)
        for each, part in zip(own, flat.split([each.numel() for each in own]), strict=True):
            each.grad = part.view(each.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)

    def no_sync(self) -> Any:
        return nullcontext()


WAYS: dict[str, Callable[[nn.Module, torch.optim.Optimizer], nn.Module]] = {
    "chained": lambda model, optimizer: antiphon.torch.chain(model, optimizer, algorithm=ALGORITHM),
    "unchained": lambda model, _: Unchained(model),
    "ddp": lambda model, _: DistributedDataParallel(model),
}


def weights(
    way: str,
    make: Make,
    optimizer_of: Optimizer,
    steps: int,
    *,
    clip: float = 0.0,
    parts: int = 1,
    cast: bool = False,
    scale: float = 1.0,
) -> list[torch.Tensor]:
    """What training ends with: some steps with a falling learning rate, each of ``parts`` backward passes."""
    torch.manual_seed(3)
    model = make()
    optimizer = optimizer_of([each for each in model.parameters() if each.requires_grad])
    net = WAYS[way](model, optimizer)
    falling = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, enabled=scale != 1)
    data = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        for part in range(parts):
            x, y = torch.randn(4, 64, generator=data), torch.randint(5, (4,), generator=data)
            with nullcontext() if part == parts - 1 else net.no_sync():
                with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                    loss = nn.functional.cross_entropy(net(x).float(), y)
                scaler.scale(loss).backward()
        if isinstance(net, Unchained):
            net.exchange()
        if clip:
            clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        falling.step()
        optimizer.zero_grad()
    kept = model.state_dict()  # does what is left of the last step
    return [kept[name].clone() for name, _ in model.named_parameters()]


def compiled() -> nn.Module:
    model = Transformer()
    for block in model.blocks:
        block.compile(backend="eager")
    return model


def whole() -> nn.Module:
    model = Cnn()
    model.compile(backend="eager")
    return model


def frozen() -> nn.Module:
    model = Transformer()
    model.blocks[0].linear1.weight.requires_grad_(False)
    return model


def sgd(parameters: Any) -> torch.optim.Optimizer:
    half = len(parameters) // 2
    groups = [{"params": parameters[:half]}, {"params": parameters[half:], "lr": 0.02, "weight_decay": 0.01}]
    return torch.optim.SGD(groups, 0.05, 0.9)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, 0.003)


def equal(steps: int, ways: str, make: Make, optimizer_of: Optimizer, **options: Any) -> bool:
    """Whether all ways end with the same weights, on all ranks, and with others than they began with."""
    found = [weights(way, make, optimizer_of, steps, **options) for way in ways.split()]
    first = [each.clone() for each in found[0]]
    for each in first:
        dist.broadcast(each, 0)
    began = weights("chained", make, optimizer_of, 0)
    alike = all(
        torch.equal(own, other) for other_way in [first, *found] for own, other in zip(found[0], other_way, strict=True)
    )
    return alike and sum(not torch.equal(own, old) for own, old in zip(first, began, strict=True)) >= len(began) - 1


def refused(
    make: Make,
    optimizer_of: Callable[[Any], Any] = sgd,
    use: Callable[[nn.Module, Any], object] | None = None,
    **options: Any,
) -> str:
    """Why a model is not chained, or not trained so."""
    model = make()
    try:
        optimizer = optimizer_of([each for each in model.parameters() if each.requires_grad])
        net = antiphon.torch.chain(model, optimizer, **options)
        if use is not None:
            use(net, optimizer)
    except (ValueError, RuntimeError, antiphon.AntiphonError) as error:
        return str(error)
    return "it was taken"


class Fickle(nn.Module):  # type: ignore[misc]
    """Uses a weight by another way when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.other = nn.Linear(64, 64), nn.Linear(64, 64), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return x @ self.second.weight + self.second.bias if self.other else self.second(x)


def changed(net: nn.Module, optimizer: Any) -> None:
    for other in (False, True):
        net.module.other = other
        net(torch.ones(1, 64)).sum().backward()
        optimizer.step()


def unused(net: nn.Module, optimizer: Any) -> None:
    net(torch.ones(1, 64)).sum().backward()
    net.module.first(torch.ones(1, 64)).sum().backward()


class Turned(nn.Module):  # type: ignore[misc]
    """Uses a weight as it is turned over, then as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64) / 8)
        self.back, self.head = nn.Module(), nn.Linear(64, 5)
        self.first = nn.Module()
        for module in (self.first, self.back):
            module.weight = self.weight
        self.first.forward = lambda x: x @ self.weight.T
        self.back.forward = lambda x: x @ self.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.back(torch.tanh(self.first(x))))


class Own(torch.optim.SGD):  # type: ignore[misc]
    """An optimizer that PyTorch does not know."""


class Counting(torch.optim.SGD):  # type: ignore[misc]
    """Counts its steps in its groups."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1


def fused(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.05, 0.9, fused=True)


def interrupted() -> bool:
    """Whether training goes on as before after a backward pass that failed, and whose step was refused."""
    found = []
    for fails in (False, True):
        torch.manual_seed(5)
        model = Fickle()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        net = antiphon.torch.chain(model, optimizer)
        for number in range(4):
            x = torch.full((2, 64), 1.0 + dist.get_rank() + number)
            if fails and number == 2:
                hook = model.first.weight.register_hook(lambda _: 1 / 0)
                try:
                    net(x).sum().backward()
                    return False
                except ZeroDivisionError:
                    hook.remove()
                try:
                    optimizer.step()
                    return False
                except RuntimeError as error:
                    if "the last backward pass has failed" not in str(error):
                        return False
                optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        net.finish()
        found.append([each.detach().clone() for each in model.parameters()])
    return all(torch.equal(*pair) for pair in zip(*found, strict=True))


def parts_kept() -> bool:
    """Whether the state of a part of the model is that after the step."""
    model = Fickle()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    net = antiphon.torch.chain(model, optimizer)
    net(torch.ones(1, 64)).sum().backward()
    old = model.second.bias.detach().clone()
    optimizer.step()
    return torch.allclose(model.second.state_dict()["bias"], old - 0.1) and len(net.due) == 0


def counted(net: nn.Module, optimizer: Any) -> None:
    net(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    net.finish()


def unfrozen(net: nn.Module, optimizer: Any) -> None:
    net(torch.ones(1, 64)).sum().backward()
    net.module.first.weight.requires_grad_(True)
    net(torch.ones(1, 64)).sum().backward()


def stepped_in_vain(net: nn.Module, optimizer: Any) -> None:
    try:
        unused(net, optimizer)
    except RuntimeError:
        optimizer.step()


def half_frozen() -> nn.Module:
    model = Fickle()
    model.first.weight.requires_grad_(False)
    return model


def grown(net: nn.Module, optimizer: Any) -> None:
    net(torch.ones(1, 64)).sum().backward()
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    optimizer.step()


def evaluated(steps: int) -> bool:
    """Whether a pass between steps sees whole weights, and gradients that one looks at are the sums."""
    torch.manual_seed(dist.get_rank())  # rank 0's parameters count
    model = Fickle()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    net = antiphon.torch.chain(model, optimizer)
    replaced = model.first.bias
    own = torch.full((1, 64), 1.0 + dist.get_rank())
    for number in range(steps):
        net(own).sum().backward()
        if number == 0:
            mean = (dist.get_world_size() + 1) / 2
            if not torch.allclose(model.second.bias.grad, torch.ones(64)):
                return False
            if not torch.allclose(model.first.weight.grad[:, 0], model.second.weight.sum(0) * mean, rtol=1e-4):
                return False
        old, kept = model.second.bias.detach().clone(), replaced.detach().clone()
        replaced.grad = torch.ones_like(replaced) if number % 2 else None
        optimizer.step()
        with torch.no_grad():
            net(own)
        if not torch.allclose(model.second.bias, old - 0.5) or net.due:
            return False
        if not torch.equal(replaced, kept - 0.5 * (number % 2)):
            return False
    return True


def cases(steps: int, which: str) -> Iterator[tuple[str, object]]:
    three = "chained unchained ddp"
    yield "cnn", equal(steps, three, Cnn, sgd)
    yield "transformer", equal(steps, three, Transformer, adam)
    if which == "models":
        return
    yield "clipped", equal(8, three, Transformer, sgd, clip=0.5)
    yield "frozen", equal(8, three, frozen, adam)
    yield "accumulated", equal(8, "chained ddp", Cnn, sgd, parts=3)
    yield "autocast", equal(8, three, Transformer, sgd, cast=True)
    yield "scaled", equal(8, three, Transformer, adam, cast=True, scale=1024.0)
    yield "checkpointed", equal(8, three, Checkpointed, sgd)
    yield "compiled layers", equal(4, "chained unchained", compiled, sgd)
    yield "fused", equal(4, three, Transformer, fused, cast=True, scale=1024.0)
    yield "turned", equal(4, three, Turned, sgd)
    yield "interrupted", interrupted()
    yield "parts", parts_kept()
    yield "evaluated", evaluated(4)
    yield "compiled", refused(lambda: torch.compile(Cnn(), backend="eager"))
    yield "compiled in place", refused(whole)
    yield "wrapped", refused(lambda: DistributedDataParallel(Cnn()))
    yield "sparse", refused(lambda: nn.Embedding(4, 4, sparse=True))
    yield "lbfgs", refused(Cnn, torch.optim.LBFGS)
    yield "lacking", refused(Cnn, lambda parameters: torch.optim.SGD(parameters[1:], 0.1))
    yield "unused", refused(Fickle, use=unused)
    yield "changed", refused(Fickle, use=changed)
    yield "own optimizer", refused(Fickle, lambda parameters: Own(parameters, 0.1))
    by_layer = {"by_layer": True}
    yield "counting", refused(Fickle, lambda parameters: Counting(parameters, 0.1), counted, **by_layer)
    yield "unfrozen", refused(half_frozen, adam, unfrozen)
    yield "in vain", refused(Fickle, use=stepped_in_vain)
    yield "twice", refused(Fickle, use=lambda net, optimizer: antiphon.torch.chain(net.module, optimizer))
    yield "another group", refused(Fickle, use=grown)
    yield "graph", refused(Fickle, use=lambda net, _: net(torch.ones(1, 64)).sum().backward(create_graph=True))
    yield "algorithm", refused(Fickle, algorithm="nonsense")
    yield "nothing", refused(Fickle, lambda _: None)
    yield "inner", refused(Fickle, use=lambda net, _: net.module(torch.ones(1, 64)).sum().backward())


def on_one_schedule() -> None:
    """All-reduces of everybody take the schedule of the chained ones."""
    planned = GroupPlans.plan

    @lru_cache
    def plan_of(self: GroupPlans, bytes: int) -> Plan:
        schedule = schedule_of(self.fabric, ALGORITHM, ("all-reduce", bytes, 0), self._planner.system)
        return Plan(self.fabric, in_order(self.fabric, schedule), self.rank)

    def plan(self: GroupPlans, collective: str, bytes: int, root: int = 0) -> Any:
        return plan_of(self, bytes) if collective == "all-reduce" else planned(self, collective, bytes, root)

    GroupPlans.plan = plan  # type: ignore[method-assign]


def main(out: str, steps: str, which: str) -> None:
    torch.set_num_threads(1)
    on_one_schedule()
    dist.init_process_group("antiphon", timeout=timedelta(seconds=60))
    found = dict(cases(int(steps), which))
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, found)
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(everywhere), "utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
