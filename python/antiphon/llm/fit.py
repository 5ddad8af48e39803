"""Constants of accelerators, fitted on measured steps."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.llm.given import read_constants
from antiphon.llm.table import RATE, StepRows, TableStep, read_rows, run_steps, table_steps
from antiphon.results.llm import ConstantsFit
from antiphon.results.table import Table

FREE = {
    "product_efficiency": 1.5,
    "product_half_gflop": 1e9,
    "attention_share": 10.0,
    "host_ms": 1e6,
    "memory_gb_per_s": 1e9,
    "optimizer_bytes": 1e4,
}
"""Constants that may be fitted, and the most that each may be."""
USUAL = ("product_efficiency", "product_half_gflop", "host_ms")
"""What is fitted unless something else is asked for."""
MOST_FREE = 3
MOST_TRIES = 150
FIRST_STEP = 0.08
"""How far the first tries are from the start, in logarithms."""
ENOUGH = 1e-5
"""The search ends when its tries differ by less in mean relative error."""


def fit(
    rows: Sequence[str | os.PathLike[str]],
    constants: str | os.PathLike[str] | Mapping[str, Any],
    free: str | None = None,
    *,
    progress: Callable[[str, float], None] | None = None,
) -> ConstantsFit:
    """Fit constants of an accelerator on measured steps.

    The mean of relative errors becomes least, files having equal weight, by the simplex method of Nelder and Mead (The
    Computer Journal 7, 1965) on logarithms.

    >>> import tempfile
    >>> names = "gpus,global_batch,micro_batch,hidden,heads,layers,sequence,tp,dp,pp,iteration_ms"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/steps.csv", "w") as file:
    ...         print(names, "8,16,1,1024,16,12,1024,8,1,1,300", sep=chr(10), file=file)
    ...     fit(f"{folder}/steps.csv", "a100", "host_ms").free
    ['host_ms']

    Args:
        rows: tables of measured steps, ``.csv`` (``predict_table``).
        constants: at the start: name, file, ``.json``, or a dictionary such as ``constants("h100")``.
        free: constants that are fitted, one to three, divided by commas; the others stay. Default: of
            product_efficiency, product_half_gflop and host_ms those that are above 0 at the start.
        progress: called with what is done and its share.

    Raises:
        AntiphonError: as ``predict_table``; ``bad-file`` for a table without measured times, or a constant that is 0 at
            the start; ``unknown-name``.
    """
    if isinstance(rows, (str, os.PathLike)):
        rows = [rows]
    expect("rows", rows, Sequence)
    file, text = read_constants(constants)
    if free is None:
        given = json.loads(text)
        free = ",".join(name for name in USUAL if isinstance(given.get(name), (int, float)) and given[name] > 0)
    expect("free", free, str)
    names = list(dict.fromkeys(name.strip() for name in free.split(",")))
    for name in names:
        if name not in FREE:
            message = f"free: {shown(name)} is no constant that can be fitted; known: {', '.join(FREE)}"
            raise AntiphonError(message, "unknown-name")
    if len(names) > MOST_FREE:
        raise AntiphonError(f"free: has {len(names)} constants; at most {MOST_FREE} can be fitted", "bad-spec")
    if not rows:
        raise AntiphonError("rows: has no table; give at least one, .csv", "bad-file")
    tables = [MeasuredSteps(read_rows(path), file, text) for path in rows]
    start: dict[str, Any] = json.loads(text)
    for name in names:
        value = start.get(name)
        if not isinstance(value, (int, float)) or value <= 0:
            raise AntiphonError(f"constants {file}: {name} is not above 0; leave it out of free", "bad-file")

    tries = 0

    def changed(point: Sequence[float]) -> dict[str, Any]:
        return {**start, **{name: math.exp(value) for name, value in zip(names, point, strict=True)}}

    def error_at(point: Sequence[float]) -> float:
        nonlocal tries
        tries += 1
        if progress is not None:
            progress("fit", min(1.0, tries / MOST_TRIES))
        if any(value > math.log(FREE[name]) for name, value in zip(names, point, strict=True)):
            return math.inf
        constants = json.dumps(changed(point))
        return statistics.fmean(statistics.fmean(map(abs, table.errors(file, constants))) for table in tables)

    best = least(error_at, [math.log(start[name]) for name in names])
    result = changed([float(f"{value:.6g}") for value in best])
    result |= {name: float(f"{result[name]:.4g}") for name in names}
    errors = [table.errors(file, json.dumps(result)) for table in tables]
    measured = {
        "file": [table.table.path for table in tables],
        "steps": [len(each) for each in errors],
        "mean_error": [statistics.fmean(map(abs, each)) for each in errors],
        "median_error": [statistics.median(map(abs, each)) for each in errors],
        "worst_error": [max(map(abs, each)) for each in errors],
    }
    result["fitted"] = [
        f"{', '.join(names)} on the {steps} steps of {os.path.basename(path)}: mean error {mean:.2%}, median"
        f" {median:.2%}, worst {worst:.1%}"
        for path, steps, mean, median, worst in zip(*measured.values(), strict=True)
    ]
    return ConstantsFit(constants=result, free=names, tries=tries, files=Table(measured))


class MeasuredSteps:
    """The steps of a table that were measured."""

    def __init__(self, table: StepRows, file: str, constants: str) -> None:
        self.table = table
        self.steps: list[TableStep] = []
        self.measured: list[tuple[float, bool]] = []
        for each in table_steps(table, file, constants):
            row = table.rows[each.row]
            for column, is_rate in ((each.column, False), (RATE, True)):
                if row.get(column):
                    self.steps.append(each)
                    self.measured.append((_above_zero(table, each.row, column), is_rate))
                    break
        if not self.steps:
            raise AntiphonError(f"{table.path}: has no measured times, such as a column iteration_ms", "bad-file")

    def errors(self, file: str, constants: str) -> list[float]:
        """Relative errors of all of them."""
        errors = []
        runs = run_steps(self.table, self.steps, file, constants)
        for each, (measured, is_rate), (time_s, tflops) in zip(self.steps, self.measured, runs, strict=True):
            unit = 1e3 if each.column.endswith("_ms") else 1.0
            errors.append((tflops if is_rate else unit * time_s) / measured - 1.0)
        return errors


def _above_zero(table: StepRows, row: int, column: str) -> float:
    """A measured value."""
    cell = table.rows[row][column]
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 1e12:
        message = f"{table.path}: row {row + 1}: column {column}: {shown(cell)} is no number above 0"
        raise AntiphonError(message, "bad-file")
    return value


def least(value_at: Callable[[Sequence[float]], float], start: Sequence[float]) -> list[float]:
    """Where a function is least, by Nelder and Mead's simplex of points: the worst is reflected at the middle of the
    others, further or less far, or all come closer to the best.

    >>> [round(value, 2) for value in least(lambda at: (at[0] - 1) ** 2 + (at[1] - 2) ** 2, [0.5, 0.1])]
    [1.0, 2.0]
    """
    size = len(start)
    points = [list(start), *([*start[:at], start[at] + FIRST_STEP, *start[at + 1 :]] for at in range(size))]
    simplex = sorted((value_at(point), point) for point in points)
    tries = len(simplex)
    while tries < MOST_TRIES and simplex[-1][0] - simplex[0][0] > ENOUGH:
        (best, first), (second, _), (worst, last) = simplex[0], simplex[-2], simplex[-1]
        middle = [statistics.fmean(point[at] for _, point in simplex[:-1]) for at in range(size)]

        def tried(factor: float, middle: list[float] = middle, last: list[float] = last) -> tuple[float, list[float]]:
            point = [centre + factor * (end - centre) for centre, end in zip(middle, last, strict=True)]
            return value_at(point), point

        reflected = tried(-1.0)
        tries += 1
        if best <= reflected[0] < second:
            simplex[-1] = reflected
        else:
            further = tried(-2.0 if reflected[0] < best else -0.5 if reflected[0] < worst else 0.5)
            tries += 1
            if further[0] < min(reflected[0], worst):
                simplex[-1] = further
            elif reflected[0] < worst:
                simplex[-1] = reflected
            else:
                closer = [[(a + b) / 2 for a, b in zip(first, point, strict=True)] for _, point in simplex[1:]]
                simplex[1:] = [(value_at(point), point) for point in closer]
                tries += size
        simplex.sort()
    return simplex[0][1]
