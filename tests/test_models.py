"""Workloads from models of other frameworks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import antiphon
from antiphon.models import Layer, LayerTable, from_onnx, from_torch
from antiphon.models.table import samples, table_of


def value(name: str, *shape: int | str | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def weights(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> Any:
    size = 1
    for extent in shape:
        size *= extent
    # Different values, as in a trained model.
    return helper.make_tensor(name, kind, shape, range(size))


def saved(path: Path, nodes: list[Any], inputs: list[Any], constants: list[Any], **options: Any) -> Path:
    outputs = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, **options), path)
    return path


def rows(path: Path, **options: Any) -> list[tuple[str, int, int, int, int]]:
    layers = from_onnx(path, **options).layers
    return [(layer.layer, layer.params, layer.macs, layer.input_elements, layer.output_elements) for layer in layers]


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(antiphon.AntiphonError) as caught:
        from_onnx(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A convolution with batch normalization, a transposed one, pooling and a classifier; the batch is open."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv", pads=[1, 1, 1, 1], group=2),
        helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"], "norm"),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("ConvTranspose", ["r1", "w2"], ["c2"], "up", strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "classify", transB=1),
    ]
    constants = [
        weights("w1", 6, 2, 3, 3),
        weights("b1", 6),
        *[weights(name, 6) for name in ("scale", "shift", "mean", "variance")],
        weights("w2", 6, 5, 2, 2),
        weights("w3", 10, 5),
        weights("b3", 10),
    ]
    return saved(tmp_path / "net.onnx", nodes, [value("x", "n", 4, 8, 8)], constants)


def test_a_model_is_trained_from_its_file(network: Path, commands: Any) -> None:
    table = from_onnx(network)
    trained = commands.document("train", network, "ring:4", "ring", "--compute", "roofline")
    assert trained["model"] == table.name == "net"
    assert trained == commands.document(
        "train", table_file(table, network), "ring:4", "ring", "--compute", "roofline"
    ) | {"model": "net"}
    assert "cannot be read: No such file" in commands.refused("train", "none.onnx", "ring:4", "ring")


def table_file(table: LayerTable, beside: Path) -> Path:
    """The table as a file."""
    path = beside.with_suffix(".csv")
    table.save(path)
    return path


def test_convolutions_and_classifiers(network: Path) -> None:
    assert rows(network) == [
        ("conv", 114, 6 * 64 * 18, 4 * 64, 6 * 64),
        ("norm", 12, 0, 6 * 64, 6 * 64),
        ("up", 120, 6 * 64 * 20, 6 * 64, 5 * 256),
        ("classify", 60, 50, 5, 10),
    ]
    assert rows(network, dimensions={"n": 7}, batch=7) == rows(network)


def test_a_table_becomes_a_workload(network: Path, tmp_path: Path) -> None:
    table = from_onnx(network)
    table.save(tmp_path / "net.csv")
    work = antiphon.workload(str(tmp_path / "net.csv"))
    assert (len(work), work.params) == (4, 306)
    assert table.workload().params == 306
    plan = antiphon.TrainingPlan(table.workload(), "roofline", 32)
    assert list(plan.layers["layer"]) == ["conv", "norm", "up", "classify"]
    with pytest.raises(antiphon.AntiphonError, match=r"\.csv"):
        table.save(tmp_path / "net.txt")


def test_attention_biases_and_shared_weights(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e0"], "embedding"),
        helper.make_node("Add", ["e0", "positions"], ["e"]),
        helper.make_node("MatMul", ["e", "wq"], ["q0"], "query"),
        helper.make_node("Add", ["bq", "q0"], ["q"]),
        helper.make_node("Transpose", ["e"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["scores"], "scores"),
        helper.make_node("Constant", [], ["eighth"], value=weights("eighth", kind=TensorProto.FLOAT)),
        helper.make_node("Mul", ["scores", "eighth"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["s"]),
        helper.make_node("MatMul", ["s", "e"], ["a"], "mix"),
        helper.make_node("LayerNormalization", ["a", "gain"], ["l"], "norm"),
        helper.make_node("Transpose", ["table"], ["tied"]),
        helper.make_node("MatMul", ["l", "tied"], ["logits"], "head"),
    ]
    constants = [
        weights("table", 100, 8),
        weights("positions", 12, 8),
        weights("wq", 8, 8),
        weights("bq", 8),
        weights("gain", 8),
    ]
    inputs = [value("ids", "n", "sequence", kind=TensorProto.INT64)]
    path = saved(tmp_path / "attention.onnx", nodes, inputs, constants)
    assert rows(path, dimensions={"sequence": 12}) == [
        ("embedding", 800 + 96, 0, 12, 96),
        ("query", 64 + 8, 12 * 64, 96, 96),
        ("scores", 0, 12 * 12 * 8, 192, 144),
        ("mix", 0, 12 * 12 * 8, 144 + 96, 96),
        ("norm", 8, 0, 96, 96),
        ("head", 0, 12 * 8 * 100, 96, 1200),
    ]
    assert "input 'ids' has an open dimension; give dimensions={'sequence': ...}" in refusal(path)
    assert "no input has an open dimension 'length'; open are: n, sequence" in refusal(
        path, dimensions={"sequence": 12, "length": 3}
    )
    assert "dimension 'sequence' is 0" in refusal(path, dimensions={"sequence": 0})


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers(tmp_path: Path, kind: str, gates: int) -> None:
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], "cell", hidden_size=16, direction="bidirectional")
    constants = [weights("w", 2, gates * 16, 8), weights("r", 2, gates * 16, 16), weights("b", 2, 2 * gates * 16)]
    path = saved(tmp_path / "cell.onnx", [node], [value("x", 5, 1, 8)], constants)
    params = 2 * gates * 16 * (8 + 16 + 2)
    # Batches come second here.
    assert rows(path, batch=1) == [("cell", params, 5 * 2 * gates * 16 * (8 + 16), 40, 160)]
    assert "say batch=5 if these are samples, batch=1 if not" in refusal(path)


def test_what_cannot_be_counted_is_refused(network: Path, tmp_path: Path) -> None:
    einsum = helper.make_node("Einsum", ["x", "x"], ["y"], "product", equation="ij,ij->i")
    path = saved(tmp_path / "einsum.onnx", [einsum], [value("x", 1, 4)], [])
    assert "node 'product' has operator Einsum, which is not counted" in refusal(path)
    foreign = helper.make_node("Gelu", ["x"], ["y"], "fused", domain="com.microsoft")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    path = saved(tmp_path / "foreign.onnx", [foreign], [value("x", 1, 4)], [], opset_imports=opsets)
    assert "node 'fused' has operator Gelu" in refusal(path)
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"], "product"),
    ]
    inputs = [value("x", 1, 4), value("shape", 2, kind=TensorProto.INT64)]
    path = saved(tmp_path / "dynamic.onnx", nodes, inputs, [weights("w", 4, 4)])
    assert "the shape of 'y' at node 'product' is not known" in refusal(path)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
def test_vectors_beside_a_layer_are_weights(tmp_path: Path, operator: str) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node(operator, ["p", "v"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", 1, 4)], [weights("w", 4, 3), weights("v", 3)])
    assert rows(path) == [("product", 12 + 3, 12, 4, 3)]


def test_arguments_of_wrong_types(network: Path) -> None:
    wrong: Any = 5
    assert refusal(wrong) == "5 is no path; give the name of an ONNX file"
    assert "dimension 'n' is 'x'; it must be a whole number" in refusal(network, dimensions={"n": "x"})
    assert "dimensions is 3; give a dictionary" in refusal(network, dimensions=3)
    assert "batch is '4'; it must be a whole number" in refusal(network, batch="4")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model", "utf-8")
    assert "not an ONNX model" in refusal(tmp_path / "text.onnx")
    (tmp_path / "empty.onnx").write_bytes(b"")
    assert "not an ONNX model: it has no nodes" in refusal(tmp_path / "empty.onnx")
    assert "cannot be read: No such file" in refusal(tmp_path / "missing.onnx")
    assert "cannot be read: Is a directory" in refusal(tmp_path)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, network: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert refusal(network) == "reading ONNX needs onnx; pip install antiphon[onnx]"
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(antiphon.AntiphonError, match=r"pip install antiphon\[torch\]"):
        from_torch(None)


def test_tables() -> None:
    layers = [Layer('# a, "b"', 3, 4, 6, 8), Layer("relu", 0, 0, 6, 8), Layer("", 1, 0, 2, 2)]
    table = table_of("net", layers, 2)
    assert table == LayerTable("net", [Layer('a, "b"', 3, 2, 3, 4), Layer("layer2", 1, 0, 1, 1)])
    assert len(table.workload()) == 2
    with pytest.raises(antiphon.AntiphonError, match="no multiples of the batch of 4; give a single sample"):
        table_of("net", layers, 4)
    with pytest.raises(antiphon.AntiphonError, match="batch is 0"):
        samples(0, 1)


def test_torch_modules() -> None:
    torch = pytest.importorskip("torch", reason="torch is too large for the development environment")
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1, groups=2), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten())
    model.append(nn.Linear(6 * 64, 10)).append(nn.Dropout())
    assert from_torch(model, torch.rand(1, 4, 8, 8), name="net").layers == [
        Layer("0", 114, 6 * 64 * 18, 4 * 64, 6 * 64),
        Layer("1", 12, 0, 6 * 64, 6 * 64),
        Layer("4", 3850, 3840, 384, 10),
    ]
    batch = from_torch(model, torch.rand(3, 4, 8, 8), batch=3)
    assert batch.layers == from_torch(model, torch.rand(1, 4, 8, 8)).layers
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(antiphon.AntiphonError, match="say batch=3 if these are samples"):
        from_torch(model, torch.rand(3, 4, 8, 8))
    with pytest.raises(antiphon.AntiphonError, match="Sequential: does not run on the given input"):
        from_torch(model, torch.rand(1, 5))
    with pytest.raises(antiphon.AntiphonError, match=r"not a torch\.nn\.Module: int"):
        from_torch(3)


def test_torch_attention_recurrence_and_shared_weights() -> None:
    torch = pytest.importorskip("torch", reason="torch is too large for the development environment")
    nn = torch.nn

    class Tokens(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.zeros(12, 8))
            self.embedding = nn.Embedding(100, 8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.recurrent = nn.LSTM(8, 8, num_layers=2, batch_first=True)
            self.head = nn.Linear(8, 100, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: Any) -> Any:
            x = self.embedding(ids) + self.positions
            x, _ = self.attention(x, x, x, need_weights=False)
            return self.head(self.recurrent(x)[0])

    expected = [
        Layer("Tokens", 96, 0, 12, 1200),
        Layer("embedding", 800, 0, 12, 96),
        Layer("attention", 4 * 72, 4 * 12 * 64 + 2 * 12 * 12 * 8, 3 * 96, 96),
        Layer("recurrent", 2 * 4 * 8 * (8 + 8 + 2), 12 * 2 * 4 * 8 * 16, 96, 96 + 2 * 16),
        Layer("head", 0, 12 * 800, 96, 1200),
    ]
    ids = torch.zeros(1, 12, dtype=torch.long)
    model = Tokens()
    assert from_torch(model, ids).layers == expected
    for parameter in model.parameters():
        parameter.requires_grad = False  # fused kernels would be taken
    with torch.no_grad():
        assert from_torch(model.eval(), ids).layers == expected
    with torch.device("meta"):
        assert from_torch(Tokens(), ids.to("meta")).layers == expected


def test_what_is_read_is_checked_first(tmp_path: Path) -> None:
    """Files that never end, functions of more nodes than memory has room for, shapes that nothing holds."""
    os.mkfifo(tmp_path / "pipe.onnx")
    assert "is not a regular file" in refusal(tmp_path / "pipe.onnx")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    functions = [helper.make_function("d", "f0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets)]
    for at in range(1, 31):
        calls = [helper.make_node(f"f{at - 1}", [a], [b], domain="d") for a, b in (("a", "t"), ("t", "b"))]
        functions.append(helper.make_function("d", f"f{at}", ["a"], ["b"], calls, opsets))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("f30", ["m"], ["y"], domain="d")]
    known = {"functions": functions, "opset_imports": opsets}
    path = saved(tmp_path / "bomb.onnx", nodes, [value("x", 1, 4)], [weights("w", 4, 4)], **known)
    assert "has 1,073,741,825 nodes once its functions are inlined, at most 1,048,576" in refusal(path)
    for name, shape in (("huge", (1 << 40, 1 << 40)), ("negative", (-5, 4))):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        path = saved(tmp_path / f"{name}.onnx", nodes, [value("x", 1, 4)], [tensor])
        assert f"not an ONNX model: constant 'w' has the shape [{shape[0]}, {shape[1]}]" in refusal(path)
