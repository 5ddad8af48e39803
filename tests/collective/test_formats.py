"""Files of other tools: written, proven, read and timed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import antiphon
from antiphon import AntiphonError
from antiphon.cli import main


@pytest.fixture(scope="module")
def schedule() -> antiphon.Schedule:
    return antiphon.build("mesh:3x3", "multitree", bytes="720KiB")


@pytest.fixture
def file(schedule: antiphon.Schedule, tmp_path: Path) -> Path:
    path = tmp_path / "trees.xml"
    antiphon.export(schedule, path, consumer="executor")
    return path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_what_is_exported_is_loaded(schedule: antiphon.Schedule, file: Path) -> None:
    again = antiphon.load(file, "mesh:3x3", bytes="720KiB")
    assert antiphon.verify("mesh:3x3", again).complete
    own, other = schedule.stats(antiphon.Fabric("mesh:3x3")), again.stats(antiphon.Fabric("mesh:3x3"))
    assert (own.transfers, own.links["bytes"].tolist()) == (other.transfers, other.links["bytes"].tolist())
    assert antiphon.load(file).fabric == "fc:9"
    assert antiphon.load(file).bytes == 64 << 20
    with pytest.raises(AntiphonError, match="the file is for 9 ranks, mesh:4x4 has 16"):
        antiphon.load(file, "mesh:4x4")
    with pytest.raises(TypeError, match="give a path"):
        antiphon.load()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_ends_writing_proving_and_reading() -> None:
    trees = antiphon.build("mesh:10x10", "multitree", bytes="64MiB")
    plan = antiphon.export(trees, format="mscclpp")  # takes seconds
    own = antiphon.build("mesh:24x24", "multitree", bytes="64MiB").to_json()  # is read in half a second
    for call in (
        lambda: antiphon.export(trees, format="mscclpp"),
        lambda: antiphon.prove_file(text=plan),
        lambda: antiphon.load(text=plan),
        lambda: antiphon.load(text=own),
        lambda: antiphon.Schedule.from_json(own),
    ):
        heard: list[float] = []

        def second(*_: object, heard: list[float] = heard) -> None:
            heard.append(time.monotonic())
            if len(heard) == 2:  # a call that hears nothing has one handled, at its end
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, second)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            with pytest.raises(KeyboardInterrupt):
                call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert heard[1] - heard[0] < 1


def test_schedules_of_our_own_are_loaded_too(schedule: antiphon.Schedule, tmp_path: Path) -> None:
    path = tmp_path / "trees.json"
    path.write_text(schedule.to_json())
    assert antiphon.load(path) == antiphon.load(path, "mesh:3x3") == antiphon.load(text=schedule.to_json()) == schedule
    with pytest.raises(AntiphonError, match="the size is what the schedule says"):
        antiphon.load(path, bytes=4096)
    with pytest.raises(AntiphonError, match="in no format of another tool"):
        antiphon.prove_file(path)


def test_a_proof_says_who_can_read_a_file() -> None:
    text = antiphon.export(antiphon.build("ring:80", "ring", bytes="1MiB"), consumer="executor")
    proof = antiphon.prove_file(text=text)
    assert proof.fifo_depth == 1
    assert dict(proof.consumers)["rccl"] == "RCCL: gpu 0 tb 0 has 158 steps, at most 64 are read"
    assert dict(proof.consumers)["executor"] is None
    assert pickle.loads(pickle.dumps(proof)) == proof
    with pytest.raises(AntiphonError, match=r"RCCL: .* at most 64 are read") as refusal:
        antiphon.export(antiphon.build("ring:80", "ring", bytes="1MiB"))
    assert refusal.value.code == "too-large"


@pytest.mark.parametrize(
    ("options", "code"),
    [({"format": "mscl"}, "unknown-name"), ({"consumer": "nobody"}, "unknown-name")],
)
def test_unknown_names(schedule: antiphon.Schedule, options: dict[str, str], code: str, tmp_path: Path) -> None:
    with pytest.raises(AntiphonError) as refusal:
        antiphon.export(schedule, tmp_path / "x.xml", **options)
    assert refusal.value.code == code
    assert not list(tmp_path.iterdir())


def test_what_the_format_cannot_say_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    refused = call("export", "mesh:4x4", "tto", "--bytes", "1MiB", "--out", path)
    assert refused.exit_code == 1
    assert "all ranks take part" in refused.output
    assert not path.exists()
    assert "must end in .xml" in call("export", "mesh:4x4", "ring", "--out", tmp_path / "x.json").output
    assert "no format 'chakro'" in call("export", "mesh:4x4", "ring", "--format", "chakro", "--out", path).output


def test_files_are_verified(file: Path) -> None:
    found = call("verify", file)
    assert found.exit_code == 0, found.output
    assert "multitree, all-reduce on 9 ranks: proven in-place" in found.output
    assert "As a schedule on fc:9" in found.output
    document = json.loads(call("verify", file, "--fabric", "mesh:3x3", "--json").output)
    assert (document["verified"], document["fabric"], document["fifo_depth"]) == (True, "mesh:3x3", 1)
    assert json.loads(call("verify", "mesh:3x3", "--schedule", file, "--json").output) == document

    text = file.read_text()
    file.write_text(text.replace('type="rrc"', 'type="r"', 1))
    wrong = call("verify", file, "--json")
    assert wrong.exit_code != 0
    document = json.loads(wrong.stdout)
    assert not document["verified"]
    assert "ends with a wrong chunk" in document["counter_example"]
    file.write_text(text.replace('cnt="1"', 'cnt="one"', 1))
    assert "line 4: cnt is 'one'" in call("verify", file).output
    # As msccl-tools writes it: right, but not for all to read.
    file.write_text(text.replace(' outofplace="0" minBytes="0"', ""))
    found = call("verify", file)
    assert found.exit_code == 0, found.output
    assert "Within the limits of: msccl\n" in found.output
    assert "Not of rccl: RCCL: <algo> has no outofplace, without which it is not read" in found.output
    file.write_text("<system/>")
    assert "XML of no known format" in call("verify", file).output
    assert "cannot be read" in call("verify", file.with_name("missing.xml")).output


def test_a_program_in_which_ranks_exchange_and_add_is_a_schedule(tmp_path: Path) -> None:
    places = 'srcbuf="{}" srcoff="0" dstbuf="{}" dstoff="0" cnt="1"'
    step = '<step s="{}" type="{}" ' + places + ' depid="{}" deps="{}" hasdep="{}"/>'

    def gpu(own: int) -> str:
        peer = 1 - own
        blocks = [
            (peer, -1, [step.format(0, "s", "i", "i", -1, -1, 0)]),
            (-1, peer, [step.format(0, "r", "s", "s", -1, -1, 1)]),
            (-1, -1, [step.format(0, "cpy", "i", "o", -1, -1, 0), step.format(1, "re", "s", "o", 1, 0, 0)]),
        ]
        inside = "".join(
            f'<tb id="{tb}" send="{send}" recv="{recv}" chan="0">{"".join(steps)}</tb>'
            for tb, (send, recv, steps) in enumerate(blocks)
        )
        return f'<gpu id="{own}" i_chunks="1" o_chunks="1" s_chunks="1">{inside}</gpu>'

    head = '<algo name="exchange" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="0">'
    path = tmp_path / "exchange.xml"
    path.write_text(f"{head}{gpu(0)}{gpu(1)}</algo>")
    found = call("verify", path)
    assert found.exit_code == 0, found.output
    assert "As a schedule on fc:2: 1 lanes, 2 transfers" in found.output
    assert "no_schedule" not in json.loads(call("verify", path, "--json").output)


def test_files_are_timed_and_compared(file: Path) -> None:
    timed = json.loads(call("simulate", "mesh:3x3", "--schedule", file, "--bytes", "720KiB", "--json").output)
    assert (timed["algorithm"], timed["bytes"]) == ("multitree", 720 << 10)
    arguments = ("simulate", "mesh:3x3", "--schedule", file, "--bytes", "720KiB", "--json", "--placement")
    same = json.loads(call(*arguments, "0,1,2,3,4,5,6,7,8").output)
    assert same["time_ns"] == timed["time_ns"]
    mirrored = json.loads(call(*arguments, "2,1,0,5,4,3,8,7,6").output)
    assert mirrored["verified"]
    assert json.loads(call(*arguments, "8,1,2,3,4,5,6,7,0").output)["time_ns"] > timed["time_ns"]
    for wrong, why in (("0,1", "names 2 nodes for 9 ranks"), ("0,0,1", "is there twice"), ("a", "takes ranks")):
        assert why in call(*arguments, wrong).output
    with pytest.raises(AntiphonError, match="placement"):
        antiphon.load(file, placement=[2**40])
    assert "--placement is for a file" in call("simulate", "mesh:3x3", "ring", "--placement", "1,0").output
    assert "--collective" in call("simulate", "mesh:3x3", "--schedule", file, "--collective", "all-gather").output
    compared = json.loads(
        call("compare", "mesh:3x3", "--schedule", file, "--bytes", "720KiB", "--algorithms", "ring", "--json").output
    )
    assert {run["algorithm"] for run in compared["runs"]} == {"multitree", "ring"}
    assert {run["bytes"] for run in compared["runs"]} == {720 << 10}


def test_a_file_is_told_apart_from_what_is_built(file: Path) -> None:
    arguments = ("compare", "mesh:3x3", "--schedule", file, "--bytes", "720KiB", "--algorithms", "multitree,optimal")
    compared = json.loads(call(*arguments, "--fidelity", "alpha-beta,packet", "--json").output)
    of_trees = {(run["file"], run["fidelity"]) for run in compared["runs"] if run["algorithm"] == "multitree"}
    assert of_trees == {(name, fidelity) for name in (None, str(file)) for fidelity in ("alpha-beta", "packet")}
    printed = call(*arguments, "--format", "table").output
    assert "Certificate: optimal is at 100.00 %" in printed
    # From Python a file has the size of the comparison too.
    comparison = antiphon.compare("mesh:3x3", bytes="720KiB", algorithms="multitree", schedules=[file])
    ours, theirs = comparison["multitree"], comparison[f"multitree ({file})"]
    assert (ours.file, theirs.file, theirs.bytes) == (None, str(file), 720 << 10)
    assert [run.label for run in comparison.runs] == [run.label for run in comparison.ranking]


def test_a_schedule_from_a_file_is_exported(schedule: antiphon.Schedule, tmp_path: Path) -> None:
    path, out = tmp_path / "trees.json", tmp_path / "trees.xml"
    path.write_text(schedule.to_json())
    result = call("export", "mesh:3x3", "--schedule", path, "--consumer", "msccl", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["consumers"][0] == {"name": "rccl", "refuses": None}
    assert document["steps"] == antiphon.prove_file(out).steps
    assert call("verify", path).exit_code == 0
    group = call("export", "mesh:4x4", "ring", "--group", "0,1,4,5", "--bytes", "1MiB", "--out", out)
    assert group.exit_code == 0, group.output
    assert antiphon.prove_file(out).ranks == 4


def test_plans_of_mscclpp(schedule: antiphon.Schedule, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    result = call(
        "export", "mesh:3x3", "multitree", "--bytes", "720KiB", "--format", "mscclpp", "--out", path, "--json"
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["consumers"] == [{"name": "executor", "refuses": None}]
    assert document["fifo_depth"] == 0
    proof = antiphon.prove_file(path)
    assert (proof.format, proof.ranks, proof.places) == ("mscclpp", 9, ["in-place"])
    again = antiphon.load(path, "mesh:3x3", bytes="720KiB")
    assert antiphon.verify("mesh:3x3", again).complete
    own, other = schedule.stats(antiphon.Fabric("mesh:3x3")), again.stats(antiphon.Fabric("mesh:3x3"))
    assert own.links["bytes"].tolist() == other.links["bytes"].tolist()
    assert "thread blocks" in call("verify", path).output
    assert call("simulate", "mesh:3x3", "--schedule", path, "--bytes", "720KiB").exit_code == 0
    text = path.read_text()
    path.write_text(text.replace('"name": "re"', '"name": "glres"', 1))
    refused = call("verify", path)
    assert refused.exit_code == 1
    assert "'glres' is not followed by the proof" in refused.output
    path.write_text(text.replace('"name": "wait"', '"name": "nop"', 1))
    refused = call("verify", path, "--json")
    assert refused.exit_code == 1
    assert "signals memory channel 0" in json.loads(refused.stdout)["counter_example"]
    with pytest.raises(AntiphonError, match="no consumer 'rccl' of mscclpp; known: executor"):
        antiphon.export(schedule, format="mscclpp", consumer="rccl")
    big = antiphon.build("ring:140", "ring", bytes="1MiB")
    with pytest.raises(AntiphonError, match=r"MSCCL\+\+: gpu 0 has 140 thread blocks, at most 132") as limit:
        antiphon.export(big, format="mscclpp")
    assert limit.value.code == "too-large"


def test_results_of_synthesisers(tmp_path: Path) -> None:
    flows = [
        "Chunk 0 from 1 traveled over 1->2 in epoch 0",
        "Chunk 0 from 3 traveled over 3->2 in epoch 0 via switches 0",
        "Chunk 0 from 2 traveled over 2->1 in epoch 0",
        "Chunk 0 from 2 traveled over 2->3 in epoch 1",
        "Chunk 0 from 1 traveled over 2->3 in epoch 2",
        "Chunk 0 from 3 traveled over 2->1 in epoch 9",
    ]
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"1-Epoch_Duration": 1e-6, "6-Demand_Met": {}, "7-Flows": flows}))
    found = call("verify", path, "--fabric", "mesh:3")
    assert found.exit_code == 0, found.output
    assert (
        "teccl, all-gather on 3 ranks: proven in-place; every rank ends with the right data (6 messages)"
        in found.output
    )
    assert "Within the limits" not in found.output
    timed = json.loads(call("simulate", "mesh:3", "--schedule", path, "--bytes", "3MiB", "--json").output)
    assert (timed["algorithm"], timed["collective"], timed["verified"]) == ("teccl", "all-gather", True)
    path.write_text(json.dumps({"7-Flows": flows[:-1]}))
    assert "chunk 0 from 3 never comes to 1" in call("verify", path).output

    table = tmp_path / "result.csv"
    head = "NPUs Count,2\nLinks Count,2\nChunks Count,2\nChunk Size,1,B\n"
    head += "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks\n"
    table.write_text(head + "0,1,500,50,0\n1,0,500,50,1\n")
    assert antiphon.load(table, "ring:2").collective == "all-gather"
    assert call("verify", table).exit_code == 0
    assert call("compare", "fc:2", "--schedule", table, "--bytes", "1MiB", "--algorithms", "ring").exit_code == 0
    table.write_text(head + "0,1,500,50,0\n1,0,500,50,None\n")
    assert "chunk 1 never leaves an NPU" in call("verify", table).output
    with pytest.raises(AntiphonError, match="no format 'tacos'") as refusal:
        antiphon.export(antiphon.build("ring:4", "ring", bytes="1MiB"), format="tacos")
    assert refusal.value.code == "unknown-name"


def test_goal_is_only_written(tmp_path: Path) -> None:
    path = tmp_path / "tto.goal"
    result = call("export", "mesh:3x3", "tto", "--bytes", "1MiB", "--format", "goal", "--out", path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    lines = path.read_text().splitlines()
    assert lines[0] == "num_ranks 9"
    assert sum(": send " in line for line in lines) == document["messages"]
    assert (
        "9 ranks"
        in call("export", "mesh:3x3", "ring-bi-odd", "--bytes", "1MiB", "--format", "goal", "--out", path).output
    )
    refused = call("verify", path)
    assert refused.exit_code == 1
    assert "only written" in refused.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "nofile"), "nofile: there is no such file"),
        (("verify", "."), ".: is a folder"),
        (("verify", "mesh:2x2"), "give either an ALGORITHM"),
        (("simulate", "mesh:2x2", "--schedule", "nofile", "--bytes", "64KiB"), "nofile: cannot be read"),
    ],
)
def test_a_file_that_is_not_there_is_said(arguments: tuple[str, ...], said: str, commands: Any) -> None:
    result = commands.invoke(*arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
