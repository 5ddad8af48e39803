"""Times plans of `optimal` with their proofs, on one core; fails if one takes too long."""

from __future__ import annotations

import sys
from time import process_time

import antiphon

BYTES = "1GiB"
IRREGULAR = ("mesh:8x8,drop=3-4,dead=40", "torus:8x8,drop=3-4", "dgx-h100:8:raw,drop=0-64")
PODS = ("dgx-h100:16:raw", "dgx-a100:16:raw")
TREES = ("all-gather", "all-reduce")
LIMITS_S = {
    **{(fabric, collective): 1.0 for fabric in (*IRREGULAR, *PODS) for collective in TREES},
    **{("dgx-h100:128:raw", collective): 20.0 for collective in TREES},
    ("mi250:64:raw", "all-gather"): 27.0,
    ("torus:8x8x8", "all-to-all"): 5.0,
}
"""At most, by collective and fabric: the plan, its schedule and the proof."""


def seconds(fabric: str, collective: str) -> tuple[float, float]:
    """To plan with the schedule, and to prove."""
    start = process_time()
    schedule = antiphon.build(fabric, "optimal", collective, BYTES, "ideal")
    built = process_time()
    antiphon.verify(fabric, schedule)
    return built - start, process_time() - built


def main() -> int:
    """Prints every time."""
    slow = False
    for (fabric, collective), limit in LIMITS_S.items():
        build, proof = seconds(fabric, collective)
        is_slow = build + proof > limit
        slow |= is_slow
        over = f", over {limit:g} s" if is_slow else ""
        print(f"{fabric}, {collective}: {build:.2f} s, proof {proof:.2f} s{over}", flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
