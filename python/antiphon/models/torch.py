"""Layers of PyTorch models: one forward pass, counted by PyTorch's own counter of operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.models.table import Layer, LayerTable, samples, table_of


def from_torch(model: Any, *inputs: Any, batch: int | None = None, name: str | None = None) -> LayerTable:
    """The layers of a PyTorch model, their counts per sample. Runs the model once on ``inputs``, in evaluation mode.

    A layer is a module with weights of its own, or with products outside of its submodules, such as those of attention
    scores. Convolutions and matrix products of every kind are counted (``torch.utils.flop_counter``), a multiply-add
    as one; weights that several modules share count once.

    Args:
        model: a ``torch.nn.Module``.
        inputs: what to call it with. To count a large model without computing, make it and them on the device ``meta``.
        batch: samples in ``inputs``; needed where the first dimension of the first tensor is not 1.
        name: name of the table; default: that of the model's class.

    Raises:
        AntiphonError: ``not-applicable`` without PyTorch, or if the model does not run on ``inputs``; ``bad-spec``,
            ``bad-size`` for the batch.
    """
    try:
        import torch
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:
        message = "reading PyTorch models needs torch; pip install antiphon[torch]"
        raise AntiphonError(message, "not-applicable") from None
    if not isinstance(model, torch.nn.Module):
        raise AntiphonError(f"not a torch.nn.Module: {type(model).__name__}", "bad-file")
    name = name or type(model).__name__
    first = next(_tensors(inputs), None)
    batch = samples(batch, first.shape[0] if first is not None and first.dim() else 1)
    with ExitStack() as stack:
        # Fused kernels would hide products from the counter.
        stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        counter = _Counter(model, stack.enter_context(FlopCounterMode(display=False)))
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
            stack.enter_context(module.register_forward_pre_hook(counter.start, with_kwargs=True))
            stack.enter_context(module.register_forward_hook(counter.stop, with_kwargs=True))
        model.eval()
        try:
            model(*inputs)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise AntiphonError(f"{name}: does not run on the given input: {reason}", "not-applicable") from error
    return table_of(name, counter.layers(), batch)


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in nested containers."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)


def _elements(value: Any) -> int:
    return sum(tensor.numel() for tensor in _tensors(value))


def _recurrent_macs(module: Any, output: Any) -> int:
    """Multiply-adds of RNN, GRU and LSTM, whose kernels hide them: every matrix once for each step; 0 for others."""
    import torch

    if not isinstance(module, torch.nn.RNNBase):
        return 0
    states = next(_tensors(output))
    matrices = sum(parameter.numel() for parameter in module.parameters() if parameter.dim() == 2)
    return int(states.numel() // states.shape[-1] * matrices)


class _Counter:
    """Hooks that give every module what is counted while it runs, and none of its submodules does."""

    def __init__(self, model: Any, flops: Any) -> None:
        self.model = model
        self.flops = flops
        self.names = {module: path or type(model).__name__ for path, module in model.named_modules()}
        self.called: dict[Any, Layer] = {}
        # Of every running module: operations when it started, and of its submodules since then.
        self.running: list[list[int]] = []

    def start(self, module: Any, inputs: Any, keywords: Any) -> None:
        """Before a module runs."""
        layer = self.called.setdefault(module, Layer(self.names[module]))
        layer.input_elements += _elements((inputs, keywords))
        self.running.append([self.flops.get_total_flops(), 0])

    def stop(self, module: Any, _inputs: Any, _keywords: Any, output: Any) -> None:
        """After a module ran."""
        before, inside = self.running.pop()
        flops = self.flops.get_total_flops() - before
        self.called[module].macs += _recurrent_macs(module, output) or (flops - inside) // 2
        self.called[module].output_elements += _elements(output)
        if self.running:
            self.running[-1][1] += flops

    def layers(self) -> list[Layer]:
        """The modules that ran. Weights of one that did not run by itself belong to the next around it that did."""
        modules = dict(self.model.named_modules())
        for path, parameter in self.model.named_parameters():
            while path and modules.get(path) not in self.called:
                path = path.rpartition(".")[0]
            self.called[modules[path]].params += parameter.numel()
        return list(self.called.values())
