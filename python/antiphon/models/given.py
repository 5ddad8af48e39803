"""A model as it is given: a name, a table, or a file of another framework."""

from __future__ import annotations

from antiphon._core import Workload
from antiphon.arguments import expect
from antiphon.files import read_text

LARGEST_TABLE = 1 << 28
"""Workload tables are read whole; larger files are refused."""


def workload(model: str | Workload) -> Workload:
    """A model by name (``workloads()``), a table from a file that ends in ``.csv``, or an ONNX model, ``.onnx``, whose
    inputs are of one sample (extra ``onnx``; ``antiphon.models.from_onnx`` can be told more).

    >>> len(workload("alexnet"))
    5

    Args:
        model: the name, the file (docs/reference/workloads.md), or a Workload, which is given back.

    Raises:
        AntiphonError: ``unknown-name``, or ``bad-file`` with row and column.
    """
    expect("model", model, str, Workload)
    if isinstance(model, Workload):
        return model
    if model.lower().endswith(".csv"):
        return Workload.from_csv(model, read_text(model, LARGEST_TABLE))
    if model.lower().endswith(".onnx"):
        from antiphon.models.onnx import from_onnx

        return from_onnx(model).workload()
    return Workload(model)
