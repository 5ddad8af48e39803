"""Compute models against SCALE-Sim. The Rust tests hold every cycle; here the oracle itself can run again."""

from __future__ import annotations

import csv
from pathlib import Path

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
