"""Large models and their training steps."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import antiphon
from antiphon.llm.table import MEASURED_PLANS, PREDICTED, RATE, is_predicted
from antiphon.results import rows_of
from antiphon.view.document import Document, Note, Table, document, more, table_of
from antiphon.view.text import digits, format_energy, format_time

KINDS = {
    "tp": "tensor groups (tp)",
    "etp": "tensor groups of experts (etp)",
    "cp": "context groups (cp)",
    "ep": "experts (ep)",
    "pp": "next stages (pp)",
    "dp": "data groups (dp)",
    "edp": "data groups of experts (edp)",
    "embedding": "the shared embedding",
}
"""Whose exchanges stages wait for."""
PARTS = {
    "parameters_bytes": "Parameters",
    "gradients_bytes": "Gradients",
    "optimizer_bytes": "Optimizer",
    "embeddings_bytes": "Embeddings",
    "activations_bytes": "Activations",
    "embedding_dropout_bytes": "Embedding dropout",
    "logits_bytes": "Logits",
    "buffers_bytes": "Buffers",
}
"""What memory is for."""
NO_PLAN = "no plan"
"""Where every rank holds all of the model."""
ALIKE = 1e-3
"""Relative difference of times that are as good as equal."""
REASONS = {"operations": "more operations than can be simulated"}
"""Why plans are refused whose memory is not the reason."""
ERRORS = ("mean_error", "median_error", "worst_error")
"""Of files of measured steps."""
MOST_STAGES = 32
MOST_LINKS = 8
"""Rows of the tables."""
CONVENTIONS = (
    "MFU: operations of the model (a multiply-add is two), attention halved since no token attends to later ones and"
    " without what is computed again, as a share of the peak at the plan's precision.",
    "Energy: the constants' power of an accelerator, times accelerators and time.",
)


def step_document(run: antiphon.StepRun) -> Document:
    """How long a step takes, where the time goes, memory, links and layers."""
    return document(
        Note(verdict(run), "bold", wrap=True),
        Note(f"{run.plan or NO_PLAN}: {divided(run)}", wrap=True),
        time_table(run),
        stages_tables(run),
        links_tables(run),
        exchanges_table(run),
        layers_document(run).parts,
        conventions(),
    )


def plan_document(found: antiphon.BestPlans, command: str = "") -> Document:
    """The fastest plans, why the first wins, what would change that, and what was refused.

    Args:
        command: shows the first plan more closely; empty: that is left out.
    """
    return document(
        Note(best_plan(found), "bold", wrap=True),
        Note(searched(found), wrap=True),
        plans_table(found),
        first_wins(found),
        changes_table(found),
        Note(refusals(found), wrap=True),
        command and Note(f"Where its time goes: {command}", wrap=True),
        conventions(),
        taken_together(found),
    )


def best_plan(found: antiphon.BestPlans) -> str:
    """The first plan in a sentence."""
    best = found.plans.rows()[0]
    of = "" if found.capacity_gib is None else f" of {found.capacity_gib:,.1f}"
    return (
        f"{found.best or NO_PLAN}: a step of {found.model} on {found.fabric} takes {seconds(best['iteration_s'])},"
        f" {best['tokens_per_s']:,.0f} tokens a second, MFU {best['mfu']:.1%}, {best['memory_gib']:,.1f}{of} GiB of"
        " memory."
    )


def searched(found: antiphon.BestPlans) -> str:
    """What was searched for, on what."""
    endpoint = "" if found.endpoint == "system" else f", endpoint {found.endpoint}"
    given = f", all with {found.given}" if found.given else ""
    energy = format_energy(found.plans.rows()[0]["energy_mj"] * 1e6)
    return (
        f"{found.batch:,} sequences of {found.sequence:,} tokens, {found.ranks:,} ranks, constants"
        f" {found.constants}{endpoint}; plans by time{given}; a step of the first takes {energy}"
    )


def plans_table(found: antiphon.BestPlans) -> Table:
    """The best plans."""
    rows = [
        [
            str(row["rank"]),
            row["plan"] or NO_PLAN,
            *(seconds(row[key]) for key in ("iteration_s", "compute_s", "bubble_s", "exposed_s")),
            f"{row['tokens_per_s']:,.0f}",
            f"{row['mfu']:.1%}",
            f"{row['memory_gib']:,.1f}",
        ]
        for row in found.plans.rows()
    ]
    heads = ("Plan", "Step:", "Computing:", "Bubble:", "Waiting:", "Tokens/s:", "MFU:", "GiB:")
    return Table(("", *heads), rows, "The fastest plans")


def first_wins(found: antiphon.BestPlans) -> list[Any]:
    """What the first plan saves against the next one that takes noticeably longer."""
    first, *others = found.plans.rows()
    alike = [row for row in others if row["iteration_s"] < (1 + ALIKE) * first["iteration_s"]]
    slower = [row for row in others if row not in alike]
    told = f"{_plans(len(alike))} as long as the first, within {ALIKE:.1%}." if alike else ""
    if not slower:
        return [told]
    next_one = slower[0]
    names = {"compute_s": "computing", "bubble_s": "waiting for other stages (bubble)"}
    names |= {f"{kind}_s": f"waiting for {KINDS[kind]}" for kind in KINDS}
    more_s = {name: next_one[key] - first[key] for key, name in names.items() if key in first}
    rows = [(name, _signed(value)) for name, value in more_s.items() if abs(value) > 1e-9]
    rows.append(("together", _signed(next_one["iteration_s"] - first["iteration_s"])))
    return [
        told,
        Table(("Stages on average", "More:"), rows, f"What plan {next_one['rank']} takes more than the first"),
    ]


def changes_table(found: antiphon.BestPlans) -> Table:
    """What other links, GPUs and memory would do to the first plan."""
    now = found.plans.rows()[0]["iteration_s"]
    rows = []
    for row in found.changes.rows():
        other = row["plan"] or "the same"
        rows.append((row["change"], seconds(row["iteration_s"]), f"{row['iteration_s'] / now - 1:+.1%}", other))
    return Table(("With", "Step:", "Change:", "Plan"), rows, "What would change a step of the first plan")


def refusals(found: antiphon.BestPlans) -> str:
    """How many plans there are, and why others were refused."""
    text = (
        f"Of {found.legal:,} legal plans {found.fit:,} fit, and {found.simulated:,} were simulated; none of the others"
        " is faster than the last one above."
    )
    reasons = [f"{count:,} for {REASONS.get(name, name)}" for name, count in found.refused.items()]
    return f"{text} Refused: {', '.join(reasons)}." if reasons else text


def taken_together(found: antiphon.BestPlans) -> list[Note]:
    """How closely plans were simulated, if less than a step is."""
    if found.plans["layers_at_once"].max() == 1:
        return []
    text = "Equal layers of a stage were simulated as one; antiphon step takes fewer together and differs a little."
    return [Note(text, "dim", wrap=True)]


def _plans(count: int) -> str:
    return "1 other plan takes" if count == 1 else f"{count} other plans take"


def _signed(value: float) -> str:
    """A difference of times."""
    return f"{'-' if value < 0 else '+'}{seconds(abs(value))}"


def conventions() -> list[Note]:
    """What the figures mean."""
    return [Note(text, "dim", wrap=True) for text in CONVENTIONS]


def verdict(run: antiphon.StepRun) -> str:
    """A step in a sentence."""
    of = "" if run.capacity_gib is None else f" of {run.capacity_gib:,.1f}"
    return (
        f"A step of {run.model} on {run.fabric} takes {seconds(run.iteration_s)}: {run.tokens_per_s:,.0f} tokens"
        f" a second, MFU {run.mfu:.1%}, {run.memory_gib:,.1f}{of} GiB of memory."
    )


def divided(run: antiphon.StepRun) -> str:
    """What is divided, into what."""
    endpoint = "" if run.endpoint == "system" else f", endpoint {run.endpoint}"
    return (
        f"{run.batch:,} sequences of {run.sequence:,} tokens, {run.micro_batches:,} micro batches, {run.ranks:,} ranks,"
        f" constants {run.constants}{endpoint}; {digits(run.tflops_per_gpu)} TFLOP/s a rank,"
        f" {format_energy(run.energy_mj * 1e6)}"
    )


def seconds(value: float) -> str:
    """A time in seconds, with a unit."""
    return format_time(value * 1e9)


def parts_of_time(run: antiphon.StepRun) -> list[tuple[str, float]]:
    """What a stage does in a step on average, in seconds; together they are the step."""
    waits = [(f"waiting for {KINDS[kind]}", value) for kind, value in run.exposed_s.items() if value > 0]
    return [("computing", run.compute_s), ("waiting for other stages (bubble)", run.bubble_s), *waits]


def time_table(run: antiphon.StepRun) -> Table:
    """Where the time of a step goes."""
    rows = [(name, seconds(value), f"{value / run.iteration_s:.1%}") for name, value in parts_of_time(run)]
    rows.append(("the step", seconds(run.iteration_s), "100.0%"))
    return Table(("Stages on average", "Time:", "Share:"), rows, "Where the time goes")


def stages_tables(run: antiphon.StepRun) -> list[Any]:
    """Time and memory of every stage."""
    stages, memory = rows_of(run.stages), rows_of(run.memory)
    kinds = [kind for kind in KINDS if f"{kind}_s" in run.stages]
    times = [
        [str(row["stage"]), *(seconds(row[f"{each}_s"]) for each in ("compute", "bubble", *kinds))]
        for row in stages[:MOST_STAGES]
    ]
    time = Table(("Stage", "Computing:", "Bubble:", *(f"{kind}:" for kind in kinds)), times, "Time by stage")
    used = [key for key in PARTS if run.memory[key].any()]
    held = [[str(row["stage"]), *(gib(row[each]) for each in (*used, "total_bytes"))] for row in memory[:MOST_STAGES]]
    heads = ("Stage", *(f"{PARTS[key]}:" for key in used), "Together:")
    hidden = more(len(stages), MOST_STAGES)
    one = len(stages) == 1  # its times are the means
    return [() if one else (time, hidden), Table(heads, held, "Memory of a rank in GiB, by stage"), hidden]


def gib(count: float) -> str:
    """Bytes in GiB."""
    return f"{count / 2**30:,.2f}"


def links_tables(run: antiphon.StepRun) -> list[Any]:
    """The busiest links, and whose exchanges they carry."""
    rows = rows_of(run.links)
    if not rows:
        return []
    kinds = [kind for kind in KINDS if f"{kind}_s" in run.links]
    cells = [
        [
            row["link"],
            f"{row['links']:,}",
            f"{row['busy_s'] / run.iteration_s:.1%}",
            seconds(row["exposed_s"]),
            *(seconds(row[f"{kind}_s"]) if row[f"{kind}_s"] else "" for kind in kinds),
        ]
        for row in rows[:MOST_LINKS]
    ]
    heads = ("Link", "Alike:", "Busy:", "Waited for:", *(f"{kind}:" for kind in kinds))
    return [
        Table(heads, cells, "The busiest links: how long stages wait for them, and what they carry"),
        more(len(rows), MOST_LINKS),
    ]


def exchanges_table(run: antiphon.StepRun) -> Table:
    """Who exchanges what, and what the times are from."""
    rows = [
        [
            KINDS[row["kind"]],
            row["collective"],
            f"{row['ranks']:,}",
            f"{row['boxes']:,}",
            f"{row['most_bytes'] / 2**20:,.1f}",
            row["timed_by"],
        ]
        for row in run.exchanges.rows()
    ]
    return Table(("Groups", "Exchange", "Ranks:", "Boxes:", "MiB at most:", "Timed by"), rows, "What groups exchange")


def layers_document(of: antiphon.StepRun | antiphon.ModelShape) -> Document:
    """Parameters and operations of every kind of layer."""
    if isinstance(of, antiphon.StepRun):
        layers, name = of.layers, of.model
    else:
        layers, name = of.layer_table(), of.name
    rows = rows_of(layers)
    inside = sum((row["last_layer"] - row["first_layer"] + 1) * row["parameters"] for row in rows)
    heads = ("Parameters:", "Attention:", "Feed-forward:", "Experts:", "Router:", "Norms:")
    shown = [
        [f"{row['first_layer']} to {row['last_layer']}", *(_count(row[key]) for key in _PARAMETERS)] for row in rows
    ]
    shown.append(["embedding, output, last norm", _count(of.parameters - inside), *[""] * 5])
    flops = [[f"{row['first_layer']} to {row['last_layer']}", *(_tera(row[key]) for key in _FLOPS)] for row in rows]
    flops.append(["output", _tera(of.logits_flops), *[""] * 4])
    return document(
        Table(("Layers", *heads), shown, f"Parameters of a layer of {name}, {of.parameters:,} in all"),
        Table(
            ("Layers", "Operations:", "Projections:", "Core attention:", "Feed-forward:", "Experts:"),
            flops,
            "Forward pass of a layer on one sequence, 10^12 operations",
        ),
    )


_PARAMETERS = ("parameters", "attention", "dense", "routed", "router", "norms")
_FLOPS = ("forward_flops", "projection_flops", "core_flops", "dense_flops", "routed_flops")


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _tera(value: float) -> str:
    return digits(value / 1e12) if value else ""


def model_document(shape: antiphon.ModelShape) -> Document:
    """A model's numbers, and its layers."""
    active = f", {shape.active_parameters:,} of them for a token" if shape.has_experts else ""
    about = (
        f"{shape.name}: {shape.parameters:,} parameters{active}; {shape.layers} layers of width {shape.hidden:,},"
        f" {shape.vocab:,} words, sequences of {shape.sequence:,} tokens"
    )
    return document(Note(about, bold=len(shape.name), wrap=True), layers_document(shape).parts)


