"""Measures schedules inside one GPU, beside what is predicted: `python scripts/gpu_tables.py`, on a machine with a GPU.

In under five minutes: (a) all algorithms and collectives on small fabrics of paced links, every element compared; (b)
messages as fast as the memory allows; (c) the algorithms of C-Cube on `dgx1v`, with layers that follow. It prints each
row, and writes all with the device and the date to python/antiphon/papers/ccube/measured.json, which `antiphon
reproduce ccube` quotes, and as docs/gpu_DEVICE.md. What there was no time for is a row that says so."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import antiphon
from antiphon.execution.cuda.carrier import measure_cuda
from antiphon.execution.cuda.device import Gpu
from antiphon.execution.cuda.program import Layer
from antiphon.execution.cuda.testbed import GpuFabric
from antiphon.execution.layers import dealt, shared_out
from antiphon.execution.measure import Plan
from antiphon.execution.prediction import COPY_ACCESSES, REDUCE_ACCESSES

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "python/antiphon/papers/ccube/measured.json"
GB_PER_S = 4.0
FABRICS = ("mesh:4x4", "mesh:5x5", "mesh:6x6", "torus:4x4", "dgx1v")
SIZES = (8 << 20, 1 << 20, 1 << 16)
MOST_MEMORY = 1 << 30
"""Of all ranks together: in an all-to-all each has as many parts as there are ranks."""
CCUBE = {
    "B": ("overlapped-tree:overlap=no", False),
    "C1": ("overlapped-tree", False),
    "C2": ("overlapped-tree:overlap=no", True),
    "CC": ("overlapped-tree", True),
    "R": ("ring-bi", False),
}
"""The algorithm, and whether the layers are chained."""
CCUBE_SIZES = tuple(1 << log for log in range(16, 28, 2))
CCUBE_BYTES, LAYERS, SHARES = 64 << 20, 16, (0.5, 1.0)
"""Data; equal layers; how long they compute in all, as shares of the time of C1."""
COPY_BYTES = 1 << 30
PLAIN = (
    ("mesh:4x4", "ring-bi", "all-reduce"),
    ("mesh:4x4", "combs", "all-reduce"),
    ("mesh:4x4", "direct", "all-gather"),
    ("dgx1v", "overlapped-tree", "all-reduce"),
)
PLAIN_BYTES = 48 << 20
COLUMNS = (
    "part",
    "fabric",
    "collective",
    "algorithm",
    "bytes",
    "message_bytes",
    "measured_us",
    "predicted_us",
    "ratio",
)

Row = dict[str, Any]


def row(part: str, fabric: str, schedule: antiphon.Schedule, times_ns: Sequence[float], predicted_ns: float) -> Row:
    """A row of the tables; of what is measured the median and the spread, most over least less 1."""
    middle = median(times_ns)
    return {
        "part": part,
        "fabric": fabric,
        "collective": schedule.collective,
        "algorithm": schedule.algorithm,
        "bytes": schedule.bytes,
        "message_bytes": round(float(schedule.transfers["message_bytes"].mean())),
        "measured_us": round(middle / 1e3, 2),
        "predicted_us": round(predicted_ns / 1e3, 2),
        "ratio": round(middle / predicted_ns, 4),
        "spread": round(max(times_ns) / min(times_ns) - 1, 4),
    }


def paced(there: GpuFabric, spec: str, schedule: antiphon.Schedule, repeat: int) -> Row:
    """Runs of one schedule on paced links."""
    predicted_ns = antiphon.simulate(there.fabric, schedule, there.system).time_ns
    loaded = there.loaded(schedule, "float32")
    try:
        runs = [loaded.run() for _ in range(1 + repeat)]
    finally:
        loaded.close()
    found = row("a", spec, schedule, [run.time_ns for run in runs[1:]], predicted_ns)
    return found | {"wrong": max(run.wrong for run in runs)}


def algorithms(gpu: Gpu, until: float, repeat: int) -> Iterator[Row]:
    """Part (a), the large sizes first."""
    there: dict[str, GpuFabric] = {}
    for size in SIZES:
        for spec in FABRICS:
            fabric = antiphon.Fabric(spec)
            if spec not in there:
                try:
                    there[spec] = GpuFabric(gpu, fabric, GB_PER_S)
                except antiphon.AntiphonError as error:
                    yield {"part": "a", "fabric": spec, "refused": error.message}
                    continue
            for collective in antiphon.collectives():
                parts = fabric.ranks if collective == "all-to-all" else 1
                bytes = min(size, MOST_MEMORY // (parts * fabric.ranks) // 4096 * 4096)
                for algorithm in antiphon.algorithms():
                    what: Row = {"part": "a", "fabric": spec, "collective": collective, "algorithm": algorithm.name}
                    what["bytes"] = bytes
                    if time.monotonic() > until:
                        yield what | {"refused": "no time was left"}
                        continue
                    try:
                        schedule = antiphon.build(fabric, algorithm.name, collective, bytes, there[spec].system)
                        schedule.verify(fabric)
                        yield paced(there[spec], spec, schedule, repeat)
                    except antiphon.NotApplicable:
                        continue  # there is no such algorithm here
                    except antiphon.AntiphonError as error:
                        yield what | {"refused": error.message}


def copy_rate(gpu: Gpu) -> float:
    """Bytes read and written in a ns by a copy within the GPU."""
    mark = gpu.mark()
    start, to = gpu.allocate(COPY_BYTES), gpu.allocate(COPY_BYTES)
    times = []
    for _ in range(6):
        gpu.record(0)
        gpu.copy(to, start, COPY_BYTES)
        gpu.record(1)
        gpu.wait()
        times.append(gpu.elapsed_ns())
    gpu.release(mark)
    return 2 * COPY_BYTES / median(times[1:])


def plain(gpu: Gpu) -> Iterator[Row]:
    """Part (b): without links and rates, over the time in which the memory moves as much."""
    rate = copy_rate(gpu)
    yield {"part": "b", "algorithm": "device copy", "gb_per_s": round(rate, 1), "bytes": COPY_BYTES}
    for spec, name, collective in PLAIN:
        schedule = antiphon.build(spec, name, collective, PLAIN_BYTES)
        (found,) = measure_cuda([schedule], Plan("float32", 1, 5), 8.0)
        transfers = schedule.transfers
        moved = transfers["message_bytes"] * transfers["chunks"]
        added = float(moved[transfers["reduces"]].sum())
        accesses = REDUCE_ACCESSES * added + COPY_ACCESSES * (float(moved.sum()) - added)
        made = row("b", spec, schedule, [found.in_place.time_ns], accesses / rate)
        yield made | {"wrong": found.in_place.wrong + found.out_of_place.wrong}


ITEMSIZE = 4


def iteration_ns(schedule: antiphon.Schedule, result: Any, layers: Sequence[Layer], is_chained: bool) -> float:
    """Predicted end of the last layer, from when chunks are complete at all ranks."""
    chunks = result.chunks
    keys = zip(chunks["lane"].tolist(), chunks["chunk"].tolist(), strict=True)
    complete = dict(zip(keys, chunks["complete_ns"].tolist(), strict=True))
    at = 0.0 if is_chained else float(result.time_ns)
    parts = shared_out(dealt(schedule, ITEMSIZE), [each.bytes for each in layers])
    for layer, part in zip(layers, parts, strict=True):
        ready = max((complete[each.lane, each.chunk] for each, _ in part), default=0.0) if is_chained else 0.0
        at = max(at, ready) + layer.compute_ns
    return at


def ccube(gpu: Gpu, repeat: int) -> Iterator[Row]:
    """Part (c): AllReduces by size (Fig. 12), iterations with layers (Fig. 13, 14), and each rank's own (Fig. 15)."""
    there = GpuFabric(gpu, antiphon.Fabric("dgx1v"), GB_PER_S)
    for size in CCUBE_SIZES:
        for name in ("B", "C1", "R"):
            schedule = antiphon.build(there.fabric, CCUBE[name][0], bytes=size, system=there.system)
            schedule.verify(there.fabric)
            yield paced(there, "dgx1v", schedule, repeat) | {"part": "c", "figure": "12", "name": name}
    schedules = {
        name: antiphon.build(there.fabric, algorithm, bytes=CCUBE_BYTES, system=there.system)
        for name, (algorithm, _) in CCUBE.items()
    }
    results = {name: antiphon.simulate(there.fabric, each, there.system) for name, each in schedules.items()}
    for share in SHARES:
        layers = [Layer(CCUBE_BYTES // LAYERS, share * results["C1"].time_ns / LAYERS)] * LAYERS
        for name, (_, is_chained) in CCUBE.items():
            loaded = there.loaded(schedules[name], "float32", layers, is_chained=is_chained)
            try:
                runs = [loaded.run() for _ in range(1 + repeat)][1:]
            finally:
                loaded.close()
            predicted_ns = iteration_ns(schedules[name], results[name], layers, is_chained)
            found = row("c", "dgx1v", schedules[name], [run.time_ns for run in runs], predicted_ns)
            ranks = np.median([run.rank_ns for run in runs], axis=0)
            # The ranks through which detours pass are 0 and 1.
            loss = float(ranks[:2].mean() / ranks[2:].mean() - 1)
            found |= {"figure": "13-15", "name": name, "compute_share": share, "forwarding_loss": round(loss, 4)}
            yield found | {"rank_us": (ranks / 1e3).round(1).tolist(), "wrong": max(run.wrong for run in runs)}


def in_line(found: Row) -> str:
    """A row for people."""
    cells = [str(found.get(name, "")) for name in COLUMNS]
    more = [f"{name}={value}" for name, value in found.items() if name not in COLUMNS]
    return " | ".join([*cells, " ".join(more)])


def markdown(kept: dict[str, Any]) -> str:
    """All rows as a page."""
    head = "# Schedules inside one GPU\n\n"
    head += f"Measured on {kept['device']}, {kept['date']}, by `python scripts/gpu_tables.py`, with Antiphon "
    head += f"{kept['version']}.\nLinks of {GB_PER_S:g} GB/s; a hop takes {kept['hop_ns']:,.0f} ns.\n\n"
    lines = [" | ".join((*COLUMNS, "more")), "|".join(["---"] * (len(COLUMNS) + 1)), *map(in_line, kept["rows"])]
    return head + "".join(f"| {line} |\n" for line in lines)


def main() -> int:
    """Measures all and writes it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="time for all; default 5")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of each case; default 5")
    parser.add_argument("--out", type=Path, default=KEPT, help=f"default {KEPT.relative_to(ROOT)}")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    try:
        gpu = Gpu()
    except antiphon.AntiphonError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    rows: list[Row] = []
    try:
        hop_ns = GpuFabric(gpu, antiphon.Fabric("mesh:4x4"), GB_PER_S).hop_ns
        for part in (ccube(gpu, given.repeat), plain(gpu), algorithms(gpu, until, given.repeat)):
            for found in part:
                rows.append(found)
                print(in_line(found), flush=True)
    finally:
        gpu.close()
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    kept = {"device": gpu.name, "date": date, "version": antiphon.__version__, "hop_ns": hop_ns, "rows": rows}
    given.out.write_text(json.dumps(kept, indent=1) + "\n")
    page = given.out.parent if given.out != KEPT else ROOT / "docs"
    name = re.sub(r"[^a-z0-9]+", "_", gpu.name.lower()).strip("_")
    (page / f"gpu_{name}.md").write_text(markdown(kept))
    wrong = sum(bool(found.get("wrong")) for found in rows)
    print(f"{len(rows)} rows, {wrong} with wrong elements; written to {given.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
