"""An optimizer's step, done layer by layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class LayerSteps:
    """The step of an optimizer, for some parameters at a time, with the learning rates of the moment it was asked for.

    Attributes:
        whole: the optimizer's own step.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer, self.whole = optimizer, optimizer.step
        self.settings: list[dict[str, Any]] = []
        self.groups = len(optimizer.param_groups)

    def ask(self) -> None:
        """Keeps the settings of all groups of parameters: a scheduler may change them before all layers are done."""
        self.settings = [
            {name: _kept(value) for name, value in group.items() if name != "params"}
            for group in self.optimizer.param_groups
        ]
        if len(self.settings) != self.groups:
            raise RuntimeError(
                "antiphon: chain: the optimizer has got another group of parameters; chain it after that"
            )

    def do(self, gradients: Iterable[tuple[Any, Any]], device: str) -> None:
        """Steps parameters that are given with gradients, which they have no longer than that."""
        some = {each: gradient for each, gradient in gradients if gradient is not None}
        groups = self.optimizer.param_groups
        now = [{name: value for name, value in group.items() if name != "params"} for group in groups]
        members = [group["params"] for group in groups]
        try:
            for group, settings in zip(groups, self.settings, strict=True):
                group.update(settings)
                group["params"] = [each for each in group["params"] if each in some]
            for parameter, gradient in some.items():
                parameter.grad = gradient
            self.optimizer.param_groups = [group for group in groups if group["params"]]
            before = [_settings(group) for group in self.optimizer.param_groups]
            # A forward pass may run without gradients or in fewer bits, which is not meant for this.
            with torch.inference_mode(False), torch.autocast(device, enabled=False):
                self.whole()
            if [_settings(group) for group in self.optimizer.param_groups] != before:
                kind = type(self.optimizer).__name__
                raise RuntimeError(
                    f"antiphon: chain: {kind} keeps a state of all layers in its groups of parameters; use DDP"
                )
        finally:
            self.optimizer.param_groups = groups
            for group, settings, own in zip(groups, now, members, strict=True):
                group.update(settings)
                group["params"] = own
            for parameter in some:
                parameter.grad = None


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """Numbers and words of a group of parameters."""
    return {name: value for name, value in group.items() if isinstance(value, (int, float, str, tuple))}


def _kept(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
