"""Writes the tables of docs/evidence/large-models.md: errors of predicted steps, the plans that come first, and what
each part of the model is worth. Run as ``python scripts/step_tables.py``, in about ten minutes; a test runs the short
ones again.
"""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import antiphon
from antiphon.llm.fit import MeasuredSteps
from antiphon.llm.table import read_rows

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "evidence" / "large-models.md"
DATA = ROOT / "data" / "llm"
SINGLE, MULTI = (DATA / f"vtrain_{name}.csv" for name in ("single", "multi"))
TABLE5, CALIBRATION = (DATA / f"{name}.csv" for name in ("megatron_table5", "calibration"))
FREE = "product_efficiency,product_half_gflop,host_ms"
FITTED = (("megatron-22b", "full_recompute_s"), ("megatron-530b", "full_recompute_s"))
"""Values of Table 5 that the constant was fitted on."""
LLAMA: tuple[dict[str, Any], ...] = (
    {"gpus": 8192, "batch": 2048, "sequence": 8192, "plan": "tp=8,cp=1,pp=16", "tflops": 430},
    {"gpus": 16384, "batch": 2048, "sequence": 8192, "plan": "tp=8,cp=1,pp=16", "tflops": 400},
    {"gpus": 16384, "batch": 128, "sequence": 131072, "plan": "tp=8,cp=16,pp=16", "tflops": 380},
)
"""Llama 3, arXiv 2407.21783, Table 4."""


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table."""
    return list(csv.DictReader(path.read_text().splitlines()))


def figures(errors: Sequence[float]) -> str:
    """Mean, median and largest error as cells."""
    sizes = [100 * abs(error) for error in errors]
    return f"{statistics.fmean(sizes):.1f} | {statistics.median(sizes):.1f} | {max(sizes):.1f}"


def errors(path: Path, constants: dict[str, Any]) -> list[float]:
    """Relative errors of the measured steps of a table."""
    text = json.dumps(constants)
    return MeasuredSteps(read_rows(path), "constants", text).errors("constants", text)


def halves(folder: Path) -> list[list[Path]]:
    """Every second row of both tables, and the others."""
    result: list[list[Path]] = []
    for half in (0, 1):
        result.append([folder / f"{path.stem}_{half}.csv" for path in (SINGLE, MULTI)])
        for path, out in zip((SINGLE, MULTI), result[-1], strict=True):
            header, *rows = path.read_text().splitlines()
            out.write_text("\n".join([header, *rows[half::2]]) + "\n")
    return result


def vtrain() -> Iterator[str]:
    """Errors on vTrain's steps: of the constants, and on halves that they were not fitted on."""
    yield "| Steps | Fitted on | Steps: | Mean, % | Median, % | Worst, % |\n|---|---|---|---|---|---|"
    for path in (SINGLE, MULTI):
        of = errors(path, antiphon.constants("a100"))
        yield f"| {path.stem} | all of both | {len(of)} | {figures(of)} |"
    with tempfile.TemporaryDirectory() as folder:
        both = halves(Path(folder))
        for half, name in ((0, "even"), (1, "odd")):
            fitted = antiphon.fit(both[half], "a100", FREE).constants
            for path in both[1 - half]:
                of = errors(path, fitted)
                yield f"| the other rows of {path.stem[:-2]} | {name} rows of both | {len(of)} | {figures(of)} |"


def ranks() -> Iterator[str]:
    """How much longer than the best measured plan the one takes that we would choose."""
    yield "| Model, billion parameters | Plans | Best measured, s | Our choice, s | Longer by, % |"
    yield "|---|---|---|---|---|"
    rows = antiphon.predict_table(MULTI, "a100")
    for model in dict.fromkeys(row["parameters_billion"] for row in rows):
        of = [row for row in rows if row["parameters_billion"] == model]
        best = min(float(row["iteration_ms"]) for row in of)
        ours = float(min(of, key=lambda row: row["predicted_ms"])["iteration_ms"])
        yield f"| {model} | {len(of)} | {best / 1e3:.2f} | {ours / 1e3:.2f} | {100 * (ours / best - 1):.1f} |"


