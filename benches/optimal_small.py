"""Times `optimal` beside all other algorithms; fails if another one is faster by more than 3 %.

Collectives and fabrics are those of the table in docs/explanation/optimal.md and more; `--fabrics A B` takes
some.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from itertools import product
from pathlib import Path

import antiphon

TABLE = runpy.run_path(str(Path(__file__).resolve().parent.parent / "scripts" / "optimal_table.py"))
MORE = "mesh:4x4 mesh:3x7 mesh:5x7 torus:8x8 fbfly:4x4 ring:8 switch:8 dgx-a100:1:raw dgx-h100:2:raw"
COLLECTIVES = (*TABLE["COLLECTIVES"], "reduce-scatter", "reduce")
FABRICS = (*TABLE["FABRICS"], *MORE.split())
SYSTEMS = ("tto", "ideal", "generic")
SIZES = ("16KiB", "128KiB", "1MiB", "8MiB", "64MiB")
MOST = 1.03
"""Times as long as the best other algorithm."""


def ratio(fabric: str, system: str, collective: str, size: str) -> tuple[float, str]:
    """Time of `optimal` over that of the best other algorithm, and its name."""
    runs = antiphon.compare(fabric, collective, size, system=system, estimates=False)
    own = next(run for run in runs if run.algorithm == "optimal")
    other = min((run for run in runs if run.algorithm != "optimal"), key=lambda run: run.time_ns)
    return own.time_ns / other.time_ns, other.algorithm


def main() -> int:
    """Prints every case in which another algorithm is faster by more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fabrics", nargs="+", default=FABRICS)
    cases = list(product(parser.parse_args().fabrics, SYSTEMS, COLLECTIVES, SIZES))
    slower = 0
    for case in cases:
        found, other = ratio(*case)
        if found > MOST:
            slower += 1
            print(f"{' '.join(case)}: {found:.3f} times as long as {other}")
    print(f"{slower} of {len(cases)} take more than {MOST:g} times as long as another algorithm")
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
