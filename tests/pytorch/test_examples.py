"""Examples in docstrings of ``antiphon.torch``, and the job of its tutorial: pytest takes no modules that need PyTorch
where there is none."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is too large for the development environment")

ROOT = Path(__file__).resolve().parents[2]


def test_examples_of_docstrings_are_true() -> None:
    import antiphon.torch

    modules = [each.name for each in pkgutil.walk_packages(antiphon.torch.__path__, "antiphon.torch.")]
    assert "antiphon.torch.bench" in modules
    tried = {name: doctest.testmod(importlib.import_module(name)) for name in modules}
    assert not {name: found for name, found in tried.items() if found.failed}
    assert sum(found.attempted for found in tried.values()) > 0


def test_the_job_of_the_tutorial_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorials" / "three-machines.md").read_text("utf-8")
    job = re.search(r"^<!-- file: train.py -->\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    call = re.search(r"^\$ torchrun (--standalone .*)\n((?:rank .*\n)+)```$", page, re.MULTILINE)
    assert job
    assert call
    (tmp_path / "train.py").write_text(job[1], "utf-8")
    # Python under torchrun writes a line in pieces, so ranks that share a pipe mix their lines: each has a file here.
    logs = tmp_path / "logs"
    own = ["--redirects", "1", "--log-dir", str(logs)]
    command = [sys.executable, "-m", "torch.distributed.run", *own, *call[1].split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sorted(log.read_text("utf-8") for log in logs.rglob("stdout.log")) == call[2].splitlines(keepends=True)
