"""Tables of training steps: what each row should take, by the constants of its accelerators."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon._core import ModelShape, time_step
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.files import read_text
from antiphon.llm.given import LARGEST_FILE, of_boxes, read_constants, read_model
from antiphon.parallel import in_parallel

PLAN_COLUMNS = {
    "tp": "tp",
    "cp": "cp",
    "pp": "pp",
    "dp": "dp",
    "ep": "ep",
    "interleave": "v",
    "micro_batch": "mb",
    "rank_order": "order",
    "precision": "precision",
}
"""Columns that say how a step is divided, and what plans call them."""
SHAPE_COLUMNS = ("hidden", "heads", "layers", "sequence")
"""Columns of a model that has no name: a GPT."""
MEASURED_PLANS = {
    "full_recompute_s": "recompute=full,sp=no",
    "sequence_parallel_selective_s": "recompute=selective",
}
"""Columns of times that say what the plan does, too: Korthikanti et al., arXiv 2205.05198, Table 5."""
BATCHES = ("global_batch", "batch")
"""Columns of the sequences of a step."""
RATE = "tflops_per_gpu"
PREDICTED = "predicted_"
ALL_LAYERS = 1 << 20
"""So many layers are one in the simulation: exact where a stage exchanges one thing at a time."""


@dataclass(frozen=True)
class TableStep:
    """One step of a table: what ``time_step`` takes, and which column it is about."""

    row: int
    column: str
    model: ModelShape
    fabric: str
    plan: str
    batch: int


@dataclass(frozen=True)
class StepRows:
    """A table of steps as it was read."""

    path: str
    rows: list[dict[str, str]]
    columns: list[str]

    @property
    def times(self) -> list[str]:
        """Columns of times that were measured. If there is none, one for the prediction: in ms for models given
        by numbers, else in s."""
        plans = [column for column in self.columns if column in MEASURED_PLANS]
        ends = [column for column in self.columns if column.endswith(("_ms", "_s")) and not is_predicted(column)]
        return plans or ends[:1] or ["ms" if SHAPE_COLUMNS[0] in self.columns else "s"]


def predict_table(
    rows: str | os.PathLike[str], constants: str | os.PathLike[str] | Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Time the step of every row of a table.

    A row says its model, by ``model`` or by ``hidden``, ``heads``, ``layers`` and ``sequence``; ``gpus``,
    ``global_batch`` and how the step is divided: ``tp``, ``cp``, ``pp``, ``dp``, ``ep``, ``interleave``,
    ``micro_batch``, ``rank_order``, ``precision``. What it does not say is in ``rows`` of the constants: the fabric,
    and options of plans. Times that were measured may be missing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/steps.csv", "w") as file:
    ...         print("model,gpus,tp,global_batch,micro_batch", "llama2-7b,8,8,16,1", sep=chr(10), file=file)
    ...     [row] = predict_table(f"{folder}/steps.csv", "a100")
    >>> 1 < row["predicted_s"] < 100
    True

    Args:
        rows: table, ``.csv``.
        constants: of the accelerators: name, file, ``.json``, or a dictionary such as ``constants("h100")``.

    Returns:
        The rows with ``predicted_ms``, or ``predicted_s`` if times are in seconds; where the table has
        ``tflops_per_gpu``, with ``predicted_tflops_per_gpu``, too.

    Raises:
        AntiphonError: ``bad-file``, ``bad-spec`` or ``unknown-name`` with the row and what is wrong in it.
    """
    table = read_rows(rows)
    file, text = read_constants(constants)
    steps = table_steps(table, file, text)
    result: list[dict[str, Any]] = [dict(row) for row in table.rows]
    for each, (time_s, tflops) in zip(steps, run_steps(table, steps, file, text), strict=True):
        result[each.row][predicted(each.column)] = time_s * 1e3 if each.column.endswith("ms") else time_s
        if RATE in table.columns:
            result[each.row][PREDICTED + RATE] = tflops
    return result


def is_predicted(column: str) -> bool:
    """Whether a column is one of ours."""
    return column.startswith(PREDICTED)


def predicted(column: str) -> str:
    """What the prediction of a column of times is called.

    >>> predicted("iteration_ms"), predicted("median_step_s"), predicted("full_recompute_s")
    ('predicted_ms', 'predicted_s', 'predicted_full_recompute_s')
    """
    return PREDICTED + (column if column in MEASURED_PLANS else column.rpartition("_")[2])


def read_rows(path: str | os.PathLike[str]) -> StepRows:
    """A table of steps; cells that are missing are empty.

    Raises:
        AntiphonError: ``bad-file``.
    """
    expect("rows", path, str, os.PathLike)
    path = os.fspath(path)
    expect("rows", path, str)
    try:
        reader = csv.DictReader(read_text(path, LARGEST_FILE).splitlines(), restkey="", restval="", strict=True)
        rows = [dict(row) for row in reader]
    except csv.Error as error:
        raise AntiphonError(f"{path}: is no table: {error}", "bad-file") from None
    columns = [column.strip() for column in reader.fieldnames or []]
    if len(set(columns)) < len(columns):
        raise AntiphonError(f"{path}: has two columns of the same name", "bad-file")
    for number, row in enumerate(rows, 1):
        if "" in row:
            raise AntiphonError(f"{path}: row {number}: has more cells than the header has columns", "bad-file")
    if "gpus" not in columns or not rows:
        what = "has no rows" if "gpus" in columns else "has no column gpus"
        raise AntiphonError(f"{path}: {what}; a row is a step (docs/reference/large-models.md)", "bad-file")
    return StepRows(path, [{key.strip(): cell.strip() for key, cell in row.items()} for row in rows], columns)


