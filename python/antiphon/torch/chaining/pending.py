"""What stands for a gradient whose sum is not there yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Pending(torch.Tensor):  # type: ignore[misc]  # torch is not there when types are checked
    """A gradient under way. Whatever is done with it waits for the whole exchange first, and is done to the sum:
    clipping by the norm of all gradients, unscaling, looking at it."""

    arrive: Callable[[], Any]

    @staticmethod
    def of(parameter: Any, arrive: Callable[[], Any]) -> Any:
        """Stands for the gradient of a parameter, which ``arrive`` gives; its own numbers nobody sees."""
        made = torch.Tensor._make_subclass(Pending, parameter.detach())
        made.arrive = arrive
        return made

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return function(*_arrived(args), **_arrived(kwargs or {}))


def _arrived(value: Any) -> Any:
    if isinstance(value, Pending):
        with torch._C.DisableTorchFunctionSubclass():
            return value.arrive()
    if isinstance(value, dict):
        return {key: _arrived(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_arrived(each) for each in value])
    return value
