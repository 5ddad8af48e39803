"""Commands about large models: what there is, and how long a training step takes."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import asdict
from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import note, tell, writing
from antiphon.cli.pages import paged
from antiphon.declared import inputs
from antiphon.flat import write_csv
from antiphon.llm.given import all_constants, of_boxes, read_model
from antiphon.llm.table import other_systems, predict_table
from antiphon.results import rows_of
from antiphon.view.documents.llm import (
    fit_document,
    model_document,
    models_document,
    plan_document,
    step_document,
    table_document,
)
from antiphon.view.terminal.console import progress_bar


@command(of=antiphon.step, common="plan batch sequence constants memory table out report opened output")
def step(
    model: str | None = None,
    fabric: str | None = None,
    *,
    plan: str | None = None,
    batch: int | None = None,
    constants: str | None = None,
    memory: str | None = None,
    table: str | None = None,
    out: str | None = None,
    report: str | None,
    output: str,
    **parameters: Any,
) -> None:
    """Time a training step of a large model, and say where the time goes.

    MODEL is a name (antiphon models) or a FILE, .json: our own form, or a config.json of Hugging
    Face (docs/reference/large-models.md). All ranks of FABRIC take part; boxes such as
    dgx-h100:2048 may be many, and with gpus=4 only the first 4 GPUs of each are ranks.

    With --table instead, every row of ROWS.csv is a step (docs/reference/large-models.md), and --out
    writes them with what they should take.

    Examples:
        antiphon step llama3-8b dgx-h100:2 --plan tp=2,pp=2 --batch 32 --report step.html
        antiphon step llama3-405b dgx-h100:64 --plan tp=8,cp=2,pp=8,v=8 --batch 1152
        antiphon step deepseek-v3 h800:16 --plan pp=16,ep=8,precision=fp8 --batch 512 --memory none
        antiphon step --table data/llm/megatron_table5.csv --constants megatron-a100 --out predicted.csv

    Args:
        plan: How the model is divided, such as tp=8,pp=4,v=2. Keys: tp, cp, pp, ep, etp, dp, v, mb,
            schedule, sp, cp-by, zero, recompute, tp-overlap, dp-overlap, ep-overlap, flash,
            precision, gradients, order, ends; antiphon models says what each means; default: every rank
            holds all of the model
        constants: What is known of the accelerators: name (antiphon models) or FILE, .json
            (docs/reference/large-models.md); default: as the kind of FABRIC
        memory: Of an accelerator, such as 80GiB, or none: a plan may take any; default: as the constants
        batch: Sequences of a step, of all ranks together.
        table: Time the steps of this table; with --constants, and without MODEL, FABRIC and a plan.
        out: Write the rows of --table with their predicted times, OUT.csv.
        report: Also draw what every stage does on a self-contained HTML page.
    """
    if table is not None:
        given = [model, fabric, plan, batch, report, memory, *map(parameters.get, ("sequence", "library", "algorithm"))]
        if any(given) or constants is None:
            raise click.UsageError("--table takes --constants and --out, and nothing else: its rows say the rest")
        return _table(table, constants, out, output)
    if model is None or fabric is None or batch is None:
        raise click.UsageError("give MODEL, FABRIC and --batch, or --table ROWS.csv")
    if out is not None:
        raise click.UsageError("--out is for --table")
    with paged(report, output) as write:
        network = fabric if of_boxes(fabric) else read_fabric(fabric)
        run = antiphon.step(model, network, plan or "", batch=batch, constants=constants, memory=memory, **parameters)
        write(run.page)
        tell("step", run.to_dict(), output, partial(step_document, run), "stages")


def _table(table: str, constants: str, out: str | None, output: str) -> None:
    """Times the steps of a table."""
    with writing(out, ".csv") as write:
        rows = predict_table(table, constants)
        text = io.StringIO()
        write_csv(rows, text)
        write(text.getvalue)
    tell("step", {"rows": rows}, output, partial(table_document, table, rows), "rows")
    if others := other_systems(rows, constants):
        note(output, f"Column system: these constants are not for {', '.join(others)}; give a table for each system.")
    note(output, out and f"Table: {out}")


@command(of=antiphon.plan, common="plan batch sequence constants memory endpoint priorities report opened output")
def plan(
    model: str,
    fabric: str,
    *,
    plan: str | None = None,
    constants: str | None = None,
    memory: str | None = None,
    report: str | None,
    output: str,
    **parameters: Any,
) -> None:
    """Find the fastest plan for a training step of a large model, why it wins, and what would change.

    MODEL and FABRIC are as in antiphon step. All legal plans are bounded from below, and the best
    are simulated.

    Examples:
        antiphon plan llama3-8b dgx-h100:2 --batch 32
        antiphon plan llama3-405b dgx-h100:128 --batch 1152 --plan precision=fp8,tp-overlap=tiles --report plan.html

    Args:
        plan: What all plans have, such as precision=fp8,tp=8; antiphon models lists the keys. Searched
            are those of tp, cp, pp, ep, etp, v, mb, schedule, zero and recompute that are not given;
            default: nothing
        constants: What is known of the accelerators: name (antiphon models) or FILE, .json
            (docs/reference/workloads.md); default: as the kind of FABRIC
        memory: Of an accelerator, such as 80GiB, or none: a plan may take any; default: as the constants
        report: Also draw where the time of the best plans goes on a self-contained HTML page.
    """
    given: dict[str, Any] = {**parameters, "constants": constants, "memory": memory}
    with paged(report, output) as write:
        network = fabric if of_boxes(fabric) else read_fabric(fabric)
        with progress_bar() as progress:
            found = antiphon.plan(model, network, plan or "", progress=partial(progress, "plans"), **given)
        write(found.page)
        closer = _step_command(model, fabric, {"plan": found.best or None, **given})
        tell("plan", found.to_dict(), output, partial(plan_document, found, closer), "plans")


def _step_command(model: str, fabric: str, given: dict[str, Any]) -> str:
    """The command that times one step, without options that are as usual."""
    words = ["antiphon", "step", model, fabric]
    for key, value in given.items():
        if value not in (None, False, inputs(antiphon.step)[key].default):
            words += [f"--{key}", *([] if value is True else [str(value)])]
    return shlex.join(words)


@command(of=antiphon.fit, common="constants free out output")
def fit(rows: tuple[str, ...], *, out: str | None = None, output: str, **parameters: Any) -> None:
    """Fit constants of an accelerator on measured steps of large models.

    ROWS are tables, .csv, of equal weight (docs/reference/large-models.md). The mean of relative
    errors becomes least; the file says what was fitted on what.

    Examples:
        antiphon fit data/llm/vtrain_single.csv data/llm/vtrain_multi.csv --constants a100 --out own.json

    Args:
        out: Also write the file of constants, OUT.json.
    """
    with writing(out, ".json") as write:
        with progress_bar() as progress:
            run = antiphon.fit(rows, progress=progress, **parameters)
        write(lambda: json.dumps(run.constants, indent=2) + "\n")
    tell("fit", run.to_dict(), output, partial(fit_document, run), "files")
    note(output, out and f"Constants: {out}")


@command()
def models(name: str | None = None, *, output: str) -> None:
    """List the large models, what a plan may say, and constants; or the layers of one model.

    NAME may be a FILE, .json, of your own.

    Examples:
        antiphon models
        antiphon models deepseek-v3
        antiphon models --format csv
    """
    shapes = [read_model(name)] if name else [read_model(each) for each in antiphon.large_models()]
    sources = {each.name: each.source for each in antiphon.large_models()}
    rows = [
        {
            "name": shape.name,
            "parameters": shape.parameters,
            "active_parameters": shape.active_parameters,
            "layers": shape.layers,
            "hidden": shape.hidden,
            "vocab": shape.vocab,
            "sequence": shape.sequence,
            "source": sources.get(shape.name, ""),
        }
        for shape in shapes
    ]
    document: dict[str, Any] = {"models": rows}
    if name:
        document |= {"layers": rows_of(shapes[0].layer_table())}
        tell("models", document, output, partial(model_document, shapes[0]), "layers")
        return
    options, known = antiphon.plan_options(), all_constants()
    document |= {"plan_options": [asdict(option) for option in options], "constants": known}
    tell("models", document, output, partial(models_document, rows, options, known), rows)
