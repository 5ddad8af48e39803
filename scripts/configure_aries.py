"""Configures the meshes with bypasses of the ARIES paper for their algorithms.

python scripts/configure_aries.py   # the column fabric of python/antiphon/papers/aries/designs.csv
"""

from __future__ import annotations

import csv
from importlib.resources import files

import antiphon
from antiphon.papers.aries.designs import DATA, SYSTEM

SIZES = ("1KiB", "64KiB", "2MiB")
"""A search may end at different configurations for these; all are timed at the size of the row."""


def time_ns(fabric: str, run: str, size: str) -> float:
    """Of an AllReduce."""
    network = antiphon.Fabric(fabric)
    return antiphon.simulate(network, antiphon.build(network, run, bytes=size, system=SYSTEM), SYSTEM).time_ns


def best(fabric: str, run: str, size: str) -> str:
    """The fastest configuration that is found for an algorithm."""
    found = {antiphon.configure(fabric, run, bytes=each, system=SYSTEM).fabric for each in SIZES}
    return min(sorted(found), key=lambda each: time_ns(each, run, size))


def main() -> None:
    """Configures rows that say for which size."""
    rows = DATA.table("designs")
    for row in rows:
        if row["bytes"]:
            bare, _, _ = row["fabric"].partition(",")
            row["fabric"] = best(bare, row["run"] or row["algorithm"], row["bytes"])
            print(
                row["design"],
                row["algorithm"],
                row["side"],
                time_ns(row["fabric"], row["run"] or row["algorithm"], row["bytes"]),
            )
    with open(str(files("antiphon.papers.aries") / "designs.csv"), "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
