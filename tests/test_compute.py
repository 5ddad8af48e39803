"""Compute models against SCALE-Sim. The Rust tests hold every cycle; here the oracle itself can run again."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

import antiphon

ROOT = Path(__file__).resolve().parent.parent
CYCLES = ROOT / "data" / "scalesim" / "cycles.csv"
SHAPE = ["layer", "ifmap_h", "ifmap_w", "filter_h", "filter_w", "channels", "num_filters", "stride"]


def test_stationary_weights_and_inputs_take_scale_sims_cycles() -> None:
    with CYCLES.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["dataflow"] != "os"]
    assert len(rows) == 140
    for row in rows:
        table = f"{','.join(SHAPE)}\n{','.join(row[column] for column in SHAPE)}\n"
        compute = f"systolic:rows={row['rows']},cols={row['columns']},pes=1,dataflow={row['dataflow']}"
        plan = antiphon.TrainingPlan(antiphon.Workload.from_csv("layer.csv", table), compute, 1)
        assert plan.layers["forward_ns"].tolist() == [float(row["cycles"])], row


@pytest.mark.slow
def test_the_oracle_still_gives_these_cycles(tmp_path: Path) -> None:
    """Set SCALESIM_PYTHON to a Python that has scalesim; it needs an older numpy than ours."""
    python = os.environ.get("SCALESIM_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import scalesim"], capture_output=True).returncode != 0:
        pytest.skip("no scalesim; scripts/scalesim_cycles.py says how to install it")
    script = ROOT / "scripts" / "scalesim_cycles.py"
    subprocess.run([python, "-W", "ignore", str(script), str(tmp_path / "cycles.csv")], check=True, timeout=600)
    assert (tmp_path / "cycles.csv").read_text("utf-8") == CYCLES.read_text("utf-8")
