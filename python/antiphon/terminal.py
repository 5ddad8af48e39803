"""What people see of results: tables and progress bars on a terminal, and JSON."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich import progress as rich_progress
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

import antiphon
from antiphon.comparison import ALL_RANKS
from antiphon.text import digits, format_bandwidth, format_time
from antiphon.training import CHAINED

if TYPE_CHECKING:
    from antiphon.papers import Reproduction

PATIENCE_S = 2.0
"""Progress is shown on runs that take longer."""
DISPENSABLE = ("Bus bandwidth", "Steps", "Links busy", "Bandwidth")
"""Columns of a comparison that a narrow terminal goes without, the first to go first."""
CLAIMS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
"""Verdicts on claims, and how several are counted."""
BUSIEST = 10
"""Rows of the table of links of one run."""


class _Output(Console):
    """Tells that the reader is gone, where others end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def open_console() -> Console:
    """Plain text (no markup, no guesses); wide where nobody's window limits it."""
    width = None if sys.stdout.isatty() else 160
    return _Output(markup=False, highlight=False, emoji=False, width=width)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on stderr, if that is a terminal and the work takes long."""
    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        yield lambda _name, _share: None
        return
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    start = time.monotonic()
    with rich_progress.Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        tasks: dict[str, rich_progress.TaskID] = {}
        lock = threading.Lock()

        def update(name: str, share: float) -> None:
            if time.monotonic() - start > PATIENCE_S and lock.acquire(blocking=False):
                for other, task in tasks.items():
                    bar.update(task, visible=other == name)
                if name not in tasks:
                    tasks[name] = bar.add_task(name, total=1.0)
                bar.update(tasks[name], completed=share)
                bar.refresh()
                lock.release()

        yield update


def print_json(command: str, document: dict[str, Any]) -> None:
    """The object of a command as documented in docs/json.md."""
    click.echo(json_text(command, document))


def json_text(command: str, document: dict[str, Any]) -> str:
    """The text of such an object."""
    head = {"schema": f"antiphon-{command}/1", "version": antiphon.__version__}
    return json.dumps(head | document, indent=2, allow_nan=False)


def print_list(command: str, rows: list[dict[str, Any]], as_json: bool) -> None:
    """Rows of equal keys, as a table or as JSON."""
    if as_json:
        print_json(command, {command: rows})
        return
    table = Table(*(key.capitalize() for key in rows[0]))
    for row in rows:
        first, *rest = row.values()
        table.add_row(Text(first, style="bold"), *rest)
    open_console().print(table)


def print_comparison(comparison: antiphon.Comparison) -> None:
    """The table of a comparison, the bound, and what was left out."""
    console = open_console()
    size = antiphon.format_bytes(comparison.bytes)
    columns: dict[str, Callable[[list[antiphon.Run]], str]] = {
        "Algorithm": lambda runs: runs[0].algorithm,
        "Time": lambda runs: format_time(runs[0].time_ns),
        "Of bound": lambda runs: _share(runs[0].efficiency),
        "Bandwidth": lambda runs: format_bandwidth(runs[0].algorithm_bandwidth_gb_per_s),
        "Bus bandwidth": lambda runs: format_bandwidth(runs[0].bus_bandwidth_gb_per_s),
        "Links busy": lambda runs: f"{runs[0].result.link_utilization_mean:.1%}",
        "Steps": lambda runs: f"{runs[0].stats.steps:,}",
        "Proof": lambda runs: _proof_mark(runs[0]),
    }
    if len(comparison.fidelities) > 1:
        # Side by side: the time at each fidelity, and how far the cheaper ones are from the most detailed.
        del columns["Time"]
        rest = {name: columns.pop(name) for name in list(columns)[1:]}
        for name in comparison.fidelities:
            columns[name] = partial(_time_at, name)
        columns |= rest
    title = f"{comparison.collective} of {size} on {comparison.fabric} (system {comparison.system.name}"
    title += f", {comparison.fidelity})"

    def table_of(names: Sequence[str]) -> Table:
        left = ("Algorithm", "Proof")
        table = Table(*(Column(n, overflow="fold") if n in left else right_aligned(n) for n in names), title=title)
        for place, runs in enumerate(comparison.ladder):
            table.add_row(*(columns[name](runs) for name in names), style="bold green" if place == 0 else "")
        return table

    names = list(columns)
    table = table_of(names)
    unlimited = console.options.update(max_width=10_000)
    for name in DISPENSABLE:  # rather fewer columns than cut names and figures
        if console.measure(table, options=unlimited).maximum > console.width:
            names.remove(name)
            table = table_of(names)
    if comparison.runs:
        console.print(table)
    bound = comparison.bound
    console.print(f"Lower bound: {format_time(bound.time_ns)} ({bound.binding})")
    if any(run.bound_of != ALL_RANKS for run in comparison.runs):
        note = (
            "Runs that leave ranks out, or place them elsewhere, come after the others, with the bound of their ranks."
        )
        console.print(note, soft_wrap=True)
    if comparison.runs:
        _print_rounding(console, comparison.runs[0])
    _print_refusals(console, comparison.collective, comparison.refused)


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


def _print_rounding(console: Console, run: antiphon.Run) -> None:
    if run.rounding:
        console.print(run.rounding, style="dim", soft_wrap=True)


def _time_at(fidelity: str, runs: list[antiphon.Run]) -> str:
    """The time at a fidelity, and by how much it is off the most detailed one."""
    best = runs[0]
    run = next((run for run in runs if run.result.fidelity == fidelity), None)
    if run is None:
        return "left out"
    return format_time(run.time_ns) + (
        "" if run is best else f" ({round(run.time_ns / best.time_ns - 1, 3) + 0.0:+.1%})"
    )


def print_run(run: antiphon.Run) -> None:
    """The figures of one run and its busiest links."""
    console = open_console()
    result = run.result
    size = antiphon.format_bytes(run.bytes)
    table = Table(show_header=False, title=f"{run.algorithm} on {run.fabric}")
    for label, value in (
        ("Collective", f"{run.collective} of {size} (system {run.system.name}, {result.fidelity})"),
        ("Proof", _proof_mark(run)),
        ("Time", format_time(run.time_ns)),
        ("Lower bound", _bound_of(run)),
        ("Algorithm bandwidth", format_bandwidth(run.algorithm_bandwidth_gb_per_s)),
        ("Bus bandwidth", format_bandwidth(run.bus_bandwidth_gb_per_s)),
        ("Links busy, mean / max", f"{result.link_utilization_mean:.1%} / {result.links['utilization'].max():.1%}"),
        ("First / last chunk complete", f"{format_time(result.first_chunk_ns)} / {format_time(result.last_chunk_ns)}"),
        ("Steps", f"{run.stats.steps:,}"),
        ("Packet hops / flit hops", f"{result.packet_hops:,} / {result.flit_hops:,}"),
    ):
        table.add_row(label, value)
    console.print(table)
    links = result.links
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
            f"{links['from'][link]} → {links['to'][link]}",
            f"{links['utilization'][link]:.1%}",
            f"{links['bytes'][link]:,}",
            f"{links['packets'][link]:,}",
        )
    console.print(table)
    _print_rounding(console, run)


MOST_FLIGHTS = 100
"""Rows of a table of flights."""


def print_flights(run: antiphon.FlightsRun) -> None:
    """When each flight started and ended."""
    console = open_console()
    table = Table(
        right_aligned("Flight"),
        "Group",
        "Collective",
        right_aligned("Start"),
        right_aligned("Finish"),
        right_aligned("Time"),
        right_aligned("Bound"),
        title=f"{len(run.flights):,} flights on {run.fabric} (system {run.system.name}, {run.result.fidelity})",
    )
    for number, row in enumerate(run.to_dict()["flights"][:MOST_FLIGHTS]):
        ranks = row["group"]
        table.add_row(
            row["name"] or str(number),
            "all" if ranks is None else _listed(ranks),
            f"{row['algorithm']}, {row['collective']} of {antiphon.format_bytes(row['bytes'])}",
            format_time(row["start_ns"]),
            format_time(row["finish_ns"]),
            format_time(row["time_ns"]),
            format_time(row["lower_bound_ns"]),
        )
    console.print(table)
    if len(run.flights) > MOST_FLIGHTS:
        console.print(f"and {len(run.flights) - MOST_FLIGHTS:,} more; --json has all", style="dim")
    busy = run.result.link_utilization_mean
    console.print(f"All done after {format_time(run.time_ns)}; links busy {busy:.1%}, order {run.order}")


def _listed(ranks: Sequence[int]) -> str:
    """Ranks, the first few of many."""
    text = ", ".join(map(str, ranks[:8]))
    return text if len(ranks) <= 8 else f"{text}, … ({len(ranks):,})"


def print_noc(runs: Sequence[antiphon.NocResult]) -> None:
    """A table of rates and latencies."""
    console = open_console()
    first = runs[0]
    router = first.router
    stable = all(run.stable for run in runs)
    table = Table(
        *map(right_aligned, ("Rate", "Accepted", "Latency", "±", "p50", "p99", "In network", "Routers", "Packets")),
        *([] if stable else [""]),
        title=f"{first.traffic} traffic on {first.fabric}: {first.packet_flits}-flit packets, routing"
        f" {first.routing}, {router.vcs} x {router.vc_depth}-flit buffers\n"
        "(rates in flits per rank and cycle, latencies in cycles)",
    )
    for run in runs:
        latency = run.packet_latency_cycles
        table.add_row(
            f"{run.rate:.4g}",
            f"{run.accepted_flits_per_node_cycle:.4g}",
            f"{latency.mean:,.2f}",
            "" if latency.half_width is None else f"{latency.half_width:,.2f}",
            f"{latency.p50:,}",
            f"{latency.p99:,}",
            f"{run.network_latency_mean_cycles:,.2f}",
            f"{run.hops_mean:.2f}",
            f"{run.packets:,}",
            *([] if run.stable else ["saturated"]),
            style="" if run.stable else "red",
        )
    console.print(table)
    if not stable:
        console.print("saturated: beyond what the network carries; latencies are only those of packets delivered")


def print_reproduction(reproduction: Reproduction) -> None:
    """How many numbers of every figure agree and how far off they are; claims; where the report is."""
    console = open_console()
    headers = ("Compared", "Agree", "Differ", "Mean error", "Largest")
    several = len(reproduction.outcomes) > 1
    table = Table(
        Column("Figure" if several else "", overflow="fold"),
        *map(right_aligned, headers),
        Column("at", overflow="fold"),
    )
    groups = next(iter(reproduction.summaries.values()))
    for summary in reproduction.figures.values() if several else groups:
        if summary.compared:
            differing = summary.compared - summary.agreeing
            table.add_row(
                summary.group,
                f"{summary.compared:,}",
                f"{summary.agreeing:,}",
                Text(f"{differing:,}", style="yellow" if differing else "green"),
                *(f"{100 * (error or 0):.2f} %" for error in (summary.error_mean, summary.error_max)),
                summary.worst if differing or summary.error_max else "",
            )
    texts = reproduction.paper.data.texts
    console.print(f"{texts['title']} ({texts['source'].partition(';')[0]})", style="bold")
    if not several:
        console.print(next(iter(reproduction.figures.values())).group)
    console.print(table)
    verdicts = Counter[str](claim.verdict for claim in reproduction.claims)
    if verdicts:
        counts = [f"{verdicts[verdict]} {words}" for verdict, words in CLAIMS.items() if verdicts[verdict]]
        console.print(f"Claims of the paper: {', '.join(counts)}")
    elif reproduction.quick:
        console.print("Claims are about all points: without --quick.")
    stored = reproduction.runs - reproduction.new_runs
    stale = f" ({reproduction.stale_runs:,} of another build are not used)" if reproduction.stale_runs else ""
    console.print(f"Runs: {reproduction.new_runs:,} made, {stored:,} taken from earlier calls{stale}")
    console.print(f"Report: {reproduction.report}", style="dim")


def print_training(results: Sequence[tuple[antiphon.Training, Sequence[antiphon.Training]]]) -> None:
    """One training in detail, or a row for each; every one with those it is set against."""
    console = open_console()
    if len(results) == 1 and not results[0][1]:
        _print_one_training(console, results[0][0])
        return
    first = results[0][0]
    several_fabrics = len({training.fabric for training, _ in results}) > 1
    compared = any(baselines for _, baselines in results)
    title = "Training" if several_fabrics else f"Training on {first.fabric}"
    title += f", system {first.system.name}, overlap {first.overlap}, {first.dataset:,} samples an epoch"
    names = ["Iteration", "Compute", "Exchanges", "Exposed", "Iterations", "Epoch"]
    names += ["Speedup", "Gain"] if compared else []
    left = ["Model", *(["Fabric"] if several_fabrics else []), "Algorithm"]
    table = Table(*(Column(name, overflow="fold") for name in left), *map(right_aligned, names), title=title)
    for training, baselines in results:
        for each in [training, *baselines]:
            table.add_row(
                *([each.model, each.fabric, each.algorithm] if several_fabrics else [each.model, each.algorithm]),
                format_time(each.iteration_ns),
                format_time(each.compute_ns),
                format_time(each.communication_ns),
                format_time(each.exposed_communication_ns),
                f"{each.iterations:,}",
                format_time(each.epoch_ns),
                *(_against(training, each) if compared else ()),
                style="bold" if each is training and baselines else "",
            )
    console.print(table)
    if compared:
        console.print(f"Speedup and gain per epoch: of {first.algorithm} over the algorithm of the row.")


def print_left_out(refused: Sequence[dict[str, str]]) -> None:
    """What could not be done, and why."""
    if refused:
        console = open_console()
        console.print("Left out:", style="dim")
        for row in refused:
            what = f"{row['model']}, {row['algorithm']} on {row['fabric']}"
            console.print(f"  {what}: {row['reason']}", style="dim", soft_wrap=True)


def _against(training: antiphon.Training, other: antiphon.Training) -> tuple[str, str]:
    """Speedup and gain over another training; empty for itself."""
    if other is training:
        return "", ""
    speedup = training.speedup(other)
    return "" if speedup is None else f"{speedup:.3f}x", _signed_time(training.gain_ns(other))


def _print_one_training(console: Console, training: antiphon.Training) -> None:
    iteration = training.iteration
    exchanges = iteration.exchanges
    share = training.exposed_communication_ns / max(training.iteration_ns, 1e-3)
    table = Table(show_header=False, title=f"{training.model} on {training.fabric} with {training.algorithm}")
    left_out = f", without rank {', '.join(map(str, training.excluded_ranks))}" if training.excluded_ranks else ""
    shared = training.model_parallel
    where = "each rank" if shared == 1 else f"each {shared:,} ranks that share a model"
    if training.compute == "measured":
        where += " (not checked: the table's times are of its own batch)"
    passes = (iteration.forward_ns, iteration.backward_ns, iteration.aggregation_ns)
    waits = (iteration.turnaround_ns, iteration.bubbles_ns)
    chained = [("      turnaround, bubbles", ", ".join(map(format_time, waits)))] if training.overlap in CHAINED else []
    for label, value in (
        ("System", f"{training.system.name} ({training.fidelity})"),
        ("Compute model", training.compute),
        ("Batch", f"{training.global_batch:,}: {training.batch:,} on {where}{left_out}"),
        ("Gradients", f"{training.gradient_bytes / 1e6:,.3f} MB"),
        ("Exchanges", f"{len(exchanges['bytes']):,} (overlap {training.overlap})"),
        ("Iteration", format_time(training.iteration_ns)),
        ("  computing", format_time(training.compute_ns)),
        ("    forward, backward, local sums", ", ".join(map(format_time, passes))),
        ("  exchanging", format_time(training.communication_ns)),
        ("    exposed", f"{format_time(training.exposed_communication_ns)} ({share:.1%} of the iteration)"),
        *chained,
        ("    behind computation", format_time(training.overlapped_communication_ns)),
        (
            "Epoch",
            f"{format_time(training.epoch_ns)}: {training.iterations:,} iterations for {training.dataset:,} samples",
        ),
        ("Throughput", f"{digits(training.samples_per_s or 0)} samples/s"),
    ):
        table.add_row(label, value)
    console.print(table)


def print_tuning(tuning: antiphon.Tuning) -> None:
    """The best algorithm for each size, and the crossovers."""
    console = open_console()
    title = f"{tuning.collective} on {tuning.fabric} (system {tuning.system.name}, {tuning.fidelity})"
    table = Table(
        right_aligned("Size"),
        Column("Best", overflow="fold"),
        right_aligned("Time"),
        right_aligned("Of bound"),
        right_aligned("Bandwidth"),
        Column("Next", overflow="fold"),
        right_aligned("slower by"),
        title=title,
    )
    for choice in tuning.choices:
        best, time_ns = choice.best, choice.time_ns
        left_out = f" (without rank {', '.join(map(str, best.excluded_ranks))})" if best.excluded_ranks else ""
        second = choice.ranking[1] if len(choice.ranking) > 1 else None
        table.add_row(
            antiphon.format_bytes(choice.bytes),
            best.algorithm + left_out,
            format_time(time_ns),
            _share(choice.efficiency),
            format_bandwidth(choice.bytes / time_ns),
            second.algorithm if second else "",
            f"{second.time_ns / time_ns - 1:.1%}" if second else "",
        )
    console.print(table)
    for size, before, after in tuning.crossovers:
        console.print(f"From about {antiphon.format_bytes(size)} on: {after} instead of {before}")
    _print_refusals(console, tuning.collective, tuning.refused)


def print_rails(runs: Sequence[antiphon.RailsRun]) -> None:
    """A row for each scheduler: time, utilization, and that of every dimension."""
    console = open_console()
    first = runs[0]
    title = f"{first.collective} of {first.bytes / 1e6:,.6g} MB on {first.topology}"
    title += f" ({first.npus:,} NPUs, {first.chunks} chunks)"
    jitter = any(run.jittered_time_ns is not None for run in runs)
    names = ["Time", *(["With jitter"] if jitter else []), "Speedup", "Utilization", *first.dimensions["name"].tolist()]
    table = Table("Scheduler", "Queue", *map(right_aligned, names), title=title)
    for run in runs:
        table.add_row(
            run.scheduler,
            run.intra,
            format_time(run.time_ns),
            *([format_time(run.jittered_time_ns or 0)] if jitter else []),
            f"{first.time_ns / run.time_ns:.2f}x",
            f"{run.utilization:.1%}",
            *(f"{share:.1%}" for share in run.dimensions["utilization"]),
        )
    console.print(table)
    if first.utilization_bound is not None:
        console.print(f"No scheduler uses more than {first.utilization_bound:.1%} of the rates together.")


def print_rails_advice(advice: antiphon.RailsAdvice) -> None:
    """The dimensions, their rates and how these go together."""
    console = open_console()
    dimensions, pairs = advice.dimensions, advice.pairs
    columns = ("Rate", "Balanced")
    table = Table("Dimension", *map(right_aligned, columns), "Note", title=f"{advice.topology} ({advice.npus:,} NPUs)")
    held = not dimensions["binding"].all()
    for name, rate, balanced, binding in zip(*(dimensions[key] for key in dimensions), strict=True):
        table.add_row(
            name, f"{rate:,.0f} Gb/s", f"{balanced:,.0f} Gb/s", "holds all others back" if held and binding else ""
        )
    console.print(table)
    for near, far, ratio, provision in zip(*(pairs[key] for key in pairs), strict=True):
        console.print(f"dim{far} is {provision} beside dim{near}: {ratio:.2f} times what the fixed order needs")
    console.print(f"The fixed order uses {advice.baseline_utilization:.1%} of the rates together.")
    console.print(f"No scheduler uses more than {advice.utilization_bound:.1%}, latency apart.")
    console.print("Balanced: the same rates together, divided so that the fixed order keeps all dimensions busy.")


def print_trees_advice(advice: antiphon.TreesAdvice) -> None:
    """Steps and times of ring and trees, and where the ring is faster."""
    title = f"AllReduce of {antiphon.format_bytes(advice.bytes)} on {advice.ranks:,} ranks: "
    title += f"{format_time(advice.latency_ns)} a step, {advice.bandwidth_gb_per_s:,.6g} GB/s, height {advice.height}"
    columns = ("Trees", "Chunks", "Steps", "Time", "By equation", "First chunk", "Ring / this")
    table = Table("", *map(right_aligned, columns), "Ring is faster", title=title)
    ways = advice.to_dict()["ways"]
    for way in ways:
        first, last = way["ring_faster_from_bytes"], way["ring_faster_to_bytes"]
        upper = "" if last >= 1 << 50 else f" to {_size(last)}"
        table.add_row(
            way["name"],
            str(way["trees"] or ""),
            f"{way['chunks']:,}",
            f"{way['steps']:,}",
            format_time(way["time_ns"]),
            format_time(way["formula_ns"]),
            format_time(way["first_chunk_ns"]),
            f"{ways[0]['time_ns'] / way['time_ns']:.2f}x",
            f"from {_size(first)}{upper}" if last else "",
        )
    open_console().print(table)


def print_compute_models() -> None:
    """The compute models and their options."""
    table = Table("Compute model", "What it is", "Options", show_lines=True)
    for name, summary, options in antiphon.compute_models():
        table.add_row(Text(name, style="bold"), summary, "\n".join(map(option_text, options)))
    open_console().print(table)


def option_text(option: antiphon.Parameter) -> str:
    """An option on one line."""
    values = "" if option.kind in ("bytes", "rank") else f"{option.values}; "
    return f"{option.key}: {option.meaning.rstrip('.')} ({values}default {option.default})"


def _size(count: int) -> str:
    """A number of bytes in the largest decimal unit below it."""
    power = min((len(str(count)) - 1) // 3, 5)
    return f"{digits(count / 1000**power)} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"


def _signed_time(ns: float) -> str:
    return ("-" if ns < 0 else "+") + format_time(abs(ns))


def _share(efficiency: float | None) -> str:
    return "-" if efficiency is None else f"{efficiency:.1%}"


def _bound_of(run: antiphon.Run) -> str:
    if run.efficiency is None:
        return "none: its ranks share a node"
    whose = {"participants": " for the ranks that take part", "placement": " for its placement"}.get(run.bound_of, "")
    return f"{format_time(run.bound.time_ns)} ({run.bound.binding}){whose}; reached to {_share(run.efficiency)}"


def _proof_mark(run: antiphon.Run) -> str:
    mark = "✓" if run.result.proof.complete else f"✗ {run.result.proof.gaps}"
    if run.excluded_ranks:
        return f"{mark} without rank {', '.join(map(str, run.excluded_ranks))}"
    return mark if run.bound_of == ALL_RANKS else f"{mark} ranks on other nodes"


def right_aligned(header: str) -> Column:
    """A column of figures."""
    return Column(header, justify="right")
