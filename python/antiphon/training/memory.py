"""The memory that a rank needs to train."""

from __future__ import annotations

import numpy as np

from antiphon._core import format_bytes
from antiphon.errors import AntiphonError
from antiphon.results import Table
from antiphon.results.record import Record, record, says


@record
class Memory(Record):
    """What a rank holds while it trains; activations and the optimizer's state are not counted.

    >>> import antiphon
    >>> memory = antiphon.train("alexnet", "mesh:4x4", "ring").memory
    >>> memory.bytes == 2 * memory.weights_bytes + memory.buffer_bytes
    True
    """

    weights_bytes: int = says("weights, as large as their gradients.")
    gradients_bytes: int = says("gradients of a rank's weights.")
    buffer_bytes: int | None = says(
        "the most of exchanges at a time that is on its way to the rank that holds most, or waits there, to be added;"
        " None where exchanges are not simulated message by message.",
        "buffer_bytes bytes",
    )

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.weights_bytes + self.gradients_bytes + (self.buffer_bytes or 0)

    def __str__(self) -> str:
        parts = [(self.weights_bytes, "weights"), (self.gradients_bytes, "gradients")]
        if self.buffer_bytes is not None:
            parts.append((self.buffer_bytes, "receive buffers"))
        return f"{_mega(self.bytes)} ({', '.join(f'{name} {_mega(size)}' for size, name in parts)})"


def memory_of(layers: Table, buffer_bytes: int | None) -> Memory:
    """That of a training, by its table of layers."""
    gradients = int(layers["gradient_bytes"].sum())
    return Memory(gradients, gradients, buffer_bytes)


def check_memory(what: str, layers: Table, needed: Memory, limit: int) -> None:
    """Refuses what does not fit in ``limit`` bytes.

    Raises:
        AntiphonError: ``too-large``, naming the first layer that does not fit and the largest.
    """
    if needed.bytes <= limit:
        return
    sizes = 2 * layers["gradient_bytes"]
    names = layers["layer"]
    first, largest = int((np.cumsum(sizes) > limit).argmax()), int(sizes.argmax())
    over = "all layers fit, but not what comes to be added"
    if sizes.sum() > limit:
        over = f"layer {names[first]} is the first that does not fit, {names[largest]} the largest with"
        over += f" {_mega(int(sizes[largest]))}"
    least = "at least " if needed.buffer_bytes is None else ""
    raise AntiphonError(
        f"{what}: a rank needs {least}{needed}, and has {_mega(limit)}; {over}; use more memory, fewer gradient_bytes,"
        " or model_parallel",
        "too-large",
    )


def _mega(size: int) -> str:
    return f"{size / 1e6:,.3f} MB" if size >= 1e5 else format_bytes(size)
