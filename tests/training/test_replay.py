"""Execution traces: files found, replayed, written; what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.training.traces import trace_files


def varint(value: int) -> bytes:
    """A number as in Protocol Buffers."""
    low = bytes([value & 0x7F | (0x80 if value > 0x7F else 0)])
    return low + varint(value >> 7) if value > 0x7F else low


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def framed(content: bytes) -> bytes:
    return varint(len(content)) + content


def node(number: int, kind: int, after: list[int], micros: int = 0, **attributes: int | str) -> bytes:
    """A node of a trace: 4 computes, 5 sends, 6 receives, 7 is a collective."""
    content = field(1, number) + field(2, f"node {number}") + field(3, kind) + field(7, micros)
    content += b"".join(field(5, other) for other in after)
    for name, value in attributes.items():
        content += field(10, field(1, name) + field(9 if isinstance(value, int) else 29, value))
    return framed(content)


METADATA = framed(field(1, "0.0.4"))


def written(folder: Path, name: str, ranks: list[list[bytes]]) -> str:
    """Traces of ranks with these nodes; returns their prefix."""
    for rank, nodes in enumerate(ranks):
        (folder / f"{name}.{rank}.et").write_bytes(METADATA + b"".join(nodes))
    return str(folder / name)


def tensor_data(rank: int) -> list[bytes]:
    """Ten microseconds, an AllReduce in the row, five microseconds, one in the column of a 2x2 mesh."""
    row, column = f"row {rank // 2}", f"column {rank % 2}"
    return [
        node(1, 4, [], 10),
        node(2, 7, [1], comm_type=0, comm_size=1 << 20, pg_name=row),
        node(3, 4, [2], 5),
        node(4, 7, [3], comm_type=0, comm_size=4 << 20, pg_name=column),
    ]


@pytest.fixture
def traces(tmp_path: Path) -> str:
    return written(tmp_path, "model", [tensor_data(rank) for rank in range(4)])


def test_what_a_replay_says(traces: str) -> None:
    replayed = antiphon.replay(traces, "mesh:2x2", "ring")
    assert list(replayed.tables) == ["replays", "exchanges", "ranks"]
    assert replayed.exchanges["group"].tolist() == ["row 0", "column 0", "column 1", "row 1"]
    assert set(replayed.ranks["compute_ns"]) == {15_000.0}
    assert replayed.exposed_communication_ns == replayed.time_ns - 15_000
    said = replayed.to_dict()
    assert (said["ranks"], said["nodes"], said["untimed_nodes"], said["exchanges"]) == (4, 16, 0, 4)
    assert said["compute_ns"] + said["exposed_communication_ns"] + said["idle_ns"] == pytest.approx(said["time_ns"])
    assert said["communication_ns"] == replayed.communication_ns
    assert repr(replayed).startswith(f"<Replay of {traces} on mesh:2x2 with ring: ")
    times = [
        antiphon.replay(traces, "mesh:2x2", "ring", fidelity=fidelity).time_ns for fidelity in antiphon.fidelities()
    ]
    assert times[0] == times[1] < times[2]
    assert antiphon.replay(traces, "mesh:2x2@400", "ring").time_ns < replayed.time_ns


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"overlap": "layerwise"},
        {"overlap": "layerwise", "unroll": 2},
        {"overlap": "layerwise", "slow": "0:1.1,2:1.3"},
    ],
)
def test_what_train_writes_takes_as_long(tmp_path: Path, options: dict[str, Any]) -> None:
    prefix = str(tmp_path / "alexnet")
    trained = antiphon.train("alexnet", "mesh:2x2", "ring", in_flight="shared", chakra=prefix, **options)
    replayed = antiphon.replay(prefix, "mesh:2x2", "ring")
    assert replayed.time_ns == options.get("unroll", 1) * trained.iteration_ns
    assert sorted(os.listdir(tmp_path)) == [f"alexnet.{rank}.et" for rank in range(4)]


def test_groups_are_written_beside_traces(tmp_path: Path) -> None:
    prefix = tmp_path / "transformer"
    how: dict[str, Any] = {"model_parallel": 2, "batch": 1, "compute": "roofline", "fidelity": "alpha-beta"}
    trained = antiphon.train("transformer-1t", "mesh:2x2", "ring", in_flight="shared", chakra=prefix, **how)
    groups = json.loads((tmp_path / "transformer.groups.json").read_text())
    assert sorted(groups.values()) == [[0, 1], [0, 2], [1, 3], [2, 3]]
    for given in (None, tmp_path / "transformer.groups.json"):
        replayed = antiphon.replay(tmp_path, "mesh:2x2", "ring", groups=given, fidelity="alpha-beta")
        assert replayed.time_ns == trained.iteration_ns


@pytest.mark.parametrize(
    ("model", "fabric", "algorithm", "options", "why"),
    [
        ("alexnet", "ring:4", "ring", {"overlap": "ccube"}, "a part of an exchange"),
        ("alexnet", "mesh:3x3", "tto", {}, "leaves out ranks"),
        ("alexnet", "rails:2D-SW_SW", "themis", {}, "not on rails"),
    ],
)
def test_what_no_trace_can_say(
    tmp_path: Path, model: str, fabric: str, algorithm: str, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(antiphon.AntiphonError, match=why):
        antiphon.train(model, fabric, algorithm, chakra=tmp_path / "out", **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("prefix", ["", ".", "..", "/", "none/model", "a\0b", "x" * 300, "folder/", "taken"])
def test_prefixes_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "taken.2.et").mkdir()
    with pytest.raises(antiphon.AntiphonError) as refused:
        antiphon.train("alexnet", "ring:4", "ring", chakra=prefix)
    assert refused.value.code == "bad-file"
    assert "\n" not in refused.value.message
    assert ("taken.2.et: exists and is not a file" in refused.value.message) == (prefix == "taken")
    assert sorted(os.listdir(tmp_path)) == ["folder", "taken.2.et"]
    assert not os.listdir(tmp_path / "folder")


def test_files_of_a_prefix(traces: str, tmp_path: Path) -> None:
    files = [f"{traces}.{rank}.et" for rank in range(4)]
    for given in (traces, f"{traces}.0.et", f"{traces}.3.et", tmp_path, Path(traces)):
        assert trace_files(given, 4, "ring:4") == files
    written(tmp_path, "other", [[]])
    (tmp_path / "empty").mkdir()
    pipe = written(tmp_path, "pipe", [[], []])
    os.unlink(f"{pipe}.1.et")
    os.mkfifo(f"{pipe}.1.et")
    for trace, fabric, why in (
        (traces, "ring:5", r"model\.4\.et: there is no such file; each of the 5"),
        (traces, "ring:3", "has 3 ranks, 0 to 2"),
        (tmp_path / "none", "ring:4", "traces are given by their prefix"),
        (tmp_path, "ring:4", r"several prefixes, such as model\.0\.et and other\.0\.et"),
        (tmp_path / "empty", "ring:4", "no traces"),
        (pipe, "ring:2", r"pipe\.1\.et: is not a regular file"),
    ):
        with pytest.raises(antiphon.AntiphonError, match=why):
            antiphon.replay(trace, fabric, "ring")


def test_refusals_name_file_and_node(tmp_path: Path) -> None:
    prefix = written(tmp_path, "bad", [[node(1, 4, [9])], []])
    with pytest.raises(antiphon.AntiphonError, match=r"^bad\.0\.et: node 1 waits for node 9, which is not there"):
        antiphon.replay(prefix, "ring:2", "ring")
    prefix = written(tmp_path, "ops", [[node(1, 4, [], num_ops=10**12)], []])
    with pytest.raises(antiphon.AntiphonError, match=r"give a compute model, as --compute roofline"):
        antiphon.replay(prefix, "ring:2", "ring", "tto")
    run = antiphon.replay(prefix, "ring:2", "ring", compute="roofline:tflops=1,efficiency=1")
    assert run.time_ns == 1e9
    with pytest.raises(antiphon.AntiphonError, match="only a roofline"):
        antiphon.replay(prefix, "ring:2", "ring", compute="systolic")
    waits = [[node(1, 6, [], comm_src=to, comm_size=4), node(2, 5, [1], comm_dst=to, comm_size=4)] for to in (1, 0)]
    prefix = written(tmp_path, "wait", waits)
    with pytest.raises(antiphon.Stalled, match="ranks wait for each other in message 'node 2'"):
        antiphon.replay(prefix, "ring:2", "ring")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"order": "random"}, "no order 'random'"),
        ({"fabric": antiphon.Fabric("mesh:2x3").group([0, 1, 3, 4])}, "give the whole fabric"),
        ({"algorithm": "tto"}, "tto does not apply"),
        ({"groups": "none.json"}, "cannot be read"),
    ],
)
def test_what_is_refused(traces: str, how: dict[str, Any], why: str) -> None:
    arguments: dict[str, Any] = {"fabric": "mesh:2x2", "algorithm": "ring"} | how
    with pytest.raises(antiphon.AntiphonError, match=why):
        antiphon.replay(traces, **arguments)


def test_commands(commands: Any, traces: str, tmp_path: Path) -> None:
    prefix = tmp_path / "out"
    printed = commands.invoke("train", "alexnet", "ring:4", "ring", "--chakra", prefix, "--in-flight", "shared")
    assert f"Traces: {prefix}.0.et to {prefix}.3.et" in printed.stdout.replace("\n", "")
    assert "all-reduce of" in commands.invoke("replay", prefix, "ring:4", "ring").stdout
    document = commands.document("replay", traces, "mesh:2x2", "ring")
    assert [row["group"] for row in document["tables"]["exchanges"]] == ["row 0", "column 0", "column 1", "row 1"]
    assert {row["compute_ns"] for row in document["tables"]["ranks"]} == {15_000.0}
    refused = commands.refused("train", "alexnet,vgg16", "ring:4", "ring", "--chakra", prefix)
    assert "give one of each" in refused
    # What moves nothing is shown.
    ranks = [[node(1, 7, [], comm_type=9, comm_size=0), node(2, 4, [1], 5)]] * 2
    assert "barrier" in commands.invoke("replay", written(tmp_path, "nothing", ranks), "ring:2", "ring").stdout


def event(name: str, at: float, takes: float, cat: str = "kernel", stream: int = 7, **args: Any) -> dict[str, Any]:
    """An event of PyTorch's profiler, in microseconds."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": at, "dur": takes, "args": args}


