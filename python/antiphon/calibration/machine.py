"""What the operating system says of this machine."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

import numpy as np

from antiphon.parallel import cores

CPUS = Path("/sys/devices/system/cpu")
CGROUP = Path("/sys/fs/cgroup")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def processor() -> str:
    """The name of the processor."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def caches() -> int | None:
    """Bytes of the last-level caches of the cores that this process may use, each counted once; None if unknown."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(cores())
    found: dict[tuple[int, str], int] = {}
    with suppress(OSError, ValueError, KeyError):
        for core in allowed:
            for folder in (CPUS / f"cpu{core}" / "cache").glob("index*"):
                text = (folder / "size").read_text().strip()
                place = int((folder / "level").read_text()), (folder / "shared_cpu_list").read_text().strip()
                found[place] = int(text[:-1]) * UNITS[text[-1]]
    last = max((level for level, _ in found), default=None)
    return sum(size for (level, _), size in found.items() if level == last) or None


def free_memory() -> int | None:
    """Bytes of memory that this process may still take, by the system and by the limit of its control group; None if
    unknown."""
    free: list[int] = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        free += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        for group in (CGROUP, CGROUP / "memory"):
            with suppress(OSError, ValueError):  # "max": no limit
                most, taken = (int((group / name).read_text()) for name in (limit, used))
                free.append(most - taken + _reclaimable(group / "memory.stat"))
    if not free:
        with suppress(OSError, ValueError, AttributeError):
            free.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return max(min(free), 0) if free else None


def _reclaimable(statistics: Path) -> int:
    """Bytes that a control group has taken for files, and gives back when they are asked for."""
    with suppress(OSError, ValueError):
        fields = dict(line.split() for line in statistics.read_text().splitlines())
        return int(fields.get("inactive_file", 0))
    return 0


def busy_s() -> float | None:
    """For how long, in seconds since some time, the cores that this process may use have been busy, whoever it was:
    with other virtual machines too; None if unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/stat").read_text("utf-8").splitlines():
            name, *times = line.split()
            if name in names:
                user, nice, system, _idle, _waiting, hardware, software, stolen = map(int, times[:8])
                ticks += user + nice + system + hardware + software + stolen
        return ticks / os.sysconf("SC_CLK_TCK")
    return None


def blas() -> str:
    """The library by which numpy multiplies matrices, and its version."""
    try:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{built['name']} {built['version']}"
    except (TypeError, KeyError):  # numpy before 1.26
        return "unknown"
