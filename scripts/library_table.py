"""Writes the tables of docs/explanation/library.md: measured collectives beside what the library models say.

Run by `make tables`; a test sees that all is current.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from antiphon.library import nccl
from antiphon.library.cluster import Cluster
from antiphon.library.measured import Expected, expected

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "data" / "clusters", ROOT / "docs" / "explanation" / "library.md"
GIB, MIB = 1 << 30, 1 << 20
BANDS = {
    "1 GiB and more": (GIB, 1 << 60),
    "from 64 MiB": (64 * MIB, 1 << 60),
    "1 to 64 MiB": (MIB, 64 * MIB),
    "below": (0, MIB),
}
"""Least size, and the size that is just too large."""
FITTED = {("a100", 4, "vTrain"), ("a100", 8, "vTrain"), ("a100", 8, "NDv4")}
"""Tables that the ramp was fitted on."""
Table = tuple[str, int, str]
Model = Callable[[Expected], float]
MODELS: tuple[Model, Model] = (
    lambda found: found.time_us,
    lambda found: found.choice.time_us if found.choice else math.nan,
)
"""Times of a size: what a run should take, and what NCCL believes."""


def rows(file: str) -> list[dict[str, str]]:
    """Rows of a file of data/clusters."""
    with (DATA / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def measured() -> dict[Table, list[tuple[int, float]]]:
    """AllReduce in a box: sizes and times in us, by GPU, number of GPUs and source."""
    found: dict[Table, list[tuple[int, float]]] = {}
    for row in rows("allreduce_vtrain.csv"):
        key = (row["gpu"], int(row["gpus"]), "vTrain")
        found.setdefault(key, []).append((int(row["bytes"]), float(row["in_place_us"])))
    for row in rows("allreduce_azure.csv"):
        gpus, size = int(row["gpus"]), int(row["bytes"])
        time_us = nccl.bus_factor("all-reduce", gpus) * size / (1000 * float(row["bus_gb_per_s"]))
        found.setdefault((row["gpu"], gpus, "Azure"), []).append((size, time_us))
    ndv4 = rows("leaderboard_ndv4.csv")
    found["a100", 8, "NDv4"] = [(int(row["bytes"]), float(row["in_place_us"])) for row in ndv4]
    return found


def errors(table: Table, model: Model = MODELS[0]) -> dict[str, list[float]]:
    """Errors of time in percent by band of sizes; the floor is the time of the smallest size."""
    points = measured()[table]
    cluster, floor = Cluster.parse(f"dgx-{table[0]}").group(table[1]), points[0][1]
    of = {size: 100 * (model(expected(cluster, "all-reduce", size, "nccl", floor)) / us - 1) for size, us in points}
    found = {band: [error for size, error in of.items() if low <= size < high] for band, (low, high) in BANDS.items()}
    return {band: each for band, each in found.items() if each}


def stated() -> Iterator[tuple[dict[str, str], Expected]]:
    """Bandwidths of large sizes that people state, and what is expected."""
    for row in rows("stated.csv"):
        cluster = Cluster.parse(row["cluster"])
        cluster = cluster.group(int(row["gpus_per_box"]), cluster.boxes)
        yield row, expected(cluster, row["collective"], int(row["bytes"]), row["library"])


def fugaku() -> Iterator[tuple[str, str, float, Expected]]:
    """AllGather and AllReduce of 512 MiB on eight nodes."""
    for row in rows("fugaku_2x2x2_best.csv"):
        collective = {"allgather": "all-gather", "allreduce": "all-reduce"}.get(row["collective"])
        if collective and int(row["bytes"]) == 512 * MIB:
            cluster = Cluster.parse(f"fugaku:{row['shape']}")
            found = expected(cluster, collective, 512 * MIB, "none")
            yield cluster.name, collective, float(row["best_median_us"]), found


def by_size() -> str:
    """Mean and greatest errors of each table, by what a run should take and by NCCL's own model."""
    bands = [band for band in BANDS if band != "1 GiB and more"]
    lines = ["| GPUs, source |" + "".join(f" {band} |" for band in bands), "|---|" + "---|" * len(bands)]
    for table in measured():
        gpu, gpus, source = table
        name = f"{gpus} {gpu.upper()}, {source}" + (" (fitted)" if table in FITTED else "")
        found = [errors(table, model) for model in MODELS]
        cells = ("; ".join(_spread(each[band]) for each in found) if band in found[0] else "-" for band in bands)
        lines.append(f"| {name} |" + "".join(f" {cell} |" for cell in cells))
    return "\n".join(lines) + "\n"


def _spread(found: list[float]) -> str:
    sizes = [abs(error) for error in found]
    return f"{sum(sizes) / len(sizes):.1f}/{max(sizes):.1f}"


def large() -> str:
    """Single figures."""
    lines = [
        "| cluster | GPUs | collective | GiB | measured, GB/s | expected | error, % | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row, found in stated():
        rate, size = float(row["bus_gb_per_s"]), int(row["bytes"])
        gpus = Cluster.parse(row["cluster"]).boxes * int(row["gpus_per_box"])
        where = f"`{row['cluster']}`" + (" (fitted)" if "fitted" in row["what"] else "")
        error = 100 * (rate / found.bus_gb_per_s - 1)
        lines.append(
            f"| {where} | {gpus} | {row['collective']} | {size / GIB:g} | {rate:.0f} | {found.bus_gb_per_s:.0f}"
            f" | {error:+.1f} | {row['source'].replace(' issue ', '#')} |"
        )
    for where, collective, us, found in fugaku():
        error, source = 100 * (found.time_us / us - 1), "HLC-Lab/pico"
        times = f"{us / 1000:.1f} ms | {found.time_us / 1000:.1f} ms"
        lines.append(f"| `{where}` (fitted) | 8 | {collective} | 0.5 | {times} | {error:+.1f} | {source} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with both tables as they are now."""
    for name, made in (("errors", by_size()), ("points", large())):
        found = re.compile(rf"(?<=<!-- table {name}: make tables -->\n).*?(?=<!-- end of table -->)", re.DOTALL)
        text = found.sub(made, text, count=1)  # no backslash in it
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