def collective(name: str, elements: int, ranks: list[int], **more: Any) -> dict[str, Any]:
    """What an event says of a collective, as ``record_param_comms`` does."""
    said = {"Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"}
    return said | {"Group size": len(ranks), "Process Group Name": "0", "Process Group Ranks": str(ranks)} | more


def profiled(folder: Path, name: str, events: list[list[dict[str, Any]]]) -> str:
    """Files of the profiler for ranks with these events; returns their prefix."""
    for rank, own in enumerate(events):
        document = {"schemaVersion": 1, "traceEvents": [{"ph": "M", "name": "process_name"}, *own]}
        (folder / f"{name}.{rank}.json").write_text(json.dumps(document), "utf-8")
    return str(folder / name)


def test_a_trace_of_the_profiler_is_that_of_chakra(tmp_path: Path) -> None:
    """A kernel, an AllReduce behind it, another kernel beside that, and one after both: as Chakra says the same."""
    everyone = list(range(4))
    link: dict[str, Any] = {"External id": 5}
    call = collective("allreduce", 1 << 18, everyone, **link)
    kernels = [
        event("gemm", 100.0, 10.0),
        event("record_param_comms", 90.0, 2.0, "cpu_op", 1, **call),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 110.5, 80.0, stream=20, **link),
        event("gemm", 111.0, 5.0),
        event("gemm", 200.0, 4.0),
    ]
    same = [
        node(0, 4, [], 10),
        node(1, 7, [0], comm_type=0, comm_size=1 << 20),
        node(2, 4, [0], 5),
        node(3, 4, [1, 2], 4),
    ]
    expected = antiphon.replay(written(tmp_path, "chakra", [same] * 4), "ring:4", "ring")
    prefix = profiled(tmp_path, "torch", [kernels] * 4)
    alone = tmp_path / "alone.json"
    alone.write_text((tmp_path / "torch.0.json").read_text("utf-8"), "utf-8")
    for trace in (prefix, prefix + ".0.json", alone):
        replayed = antiphon.replay(trace, "ring:4", "ring")
        assert replayed.time_ns == expected.time_ns
        assert replayed.exchanges["kind"].tolist() == ["all-reduce"]
        assert replayed.exchanges["bytes"].tolist() == [1 << 20]
        assert replayed.ranks["compute_ns"].tolist() == [19_000.0] * 4


