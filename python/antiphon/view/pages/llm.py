"""The pages of ``step``, what every stage does over time, and of ``plan``, where the time of the best plans goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from antiphon.plot import COLOURS
from antiphon.results import BestPlans, StepRun, rows_of
from antiphon.view.document import Note, document
from antiphon.view.documents.llm import (
    KINDS,
    NO_PLAN,
    PARTS,
    changes_table,
    conventions,
    divided,
    exchanges_table,
    first_wins,
    layers_document,
    links_tables,
    plans_table,
    refusals,
    searched,
    seconds,
    stages_tables,
    taken_together,
    time_table,
)
from antiphon.view.pages.page import look
from antiphon.view.pages.player import gantt
from antiphon.view.pages.plots import Bar, Bars
from antiphon.view.pages.sheet import Section, sections_of, sheet

MOST_SPANS = 4000
"""Of stages, that are drawn; of more, the first and the last half of as many."""
WORK = {"forward": 0, "backward": 1, "weights": 2, "optimizer": 4}
"""Colours of what stages compute; whatever they exchange is ``EXCHANGED``."""
EXCHANGED = 5
BUBBLE = "var(--rule)"
"""Colour of waiting for other stages."""


def render(run: StepRun) -> str:
    """The page of a step, as text."""
    told = Markup("A step takes <strong>{}</strong>, {} tokens a second at an MFU of {}.").format(
        seconds(run.iteration_s), f"{run.tokens_per_s:,.0f}", f"{run.mfu:.1%}"
    )
    sections = [
        _timeline(run),
        Section(
            "Where the time goes",
            "Every stage computes, waits for other stages, or waits for exchanges; together this is the step.",
            [_times(run)],
            document(time_table(run)),
        ),
        Section(
            "Memory",
            "What a rank of every stage holds when that is most.",
            [_memory(run)],
        ),
        *sections_of(document(stages_tables(run), links_tables(run), exchanges_table(run), layers_document(run).parts)),
        Section("What the figures mean", shown=document(conventions())),
    ]
    return sheet(
        f"A training step of {run.model} on {run.fabric}",
        f"{run.plan or NO_PLAN} · {divided(run)}",
        told,
        sections,
        [
            (seconds(run.iteration_s), "time of a step"),
            (f"{run.tokens_per_s:,.0f}", "tokens a second"),
            (f"{run.mfu:.1%}", "model FLOPs utilization"),
            (f"{run.memory_gib:,.1f} GiB", "memory of the fullest stage"),
        ],
    )


def _timeline(run: StepRun) -> Section:
    """What every stage does, in one chart, or at the beginning and at the end."""
    spans = rows_of(run.spans)
    text = "What every stage computes, and below it the exchanges of gradients and parameters. Gaps are waiting."
    if len(spans) <= MOST_SPANS:
        return Section("What every stage does", text, [_gantt(run, spans, 0.0, run.iteration_s, "Stages over time")])
    half = MOST_SPANS // 2
    until = sorted(row["end_s"] for row in spans)[half]
    since = sorted(row["start_s"] for row in spans)[-half]
    first = _gantt(run, spans, 0.0, until, "Stages at the beginning")
    last = _gantt(run, spans, since, run.iteration_s, "Stages at the end")
    text += (
        f" Of {len(spans):,} parts of the step only the first and the last are drawn: until {seconds(until)}, and from"
        f" {seconds(since)} on, where the second chart begins."
    )
    return Section("What every stage does", text, [first, last])


def _gantt(run: StepRun, spans: Sequence[dict[str, Any]], start: float, end: float, label: str) -> dict[str, Any]:
    """What stages do between two times; it begins at 0."""
    stages = range(run.stages.height)
    exchanging = {row["stage"] for row in spans if row["work"] not in WORK}
    tracks: dict[str, list[tuple[float, float, str, int]]] = {}
    for stage in stages:
        tracks[f"stage {stage}"] = []
        if stage in exchanging:
            tracks[_exchanges(stage)] = []
    for row in spans:
        from_s, to_s = max(row["start_s"], start), min(row["end_s"], end)
        if from_s < to_s:
            colour = WORK.get(row["work"])
            name = _exchanges(row["stage"]) if colour is None else f"stage {row['stage']}"
            block = ((from_s - start) * 1e9, (to_s - start) * 1e9, _text(row), EXCHANGED if colour is None else colour)
            tracks[name].append(block)
    done = {row["work"] for row in spans}
    legend = [(work, COLOURS[colour]) for work, colour in WORK.items() if work in done]
    legend += [("exchange of gradients and parameters", COLOURS[EXCHANGED])] * bool(exchanging)
    return gantt(tracks, (end - start) * 1e9) | {"label": label, "legend": legend}


def _exchanges(stage: int) -> str:
    return f"stage {stage} exchanges"


def _text(row: dict[str, Any]) -> str:
    """What is shown of a span at the pointer."""
    work = row["work"] if row["work"] in WORK else f"exchange, {row['work']}"
    micro_batch = f", micro batch {row['micro_batch']}" if row["micro_batch"] >= 0 else ""
    part = f", part {row['part']}" if row["part"] >= 0 else ""
    return f"{work}{micro_batch}{part}: {seconds(row['end_s'] - row['start_s'])} from {seconds(row['start_s'])} on"


def _times(run: StepRun) -> Bars:
    """Where the time of every stage goes."""
    rows = rows_of(run.stages)
    bars = [
        (f"stage {row['stage']}", run.iteration_s, f"{row['compute_s'] / run.iteration_s:.1%} computing")
        for row in rows
    ]
    return _divided("Where the time of every stage goes", bars, rows, list(run.stages))


def _divided(label: str, bars: Sequence[tuple[str, float, str]], rows: Sequence[Any], columns: Sequence[str]) -> Bars:
    """Bars, each by name, seconds and text, of the parts in rows: computing, the bubble, and every kind of waiting."""
    looks = [("compute_s", "computing", COLOURS[0]), ("bubble_s", "waiting for other stages", BUBBLE)]
    kinds = [kind for kind in KINDS if f"{kind}_s" in columns]
    looks += [
        (f"{kind}_s", f"waiting for {KINDS[kind]}", look(place + 1)["colour"]) for place, kind in enumerate(kinds)
    ]
    made = [
        Bar(*bar, parts=[(row[key], colour, f"{name}: {seconds(row[key])}") for key, name, colour in looks if row[key]])
        for bar, row in zip(bars, rows, strict=True)
    ]
    return Bars(label, made, legend=[(name, colour) for _, name, colour in looks])


def _memory(run: StepRun) -> Bars:
    """What a rank of every stage holds, against what an accelerator has."""
    used = [key for key in PARTS if run.memory[key].any()]
    colours = {key: look(place)["colour"] for place, key in enumerate(used)}
    bars = []
    for row in rows_of(run.memory):
        parts = [(row[key] / 2**30, colours[key], f"{PARTS[key]}: {row[key] / 2**30:,.2f} GiB") for key in used]
        total = row["total_bytes"] / 2**30
        bars.append(Bar(f"stage {row['stage']}", total, f"{total:,.1f} GiB", parts=parts))
    capacity = None if run.capacity_gib is None else (run.capacity_gib, f"{run.capacity_gib:,.1f} GiB")
    return Bars("Memory of a rank by stage", bars, capacity, [(PARTS[key], colours[key]) for key in used])


def render_plans(found: BestPlans) -> str:
    """The page of the best plans, as text."""
    rows = rows_of(found.plans)
    best = rows[0]
    told = Markup("{} takes <strong>{}</strong> a step, {} tokens a second at an MFU of {}.").format(
        found.best or NO_PLAN, seconds(best["iteration_s"]), f"{best['tokens_per_s']:,.0f}", f"{best['mfu']:.1%}"
    )
    bars = [
        (f"{row['rank']}", row["iteration_s"], f"{row['plan'] or NO_PLAN} · {seconds(row['iteration_s'])}")
        for row in rows
    ]
    sections = [
        Section(
            "Where the time of the best plans goes",
            "Stages compute, wait for other stages, or wait for exchanges; together this is the step.",
            [_divided("The best plans", bars, rows, list(found.plans))],
            document(plans_table(found), Note(refusals(found), wrap=True)),
        ),
        Section("Why the first wins", shown=document(first_wins(found))),
        Section(
            "What would change",
            "Links, a GPU or memory are changed one at a time.",
            shown=document(changes_table(found)),
        ),
        Section("What the figures mean", shown=document(conventions(), taken_together(found))),
    ]
    return sheet(
        f"Plans for a training step of {found.model} on {found.fabric}",
        searched(found),
        told,
        sections,
        [
            (seconds(best["iteration_s"]), "time of a step"),
            (f"{best['tokens_per_s']:,.0f}", "tokens a second"),
            (f"{best['mfu']:.1%}", "model FLOPs utilization"),
            (f"{found.simulated:,}", f"plans simulated of {found.legal:,}"),
        ],
    )