def models_document(
    models: Sequence[Mapping[str, Any]], options: Sequence[antiphon.Parameter], constants: Sequence[Mapping[str, Any]]
) -> Document:
    """The models, what a plan may say, and the accelerators whose constants are known."""
    known = table_of(
        models,
        "Model {name} | Parameters: {parameters} | For a token: {active_parameters} | Layers: {layers}"
        " | Width: {hidden} | Sequence: {sequence} | Source {source}",
    )
    keys = table_of(
        options, "Plan {key} | Default {default} | Values {values} | Meaning {meaning}", "What a plan may say"
    )
    accelerators = table_of(
        constants,
        "Constants {name} | Peak: {tflops:,.0f} TFLOP/s | Memory: {memory_gib:,.0f} GiB | Memory rate:"
        " {memory_gb_per_s:,.0f} GB/s | Power: {power_w:,.0f} W",
        "Accelerators whose constants are known (docs/reference/large-models.md)",
    )
    return document(known, keys, accelerators)


def table_document(path: str, rows: Sequence[Mapping[str, Any]]) -> Document:
    """How far predicted times of a table are from measured ones."""
    figures = [
        (measured, f"{len(errors):,}", *(f"{100 * figure:.2f} %" for figure in spread(errors)))
        for measured, errors in errors_of(rows).items()
    ]
    title = f"Errors of {len(rows):,} steps of {path}"
    if not figures:
        return document(f"{len(rows):,} steps of {path}; none was measured.")
    return document(Table(("Measured", "Steps:", "Mean error:", "Median:", "Worst:"), figures, title))


def errors_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Relative errors of predictions, without sign, by measured column."""
    result: dict[str, list[float]] = {}
    for row in rows:
        for column, value in row.items():
            name = column if column in (RATE, *MEASURED_PLANS) else column.rpartition("_")[2]
            guess = row.get(PREDICTED + name)
            if not is_predicted(column) and guess and value:
                result.setdefault(column, []).append(abs(guess / float(value) - 1.0))
    return result


def spread(errors: Sequence[float]) -> tuple[float, float, float]:
    """Mean, median and largest."""
    return statistics.fmean(errors), statistics.median(errors), max(errors)


def fit_document(run: antiphon.ConstantsFit) -> Document:
    """Fitted constants and their errors."""
    values = [(name, digits(run.constants[name])) for name in run.free]
    errors = [
        (row["file"], f"{row['steps']:,}", *(f"{100 * row[key]:.2f} %" for key in ERRORS)) for row in run.files.rows()
    ]
    return document(
        Table(("Constant", "Value:"), values, f"Fitted in {run.tries:,} tries"),
        Table(("Rows", "Steps:", "Mean error:", "Median:", "Worst:"), errors),
        Note("These errors are those of the fit: rows that it has not seen say how good it is.", "dim", wrap=True),
    )
