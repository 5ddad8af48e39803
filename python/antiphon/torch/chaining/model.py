"""A model whose gradients are exchanged behind its next forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.nn.parameter import is_lazy

from antiphon.torch.chaining.gradients import Gradients, fingerprint
from antiphon.torch.chaining.order import Recorder, layers_of
from antiphon.torch.chaining.pending import Pending
from antiphon.torch.chaining.steps import LayerSteps
from antiphon.torch.elements import FLOATS
from antiphon.torch.plans.building import SMALL_BYTES
from antiphon.torch.plans.chained import chained_schedule

ALL_TOGETHER = ("LBFGS",)
"""Optimizers whose step of one parameter depends on all others."""
WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "OptimizedModule", "DataParallel")
"""Modules that exchange gradients themselves, or hide the calls of others."""


class Chained(torch.nn.Module):  # type: ignore[misc]  # torch is not there when types are checked
    """See ``antiphon.torch.chain``.

    Attributes:
        module: the model.
        algorithm: what exchanges gradients, from the second forward pass on.
    """

    def __init__(self, model: Any, optimizer: Any, algorithm: str | None, group: Any, by_layer: bool) -> None:
        super().__init__()
        if not isinstance(model, torch.nn.Module) or not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError("antiphon: chain: give a torch.nn.Module and a torch.optim.Optimizer")
        self.module, self.optimizer, self.asked = model, optimizer, algorithm
        self.group = dist.group.WORLD if group is None else group
        self.names = {each: name for name, each in model.named_parameters() if each.requires_grad}
        self._check(by_layer)
        with torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                self._from_first(tensor.detach())
        self.ranks = self.group.size()
        self.layers: list[list[Any]] = []
        self.layer_of: dict[Any, int] = {}
        self.gradients: list[Gradients] = []
        self.views: dict[Any, Any] = {}
        self.synced = True
        # The backward pass that has begun and not ended, the parameters that it has reached, and why it was in vain.
        self.backward_pass: int | None = None
        self.arrived: set[Any] = set()
        self.in_vain = ""
        # Gradients are under way, or there and not yet used; the layers whose step is still to be done.
        self.exchanging, self.due = False, set[int]()
        # What the step is to use, where somebody has looked at gradients before it.
        self.looked_at: dict[Any, Any] = {}
        self.steps = LayerSteps(optimizer)

        def step(_: Any, closure: Any = None) -> None:
            self._step(closure)

        # Schedulers of learning rates look for a method of the optimizer, and at whether they know it.
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        optimizer.step = MethodType(step, optimizer)
        optimizer.is_chained = True
        for parameter in self.names:
            parameter.register_hook(self._before_of(parameter))
            parameter.register_post_accumulate_grad_hook(self._after)
        for module in model.modules():
            module.register_state_dict_pre_hook(lambda *_: self.finish())
            module._register_load_state_dict_pre_hook(lambda *_: self.finish())
        optimizer.register_state_dict_pre_hook(lambda *_: self.finish())
        optimizer.register_load_state_dict_pre_hook(lambda *_: self.finish())

    @property
    def algorithm(self) -> str | None:
        """What exchanges the largest part of the gradients."""
        return max(self.gradients, key=lambda each: each.memory.nbytes).algorithm if self.gradients else self.asked

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's forward pass, in which every layer waits for its own gradients of the last step."""
        if self.layers or not torch.is_grad_enabled():
            return self.module(*args, **kwargs)
        with Recorder(self.module, self.names) as recorder:
            found = self.module(*args, **kwargs)
        self._lay(recorder.users)
        return found

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward passes add to the gradients of this rank and exchange nothing, as that of
        ``DistributedDataParallel``."""
        before, self.synced = self.synced, False
        try:
            yield
        finally:
            self.synced = before

    def finish(self) -> None:
        """Does what is left of the last step, for whoever looks at parameters between steps. Saving and loading a
        ``state_dict`` does it."""
        for layer in sorted(self.due):
            self._do(layer)

    def _from_first(self, tensor: Any) -> None:
        """Gives a tensor the numbers that it has at the first rank."""
        whole = tensor.contiguous()
        dist.broadcast(whole, dist.get_global_rank(self.group, 0), group=self.group)
        if whole.data_ptr() != tensor.data_ptr() and not torch.equal(whole, tensor):
            tensor.copy_(whole)

    def _check(self, by_layer: bool) -> None:
        """Refuses what cannot be chained, by name, before anything is changed."""
        if not hasattr(self.group, "planned"):
            raise ValueError("antiphon: chain needs a group of the backend antiphon: init_process_group('antiphon')")
        if hasattr(self.optimizer, "is_chained"):
            raise ValueError("antiphon: chain: the optimizer is chained already; make a new one")
        for module in [self.module, *self.module.modules()]:
            kind = type(module).__name__
            if kind in WRAPPERS:
                hint = (
                    "compile its layers, each by layer.compile()"
                    if kind == "OptimizedModule"
                    else "give the model in it"
                )
                raise ValueError(f"antiphon: chain cannot look into {kind}; {hint}")
            if isinstance(module, torch.jit.ScriptModule):
                raise ValueError(f"antiphon: chain cannot look into {kind}, which is a script; give the model it is of")
        if self.module._compiled_call_impl is not None:
            raise ValueError("antiphon: chain cannot look into a model compiled as a whole; compile its layers")
        kind = type(self.optimizer).__name__
        if kind in ALL_TOGETHER:
            raise ValueError(f"antiphon: chain: {kind} needs all gradients at once; use DDP")
        if not (type(self.optimizer).__module__.startswith("torch.optim") or by_layer):
            raise ValueError(
                f"antiphon: chain: does {kind} step each parameter by its own gradient alone? If so, say by_layer=True"
            )
        if not self.names:
            raise ValueError("antiphon: chain: no parameter of the model needs a gradient")
        stepped = {each for group in self.optimizer.param_groups for each in group["params"] if each.requires_grad}
        for parameter, name in self.names.items():
            if parameter not in stepped:
                raise ValueError(f"antiphon: chain: the optimizer lacks parameter {name}; give it, or freeze it first")
            if parameter.is_meta or is_lazy(parameter):
                raise ValueError(f"antiphon: chain: parameter {name} has no numbers yet; run the model once before")
            if parameter.dtype not in FLOATS or parameter.layout != torch.strided:
                raise ValueError(f"antiphon: chain: parameter {name} is of {parameter.dtype}, {parameter.layout}")
            if hasattr(parameter, "device_mesh"):
                raise ValueError(f"antiphon: chain: parameter {name} is sharded (DTensor); use FSDP's own exchange")
        if len(stepped) > len(self.names):
            raise ValueError("antiphon: chain: the optimizer has parameters that the model has not; give them another")
        for name, module in self.module.named_modules():
            if getattr(module, "sparse", False):
                name = name or type(module).__name__
                raise ValueError(f"antiphon: chain: {name} gives sparse gradients; make it with sparse=False")
        planned = self.group.planned
        if self.asked is not None and planned.plans is not None:
            chained_schedule(planned.plans.fabric, SMALL_BYTES, planned.world.planner.system, self.asked)

    def _lay(self, users: dict[Any, list[Any]]) -> None:
        """Lays gradients out in the order of a forward pass, the same on all ranks."""
        layers = layers_of(users)
        order = [self.names[each] for layer in layers for each in layer]
        if self.group.planned.plans is not None:
            mark = fingerprint(order)
            least = self.group.planned.agree([mark, -mark])
            if least != [mark, -mark]:
                raise ValueError("antiphon: chain: ranks use their parameters in different orders; give all one model")
        self.layers = layers
        self.layer_of = {each: number for number, layer in enumerate(layers) for each in layer}
        for dtype in dict.fromkeys(each.dtype for each in self.layer_of):
            alike = [[each for each in layer if each.dtype == dtype] for layer in layers]
            self.gradients.append(Gradients(self.group, dtype, alike, self.asked))
            self.views.update(self.gradients[-1].views)
        waits: dict[Any, set[int]] = {}
        for parameter, modules in users.items():
            for module in modules:
                waits.setdefault(module, set()).add(self.layer_of[parameter])
        for module, needed in waits.items():
            module.register_forward_pre_hook(self._waiting(module, sorted(needed)), prepend=True)

    def _waiting(self, module: Any, layers: list[int]) -> Callable[..., None]:
        """What a module does before its forward pass."""

        def wait(*_: Any) -> None:
            for layer in layers:
                if layer in self.due:
                    self._do(layer)

        if module._compiled_call_impl is not None:
            import torch.compiler

            found: Callable[..., None] = torch.compiler.disable(wait)  # what it does is no part of the layer
            return found
        return wait

    def _do(self, layer: int) -> None:
        """The step of a layer, as soon as its gradients are there."""
        for each in self.gradients:
            each.wait(layer)
        own = self.layers[layer]
        self.due.discard(layer)
        found = ((each, self.looked_at[each] if each in self.looked_at else self._gradient(each)) for each in own)
        self.steps.do(found, own[0].device.type)

    def _gradient(self, parameter: Any) -> Any:
        view = self.views[parameter]
        return view if parameter.is_cpu else view.to(parameter.device)

    def _step(self, closure: Any = None) -> None:
        """In place of the optimizer's: every layer's part of it is done when the layer is used next."""
        if closure is not None:
            raise ValueError("antiphon: chain: a step with a closure needs all gradients at once; use DDP")
        if self.backward_pass is not None:
            self.in_vain = (
                "antiphon: chain: the last backward pass has failed; call zero_grad() and go on without this step"
            )
        if self.in_vain:
            raise RuntimeError(self.in_vain)
        self.optimizer._opt_called = True  # what schedulers ask for
        if not self.exchanging:
            self.finish()
            self.steps.whole()
            return
        if getattr(self.optimizer, "found_inf", None) is not None:
            # GradScaler has a fused optimizer unscale gradients, or leave the step out.
            self._arrive()
            self.exchanging = False
            self.steps.whole()
            for parameter in self.layer_of:
                parameter.grad = None
            return
        self.exchanging, self.due = False, set(range(len(self.layers)))
        self.steps.ask()
        self.looked_at = {each: each.grad for each in self.layer_of if not isinstance(each.grad, Pending)}
        self.looked_at |= {each: None for each in self.layer_of if not each.requires_grad}
        for parameter in self.layer_of:
            parameter.grad = None

    def _arrive(self, parameter: Any = None) -> Any:
        """Waits for all sums, which then are ordinary gradients; gives that of a parameter."""
        for each in self.gradients:
            each.wait()
        for each in self.layer_of:
            if isinstance(each.grad, Pending):
                each.grad = self._gradient(each)
        return None if parameter is None else parameter.grad

    # What backward passes do.

    def _before_of(self, parameter: Any) -> Callable[[Any], None]:
        """Before a gradient is added to that of a parameter."""

        def before(_gradient: Any) -> None:
            # One that failed has not said that it ended.
            if self.backward_pass != (number := torch._C._current_graph_task_id()):
                self.backward_pass = number
                self.arrived.clear()
                Variable._execution_engine.queue_callback(self._ended)
                if self.exchanging:
                    self._arrive()
            if self.due and self.layer_of.get(parameter) in self.due:
                raise RuntimeError(
                    f"antiphon: chain: parameter {self.names[parameter]} was used before its step: no module that "
                    "used it in the first forward pass was called; call finish() before such a pass"
                )

        return before

    def _after(self, parameter: Any) -> None:
        """A gradient is there: it goes, divided by the ranks, to its place."""
        if not self.synced or parameter not in self.views:
            return
        if parameter.grad.requires_grad:
            raise RuntimeError("antiphon: chain: backward(create_graph=True) is not offered; use DDP")
        if not self.arrived:
            for each in self.gradients:
                each.wait()  # others may still be sent sums of the last step
        self.arrived.add(parameter)
        view = self.views[parameter]
        if parameter.grad.is_cpu:
            torch.mul(parameter.grad, 1 / self.ranks, out=view)
        else:
            view.copy_(parameter.grad / self.ranks)

    def _ended(self) -> None:
        """A backward pass has ended."""
        self.backward_pass = None
        arrived, self.arrived = self.arrived, set()
        if not self.synced or (self.layers and not arrived):
            return  # gradients that were only asked for
        try:
            self._check_pass(arrived)
        except RuntimeError as error:
            self.in_vain = str(error)
            raise
        self.in_vain = ""
        self.finish()  # of frozen parts
        self.exchanging = True
        for each in self.gradients:
            each.begin()
        for parameter in self.layer_of:
            if parameter.requires_grad:
                parameter.grad = Pending.of(parameter, partial(self._arrive, parameter))

    def _check_pass(self, arrived: set[Any]) -> None:
        """Refuses a backward pass whose gradients are not those of the first forward pass."""
        if not self.layers:
            raise RuntimeError("antiphon: chain: call the chained model for the forward pass, not the model in it")
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad and parameter not in self.names:
                raise RuntimeError(
                    f"antiphon: chain: parameter {name} was frozen when it was chained; chain it after that"
                )
        missing = [name for each, name in self.names.items() if each.requires_grad and each not in arrived]
        if missing:
            raise RuntimeError(
                f"antiphon: chain: {len(missing)} parameters got no gradient, first {missing[0]}; freeze what a step "
                "does not use, and checkpoint with use_reentrant=False"
            )
