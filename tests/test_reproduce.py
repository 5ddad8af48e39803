"""``antiphon reproduce``: its contract and its answers to bad input."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from antiphon.papers import PAPERS
from antiphon.repro.reproduction import choose
from antiphon.studies import Store

DOCS = Path(__file__).resolve().parent.parent / "docs"


def runs_in(path: Path) -> int:
    """Runs in a store that another process uses."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
        except sqlite3.OperationalError:  # its tables are not there yet
            return 0


def test_figures_are_listed(commands: Any) -> None:
    document = commands.document("reproduce", "tto", "--list")
    assert (document["paper"], len(document["figures"])) == ("tto", len(PAPERS["tto"].figures))
    assert {"name", "title"} == set(document["figures"][0])
    printed = commands.invoke("reproduce", "tto/fig14", "--list").stdout
    assert "fig14" in printed
    assert "fig8" not in printed
    assert "no paper 'tt'" in commands.refused("reproduce", "tt", "--list")


def test_json(commands: Any, tmp_path: Path) -> None:
    document = commands.document("reproduce", "tto/table1", "fig14", "--store", tmp_path)
    assert [figure["name"] for figure in document["figures"]] == ["table1", "fig14"]
    assert document["claims"]
    assert document["report"] == f"{tmp_path}/tto/report-table1-fig14.html"
    text = runpy.run_path(str(DOCS.parent / "scripts" / "site" / "json_keys.py"))["page"]()

    def keys(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(keys, value))
        return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()

    told = {key for code in re.findall(r"`([^`\n]+)`", text.split("\n## reproduce")[1]) for key in code.split(".")}
    assert keys(document) - told == {"schema", "version"}


def test_table_and_second_call(commands: Any, tmp_path: Path) -> None:
    first, second = (commands.invoke("reproduce", "tto", "fig14", "--store", tmp_path / "new folder") for _ in range(2))
    assert "Runs: 10 made, 0 taken from earlier calls" in first.stdout
    assert "Runs: 0 made, 10 taken from earlier calls" in second.stdout
    for text in ("Fig. 14. Size of TTO's chunks", "TTO", "0.01 %", "report-fig14.html", "Claims of the paper: 2 hold"):
        assert text in second.stdout


def test_errors(commands: Any, tmp_path: Path) -> None:
    assert "no paper 'tt', did you mean 'tto'?; known: tto" in commands.refused("reproduce", "tt", "--store", tmp_path)
    assert "no figure of tto 'fig15', did you mean 'fig1" in commands.refused(
        "reproduce", "tto/fig15", "--store", tmp_path
    )
    assert "no figure of tto 'xyz'; known: iii-a, table1, " in commands.refused(
        "reproduce", "tto", "fig8", "xyz", "--store", tmp_path
    )
    assert "--store" in commands.refused("reproduce", "tto")
    assert "jobs" in commands.refused("reproduce", "tto", "--store", tmp_path, "--jobs", "0")
    (tmp_path / "file").write_text("")
    assert "exists and is not a folder" in commands.refused("reproduce", "tto/fig14", "--store", tmp_path / "file")
    assert "cannot be written: Not a directory" in commands.refused(
        "reproduce", "tto/fig14", "--store", tmp_path / "file" / "below"
    )
    (tmp_path / "tto" / "report-fig14.html").mkdir(parents=True)
    assert "report-fig14.html: exists and is not a file" in commands.refused(
        "reproduce", "tto/fig14", "--store", tmp_path
    )
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "runs.sqlite")
    assert "runs.sqlite: exists and is not a file" in commands.refused(
        "reproduce", "tto/fig14", "--store", tmp_path / "pipe"
    )


def test_runs_of_something_else(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite").write_text("something\n")
    assert "runs.sqlite: is no store of runs" in commands.refused("reproduce", "tto/fig14", "--store", tmp_path)


def test_out_must_name_a_folder(commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--store is empty; name a folder" in commands.refused("reproduce", "tto/fig14", "--store", "")
    assert os.listdir(tmp_path) == []


def test_help_names_every_paper(commands: Any) -> None:
    text = commands.invoke("reproduce", "--help").stdout
    assert f"known: {', '.join(PAPERS)}" in " ".join(text.split())


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "antiphon", "reproduce", "tto/fig8", "--store", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stored = tmp_path / "runs.sqlite"
    deadline = time.monotonic() + 60
    while not (stored.exists() and runs_in(stored) >= 5):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "interrupted\n")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert left <= {"runs.sqlite", "runs.sqlite-shm", "runs.sqlite-wal", "tto"}
    with Store(tmp_path) as store:
        assert sum(point in store for point in choose(PAPERS, "tto/fig8")[1][0].points(False)) >= 5
