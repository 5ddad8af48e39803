"""Layers of ONNX models, from the shapes that the library ``onnx`` infers; nothing is executed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.files import read_bytes
from antiphon.models.table import Layer, LayerTable, samples, table_of, whole_number

# Inputs of an operator that are trained if they are constants. Running averages are not.
TRAINED = {
    "Add": (0, 1),
    "BatchNormalization": (1, 2),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Div": (0, 1),
    "GRU": (1, 2, 3),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3, 7),
    "LayerNormalization": (1, 2),
    "MatMul": (0, 1),
    "Mul": (0, 1),
    "PRelu": (1,),
    "RMSNormalization": (1,),
    "RNN": (1, 2, 3),
    "Sub": (0, 1),
}
# They multiply, but are not counted here: silence would be a wrong total.
NOT_COUNTED = {
    "Attention",
    "ConvInteger",
    "DeformConv",
    "Einsum",
    "If",
    "Loop",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "Scan",
}
# Their output is a constant's if their input is.
SAME_WEIGHTS = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
LARGEST_MODEL = (1 << 31) - 1
"""Bytes of a file that may be read, as of a message of Protocol Buffers."""
MOST_NODES = 1 << 20
"""Nodes of a graph whose functions have been inlined."""
DEEPEST = 64
"""Functions that call each other."""
MOST_ELEMENTS = 1 << 50
"""Elements of a constant or an input."""


def from_onnx(
    path: str | os.PathLike[str],
    *,
    dimensions: Mapping[str, int] | None = None,
    batch: int | None = None,
    name: str | None = None,
) -> LayerTable:
    """The layers of an ONNX model, their counts per sample. O(nodes).

    Counted are Conv, ConvTranspose, Gemm, MatMul, RNN, GRU and LSTM, and the weights of these, of embeddings
    (Gather), normalizations, biases and scales. Weights that several nodes share count once, for the first: exporters
    merge equal constants, such as the biases of an untrained model. A bias or scale belongs to the layer in front of
    it.

    Args:
        path: the model. Weights in files beside it are not read.
        dimensions: values of the symbolic dimensions of its inputs. First ones that are left open are 1.
        batch: samples in the inputs; needed where the first dimension of the first input is not 1.
        name: name of the table; default: that of the file.

    Raises:
        AntiphonError: ``not-applicable`` without the package ``onnx`` and for operators that are not counted,
            ``bad-file`` for a file that cannot be read and for shapes that stay unknown, ``too-large`` past 2 GiB or
            1,048,576 nodes, those of functions counted wherever they are called, ``bad-spec`` and ``bad-size`` for
            dimensions.
    """
    try:
        import onnx
        from onnx import inliner
    except ImportError:
        raise AntiphonError("reading ONNX needs onnx; pip install antiphon[onnx]", "not-applicable") from None
    if not isinstance(path, str | os.PathLike):
        raise AntiphonError(f"{path!r:.40} is no path; give the name of an ONNX file", "bad-file")
    if not isinstance(dimensions, Mapping | None):
        raise AntiphonError(f"dimensions is {dimensions!r:.40}; give a dictionary such as {{'N': 8}}", "bad-spec")
    for symbol, size in (dimensions or {}).items():
        whole_number(f"dimension '{symbol}'", size)
    try:
        model = onnx.load_model_from_string(read_bytes(os.fspath(path), LARGEST_MODEL))
        if not model.graph.node:
            raise ValueError("it has no nodes")
        if (nodes := _inlined(model)) > MOST_NODES:
            message = f"{path}: has {nodes:,} nodes once its functions are inlined, at most {MOST_NODES:,} are read"
            raise AntiphonError(message, "too-large")
        _check_shapes(model.graph)
        model = inliner.inline_local_functions(model) if model.functions else model
    except AntiphonError:
        raise
    except Exception as error:  # whatever the parsers below it raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise AntiphonError(f"{path}: not an ONNX model: {reason}", "bad-file") from None
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    _fix_dimensions(str(path), inputs, dict(dimensions or {}))
    del graph.value_info[:]  # of other values of the dimensions
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise AntiphonError(f"{path}: shapes cannot be inferred: {reason}", "bad-file") from None
    first = next((_sizes(value) for value in inputs), []) or [1]
    layers = _Counter(str(path), model.graph).layers()
    return table_of(name or Path(path).stem, layers, samples(batch, first[0]))


def _inlined(model: Any) -> int:
    """Nodes of a model whose functions are inlined, without inlining them."""
    functions = {(each.domain, each.name, each.overload): each.node for each in model.functions}
    known: dict[tuple[str, str, str], int] = {}

    def count(nodes: Any, depth: int) -> int:
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} functions or graphs are within each other")
        total = 0
        for node in nodes:
            function = (node.domain, node.op_type, node.overload)
            if function in functions and function not in known:
                known[function] = count(functions[function], depth + 1)
            total += known.get(function, 1)
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    total += count(graph.node, depth + 1)
        return total

    return count(model.graph.node, 0)


def _check_shapes(graph: Any) -> None:
    """Refuses constants and inputs that nothing could hold."""
    shapes = [("constant", tensor.name, list(tensor.dims)) for tensor in graph.initializer]
    for node in graph.node:
        shapes += [("constant", node.output[0], list(each.t.dims)) for each in node.attribute if each.t.dims]
    for what, name, shape in [*shapes, *(("input", value.name, _sizes(value)) for value in graph.input)]:
        if any(size < 0 for size in shape) or prod(shape) > MOST_ELEMENTS:
            raise ValueError(f"{what} '{name:.40}' has the shape {shape!s:.60}")


def _sizes(value: Any) -> list[int]:
    """The dimensions of a value, 0 where they are not known."""
    return [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]


def _fix_dimensions(path: str, inputs: list[Any], given: dict[str, int]) -> None:
    """Gives every open dimension of the inputs a value."""
    used = set()
    for value in inputs:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.HasField("dim_value") and dimension.dim_value > 0:
                continue
            symbol = dimension.dim_param or f"{value.name}[{axis}]"
            size = given.get(symbol, 1 if axis == 0 else None)
            if size is None:
                message = f"{path}: input '{value.name}' has an open dimension"
                raise AntiphonError(f"{message}; give dimensions={{'{symbol}': ...}}", "bad-spec")
            used.add(symbol)
            dimension.dim_value = size
    if unknown := given.keys() - used:
        message = f"{path}: no input has an open dimension '{min(unknown)}'"
        raise AntiphonError(f"{message}; open are: {', '.join(sorted(used)) or 'none'}", "bad-spec")


class _Counter:
    """Counts the nodes of a graph whose shapes are inferred."""

    def __init__(self, path: str, graph: Any) -> None:
        self.path = path
        self.graph = graph
        self.shapes: dict[str, list[int]] = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
        for value in [*graph.input, *graph.value_info, *graph.output]:
            if value.type.tensor_type.HasField("shape"):
                self.shapes[value.name] = _sizes(value)
        # The constant behind a name, with its number of weights.
        self.weights = {tensor.name: (tensor.name, _weights(tensor)) for tensor in graph.initializer}

    def layers(self) -> list[Layer]:
        """One layer for each node that has weights or multiplies."""
        layers: list[Layer] = []
        producer: dict[str, Layer] = {}
        counted: set[str] = set()
        for index, node in enumerate(self.graph.node):
            label = node.name or f"{node.op_type}{index}"
            if node.op_type in NOT_COUNTED or node.domain not in ("", "ai.onnx"):
                message = f"{self.path}: node '{label}' has operator {node.op_type}, which is not counted"
                raise AntiphonError(f"{message}; export or simplify the model without it", "not-applicable")
            if node.op_type == "Constant":
                for attribute in node.attribute:
                    if attribute.name == "value":
                        self.weights[node.output[0]] = (node.output[0], _weights(attribute.t))
                continue
            if node.op_type in SAME_WEIGHTS and node.input[0] in self.weights:
                self.weights[node.output[0]] = self.weights[node.input[0]]
                continue
            trained = [node.input[place] for place in TRAINED.get(node.op_type, ()) if place < len(node.input)]
            params = 0
            for constant, size in [self.weights[tensor] for tensor in trained if tensor in self.weights]:
                params += 0 if constant in counted else size
                counted.add(constant)
            before = [producer[tensor] for tensor in node.input if tensor in producer]
            if node.op_type in ("Add", "Div", "Mul", "Sub") and params and before:
                before[0].params += params
                producer[node.output[0]] = before[0]
                continue
            macs = self.macs(node, label)
            if params or macs:
                read = [tensor for tensor in node.input if tensor and tensor not in self.weights]
                layer = Layer(
                    label,
                    params,
                    macs,
                    sum(prod(self.shape(tensor, label)) for tensor in read),
                    prod(self.shape(node.output[0], label)),
                )
                layers.append(layer)
                producer[node.output[0]] = layer
        return layers

    def macs(self, node: Any, label: str) -> int:
        """Multiply-adds of a node."""

        def shape(tensor: str) -> list[int]:
            return self.shape(tensor, label)

        match node.op_type:
            case "Conv":
                return prod(shape(node.output[0])) * prod(shape(node.input[1])[1:])
            case "ConvTranspose":
                return prod(shape(node.input[0])) * prod(shape(node.input[1])[1:])
            case "Gemm":
                transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
                return prod(shape(node.output[0])) * shape(node.input[0])[0 if transposed else 1]
            case "MatMul":
                return prod(shape(node.output[0])) * shape(node.input[0])[-1]
            case "RNN" | "GRU" | "LSTM":
                # Weights of all gates and directions, once for each step of each sample.
                steps = prod(shape(node.input[0])[:2])
                return steps * (prod(shape(node.input[1])) + prod(shape(node.input[2])))
        return 0

    def shape(self, tensor: str, label: str) -> list[int]:
        """The shape of a tensor, which node ``label`` needs."""
        shape = self.shapes.get(tensor)
        if shape is None or 0 in shape:
            message = f"{self.path}: the shape of '{tensor}' at node '{label}' is not known"
            raise AntiphonError(f"{message}; export the model with fixed shapes, or simplify it (onnxsim)", "bad-file")
        return shape


def _weights(tensor: Any) -> int:
    """Weights in a constant: its elements if these are fractions and it is no scalar, else none."""
    import onnx

    kinds = onnx.TensorProto
    fractions = (kinds.FLOAT, kinds.FLOAT16, kinds.BFLOAT16, kinds.DOUBLE)
    return prod(tensor.dims) if tensor.dims and tensor.data_type in fractions else 0
