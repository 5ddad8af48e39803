"""What is added, and how: PyTorch's types and operations in the carrier's words."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.distributed import ReduceOp


class Reduction(NamedTuple):
    """How bytes are reduced: ``element`` and ``operation`` of the carrier; ``mean``: then divide by the ranks."""

    element: str
    operation: str
    mean: bool = False


FLOATS = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}
_INTEGERS = {
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
}
_PAIRS = {torch.complex32: "float16", torch.complex64: "float32", torch.complex128: "float64"}
_NUMBERS = {ReduceOp.SUM: "sum", ReduceOp.PRODUCT: "product", ReduceOp.MIN: "min", ReduceOp.MAX: "max"}
_BITS = {ReduceOp.BAND: "and", ReduceOp.BOR: "or", ReduceOp.BXOR: "xor"}
# The bytes of truth values are 0 and 1.
_TRUTHS = {
    ReduceOp.SUM: "or",
    ReduceOp.PRODUCT: "and",
    ReduceOp.MIN: "and",
    ReduceOp.MAX: "or",
    **_BITS,
}

_REDUCTIONS: dict[tuple[Any, Any], Reduction] = {
    **{(dtype, op): Reduction(name, how) for dtype, name in FLOATS.items() for op, how in _NUMBERS.items()},
    **{(dtype, op): Reduction(name, how) for dtype, name in _INTEGERS.items() for op, how in _NUMBERS.items()},
    **{(dtype, op): Reduction(name, how) for dtype, name in _INTEGERS.items() for op, how in _BITS.items()},
    **{(dtype, ReduceOp.AVG): Reduction(name, "sum", True) for dtype, name in [*FLOATS.items(), *_INTEGERS.items()]},
    **{(torch.bool, op): Reduction("uint8", how) for op, how in _TRUTHS.items()},
    **{(dtype, ReduceOp.SUM): Reduction(name, "sum") for dtype, name in _PAIRS.items()},
    **{(dtype, ReduceOp.AVG): Reduction(name, "sum", True) for dtype, name in _PAIRS.items()},
}
# PyTorch's operations take a microsecond to be looked up; their numbers do not.
_BY_NUMBER = {(dtype, op.value): how for (dtype, op), how in _REDUCTIONS.items()}

COPIED = Reduction("uint8", "sum")
"""For collectives that add nothing."""


def reduction(dtype: Any, op: Any) -> Reduction:
    """How tensors of a type are reduced.

    Args:
        dtype: of the tensors.
        op: PyTorch's `ReduceOp`, or its kind.

    Raises:
        NotImplementedError: not offered.
    """
    kind = getattr(op, "op", op)
    found = _BY_NUMBER.get((dtype, kind.value))
    if found is None:
        raise NotImplementedError(
            f"antiphon: {getattr(kind, 'name', kind)} of {dtype} is not offered; use another type"
        )
    return found


def divide(tensor: Any, ranks: int) -> None:
    """Makes a sum the mean; of whole numbers, rounded towards 0."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.div_(ranks)
    else:
        tensor.div_(ranks, rounding_mode="trunc")