def table_steps(table: StepRows, file: str, constants: str) -> list[TableStep]:
    """The steps of a table, one for each row and column of times.

    Raises:
        AntiphonError: ``bad-file`` with row and column.
    """
    defaults = _row_defaults(file, constants)
    steps = []
    for number, row in enumerate(table.rows):
        try:
            for column in table.times:
                steps.append(_step_of(number, row, column, defaults))
        except AntiphonError as error:
            raise AntiphonError(f"{table.path}: row {number + 1}: {error.message}", error.code) from None
    return steps


def run_steps(table: StepRows, steps: list[TableStep], file: str, constants: str) -> list[tuple[float, float]]:
    """Seconds of steps, and operations a second of each of their GPUs in 10^12."""

    def run(each: TableStep) -> tuple[float, float]:
        try:
            at_once = ALL_LAYERS if "dp-overlap=no" in each.plan.split(",") else 0
            done = time_step(
                each.model, each.fabric, each.plan, each.batch, constants, layers_at_once=at_once, constants_file=file
            )
        except AntiphonError as error:
            raise AntiphonError(f"{table.path}: row {each.row + 1}: {error.message}", error.code) from None
        return done.iteration_s, done.tflops_per_gpu

    return in_parallel(run, steps)


def _row_defaults(file: str, constants: str) -> dict[str, Any]:
    """What rows do not say."""
    try:
        defaults = json.loads(constants)["rows"]
        defaults = {**defaults, "fabric": str(defaults["fabric"]), "plan": str(defaults["plan"])}
        defaults["gpus_per_box"] = max(1, int(defaults["gpus_per_box"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        message = f"constants {file}: has no rows: fabric, gpus_per_box and plan of steps in tables"
        raise AntiphonError(message, "bad-file") from None
    return defaults


def other_systems(rows: list[dict[str, Any]], constants: str | os.PathLike[str] | Mapping[str, Any]) -> list[str]:
    """Kinds of boxes in column ``system`` that these constants are not for."""
    kind = str(json.loads(read_constants(constants)[1])["rows"]["fabric"]).partition(":")[0]
    systems = dict.fromkeys(str(row.get("system", "")) for row in rows)
    return [system for system in systems if system != kind and of_boxes(f"{system}:1")]


def _step_of(number: int, row: dict[str, str], column: str, defaults: dict[str, Any]) -> TableStep:
    """The step of a row, with the plan of a column of times."""
    options = dict(option.partition("=")[::2] for option in defaults["plan"].split(",") if option)
    options |= dict(option.split("=") for option in MEASURED_PLANS.get(column, "").split(",") if option)
    for key, name in PLAN_COLUMNS.items():
        if row.get(key):
            options[name] = row[key] if key in ("rank_order", "precision") else str(_count(row, key))
    plan = ",".join(f"{name}={value}" for name, value in options.items())
    batches = [key for key in BATCHES if row.get(key)]
    if not batches:
        raise AntiphonError(f"column {BATCHES[0]}: is empty or missing", "bad-file")
    return TableStep(number, column, _model_of(row, defaults), _fabric_of(row, defaults), plan, _count(row, batches[0]))


def _model_of(row: dict[str, str], defaults: dict[str, Any]) -> ModelShape:
    """The model of a row: a name, or a GPT."""
    if row.get("model"):
        return read_model(row["model"], _count(row, "sequence") if row.get("sequence") else None)
    hidden, heads, layers, sequence = [_count(row, key) for key in SHAPE_COLUMNS]
    vocab = defaults.get("vocab")
    if not isinstance(vocab, int):
        message = "has no column model, and rows of the constants have no vocab for a model given by numbers"
        raise AntiphonError(message, "bad-file")
    return ModelShape.gpt(f"gpt-{hidden}x{layers}", hidden, heads, layers, sequence, vocab)


def _fabric_of(row: dict[str, str], defaults: dict[str, Any]) -> str:
    """The boxes that a row's GPUs fill, or the first GPUs of one, which has no network."""
    gpus, box = _count(row, "gpus"), defaults["gpus_per_box"]
    kind = defaults["fabric"].partition(":")[0]
    if gpus <= box:
        return f"{kind}:1:gpus={gpus}"
    if gpus % box:
        raise AntiphonError(f"column gpus: {gpus} GPUs do not fill boxes of {box}", "bad-file")
    return str(defaults["fabric"].replace("{boxes}", str(gpus // box)))


def _count(row: dict[str, str], key: str) -> int:
    """A whole number of a row."""
    cell = row.get(key, "")
    if not cell:
        raise AntiphonError(f"column {key}: is empty or missing", "bad-file")
    if not (cell.isascii() and cell.isdigit() and len(cell) < 19 and int(cell)):
        raise AntiphonError(f"column {key}: {shown(cell)} is no whole number of at least 1", "bad-file")
    return int(cell)
