"""Fits two numbers of GNMT and of DLRM to the ACE paper: how long computation takes, and which share memory decides.

python scripts/fit_ace.py   # prints the columns scale and memory_bound of python/antiphon/papers/ace/series.csv
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

from antiphon.papers.ace.runs import ACE, COMM_OPT, COMP_OPT, DATA, DLRM, GNMT, IDEAL, iteration
from antiphon.repro.data import Series

STEP = 100
"""Both are hundredths."""


def error(model: Series, scale: int, share: int) -> float:
    """Sum of the squares by which the shares of Ideal on 128 NPUs are off those of section VI-B, in points."""

    def time(system: Series) -> float:
        job = replace(iteration(model, 128, system), scale=scale / STEP, share=share / STEP)
        return float(job.measure()["iteration_ns"])

    ideal = time(IDEAL)
    stated = {series: DATA.stated["fig10"][f"{model}: {series}"].value for series in (COMM_OPT, COMP_OPT, ACE)}
    return sum((100 * ideal / time(series) - value) ** 2 for series, value in stated.items())


def main() -> None:
    """Goes downhill from the middle."""
    for model in (GNMT, DLRM):
        found = cache(lambda at, model=model: error(model, *at))
        best = (50, 80)
        while True:
            around = [(best[0] + by, min(best[1] + more, STEP)) for by, more in product((-1, 0, 1), repeat=2)]
            if (next_one := min(around, key=found)) == best:
                break
            best = next_one
        print(f"{model}: scale {best[0] / STEP}, memory_bound {best[1] / STEP}, {found(best):.2f} points squared")


if __name__ == "__main__":
    main()
