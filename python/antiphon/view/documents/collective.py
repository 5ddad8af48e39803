"""One collective: algorithms compared, a run, tuning, a bound, and what needs no simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import antiphon
from antiphon.collective.choices import Choice
from antiphon.collective.matrix import size_text
from antiphon.collective.result import ALL_RANKS
from antiphon.library.tuner import Row
from antiphon.results import AtScale, Bound, Replanned, rows_of
from antiphon.view.document import Document, Note, Table, Verbatim, dim, document, facts, left_out, table_of
from antiphon.view.documents.energy import cost_text, energy_facts, share_of_least, unknown
from antiphon.view.documents.fabric import fabric_map
from antiphon.view.documents.network import endpoint_use
from antiphon.view.text import (
    NO_STEPS,
    bound_names,
    certified,
    certified_run,
    format_bandwidth,
    format_steps,
    format_time,
    limit_text,
    platform,
    without_ranks,
)

DISPENSABLE = ("Bus bandwidth:", "Steps:", "Links busy:", "Bandwidth:", "Power:")
"""Columns of a comparison that a narrow terminal goes without, the first to go first."""
BOUNDS = ("volume", "cut", "latency", "strength", "prices", "endpoint", "computation")
"""Every lower bound; the last two are 0 where endpoints and additions are free, and then say nothing."""
BUSIEST = 10
"""Rows of the table of links of one run."""


def comparison_document(comparison: antiphon.Comparison) -> Document:
    """The table of a comparison, the bound, and what was left out."""
    several = len(comparison.fidelities) > 1
    time = f"{comparison.fidelities[-1]}:" if several else "Time:"
    # Side by side: the time at each fidelity, and how far the cheaper ones are from the most detailed.
    times = " | ".join(f"{name}: {{{name}}}" for name in comparison.fidelities) if several else "Time: {0.time_ns}"
    where = platform(comparison.system, comparison.fidelity)
    size = size_text(comparison.bytes, comparison.matrix_bytes)
    table = table_of(
        comparison.ladder,
        f"Algorithm {{0.label}} | {times} | Of bound: {{0.efficiency:.1%}}"
        " | Bandwidth: {0.algorithm_bandwidth_gb_per_s} | Bus bandwidth: {0.bus_bandwidth_gb_per_s}"
        " | Links busy: {0.result.link_utilization_mean:.1%} | Steps: {steps} | Energy: {0.energy.total_j}"
        " | Of least: {least} | Power: {0.energy.average_power_w} | Proof {proof}",
        f"{comparison.collective} of {size} on {comparison.fabric} (system {where})",
        lambda runs: "bold green" if runs is comparison.ladder[0] else "",
        () if any(run.energy for run in comparison.runs) else ("Energy:", "Of least:", "Power:"),
        steps=lambda runs: format_steps(runs[0].stats.steps, runs[0].stats.messages),
        least=lambda runs: share_of_least(runs[0].energy),
        proof=lambda runs: _proof_mark(runs[0]),
        **{name: partial(_time_at, name) for name in comparison.fidelities},
    )
    for estimate in comparison.estimates:
        share = "-" if estimate.most_efficiency is None else f"< {estimate.most_efficiency:.1%}"
        cells = {"Algorithm": estimate.algorithm, "Of bound:": share, "Proof": "not timed"}
        table = table.with_row(cells | {time: f"> {format_time(estimate.least_time_ns)}"}, "dim")
    beside = comparison.library
    if beside is not None:
        name = f"{beside.library}: {beside.algorithm} {beside.protocol}"
        rate = format_bandwidth(comparison.bytes / beside.time_ns)
        cells = {"Algorithm": name, time: format_time(beside.time_ns), "Bandwidth:": rate, "Proof": "model"}
        table = table.with_row(cells, "cyan")
    bound, cost = comparison.bound, comparison.cost
    late = "Not timed: their busiest links alone take more than five times as long as the best"
    apart = "Runs that leave ranks out, or place them elsewhere, come after the others, with the bound of their ranks."
    return document(
        bool(comparison.runs) and replace(table, dispensable=DISPENSABLE),
        bool(comparison.estimates) and f"{late}; --all times them.",
        f"Lower bound: {format_time(bound.time_ns)} ({bound_names(bound)})",
        beside is not None
        and f"{beside.library} is its own cost model, not a schedule; a run should take about"
        f" {format_time(beside.expected_ns)} (docs/explanation/library.md).",
        bound.limit.text and f"Limit: {limit_text(bound)}",
        cost is not None and (cost.wire_mm is not None or "io=" in comparison.fabric) and cost_text(cost),
        [f"Certificate: {text}" for text in map(certified_run, comparison.ranking) if text],
        any(run.bound_of != ALL_RANKS for run in comparison.runs) and apart,
        [_platform(run) for run in comparison.runs[:1]],
        _left_out(comparison.collective, comparison.refused),
    )


def best_document(documents: Sequence[Mapping[str, Any]]) -> Document:
    """The best of the comparisons on several fabrics, one below the other."""
    rows = [{**document, "best": next(iter(document["runs"]), None)} for document in documents]
    columns = (
        "Fabric {fabric} | Best {best.algorithm} | Time: {best.time_ns} | Of bound: {best.efficiency:.1%}"
        " | Ports: {cost.ports} | I/O: {cost.io_gb_per_s} | Across: {cost.bisection_gb_per_s} | Wires: {wires}"
        " | Routers: {cost.area_mm2:,.2f} mm²"
    )
    wires = [row["cost"]["wire_mm"] for row in rows]
    table = table_of(
        rows,
        columns,
        "The best on each fabric",
        without=() if any(wires) else ("Wires:",),
        wires=lambda row: "-" if row["cost"]["wire_mm"] is None else f"{row['cost']['wire_mm']:,.0f} mm",
    )
    return document(replace(table, dispensable=("Across:", "Wires:", "Routers:", "I/O:", "Ports:")))


def run_document(run: antiphon.Run, fabric: antiphon.Fabric | None = None) -> Document:
    """The figures of one run, and the busiest links of its fabric, if that is given."""
    result, links = run.result, run.result.links
    steps = format_steps(run.stats.steps, run.stats.messages)
    held = run.buffer_bytes
    figures = table_of(
        [run],
        "Collective {collective} of {size} (system {system}) | Proof {proof} | Time {time_ns}"
        " | Lower bound {lower} | Algorithm bandwidth {algorithm_bandwidth_gb_per_s}"
        " | Bus bandwidth {bus_bandwidth_gb_per_s}"
        " | Links busy, mean / max {result.link_utilization_mean:.1%} / {most:.1%}"
        " | First / last chunk complete {result.first_chunk_ns} / {result.last_chunk_ns} | Steps {steps}"
        " | Packet hops / flit hops {result.packet_hops} / {result.flit_hops} | Receive buffers of a rank {buffers}",
        without=(["Steps"] if steps == NO_STEPS else []) + ([] if held else ["Receive buffers of a rank"]),
        size=lambda _: size_text(run.bytes, run.matrix_bytes),
        system=lambda _: platform(run.system, result.fidelity, *filter(None, [result.protocol])),
        proof=_proof_mark,
        lower=_bound_of,
        most=lambda _: links["utilization"].max(),
        steps=lambda _: steps,
        buffers=lambda _: antiphon.format_bytes(held or 0),
    )
    table = facts(figures, f"{run.algorithm} on {run.fabric}", energy_facts(result.energy))
    return document(
        table,
        fabric is not None and _busiest(links, fabric.nodes["name"]),
        endpoint_use(result.endpoint_use, "Endpoint"),
        _platform(run),
    )


def _busiest(links: Mapping[str, Any], names: Any) -> Table:
    order = (-links["busy_ns"]).argsort(kind="stable")[:BUSIEST]
    rows = rows_of({name: column[order] for name, column in links.items()})
    return table_of(
        [
            {**row, "link": int(link), "way": f"{names[row['from']]} → {names[row['to']]}"}
            for row, link in zip(rows, order, strict=True)
        ],
        "Link: {link} | From → to {way} | Busy: {utilization:.1%} | Bytes: {bytes:,} | Packets: {packets}",
        "Busiest links",
    )


def tuning_document(tuning: antiphon.Tuning) -> Document:
    """The best algorithm for each size, and the crossovers."""
    of_time = tuning.objective == "time"

    def more(choice: Choice) -> str:
        least, *others = (run.cost(tuning.objective) for run in choice.ranking[:2])
        return (f"{others[0] / least - 1:.1%}" if least else "-") if others else ""

    title = f"{tuning.collective} on {tuning.fabric} (system {platform(tuning.system, tuning.fidelity)})"
    table = table_of(
        tuning.choices,
        "Size {bytes} | Best {best.algorithm}{left_out} | Time: {time_ns} | Of bound: {efficiency:.1%}"
        " | Bandwidth: {bandwidth_gb_per_s} | Energy: {best.energy.total_j} | Next: {next}"
        f" | {'Slower' if of_time else f'More {tuning.objective}'} by: {{more}}",
        title if of_time else f"{title}, least {tuning.objective}",
        without=[] if any(choice.best.energy for choice in tuning) else ["Energy:"],
        left_out=lambda choice: without_ranks(choice.best.excluded_ranks, " ({})"),
        bandwidth_gb_per_s=lambda choice: choice.bytes / choice.time_ns,
        next=lambda choice: choice.ranking[1].algorithm if len(choice.ranking) > 1 else "",
        more=more,
    )
    sizes = ", ".join(map(antiphon.format_bytes, tuning.left_out))
    return document(
        table,
        unknown(tuning.choices[0].best.energy),
        sizes and f"Left out when the time limit was over: {sizes}, and crossovers",
        [
            f"From about {antiphon.format_bytes(size)} on: {after} instead of {before}"
            for size, before, after in tuning.crossovers
        ],
        _left_out(tuning.collective, tuning.refused),
    )


def tuner_document(title: str, rows: Sequence[Row]) -> Document:
    """What NCCL's tuner would be told, and what that changes."""
    table = table_of(
        rows,
        "From {min} | To {max} | Use {algorithm} {protocol} | NCCL's own {own_algorithm} {own_protocol}"
        " | Saves: {saves}",
        title,
        min=lambda row: antiphon.format_bytes(row.min_bytes),
        max=lambda row: f"{row.max_bytes:,} B",
        saves=lambda row: f"{row.gain:.1%}" if row.changes else "",
    )
    changed = sum(row.changes for row in rows)
    what = (
        f"{changed} of {len(rows)} rows change what NCCL would choose"
        if changed
        else "Nothing changes: NCCL chooses the same"
    )
    return document(table, f"{what}, by its model with measured rates (docs/explanation/library.md).")


