"""The script that measures on a GPU, where this machine stands in for one and no time means anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import gpu_tables
import pytest
from cuda_stand_in import Driver

import antiphon
from antiphon.execution.cuda import testbed

SMALL = {
    "FABRICS": ("ring:4", "mesh:6x6"),  # the last has more links than there are processors
    "SIZES": (1 << 12,),
    "GB_PER_S": 0.05,
    "CCUBE_SIZES": (1 << 14,),
    "CCUBE_BYTES": 1 << 16,
    "LAYERS": 4,
    "SHARES": (0.5,),
    "COPY_BYTES": 1 << 16,
    "PLAIN": (("ring:4", "ring-bi", "all-reduce"),),
    "PLAIN_BYTES": 1 << 12,
}


def test_every_part(stand_in: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = stand_in()
    for name, value in SMALL.items():
        monkeypatch.setattr(gpu_tables, name, value)
    for name, number in {"HOPS": 4, "SPIN_CYCLES": 10**6, "PROBE_BYTES": 1 << 16, "RATE_TOLERANCE": 1.0}.items():
        monkeypatch.setattr(testbed, name, number)
    monkeypatch.setattr(antiphon, "collectives", lambda: ["all-reduce", "all-to-all"])
    kept = tmp_path / "kept.json"
    monkeypatch.setattr(sys, "argv", ["gpu_tables.py", "--repeat", "1", "--out", str(kept)])
    assert gpu_tables.main() == 0
    rows = json.loads(kept.read_text())["rows"]
    assert {row["name"] for row in rows if row.get("figure") == "13-15"} == {"B", "C1", "C2", "CC", "R"}
    assert all(row["measured_us"] > 0 for row in rows if "wrong" in row)
    assert ["refused" in row for row in rows if row["fabric" if "fabric" in row else "part"] == "mesh:6x6"] == [True]
    assert {row["collective"] for row in rows if row["part"] == "a" and "ring:4" in row["fabric"]} == {
        "all-reduce",
        "all-to-all",
    }
    assert "Measured on Stand-in" in (tmp_path / "gpu_stand_in.md").read_text()
    assert driver.memory == {}
