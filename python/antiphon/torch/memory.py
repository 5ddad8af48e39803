"""From tensors to the memory that the carrier works on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.torch.staging import Arrival, Stage

Bytes: TypeAlias = NDArray[np.uint8]
Pieces: TypeAlias = list[tuple[int, Bytes]]
"""A rank's memory: the first byte of each piece and its bytes, sorted. Where two have the same first byte, the second
begins as the first, which is only read."""

SHARD_STEP_BYTES = 4
"""Shards of a collective start at multiples of this (`antiphon.shard`)."""
KEPT = 4
"""How many scratch buffers of a size are kept."""
SMALLEST_BYTES = 4096
"""Of a scratch buffer."""


def array(tensor: Any) -> Bytes:
    """The bytes of a contiguous CPU tensor, not copied."""
    flat = tensor if tensor.dim() == 1 else tensor.reshape(-1)
    if flat.requires_grad:
        flat = flat.detach()
    found: Bytes = flat.view(torch.uint8).numpy()
    return found


def plain(tensor: Any) -> bool:
    """Whether the numbers of a tensor lie in the memory of this host, in order and as they are."""
    return bool(
        tensor.is_cpu
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not (tensor.dtype.is_complex and tensor.is_conj())
    )


def joined(arrays: Iterable[Bytes]) -> Pieces:
    """Pieces that follow each other; empty ones are left out."""
    pieces: Pieces = []
    first = 0
    for each in arrays:
        if each.nbytes:
            pieces.append((first, each))
            first += each.nbytes
    return pieces


def over(originals: Iterable[Bytes], memory: Bytes) -> Pieces:
    """Memory that begins as other bytes, cut in any way, which are only read."""
    pieces: Pieces = []
    for first, each in joined(originals):
        original = each[:]
        original.flags.writeable = False
        pieces += [(first, original), (first, memory[first : first + each.nbytes])]
    return pieces


def copy(targets: Sequence[Bytes], sources: Sequence[Bytes]) -> None:
    """Copies bytes, cut in any way, to as many bytes cut in another."""
    if len(targets) == len(sources):
        for target, source in zip(targets, sources, strict=True):
            target[:] = source
    elif len(targets) == 1:
        first = 0
        for source in sources:
            targets[0][first : first + source.nbytes] = source
            first += source.nbytes
    else:
        first = 0
        for target in targets:
            target[:] = sources[0][first : first + target.nbytes]
            first += target.nbytes


class Scratch:
    """Buffers that are used again: getting new ones costs more than filling them."""

    def __init__(self) -> None:
        self.kept: dict[int, list[Bytes]] = {}
        self.lock = threading.Lock()

    def take(self, size: int) -> Bytes:
        """A buffer of at least so many bytes; what is in it is left of its last use."""
        kind = max(SMALLEST_BYTES, 1 << (size - 1).bit_length())
        with self.lock:
            kept = self.kept.get(kind)
            if kept:
                return kept.pop()
        return np.empty(kind, dtype=np.uint8)

    def give(self, buffer: Bytes) -> None:
        """Takes a buffer back."""
        with self.lock:
            kept = self.kept.setdefault(buffer.nbytes, [])
            if len(kept) < KEPT:
                kept.append(buffer)


class Call:
    """The memory of one call: its tensors as bytes on this host, and what is copied back at the end."""

    def __init__(self, scratch: Scratch) -> None:
        self.pool = scratch
        self.taken: list[Bytes] = []
        self.back: list[tuple[Any, Any]] = []  # (where results belong, where they are)
        self.stage: Stage | None = None
        self.source_rank = -1
        self.after: list[Callable[[], None]] = []

    def source(self, tensor: Any) -> Bytes:
        """The bytes of a tensor that is read."""
        return array(tensor if plain(tensor) else self._copied(tensor))

    def target(self, tensor: Any, *, filled: bool) -> Bytes:
        """The bytes of a tensor that is written; its old numbers are there only if ``filled``."""
        if plain(tensor):
            return array(tensor)
        host = self._copied(tensor) if filled else self._empty(tensor)
        self.back.append((tensor, host))
        return array(host)

    def scratch(self, size: int) -> Bytes:
        """Bytes for this call alone."""
        buffer = self.pool.take(size)
        self.taken.append(buffer)
        return buffer[:size]

    def arrived(self) -> list[Callable[[], Arrival]]:
        """What to wait for until the bytes of `source` and `target` are there."""
        if self.stage is None:
            return []
        arrival = self.stage.arrival()
        return [lambda: arrival]

    def finish(self) -> Callable[[], None] | None:
        """Copies results to where they belong and gives the buffers back; only after a call that went well.

        Returns:
            What makes a CUDA stream wait for the results, if there are any on a GPU.
        """
        for each in self.after:
            each()
        for tensor, host in self.back:
            if tensor.is_cuda:
                assert self.stage is not None
                self.stage.send(tensor, host)
            else:
                tensor.detach().copy_(host)
        for buffer in self.taken:
            self.pool.give(buffer)
        return None if self.stage is None else self.stage.finish()

    def _copied(self, tensor: Any) -> Any:
        if tensor.is_cuda:
            return self._staged(tensor).receive(tensor)
        return tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)

    def _empty(self, tensor: Any) -> Any:
        if tensor.is_cuda:
            return self._staged(tensor).empty(tensor)
        return torch.empty(tensor.shape, dtype=tensor.dtype)

    def _staged(self, tensor: Any) -> Stage:
        if self.stage is None:
            self.stage = Stage(tensor.device)
        return self.stage
