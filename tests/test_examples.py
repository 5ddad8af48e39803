"""Examples run; that of a notebook goes from a file of a mesh to a comparison, a chart and a Parquet file."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


def broken_mesh(names: dict[str, Any], said: str) -> None:
    assert "16 chiplets, 44 links, rates [12.5, 25.0]" in said
    runs = pl.read_parquet("broken_mesh.parquet")
    assert runs["algorithm"].to_list() == [run.algorithm for run in names["comparison"]]
    assert runs["time_ns"].is_sorted()
    assert "</svg>" in Path("broken_mesh.svg").read_text("utf-8")


CHECKS = {"broken_mesh.py": broken_mesh}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(example), run_name="__main__")
    said = capsys.readouterr().out
    assert said
    if check := CHECKS.get(example.name):
        check(names, said)


def test_notebooks_have_cells_of_text_and_of_code() -> None:
    (notebook,) = (text for each in EXAMPLES if (text := each.read_text("utf-8")).startswith("# %%"))
    assert notebook.startswith("# %% [markdown]\n")
    assert notebook.count("\n# %%\n") >= 5
