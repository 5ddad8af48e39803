"""What the operating system says of a machine."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from antiphon.calibration import machine


def test_shared_caches_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CPUS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert machine.caches() is None
    for core, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        for index, (level, size, cores) in enumerate((("2", "512K", str(core)), ("3", "8M", shared))):
            folder = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("size", size), ("shared_cpu_list", cores)):
                (folder / name).write_text(f"{text}\n")
    assert machine.caches() == 16 << 20


def test_free_memory_is_below_the_limit_of_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    free = machine.free_memory()
    assert free is None or free > 0
    (tmp_path / "memory.current").write_text("3000\n")
    for limit, expected in (("max", free), ("10000", 7000), ("2000", 0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert machine.free_memory() == (pytest.approx(free, rel=0.5) if limit == "max" else expected)
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 500\n")
    assert machine.free_memory() == 0
    (tmp_path / "memory.max").write_text("10000\n")
    assert machine.free_memory() == 7500  # what is kept of files is given back


def test_names_and_times() -> None:
    assert machine.processor()
    assert machine.blas()
    before, after = machine.busy_s(), machine.busy_s()
    assert before is None or (after is not None and 0 <= before <= after)


def test_numpy_that_does_not_say_what_it_was_built_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "show_config", lambda: None)
    assert machine.blas() == "unknown"
