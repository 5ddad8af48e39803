"""Explores 10,000 designs of 64 chiplets; fails if more than a tenth are simulated.

Arguments: runs at a time, and levels of I/O, of which fewer make a smaller space.
"""

from __future__ import annotations

import sys
import time

import antiphon

FABRICS = {
    "mesh": "mesh:8x8:pitch=2mm@{rate}",
    "flat mesh": "mesh:4x16:pitch=2mm@{rate}",
    "strip": "mesh:2x32:pitch=2mm@{rate}",
    "ring": "ring:64:pitch=2mm@{rate}",
    "torus": "torus:8x8:pitch=2mm@{rate}",
    "folded torus": "torus:8x8:pitch=2mm,folded@{rate}",
    "flat torus": "torus:4x16:pitch=2mm@{rate}",
    "flat folded torus": "torus:4x16:pitch=2mm,folded@{rate}",
    "cube": "mesh:4x4x4:pitch=2mm@{rate}",
    "torus of three dimensions": "torus:4x4x4:pitch=2mm@{rate}",
    "stacked cube": "mesh:4x4x4:pitch=2mm,stack=50um@{rate}",
    "express cube": "mesh:8x8:pitch=2mm,express=4@{rate}",
    "butterfly": "fbfly:8x8:pitch=2mm@{rate}",
    "flat butterfly": "fbfly:4x16:pitch=2mm@{rate}",
    "hypercube": "hypercube:6:pitch=2mm@{rate}",
}
ALGORITHMS = ["ring", "ring-bi", "ring-2d", "nested-ring", "dbtree", "multitree", "tto", "combs", "forest"]
ALGORITHMS += ["overlapped-tree", "halving-doubling", "hierarchical", "direct"]
LEAST_GB_PER_S, STEP = 20.0, 1.06
MOST = 0.1
"""Share of the designs that may be simulated."""


def main() -> int:
    """Prints what became of the designs, and how long that took."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else None
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 52
    started = time.monotonic()
    found = antiphon.explore(
        {
            "fabrics": FABRICS,
            "equal": {"io": [f"{LEAST_GB_PER_S * STEP**place:.3f}GB/s" for place in range(count)]},
            "algorithms": ALGORITHMS,
            "bytes": "64MiB",
        },
        jobs=jobs,
        sensitivity=False,
    )
    took = time.monotonic() - started
    share = found.simulated / found.designs
    print(
        f"{found.designs:,} designs in {took:.0f} s: {found.simulated:,} simulated ({share:.1%}), {found.pruned:,} left"
        f" out by bounds, {found.refused:,} refused; {len(found.front)} on the front; {found.runs:,} runs"
    )
    return share > MOST


if __name__ == "__main__":
    sys.exit(main())