def test_a_profile_of_processors_and_of_groups(tmp_path: Path) -> None:
    """Without a GPU the host works; groups are those that events say, and each rank has a file."""

    def own(rank: int) -> list[dict[str, Any]]:
        row = [rank // 2 * 2, rank // 2 * 2 + 1]
        return [
            event("aten::mm", 0.0, 10.0, "cpu_op", 1),
            event("aten::inner", 1.0, 2.0, "cpu_op", 1),
            event("c10d::allgather_", 20.0, 9.0, "cpu_op", 1),
            event("record_param_comms", 21.0, 7.0, "cpu_op", 1, **collective("_allgather_base", 256, row)),
            event("record_param_comms", 28.5, 0.2, "cpu_op", 1, **collective("wait", 0, row)),
        ]

    replayed = antiphon.replay(profiled(tmp_path, "gloo", [own(rank) for rank in range(4)]), "mesh:2x2", "ring")
    assert replayed.exchanges["kind"].tolist() == ["all-gather"] * 2
    assert replayed.exchanges["bytes"].tolist() == [2048] * 2
    assert replayed.ranks["other_ns"].tolist() == [10_000.0] * 4
    (tmp_path / "gloo.0.json").rename(tmp_path / "one.json")
    with pytest.raises(antiphon.AntiphonError, match="collectives of some ranks only"):
        antiphon.replay(tmp_path / "one.json", "mesh:2x2", "ring")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "is a PyTorch execution trace, which says no times"),
        ('{"nodes": []}', "has no traceEvents"),
        ('{"traceEvents": [{"ph": "X", "name": "k", "cat": "kernel", "ts": "now"}]}', "event 'k' has no time"),
        (json.dumps([event("gemm", 0, 1)]), "has no collectives"),
        (json.dumps([event("ncclKernel", 0, 1)]), "says no 'Collective name'"),
        (json.dumps([event("n", 0, 1, **collective("gather", 1, [0, 1]))]), "known: allreduce, reduce"),
        (json.dumps([event("n", 0, 1, **collective("allreduce", 1, [0, 9]))]), "is of rank 9; there are 2 ranks"),
        (json.dumps([event("n", 0, 1, **collective("allreduce", 1, [0, 1], dtype="Odd"))]), "says no dtype"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, document: str, why: str) -> None:
    file = tmp_path / "trace.json"
    file.write_text(document, "utf-8")
    with pytest.raises(antiphon.AntiphonError, match=why) as error:
        antiphon.replay(file, "ring:2", "ring")
    assert "\n" not in str(error.value)