def bound_document(title: str, lower: Bound) -> Document:
    """Every lower bound, and what the largest rests on."""
    times = {name: ns for name in BOUNDS if (ns := getattr(lower, f"{name}_ns")) or name not in BOUNDS[-2:]}
    texts = {name: "not applicable" if time is None else format_time(time) for name, time in times.items()}
    texts[lower.binding] += " (binding)"
    styles = ["bold" if name == lower.binding else "" for name in texts]
    table = Table(("Bound", "Time:"), list(texts.items()), styles=styles)
    return document(Note(title, wrap=True), table, f"Limit: {limit_text(lower)}")


def schedule_document(fabric: antiphon.Fabric, schedule: antiphon.Schedule, figures: Mapping[str, Any]) -> Document:
    """The figures of a schedule, and a map of a fabric that is configured."""
    phases = ", ".join(f"{phase['name']} {phase['steps']:,}" for phase in figures["phases"])
    steps = format_steps(figures["steps"], figures["messages"])
    table = table_of(
        [figures],
        "Collective {collective} of {size} | Dimensions {dimensions} | Proof {proof} | Excluded ranks {excluded}"
        " | Steps {steps} | Links in use, steady state {used_links_percent:.1f} %"
        " | Links without traffic {links_idle} of {links}"
        " | Height of reduction / broadcast {reduce_height_max} / {copy_height_max}"
        " | Lanes, transfers, messages {lanes}, {transfers}, {messages}"
        " | Bytes per link, mean / max {link_bytes_mean:,.0f} / {link_bytes_max:,}",
        without=["Steps", "Links in use, steady state"] if steps == NO_STEPS else [],
        size=lambda _: size_text(schedule.bytes, schedule.matrix_bytes),
        dimensions=lambda _: "\n".join(map(_dimension, figures["dimensions"])) or "none",
        proof=lambda _: "✓ complete",
        excluded=lambda _: ", ".join(map(str, schedule.excluded)) or "none",
        steps=lambda _: f"{steps} ({phases})",
        links=lambda _: len(fabric.links["from"]),
    )
    drawing = fabric_map(fabric)
    return document(facts(table, f"{schedule.algorithm} on {fabric.name}"), drawing and Verbatim(drawing))


