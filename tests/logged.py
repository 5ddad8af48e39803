"""Logs as nccl-tests prints them, of times that a test says."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.library.nccl import bus_factor

DEVICES = {"v100": "Tesla V100-SXM2-32GB", "a100": "NVIDIA A100-SXM4-80GB", "h100": "NVIDIA H100 80GB HBM3"}


def log_text(times_us: Mapping[int, float], ranks: int, hosts: int = 1, gpu: str = "h100") -> str:
    """The log of an all_reduce_perf."""
    where = [f"on  box-{rank * hosts // ranks} device {rank % 8}" for rank in range(ranks)]
    devices = [f"#  Rank {rank:2} Group  0 Pid 42 {each} [0x8d] {DEVICES[gpu]}" for rank, each in enumerate(where)]
    rows = []
    for size, time in sorted(times_us.items()):
        rate = size / time / 1e3
        cell = f"{time:8.2f} {rate:7.2f} {rate * bus_factor('all-reduce', ranks):7.2f}      0"
        rows.append(f"{size:12} {size // 4:12}     float     sum      -1 {cell} {cell}")
    return "\n".join(["# Collective test starting: all_reduce_perf", "# nThread 1 nGpus 1", *devices, *rows, ""])
