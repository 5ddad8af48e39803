"""Models of other frameworks as workloads: totals of every layer, for one sample (docs/reference/workloads.md)."""

from antiphon.models.onnx import from_onnx
from antiphon.models.table import Layer, LayerTable
from antiphon.models.torch import from_torch

__all__ = ["Layer", "LayerTable", "from_onnx", "from_torch"]