def _dimension(row: dict[str, Any]) -> str:
    through = " through it" if row["shape"] == "switch" else ""
    return f"{row['shape']} of {row['size']}, {row['rate_gb_per_s']:g} GB/s, {row['latency_ns']:g} ns{through}"


def replanned_document(found: Replanned, system: str) -> Document:
    """What was kept, how good it is on a system, and how long each part of the work took."""
    schedule = found.schedule
    least = f"no schedule takes less than {format_time(found.certified_ns)} on system {system}"
    size = size_text(schedule.bytes, schedule.matrix_bytes)
    before = found.certified_before_ns
    trees = found.kept + found.mended
    what = "plans of paths" if schedule.collective == "all-to-all" else "trees"
    times = (("plan and prices", found.planning_ms), ("schedule", found.lowering_ms), ("proof", found.proof_ms))
    return document(
        f"✓ {schedule.algorithm}, {schedule.collective} of {size} on {found.fabric.name}: proven",
        f"✓ {certified(found.share_of_optimum)}: {least}",
        before is not None and f"  Before the failure none took less than {format_time(before)}",
        f"  Of the {trees} {what} before, {found.kept} are whole, and others were found for {found.mended}"
        if trees
        else "  Planned anew: its trees before are nothing to start from",
        "  Took " + ", ".join(f"{format_time(took * 1e6)} for {part}" for part, took in times),
    )


