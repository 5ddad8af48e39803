"""Comparisons, single runs and tuning on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Column, Table

import antiphon
from antiphon.collective.matrix import size_text
from antiphon.collective.result import ALL_RANKS
from antiphon.view.terminal.console import open_console, print_columns, right_aligned
from antiphon.view.terminal.energy import energy_rows, print_unknown
from antiphon.view.text import (
    NO_STEPS,
    bound_names,
    certified_run,
    format_bandwidth,
    format_energy,
    format_power,
    format_steps,
    format_time,
    limit_text,
    platform,
)

DISPENSABLE = ("Bus bandwidth", "Steps", "Links busy", "Bandwidth", "Power")
"""Columns of a comparison that a narrow terminal goes without, the first to go first."""
BUSIEST = 10
"""Rows of the table of links of one run."""


def print_comparison(comparison: antiphon.Comparison) -> None:
    """The table of a comparison, the bound, and what was left out."""
    console = open_console()
    size = size_text(comparison.bytes, comparison.matrix_bytes)
    columns: dict[str, Callable[[list[antiphon.Run]], str]] = {
        "Algorithm": lambda runs: runs[0].label,
        "Time": lambda runs: format_time(runs[0].time_ns),
        "Of bound": lambda runs: _share(runs[0].efficiency),
        "Bandwidth": lambda runs: format_bandwidth(runs[0].algorithm_bandwidth_gb_per_s),
        "Bus bandwidth": lambda runs: format_bandwidth(runs[0].bus_bandwidth_gb_per_s),
        "Links busy": lambda runs: f"{runs[0].result.link_utilization_mean:.1%}",
        "Steps": lambda runs: format_steps(runs[0].stats.steps, runs[0].stats.messages),
        "Proof": lambda runs: _proof_mark(runs[0]),
    }
    if any(run.energy for run in comparison.runs):
        proof = columns.pop("Proof")
        columns |= {"Energy": _energy, "Of least": _share_of_least, "Power": _power, "Proof": proof}
    if len(comparison.fidelities) > 1:
        # Side by side: the time at each fidelity, and how far the cheaper ones are from the most detailed.
        del columns["Time"]
        rest = {name: columns.pop(name) for name in list(columns)[1:]}
        for name in comparison.fidelities:
            columns[name] = partial(_time_at, name)
        columns |= rest
    where = platform(comparison.system, comparison.fidelity)
    title = f"{comparison.collective} of {size} on {comparison.fabric} (system {where})"

    def table_of(names: Sequence[str]) -> Table:
        left = ("Algorithm", "Proof")
        table = Table(*(Column(n, overflow="fold") if n in left else right_aligned(n) for n in names), title=title)
        for place, runs in enumerate(comparison.ladder):
            table.add_row(*(columns[name](runs) for name in names), style="bold green" if place == 0 else "")
        for estimate in comparison.estimates:
            cells = {
                "Algorithm": estimate.algorithm,
                "Proof": "not timed",
                "Of bound": _below(estimate.most_efficiency),
            }
            cells["Time"] = cells[comparison.fidelities[-1]] = f"> {format_time(estimate.least_time_ns)}"
            table.add_row(*(cells.get(name, "") for name in names), style="dim")
        return table

    names = list(columns)
    table = table_of(names)
    unlimited = console.options.update(max_width=10_000)
    for name in DISPENSABLE:  # rather fewer columns than cut names and figures
        if name in names and console.measure(table, options=unlimited).maximum > console.width:
            names.remove(name)
            table = table_of(names)
    if comparison.runs:
        console.print(table)
    if comparison.estimates:
        note = "Not timed: their busiest links alone take more than five times as long as the best; --all times them."
        console.print(note, soft_wrap=True)
    bound = comparison.bound
    console.print(f"Lower bound: {format_time(bound.time_ns)} ({bound_names(bound)})")
    if bound.limit.text:
        console.print(f"Limit: {limit_text(bound)}", markup=False, soft_wrap=True)
    for run in comparison.ranking:
        if text := certified_run(run):
            console.print(f"Certificate: {text}", markup=False, soft_wrap=True)
    if any(run.bound_of != ALL_RANKS for run in comparison.runs):
        note = (
            "Runs that leave ranks out, or place them elsewhere, come after the others, with the bound of their ranks."
        )
        console.print(note, soft_wrap=True)
    if comparison.runs:
        _print_platform(console, comparison.runs[0])
        print_unknown(console, comparison.runs[0].energy)
    _print_refusals(console, comparison.collective, comparison.refused)


def print_best(documents: Sequence[Mapping[str, Any]]) -> None:
    """The best of the comparisons on several fabrics, one below the other."""
    table = Table(
        Column("Fabric", overflow="fold"),
        Column("Best", overflow="fold"),
        right_aligned("Time"),
        right_aligned("Of bound"),
        title="The best on each fabric",
    )
    for document in documents:
        best = next(iter(document["runs"]), None)
        of_best = (
            ("-", "-", "-")
            if best is None
            else (best["algorithm"], format_time(best["time_ns"]), _share(best["efficiency"]))
        )
        table.add_row(document["fabric"], *of_best)
    open_console().print(table)


def print_run(run: antiphon.Run, fabric: antiphon.Fabric) -> None:
    """The figures of one run on a fabric and its busiest links."""
    console = open_console()
    result = run.result
    size = size_text(run.bytes, run.matrix_bytes)
    steps = format_steps(run.stats.steps, run.stats.messages)
    table = Table(show_header=False, title=f"{run.algorithm} on {run.fabric}")
    for label, value in (
        ("Collective", f"{run.collective} of {size} (system {platform(run.system, result.fidelity)})"),
        ("Proof", _proof_mark(run)),
        ("Time", format_time(run.time_ns)),
        ("Lower bound", _bound_of(run)),
        ("Algorithm bandwidth", format_bandwidth(run.algorithm_bandwidth_gb_per_s)),
        ("Bus bandwidth", format_bandwidth(run.bus_bandwidth_gb_per_s)),
        ("Links busy, mean / max", f"{result.link_utilization_mean:.1%} / {result.links['utilization'].max():.1%}"),
        ("First / last chunk complete", f"{format_time(result.first_chunk_ns)} / {format_time(result.last_chunk_ns)}"),
        *((("Steps", steps),) if steps != NO_STEPS else ()),
        ("Packet hops / flit hops", f"{result.packet_hops:,} / {result.flit_hops:,}"),
        *(energy_rows(result.energy) if result.energy else ()),
    ):
        table.add_row(label, value)
    console.print(table)
    links, names = result.links, fabric.nodes["name"]
    busiest = (-links["busy_ns"]).argsort(kind="stable")[:BUSIEST]
    table = Table(
        right_aligned("Link"),
        "From → to",
        right_aligned("Busy"),
        right_aligned("Bytes"),
        right_aligned("Packets"),
        title="Busiest links",
    )
    for link in busiest:
        table.add_row(
            str(link),
            f"{names[links['from'][link]]} → {names[links['to'][link]]}",
            f"{links['utilization'][link]:.1%}",
            f"{links['bytes'][link]:,}",
            f"{links['packets'][link]:,}",
        )
    console.print(table)
    _print_platform(console, run)
    print_unknown(console, run.energy)


def print_tuning(tuning: antiphon.Tuning) -> None:
    """The best algorithm for each size, and the crossovers."""
    console = open_console()
    title = f"{tuning.collective} on {tuning.fabric} (system {platform(tuning.system, tuning.fidelity)})"
    title += "" if tuning.objective == "time" else f", least {tuning.objective}"
    with_energy = any(choice.best.energy for choice in tuning)
    more = "Slower by" if tuning.objective == "time" else f"More {tuning.objective} by"
    figures = ["Time", "Of bound", "Bandwidth", *(["Energy"] if with_energy else []), "Next", more]
    rows = []
    for choice in tuning.choices:
        best, time_ns = choice.best, choice.time_ns
        left_out = f" (without rank {', '.join(map(str, best.excluded_ranks))})" if best.excluded_ranks else ""
        second = choice.ranking[1] if len(choice.ranking) > 1 else None
        rows.append(
            (
                antiphon.format_bytes(choice.bytes),
                best.algorithm + left_out,
                format_time(time_ns),
                _share(choice.efficiency),
                format_bandwidth(choice.bytes / time_ns),
                *([format_energy(best.energy.total_j) if best.energy else "-"] if with_energy else []),
                second.algorithm if second else "",
                _more(best.cost(tuning.objective), second.cost(tuning.objective)) if second else "",
            )
        )
    print_columns(console, ["Size", "Best"], figures, rows, title)
    print_unknown(console, tuning.choices[0].best.energy)
    if tuning.left_out:
        sizes = ", ".join(map(antiphon.format_bytes, tuning.left_out))
        console.print(f"Left out when the time limit was over: {sizes}, and crossovers", soft_wrap=True)
    for size, before, after in tuning.crossovers:
        console.print(f"From about {antiphon.format_bytes(size)} on: {after} instead of {before}")
    _print_refusals(console, tuning.collective, tuning.refused)


def _more(best: float, second: float) -> str:
    return f"{second / best - 1:.1%}" if best else "-"


def _energy(runs: list[antiphon.Run]) -> str:
    return format_energy(runs[0].energy.total_j) if runs[0].energy else "-"


def _share_of_least(runs: list[antiphon.Run]) -> str:
    """The least possible energy over that of the run."""
    energy = runs[0].energy
    if energy is None or not energy.lower_bound_aj:
        return "-"
    return _share(energy.lower_bound_aj / energy.total_aj)


def _power(runs: list[antiphon.Run]) -> str:
    return format_power(runs[0].energy.average_power_w) if runs[0].energy else "-"


def _time_at(fidelity: str, runs: list[antiphon.Run]) -> str:
    """The time at a fidelity, and by how much it is off the most detailed one."""
    best = runs[0]
    run = next((run for run in runs if run.result.fidelity == fidelity), None)
    if run is None:
        return "left out"
    return format_time(run.time_ns) + (
        "" if run is best else f" ({round(run.time_ns / best.time_ns - 1, 3) + 0.0:+.1%})"
    )


def _print_refusals(console: Console, collective: str, refused: Sequence[antiphon.Refusal]) -> None:
    """What was left out: on one line what has the same reason, such as that it is for other collectives."""
    able = {known.name for known in antiphon.algorithms() if collective in known.collectives}
    by_reason: dict[str, list[str]] = {}
    for refusal in refused:
        where = f" ({refusal.fidelity})" if refusal.fidelity else ""
        other = refusal.algorithm.partition(":")[0] not in able
        reason = f"for other collectives than {collective}" if other else refusal.reason
        by_reason.setdefault(reason, []).append(refusal.algorithm + where)
    if by_reason:
        console.print("Left out:", style="dim")
        for reason, names in by_reason.items():
            console.print(f"  {', '.join(names)}: {reason}", style="dim", soft_wrap=True)


def _print_platform(console: Console, run: antiphon.Run) -> None:
    for note in filter(None, (run.rounding, run.replaced)):
        console.print(note, style="dim", soft_wrap=True)


def _bound_of(run: antiphon.Run) -> str:
    if run.efficiency is None:
        return "none: its ranks share a node"
    whose = {"participants": " for the ranks that take part", "placement": " for its placement"}.get(run.bound_of, "")
    return f"{format_time(run.bound.time_ns)} ({bound_names(run.bound)}){whose}; reached to {_share(run.efficiency)}"


def _proof_mark(run: antiphon.Run) -> str:
    mark = "✓" if run.result.proof.complete else f"✗ {run.result.proof.gaps}"
    if run.excluded_ranks:
        return f"{mark} without rank {', '.join(map(str, run.excluded_ranks))}"
    return mark if run.bound_of == ALL_RANKS else f"{mark} ranks on other nodes"


def _share(efficiency: float | None) -> str:
    return "-" if efficiency is None else f"{efficiency:.1%}"


def _below(efficiency: float | None) -> str:
    return "-" if efficiency is None else f"< {efficiency:.1%}"
