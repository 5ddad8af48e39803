"""Searches configurations of 4x4 and 8x8 chiplets for every algorithm; fails if a search takes too long.

docs/how-to/configure.md shows the times, speed-ups and shares of the bound that it prints.
"""

from __future__ import annotations

import sys
from time import perf_counter

import antiphon

SEARCH_S = 10.0
"""At most, on two cores."""
FABRICS = ("aries:4x4", "aries:8x8")
PLANNED = ("aries:8x8", "aries:8x8:ports=facing")
"""Where ``optimal`` plans most, for little data."""


def planned() -> list[str]:
    """Searches that plan by prices on configurations of which none is like another; those that take too long."""
    slow = []
    for fabric in PLANNED:
        for size in ("4KiB", "64KiB", "1MiB"):
            start = perf_counter()
            found = antiphon.configure(fabric, bytes=size)
            took = perf_counter() - start
            print(f"{fabric} {size}, all: {found.algorithm}, {found.time_ns / 1e3:.2f} µs, {took:.1f} s", flush=True)
            slow += [f"{fabric} {size}: {took:.1f} s, over {SEARCH_S:g} s"] * (took > SEARCH_S)
    return slow


def main() -> int:
    """Prints every search as a row."""
    print("| fabric | algorithm | mesh | configured | speed-up | of bound | simulated | search |")
    print("|---|---|---|---|---|---|---|---|")
    slow = []
    for fabric in FABRICS:
        for algorithm in antiphon.algorithms():
            start = perf_counter()
            try:
                found = antiphon.configure(fabric, algorithm.name, "1MiB")
            except antiphon.NotApplicable:
                continue
            took = perf_counter() - start
            given = "-" if found.given_ns is None else f"{found.given_ns / 1e3:.2f}"
            speedup = "-" if found.speedup is None else f"{found.speedup:.2f}"
            times = f"{given} | {found.time_ns / 1e3:.2f} | {speedup} | {found.efficiency:.1%}"
            print(f"| `{fabric}` | {algorithm.name} | {times} | {found.simulated} | {took:.1f} s |", flush=True)
            slow += [f"{fabric} {algorithm.name}: {took:.1f} s, over {SEARCH_S:g} s"] * (took > SEARCH_S)
    slow += planned()
    print(*slow, sep="\n")
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
