"""CUDA tensors through pinned memory, on a stream of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

_streams: dict[Any, Any] = {}
_lock = threading.Lock()


class Arrival:
    """A copy from a GPU to this host that may be under way."""

    failure: str | None = None

    def __init__(self, event: Any) -> None:
        self.event = event

    @property
    def done(self) -> bool:
        """Whether the bytes are there."""
        return bool(self.event.query())


class Stage:
    """The copies of one call between a GPU and pinned memory.

    They run on a stream beside those of the user, so that computing goes on. PyTorch's allocator keeps pinned memory
    and uses it again when copies that were recorded on it are over.

    Attributes:
        device: the GPU of all tensors of the call.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self.stream = _stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))  # what computes the tensors comes first
        self.hosts: list[Any] = []

    def empty(self, tensor: Any) -> Any:
        """Pinned memory for a tensor."""
        self._expect(tensor)
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.hosts.append(host)
        return host

    def receive(self, tensor: Any) -> Any:
        """Pinned memory that a tensor is being copied to: it is there at the `arrival`."""
        host = self.empty(tensor)
        with torch.cuda.stream(self.stream):
            host.copy_(tensor.detach(), non_blocking=True)
        tensor.record_stream(self.stream)
        return host

    def arrival(self) -> Arrival:
        """The end of all copies to this host so far."""
        return Arrival(self.stream.record_event())

    def send(self, tensor: Any, host: Any) -> None:
        """Copies pinned memory to a tensor."""
        with torch.cuda.stream(self.stream):
            tensor.detach().copy_(host, non_blocking=True)
        tensor.record_stream(self.stream)

    def finish(self) -> Callable[[], None]:
        """Gives what makes the current stream of the GPU wait for all copies so far."""
        event = self.stream.record_event()
        self.hosts = []
        return lambda: torch.cuda.current_stream(self.device).wait_event(event)

    def _expect(self, tensor: Any) -> None:
        if tensor.device != self.device:
            raise ValueError(f"antiphon: a call with tensors on {self.device} and {tensor.device}; use one device")


def _stream(device: Any) -> Any:
    """The stream of a GPU for copies."""
    with _lock:
        if device not in _streams:
            _streams[device] = torch.cuda.Stream(device)
        return _streams[device]
