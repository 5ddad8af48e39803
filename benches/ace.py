"""Times the ACE paper's Fig. 9a, and two iterations of every model and system on 128 NPUs; fails if one is too slow."""

from __future__ import annotations

import sys
from time import perf_counter

from antiphon.papers import PAPERS
from antiphon.papers.ace.runs import MODELS, SYSTEMS, iteration, workload
from antiphon.repro.reproduction import choose
from antiphon.studies import Job

FIG_9A_S, ITERATIONS_S = 30.0, 1.0
"""At most, by one process."""


def seconds(*jobs: Job) -> float:
    """Of jobs, one after the other."""
    start = perf_counter()
    for job in jobs:
        job.measure()
    return perf_counter() - start


def main() -> int:
    """Prints every time."""
    _, (fig9a,) = choose(PAPERS, "ace/fig9a")
    points = fig9a.points(False)
    found = {f"Fig. 9a, {len(points)} runs": (seconds(*points), FIG_9A_S)}
    for model in MODELS:
        for system in SYSTEMS:
            job = iteration(model, 128, system)
            workload(job.model, job.loop, job.scale)  # not timed
            found[f"two iterations on 128 NPUs, {model}, {system}"] = (seconds(job), ITERATIONS_S)
    for what, (took, limit) in found.items():
        print(f"{what}: {took:.2f} s{'' if took <= limit else f', over {limit:g} s'}")
    return int(any(took > limit for took, limit in found.values()))


if __name__ == "__main__":
    sys.exit(main())
