"""``antiphon reproduce``: its contract and its answers to bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import antiphon
from antiphon.cli import main
from antiphon.papers import PAPERS
from antiphon.study import Store

DOCS = Path(__file__).resolve().parent.parent / "docs"


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


def refused(result: Result, message: str) -> None:
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr


def test_json(tmp_path: Path) -> None:
    result = invoke("tto/table1", "fig14", "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["schema"] == "antiphon-reproduce/1"
    assert document["version"] == antiphon.__version__
    assert [figure["name"] for figure in document["figures"]] == ["table1", "fig14"]
    assert document["claims"]
    assert document["report"] == f"{tmp_path}/tto/report-table1-fig14.html"
    text = (DOCS / "json.md").read_text("utf-8")

    def keys(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(keys, value))
        return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()

    assert not [key for key in keys(document) if f"`{key}`" not in text]


def test_table_and_second_call(tmp_path: Path) -> None:
    first, second = (invoke("tto", "fig14", "--out", tmp_path / "new folder") for _ in range(2))
    assert "Runs: 10 made, 0 taken from earlier calls" in first.stdout
    assert "Runs: 0 made, 10 taken from earlier calls" in second.stdout
    for text in ("Fig. 14. Size of TTO's chunks", "TTO", "0.01 %", "report-fig14.html", "Claims of the paper: 1 hold"):
        assert text in second.stdout


def test_errors(tmp_path: Path) -> None:
    refused(invoke("tt", "--out", tmp_path), "no paper 'tt', did you mean 'tto'?; known: tto")
    refused(invoke("tto/fig15", "--out", tmp_path), "no figure of tto 'fig15', did you mean 'fig1")
    refused(invoke("tto", "fig8", "xyz", "--out", tmp_path), "no figure of tto 'xyz'; known: table1, fig8")
    refused(invoke("tto"), "--out")
    refused(invoke("tto", "--out", tmp_path, "--jobs", "0"), "jobs")
    (tmp_path / "file").write_text("")
    refused(invoke("tto/fig14", "--out", tmp_path / "file"), "exists and is not a folder")
    refused(invoke("tto/fig14", "--out", tmp_path / "file" / "below"), "cannot be written: Not a directory")
    (tmp_path / "tto" / "report-fig14.html").mkdir(parents=True)
    refused(invoke("tto/fig14", "--out", tmp_path), "report-fig14.html: exists and is not a file")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "runs.jsonl")
    refused(invoke("tto/fig14", "--out", tmp_path / "pipe"), "runs.jsonl: exists and is not a file")


def test_runs_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text("something\n")
    refused(invoke("tto/fig14", "--out", tmp_path), "runs.jsonl: line 1 is not a stored run")
    (tmp_path / "runs.jsonl").write_text('{"point": {"fab')  # cut off
    assert invoke("tto/fig14", "--out", tmp_path).exit_code == 0
    stored = (tmp_path / "runs.jsonl").read_text()
    (tmp_path / "runs.jsonl").write_text(stored.replace('"time_ns":', '"time_nz":'))
    refused(invoke("tto/fig14", "--out", tmp_path), "runs.jsonl: line 1 is not a stored run")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "antiphon", "reproduce", "tto/fig8", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stored = tmp_path / "runs.jsonl"
    deadline = time.monotonic() + 60
    while not (stored.exists() and stored.read_bytes().count(b"\n") >= 5):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "interrupted\n")
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {"runs.jsonl", "tto"}
    with Store(tmp_path) as store:
        assert sum(point in store for point in PAPERS["tto"].experiments[1].points(False)) >= 5
