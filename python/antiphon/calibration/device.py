"""What is measured, and what a device does for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from antiphon._core import format_bytes
from antiphon.calibration.sampling import Lane
from antiphon.errors import AntiphonError
from antiphon.results.record import Record, record, says

DEVICES = ("cpu", "cuda")
COMMUNICATION = ("read", "write", "copy", "reduce")
"""What collectives do to memory; ``reduce``, ``a += b``, is what an AllReduce does with data that it receives."""
GEMM, LOOKUP = "gemm", "lookup"
COMPUTATION = (GEMM, LOOKUP)
"""What they run beside: one is bound by arithmetic, the other by memory."""
LOOKUP_ROWS = 10_000
"""Rows that a lookup takes from a table at a time: the batch of the ACE paper's Fig. 4."""
ROW_FLOATS = 64
"""Numbers of such a row, of 4 bytes."""
FLOAT_BYTES = 4
LEAST_BYTES = 1 << 16
"""The smallest buffers."""
LONG_S = 1.0
"""A shorter GEMM is never refused."""
LEAST_PRODUCTS = 27
"""Times of a GEMM that three rounds take: one alone, and four beside something, in twice the time."""
USABLE = 0.8
"""Share of the free memory that may be taken."""


@record
class Machine(Record):
    """What was measured on.

    >>> import antiphon
    >>> antiphon.calibrate(seconds=0.05, size="256KiB", gemm=32).machine.device
    'cpu'
    """

    device: str = says("``cpu`` or ``cuda``.")
    name: str = says("name of the processor or GPU.")
    cores: int = says("cores of the CPU that this process may use, or SMs of the GPU.")
    cache_bytes: int | None = says("all last-level caches together; None if unknown.")
    clock_ghz: float | None = says("clock of the GPU's SMs, measured; None for a CPU.")
    gemm_cores: float | None = says("cores that the GEMM by itself keeps busy, by its processor time; None for a GPU.")
    platform: str = says("operating system.")
    python: str = says("version of Python.")
    library: str = says("what does the GEMM, and its version.")
    numpy: str = says("version of NumPy.")


class Device(Protocol):
    """Memory and processors that are measured, with buffers in them."""

    @property
    def machine(self) -> Machine:
        """What it is."""
        ...

    @property
    def size(self) -> int:
        """Bytes of a buffer."""
        ...

    @property
    def core_gb_per_s(self) -> float | None:
        """What one core reads by itself where that is not measured, else None."""
        ...

    def lanes(self, work: str) -> Sequence[Lane]:
        """The lanes of one of the works above on all cores."""
        ...

    def core(self) -> Sequence[Lane]:
        """One core reads, by itself; nothing where ``core_gb_per_s`` is known."""
        ...

    def rates(self, sides: Sequence[Sequence[Lane]], seconds: float) -> list[float]:
        """The rates of works at the same time."""
        ...


def buffer_bytes(size: int | None, cache: int | None, gemm: int, free: int | None, where: str) -> int:
    """Bytes of a buffer, whole rows: ``size``, by default four times the caches, but at most an eighth of what is free.

    Raises:
        AntiphonError: ``bad-size`` for buffers that are too small, ``too-large`` if two of them, their indices and the
            matrices of the GEMM do not fit.
    """
    row = ROW_FLOATS * FLOAT_BYTES
    if size is None:
        size = max(4 * cache if cache else 1 << 28, 1 << 26)
        size = size if free is None else max(min(size, free // 8), LEAST_BYTES)
    if size < LEAST_BYTES:
        message = f"buffers of {format_bytes(size)} are too small to measure; give at least {format_bytes(LEAST_BYTES)}"
        raise AntiphonError(message, "bad-size")
    size -= size % row
    need = 2 * size + 8 * (size // row) + 3 * FLOAT_BYTES * gemm**2
    if free is not None and need > USABLE * free:
        message = f"two buffers of {format_bytes(size)} and a GEMM of dimension {gemm} need {need / 1e9:,.3g} GB"
        message += f", but {where} has {free / 1e9:,.3g} GB free; give smaller ones"
        raise AntiphonError(message, "too-large")
    return size


def check_gemm(gemm: int, product_s: float, seconds: float) -> None:
    """Refuses a GEMM that takes ``product_s`` where ``seconds`` are given for everything.

    Raises:
        AntiphonError: ``too-large``.
    """
    if product_s > LONG_S and LEAST_PRODUCTS * product_s > 2 * seconds:
        message = (
            f"a GEMM of dimension {gemm} takes about {product_s:.3g} s on this machine, too long for {seconds:g} s"
        )
        raise AntiphonError(f"{message} in all; give a smaller one or more seconds", "too-large")