def table5() -> Iterator[str]:
    """Errors on Table 5."""
    yield "| Model | Computed again | Measured, s | Predicted, s | Error, % | |\n|---|---|---|---|---|---|"
    rest = []
    for row in antiphon.predict_table(TABLE5, "megatron-a100"):
        for column, what in (("full_recompute_s", "all"), ("sequence_parallel_selective_s", "core attention")):
            ours, measured = row["predicted_" + column], float(row[column])
            error = ours / measured - 1
            is_fitted = (row["model"], column) in FITTED
            rest += [] if is_fitted else [error]
            note = "fitted" if is_fitted else ""
            yield f"| {row['model']} | {what} | {measured} | {ours:.2f} | {100 * error:+.1f} | {note} |"
    yield f"\nThe six that were not fitted: mean, median, worst {figures(rest)} %."


def llama() -> Iterator[str]:
    """Llama 3 on H100."""
    yield "| GPUs | Sequence | Plan | Published | Predicted | Error, % | |\n|---|---|---|---|---|---|---|"
    constants = antiphon.constants("llama3-h100")
    for number, row in enumerate(LLAMA):
        plan = f"{row['plan']},order=tp-cp-pp-dp,{constants['rows']['plan']}"
        run = antiphon.step(
            "llama3-405b",
            f"dgx-h100:{row['gpus'] // 8}",
            plan,
            batch=row["batch"],
            sequence=row["sequence"],
            constants="llama3-h100",
            memory="none",
        )
        error = 100 * (run.tflops_per_gpu / row["tflops"] - 1)
        note = "fitted" if number == 0 else ""
        yield (
            f"| {row['gpus']:,} | {row['sequence']:,} | `{row['plan']}` | {row['tflops']} | {run.tflops_per_gpu:.0f} |"
            f" {error:+.1f} | {note} |"
        )


def ablations() -> Iterator[str]:
    """What each part of the model is worth."""
    base = antiphon.constants("a100")
    without = base["rows"]
    plan = without["plan"]
    cases: dict[str, dict[str, Any]] = {
        "as it is": {},
        "no host time": {"host_ms": 0.0},
        "constant efficiency of products": {"product_half_gflop": 0.0},
        "scores of attention kept on the chip": {"rows": {**without, "plan": plan.replace("flash=no", "flash=yes")}},
        "no AllReduce in what is computed again": {
            "all_reduces": [[ranks, size, time * 2 / 3] for ranks, size, time in base["all_reduces"]]
        },
        "every GPU has a node's NICs for itself": {"rows": {**without, "fabric": "dgx-a100:{boxes}:nics=8@240+80"}},
    }
    yield "| Without | Single, mean % | Multi, mean % |\n|---|---|---|"
    for name, change in cases.items():
        constants = {**base, **change}
        if change:
            free = ",".join(key for key in FREE.split(",") if constants[key] > 0)
            constants = antiphon.fit([SINGLE, MULTI], constants, free).constants
        means = [100 * statistics.fmean(map(abs, errors(path, constants))) for path in (SINGLE, MULTI)]
        yield f"| {name} | {means[0]:.1f} | {means[1]:.1f} |"


TABLES = {"table5": table5, "llama": llama, "ranks": ranks, "ablations": ablations, "vtrain": vtrain}


def page_with(names: Sequence[str]) -> str:
    """The page with some of its tables anew."""
    text = PAGE.read_text()
    for name in names:
        pattern = rf"(?<=<!-- table: {name} -->\n).*?(?=<!-- end of table -->)"
        table = "\n".join(TABLES[name]()) + "\n"
        text = re.sub(pattern, table.replace("\\", r"\\"), text, count=1, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PAGE.write_text(page_with(sys.argv[1:] or list(TABLES)))
