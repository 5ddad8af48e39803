"""Times plans after a failure, with schedule and proof, on fabrics of 64 to 512 ranks; fails if one takes too long."""

from __future__ import annotations

import sys
import time

import antiphon

MOST_S = {64: 0.2, 128: 0.5, 512: 4.0}
"""For plan, schedule and proof, by ranks: seconds of one core."""
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "all-to-all")
CASES = {
    "mesh:8x8": ("3-4", KINDS),
    "torus:8x8": ("3-4", KINDS),
    "dgx-h100:8:raw": ("gpu0.0-rail0", KINDS),
    "dgx-h100:16:raw": ("gpu0.0-rail0", KINDS),
    "dgx-h100:64:raw": ("gpu0.0-rail0", KINDS),
}
REPEATED = 5


def main() -> int:
    """Prints the shortest times of all, and how near to the new optimum each is."""
    is_slow = False
    for fabric, (failure, collectives) in CASES.items():
        network = antiphon.Fabric(fabric)
        most = MOST_S[network.ranks]
        for collective in collectives:
            before = antiphon.build(network, "optimal", collective, "1GiB", "ideal")
            took, found = [], []
            for _ in range(REPEATED if network.ranks == min(MOST_S) else 1):
                started = time.process_time()
                found.append(antiphon.replan(before, network, failure, system="ideal"))
                took.append(time.process_time() - started)
            is_slow |= min(took) > most
            over = "" if min(took) <= most else f", over {most:g} s"
            plan_ms, schedule_ms, proof_ms = (
                min(getattr(each, part) for each in found) for part in ("planning_ms", "lowering_ms", "proof_ms")
            )
            parts = f"plan and prices {plan_ms:.1f} ms, schedule {schedule_ms:.0f} ms, proof {proof_ms:.1f} ms"
            print(
                f"{collective} on {fabric} without {failure}: {min(took):.3f} s{over}; {parts};"
                f" {found[0].share_of_optimum:.2%} of the optimum",
                flush=True,
            )
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
