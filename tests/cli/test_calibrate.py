"""The command that measures this machine."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import antiphon

LEAST = ("calibrate", "--seconds", "0.01", "--size", "64KiB", "--gemm", "16")


def test_the_endpoint_file_is_what_json_prints(commands: Any, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    document = commands.document(*LEAST, "--out", file)
    assert document == json.loads(file.read_text())
    assert document["endpoint"].startswith("npu:total_memory_gb_per_s=")
    assert set(document) >= {"endpoint", "machine", "measured", "notes", "published"}


def test_people_see_the_table_the_paper_and_the_endpoint(commands: Any, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    result = commands.invoke(*LEAST, "--out", file)
    assert result.exit_code == 0
    assert not result.stderr
    lines = result.stdout.splitlines()
    endpoint = json.loads(file.read_text())["endpoint"]
    assert f"Endpoint: {endpoint}" in lines
    assert f"Endpoint file: {file}" in lines
    assert any(line.endswith("a GEMM of dimension 1000: 1.16x (Fig. 4(a))") for line in lines)
    assert any("two buffers of 64KiB, GEMM of dimension 16" in line for line in lines)


def test_csv_and_markdown(commands: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(commands.invoke(*LEAST, "--format", "csv").stdout)))
    assert len(rows) == 23
    assert {row["unit"] for row in rows} == {"GB/s", "GFLOP/s"}
    assert {row["gemm"] for row in rows} == {"16"}
    assert "| --- |" in commands.invoke(*LEAST, "--format", "markdown").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--size", "1PiB"), "give smaller ones"),
        (("--device", "tpu"), "unknown device 'tpu'"),
        (("--out", "machine.txt"), "must end in .json"),
        (("--out", ""), "the file name is empty; it must end in .json"),
    ],
)
def test_mistakes_are_one_line(commands: Any, arguments: tuple[str, ...], message: str) -> None:
    assert message in commands.refused(*LEAST, *arguments)


def test_a_gpu_without_pytorch_is_one_line(commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "measuring a GPU needs PyTorch" in commands.refused("calibrate", "--device", "cuda")


def test_ctrl_c_ends_it_and_leaves_no_file(commands: Any, tmp_path: Path) -> None:
    commands.interrupt(*LEAST, "--seconds", "30", "--out", tmp_path / "machine.json")
    assert not list(tmp_path.iterdir())


def test_a_busy_machine_is_said(commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.calibration.result.BUSY", -1.0)
    calibration = replace(antiphon.calibrate(seconds=0.01, size="64KiB", gemm=16), others=0.5)
    for cores, words in ((1, "the core"), (3, "the 3 cores")):
        machine = replace(calibration.machine, cores=cores)
        assert f"other work took 50% of the time of {words} meanwhile" in replace(calibration, machine=machine).notes
    if antiphon.calibrate(seconds=0.01, size="64KiB", gemm=16).others is not None:
        assert "Note: other work took " in commands.invoke(*LEAST).stdout
