"""Compares ten algorithms on 1,024 ranks by the command line, with all cores; prints seconds and peak memory.

``python benches/compare.py ANTIPHON...`` compares versions: other installations and this one in turns, in three rounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from statistics import median
from time import perf_counter

ALGORITHMS = "ring,ring-bi,ring-2d,dbtree,multitree,tto,combs,forest,overlapped-tree,halving-doubling"
COMMAND = ("compare", "mesh:32x32", "--algorithms", ALGORITHMS, "--json")
PEAK_GB = 4.0
"""At most."""
ROUNDS = 3


def run(program: str) -> tuple[float, float]:
    """Seconds and peak memory in GB of one run."""
    start = perf_counter()
    process = subprocess.Popen([program, *COMMAND], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    took = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{program} {' '.join(COMMAND)} failed")
    return took, usage.ru_maxrss * 1024 / 1e9


def main(others: list[str]) -> int:
    """Prints every run as a row, and how many times as long as this one others take."""
    here = str(Path(sysconfig.get_path("scripts")) / "antiphon")
    programs = [*others, here]
    seconds: dict[str, list[float]] = {program: [] for program in programs}
    peaks = []
    print("| antiphon | time | peak memory |")
    print("|---|---|---|")
    for _ in range(ROUNDS if others else 1):
        for program in programs:
            took, peak = run(program)
            seconds[program].append(took)
            peaks += [peak] * (program == here)
            print(f"| {program} | {took:.1f} s | {peak:.2f} GB |", flush=True)
    for program in others:
        ratios = [other / own for other, own in zip(seconds[program], seconds[here], strict=True)]
        print(f"{program} takes {median(ratios):.2f} times as long ({', '.join(f'{ratio:.2f}' for ratio in ratios)})")
    return int(max(peaks) > PEAK_GB)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
