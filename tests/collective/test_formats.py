"""Files of other tools: written, proven, read and timed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError


@pytest.fixture(scope="module")
def schedule() -> antiphon.Schedule:
    return antiphon.build("mesh:3x3", "multitree", bytes="720KiB")


@pytest.fixture
def file(schedule: antiphon.Schedule, tmp_path: Path) -> Path:
    path = tmp_path / "trees.xml"
    antiphon.export(schedule, path, consumer="executor")
    return path


def test_what_is_exported_is_loaded(schedule: antiphon.Schedule, file: Path, tmp_path: Path) -> None:
    again = antiphon.load(file, "mesh:3x3", bytes="720KiB")
    assert antiphon.verify("mesh:3x3", again).complete
    own, other = schedule.stats(antiphon.Fabric("mesh:3x3")), again.stats(antiphon.Fabric("mesh:3x3"))
    assert (own.transfers, own.links["bytes"].tolist()) == (other.transfers, other.links["bytes"].tolist())
    assert (antiphon.load(file).fabric, antiphon.load(file).bytes) == ("fc:9", 64 << 20)
    # Schedules of our own, too.
    path = tmp_path / "trees.json"
    path.write_text(schedule.to_json())
    assert antiphon.load(path) == antiphon.load(path, "mesh:3x3") == antiphon.load(text=schedule.to_json()) == schedule
    for wrong, kind, message in (
        (lambda: antiphon.load(file, "mesh:4x4"), AntiphonError, "the file is for 9 ranks, mesh:4x4 has 16"),
        (lambda: antiphon.load(file, placement=[2**40]), AntiphonError, "placement"),
        (lambda: antiphon.load(path, bytes=4096), AntiphonError, "the size is what the schedule says"),
        (lambda: antiphon.prove_file(path), AntiphonError, "in no format of another tool"),
        (antiphon.load, TypeError, "give a path"),
    ):
        with pytest.raises(kind, match=message):
            wrong()


def test_a_proof_says_who_can_read_a_file() -> None:
    text = antiphon.export(antiphon.build("ring:80", "ring", bytes="1MiB"), consumer="executor")
    proof = antiphon.prove_file(text=text)
    assert proof.fifo_depth == 1
    assert dict(proof.consumers)["rccl"] == "RCCL: gpu 0 tb 0 has 158 steps, at most 64 are read"
    assert dict(proof.consumers)["executor"] is None
    assert pickle.loads(pickle.dumps(proof)) == proof


def test_files_are_verified(commands: Any, file: Path) -> None:
    found = commands.invoke("verify", file)
    assert found.exit_code == 0, found.output
    assert "multitree, all-reduce on 9 ranks: proven in-place" in found.output
    assert "As a schedule on fc:9" in found.output
    document = commands.document("verify", file, "--fabric", "mesh:3x3")
    assert (document["verified"], document["fabric"], document["fifo_depth"]) == (True, "mesh:3x3", 1)
    assert commands.document("verify", "mesh:3x3", "--schedule", file) == document

    text = file.read_text()
    file.write_text(text.replace('type="rrc"', 'type="r"', 1))
    wrong = commands.invoke("verify", file, "--json")
    document = json.loads(wrong.stdout)
    assert (wrong.exit_code, document["verified"]) == (1, False)
    assert "ends with a wrong chunk" in document["counter_example"]
    file.write_text(text.replace('cnt="1"', 'cnt="one"', 1))
    assert "line 4: cnt is 'one'" in commands.refused("verify", file)
    # As msccl-tools writes it: right, but not for all to read.
    file.write_text(text.replace(' outofplace="0" minBytes="0"', ""))
    found = commands.invoke("verify", file)
    assert found.exit_code == 0, found.output
    assert "Within the limits of: msccl\n" in found.output
    assert "Not of rccl: RCCL: <algo> has no outofplace, without which it is not read" in found.output
    file.write_text("<system/>")
    assert "XML of no known format" in commands.refused("verify", file)


def test_files_are_timed_and_compared(commands: Any, file: Path) -> None:
    arguments: tuple[str | Path, ...] = ("simulate", "mesh:3x3", "--schedule", file, "--bytes", "720KiB")
    timed = commands.document(*arguments)
    assert (timed["algorithm"], timed["bytes"]) == ("multitree", 720 << 10)
    assert commands.document(*arguments, "--placement", "0,1,2,3,4,5,6,7,8")["time_ns"] == timed["time_ns"]
    assert commands.document(*arguments, "--placement", "8,1,2,3,4,5,6,7,0")["time_ns"] > timed["time_ns"]
    for wrong, why in (("0,1", "names 2 nodes for 9 ranks"), ("0,0,1", "is there twice"), ("a", "takes ranks")):
        assert why in commands.refused(*arguments, "--placement", wrong)
    assert "--collective" in commands.refused(*arguments[:4], "--collective", "all-gather")
    # A file is told apart from what is built.
    arguments = ("compare", "mesh:3x3", "--schedule", file, "--bytes", "720KiB", "--algorithms", "multitree,optimal")
    compared = commands.document(*arguments, "--fidelity", "alpha-beta,packet")
    of_trees = {(run["file"], run["fidelity"]) for run in compared["runs"] if run["algorithm"] == "multitree"}
    assert of_trees == {(name, fidelity) for name in (None, str(file)) for fidelity in ("alpha-beta", "packet")}
    assert {run["bytes"] for run in compared["runs"]} == {720 << 10}
    printed = commands.invoke(*arguments, "--format", "table").output
    assert "Certificate: optimal is at 100.00 %" in printed
    # From Python a file has the size of the comparison too.
    comparison = antiphon.compare("mesh:3x3", bytes="720KiB", algorithms="multitree", schedules=[file])
    ours, theirs = comparison["multitree"], comparison[f"multitree ({file})"]
    assert (ours.file, theirs.file, theirs.bytes) == (None, str(file), 720 << 10)
    assert [run.label for run in comparison.runs] == [run.label for run in comparison.ranking]


def test_a_schedule_from_a_file_is_exported(schedule: antiphon.Schedule, commands: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "trees.json", tmp_path / "trees.xml"
    path.write_text(schedule.to_json())
    document = commands.document("export", "mesh:3x3", "--schedule", path, "--consumer", "msccl", "--out", out)
    assert document["consumers"][0] == {"name": "rccl", "refuses": None}
    assert document["steps"] == antiphon.prove_file(out).steps
    assert commands.invoke("verify", path).exit_code == 0
    options = ("--instances", "3", "--channels", "2", "--protocol", "LL", "--min-bytes", "64KiB", "--max-bytes", "2MiB")
    more = commands.document("export", "mesh:3x3", "--schedule", path, "--consumer", "msccl", "--out", out, *options)
    assert more["messages"] == 3 * document["messages"]
    first = out.read_text().splitlines()[0]
    assert 'proto="LL" nchannels="6"' in first
    assert 'minBytes="65536" maxBytes="2097152"' in first
    for others in (("ring", "--bytes", "1MiB", "--format", "goal"), ("--format", "dot")):
        refusal = commands.refused("export", "mesh:3x3", *others, *options[:2], "--out", tmp_path / f"x.{others[-1]}")
        assert "msccl has" in refusal
    commands.document("export", "mesh:4x4", "ring", "--group", "0,1,4,5", "--bytes", "1MiB", "--out", out)
    assert antiphon.prove_file(out).ranks == 4
    goal = tmp_path / "tto.goal"
    for algorithm in ("tto", "ring-bi-odd"):
        arguments = ("export", "mesh:3x3", algorithm, "--bytes", "1MiB", "--format", "goal", "--out", goal)
        document = commands.document(*arguments)
        lines = goal.read_text().splitlines()
        assert lines[0] == "num_ranks 9"
        assert sum(": send " in line for line in lines) == document["messages"]
        assert "9 ranks" in commands.invoke(*arguments).output
    assert "only written" in commands.refused("verify", goal)


def test_plans_of_mscclpp(commands: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    arguments = ("export", "mesh:3x3", "multitree", "--bytes", "720KiB", "--format", "mscclpp", "--out", path)
    document = commands.document(*arguments)
    assert (document["consumers"], document["fifo_depth"]) == ([{"name": "executor", "refuses": None}], 0)
    proof = antiphon.prove_file(path)
    assert (proof.format, proof.ranks, proof.places) == ("mscclpp", 9, ["in-place"])
    assert antiphon.verify("mesh:3x3", antiphon.load(path, "mesh:3x3", bytes="720KiB")).complete
    assert "thread blocks" in commands.invoke("verify", path).output
    text = path.read_text()
    path.write_text(text.replace('"name": "re"', '"name": "glres"', 1))
    assert "'glres' is not followed by the proof" in commands.refused("verify", path)
    path.write_text(text.replace('"name": "wait"', '"name": "nop"', 1))
    refused = commands.invoke("verify", path, "--json")
    assert refused.exit_code == 1
    assert "signals memory channel 0" in json.loads(refused.stdout)["counter_example"]


def test_results_of_synthesisers(commands: Any, tmp_path: Path) -> None:
    path, table = tmp_path / "result.json", tmp_path / "result.csv"
    flows = [f"Chunk 0 from {rank} traveled over {rank}->{1 - rank} in epoch 0" for rank in (0, 1)]
    path.write_text(json.dumps({"1-Epoch_Duration": 1e-6, "6-Demand_Met": {}, "7-Flows": flows}))
    found = commands.invoke("verify", path, "--fabric", "mesh:2")
    assert found.exit_code == 0, found.output
    said = "teccl, all-gather on 2 ranks: proven in-place; every rank ends with the right data (2 messages)"
    assert said in found.output
    assert "Within the limits" not in found.output
    timed = commands.document("simulate", "mesh:2", "--schedule", path, "--bytes", "3MiB")
    assert (timed["algorithm"], timed["collective"], timed["verified"]) == ("teccl", "all-gather", True)
    path.write_text(json.dumps({"7-Flows": flows[:-1]}))
    assert "chunks come from 1 GPUs, expected 2 to 4096" in commands.refused("verify", path)
    head = "NPUs Count,2\nLinks Count,2\nChunks Count,2\nChunk Size,1,B\n"
    head += "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks\n"
    table.write_text(head + "0,1,500,50,0\n1,0,500,50,1\n")
    assert antiphon.load(table, "ring:2").collective == "all-gather"
    assert commands.invoke("verify", table).exit_code == 0
    table.write_text(head + "0,1,500,50,0\n1,0,500,50,None\n")
    assert "chunk 1 never leaves an NPU" in commands.refused("verify", table)


@pytest.mark.parametrize(
    ("built", "options", "code", "message"),
    [
        ("ring:4", {"format": "mscl"}, "unknown-name", "no format 'mscl'"),
        ("ring:4", {"format": "tacos"}, "unknown-name", "no format 'tacos'"),
        ("ring:4", {"consumer": "nobody"}, "unknown-name", "no consumer 'nobody'"),
        ("ring:4", {"format": "mscclpp", "consumer": "rccl"}, "unknown-name", "of mscclpp; known: executor"),
        ("ring:80", {}, "too-large", "RCCL: .* at most 64 are read"),
        ("ring:140", {"format": "mscclpp"}, "too-large", r"MSCCL\+\+: gpu 0 has 140 thread blocks, at most 132"),
    ],
)
def test_what_is_not_exported(built: str, options: dict[str, Any], code: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(AntiphonError, match=message) as refusal:
        antiphon.export(antiphon.build(built, "ring", bytes="1MiB"), tmp_path / "x.xml", **options)
    assert refusal.value.code == code
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "nofile"), "nofile: there is no such file"),
        (("verify", "missing.xml"), "missing.xml: cannot be read"),
        (("verify", "."), ".: is a folder"),
        (("verify", "mesh:2x2"), "give either an ALGORITHM"),
        (("simulate", "mesh:2x2", "--schedule", "nofile", "--bytes", "64KiB"), "nofile: cannot be read"),
        (("simulate", "mesh:3x3", "ring", "--placement", "1,0"), "--placement is for a file"),
        (("export", "mesh:4x4", "tto", "--bytes", "1MiB", "--out", "x.xml"), "all ranks take part"),
        (("export", "mesh:4x4", "ring", "--out", "x.json"), "must end in .xml"),
        (("export", "mesh:4x4", "ring", "--format", "chakro", "--out", "x.xml"), "no format 'chakro'"),
    ],
)
def test_mistakes(
    arguments: tuple[str, ...], said: str, commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in commands.refused(*arguments)
    assert not list(tmp_path.iterdir())
