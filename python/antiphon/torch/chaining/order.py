"""Which module uses which parameter, in the order of a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

READ = ("T", "mT", "H", "mH", "data", "real", "imag")
"""Attributes of a tensor that are its numbers."""


class Recorder(TorchFunctionMode):  # type: ignore[misc]  # torch is not there when types are checked
    """Looks at every operation of a forward pass.

    Parameters of a module that is never called, such as the output projection of ``MultiheadAttention``, are used by
    the module around it.

    Attributes:
        users: for each parameter that was used, in the order of first uses, the modules that used it.
    """

    def __init__(self, model: Any, parameters: Iterable[Any]) -> None:
        super().__init__()
        self.model = model
        self.known = {id(each): each for each in parameters}
        self.users: dict[Any, list[Any]] = {}
        self.running: list[Any] = []
        self.hooks: list[RemovableHandle] = []

    def __enter__(self) -> Any:
        for module in self.model.modules():
            self.hooks.append(module.register_forward_pre_hook(self._begin, prepend=True))
            self.hooks.append(module.register_forward_hook(self._end, always_call=True))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for hook in self.hooks:
            hook.remove()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # To read a shape or a type is no use.
        attribute = getattr(function, "__self__", None) if getattr(function, "__name__", "") == "__get__" else None
        is_fact = attribute is not None and attribute.__name__ not in READ
        if self.running and not is_fact:
            for tensor in _tensors([args, kwargs]):
                if id(tensor) in self.known:
                    users = self.users.setdefault(tensor, [])
                    if self.running[-1] not in users:
                        users.append(self.running[-1])
        return function(*args, **kwargs)

    def _begin(self, module: Any, _inputs: Any) -> None:
        self.running.append(module)

    def _end(self, module: Any, _inputs: Any, _output: Any) -> None:
        while self.running and self.running.pop() is not module:
            pass


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def layers_of(users: dict[Any, list[Any]]) -> list[list[Any]]:
    """Parameters in the order of their first uses, those together that a module uses first."""
    layers: list[list[Any]] = []
    last = None
    for parameter, modules in users.items():
        if modules[0] is not last:
            layers.append([])
        layers[-1].append(parameter)
        last = modules[0]
    return layers
