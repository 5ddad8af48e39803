"""Logs as nccl-tests prints them, of times that a test says."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from antiphon.library.nccl import bus_factor

TABLES = Path(__file__).parents[1] / "data/clusters"
DEVICES = {"v100": "Tesla V100-SXM2-32GB", "a100": "NVIDIA A100-SXM4-80GB", "h100": "NVIDIA H100 80GB HBM3"}


def log_text(times_us: Mapping[int, float], ranks: int, hosts: int = 1, gpu: str = "h100") -> str:
    """The log of an all_reduce_perf."""
    devices = [
        f"#  Rank {rank:2} Group  0 Pid {900 + rank} on  box-{rank * hosts // ranks} device {rank % 8} [0x8d] {DEVICES[gpu]}"
        for rank in range(ranks)
    ]
    rows = []
    for size, time in sorted(times_us.items()):
        rate = size / time / 1e3
        cell = f"{time:8.2f} {rate:7.2f} {rate * bus_factor('all-reduce', ranks):7.2f}      0"
        rows.append(f"{size:12} {size // 4:12}     float     sum      -1 {cell} {cell}")
    return "\n".join(["# Collective test starting: all_reduce_perf", "# nThread 1 nGpus 1", *devices, *rows, ""])


def healthy() -> dict[str, tuple[str, int, dict[int, float]]]:
    """Every measured table of AllReduce on one box: the kind of GPU, how many, times in us."""
    found: dict[str, tuple[str, int, dict[int, float]]] = {}

    def add(name: str, gpu: str, gpus: int, size: str, time_us: float) -> None:
        found.setdefault(f"{name}, {gpus} {gpu}", (gpu, gpus, {}))[2][int(size)] = time_us

    for row in _rows("allreduce_azure.csv"):
        gpus = int(row["gpus"])
        time_us = int(row["bytes"]) * bus_factor("all-reduce", gpus) / float(row["bus_gb_per_s"]) / 1e3
        add("azure", row["gpu"], gpus, row["bytes"], time_us)
    for row in _rows("allreduce_vtrain.csv"):
        add("vtrain", row["gpu"], int(row["gpus"]), row["bytes"], float(row["in_place_us"]))
    for row in _rows("leaderboard_ndv4.csv"):
        add("ndv4", "a100", 8, row["bytes"], float(row["in_place_us"]))
    return found


def _rows(name: str) -> list[dict[str, str]]:
    with (TABLES / name).open() as file:
        return list(csv.DictReader(file))
