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


def time_ns(fabric: str, run: str, size: str, system: antiphon.System) -> float:
    """Of an AllReduce."""
    return antiphon.simulate(fabric, antiphon.build(fabric, run, bytes=size, system=system), system).time_ns


def best(stored: str, run: str, size: str, system: antiphon.System) -> str:
    """The fastest configuration that is found for an algorithm, from none and from the one that is stored."""
    starts = [(stored.partition(",")[0], each) for each in (*SIZES, size)] + [(stored, size)]
    found = {antiphon.configure(fabric, run, at, system=system, method="search").fabric for fabric, at in starts}
    return min(sorted(found), key=lambda each: time_ns(each, run, size, system))


def main() -> None:
    """Configures rows that say how, and for which size."""
    rows = DATA.table("designs")
    for row in rows:
        bare, run, size = row["fabric"].partition(",")[0], row["run"] or row["algorithm"], row["bytes"]
        system = SYSTEM.with_(router_ejection=row["ejection"])
        if row["method"] == "greedy":
            row["fabric"] = antiphon.configure(bare, run, size, system=system, method="greedy").fabric
        elif row["method"] == "search":
            row["fabric"] = best(row["fabric"], run, size, system)
        if row["method"]:
            print(row["design"], run, row["side"], row["method"], time_ns(row["fabric"], run, size, system), flush=True)
    with open(str(files("antiphon.papers.aries") / "designs.csv"), "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