def scaled_document(found: AtScale) -> Document:
    """What each algorithm takes, and what was checked in place of a list."""
    rows = list(found.runs.rows())
    table = table_of(
        rows,
        "Algorithm {algorithm} | Time: {time_ns} | Of bound: {efficiency:.1%} | Bandwidth:"
        " {algorithm_bandwidth_gb_per_s} | Messages: {messages:,} | Energy: {dynamic_j}",
        f"{found.collective} of {antiphon.format_bytes(found.bytes)} on {found.fabric}, {found.ranks:,} ranks"
        f" (system {found.system}, {found.fidelity})",
    )
    return document(
        table,
        [f"Lower bound: {format_time(row['bound_ns'])} ({row['binding']})" for row in rows[:1]],
        [f"In place of a list, {row['algorithm']}: {row['in_place']}" for row in rows],
        [f"✓ {row['algorithm']}: {row['proof']}" for row in rows],
        left_out([f"{row['algorithm']}: {row['reason']}" for row in found.refused.rows()]),
    )


def _time_at(fidelity: str, runs: list[antiphon.Run]) -> str:
    """The time at a fidelity, and by how much it is off the most detailed one."""
    best = runs[0]
    run = next((run for run in runs if run.result.fidelity == fidelity), None)
    if run is None:
        return "left out"
    return format_time(run.time_ns) + (
        "" if run is best else f" ({round(run.time_ns / best.time_ns - 1, 3) + 0.0:+.1%})"
    )


def _left_out(collective: str, refused: Sequence[antiphon.Refusal]) -> list[Note]:
    """What was left out: on one line what has the same reason, such as that it is for other collectives."""
    able = {known.name for known in antiphon.algorithms() if collective in known.collectives}
    by_reason: dict[str, list[str]] = {}
    for refusal in refused:
        where = f" ({refusal.fidelity})" if refusal.fidelity else ""
        other = refusal.algorithm.partition(":")[0] not in able
        reason = f"for other collectives than {collective}" if other else refusal.reason
        by_reason.setdefault(reason, []).append(refusal.algorithm + where)
    return left_out([f"{', '.join(names)}: {reason}" for reason, names in by_reason.items()])


def _platform(run: antiphon.Run) -> list[Note]:
    """What the platform changes, and what of it nobody knows."""
    return dim(run.rounding, run.replaced) + unknown(run.energy)


def _bound_of(run: antiphon.Run) -> str:
    if run.efficiency is None:
        return "none: its ranks share a node"
    whose = {"participants": " for the ranks that take part", "placement": " for its placement"}.get(run.bound_of, "")
    return f"{format_time(run.bound.time_ns)} ({bound_names(run.bound)}){whose}; reached to {run.efficiency:.1%}"


def _proof_mark(run: antiphon.Run) -> str:
    mark = "✓" if run.result.proof.complete else f"✗ {run.result.proof.gaps}"
    elsewhere = "" if run.excluded_ranks or run.bound_of == ALL_RANKS else " ranks on other nodes"
    return mark + without_ranks(run.excluded_ranks, " {}") + elsewhere
