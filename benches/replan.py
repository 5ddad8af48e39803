"""Times plans after a failure, on fabrics of 64 and of 1,024 ranks; fails if plan and prices of one take too long."""

from __future__ import annotations

import sys

import antiphon

MOST_MS = {64: 5.0, 1024: 100.0}
"""For plan and prices, by ranks."""
CASES = {
    "mesh:8x8": ("3-4", ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "all-to-all")),
    "torus:8x8": ("3-4", ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "all-to-all")),
    "dgx-h100:8": ("0-72", ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "all-to-all")),
    "dgx-h100:128": ("0-1152", ("all-gather", "reduce-scatter", "all-reduce", "broadcast")),
}
REPEATED = 5


def main() -> int:
    """Prints the shortest times of all, and how near to the new optimum each is."""
    is_slow = False
    for fabric, (failure, collectives) in CASES.items():
        network = antiphon.Fabric(fabric)
        most_ms = MOST_MS[network.ranks]
        for collective in collectives:
            before = antiphon.build(network, "optimal", collective, "1GiB", "ideal")
            times = REPEATED if network.ranks == min(MOST_MS) else 1
            found = [antiphon.replan(before, network, failure, system="ideal") for _ in range(times)]
            plan_ms, schedule_ms, proof_ms = (
                min(getattr(each, part) for each in found) for part in ("planning_ms", "lowering_ms", "proof_ms")
            )
            is_slow |= plan_ms > most_ms
            over = "" if plan_ms <= most_ms else f", over {most_ms:g} ms"
            print(
                f"{collective} on {fabric} without {failure}: plan and prices {plan_ms:.1f} ms{over}; schedule"
                f" {schedule_ms:.0f} ms, proof {proof_ms:.1f} ms; {found[0].share_of_optimum:.2%} of the optimum",
                flush=True,
            )
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
