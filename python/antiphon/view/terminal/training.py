"""Trainings on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

import antiphon
from antiphon.training.train import CHAINED
from antiphon.view.terminal.console import open_console, print_columns
from antiphon.view.terminal.energy import energy_rows, print_energies, print_unknown
from antiphon.view.text import digits, format_time, platform


def print_training(results: Sequence[tuple[antiphon.Training, Sequence[antiphon.Training]]]) -> None:
    """One training in detail, or a row for each; every one with those it is set against."""
    console = open_console()
    if len(results) == 1 and not results[0][1]:
        _print_one_training(console, results[0][0])
        return
    first = results[0][0]
    several_fabrics = len({training.fabric for training, _ in results}) > 1
    compared = any(baselines for _, baselines in results)
    endpoints = {each.system.endpoint for training, baselines in results for each in [training, *baselines]}
    title = "Training" if several_fabrics else f"Training on {first.fabric}"
    where = platform(first.system) if len(endpoints) == 1 else first.system.name
    title += f", system {where}, overlap {first.overlap}, {first.dataset:,} samples an epoch"
    names = ["Batch", "Gradients", "Iteration", "Compute", "Exchanges", "Exposed", "Iterations", "Epoch"]
    names += ["Speedup", "Gain"] if compared else []
    left = [
        "Model",
        *(["Fabric"] if several_fabrics else []),
        "Algorithm",
        *(["Endpoint"] if len(endpoints) > 1 else []),
    ]
    rows, styles = [], []
    for training, baselines in results:
        for each in [training, *baselines]:
            rows.append(
                (
                    *([each.model, each.fabric, each.algorithm] if several_fabrics else [each.model, each.algorithm]),
                    *([each.system.endpoint] if len(endpoints) > 1 else []),
                    f"{each.global_batch:,}",
                    _gradients(each),
                    format_time(each.iteration_ns),
                    format_time(each.compute_ns),
                    format_time(each.communication_ns),
                    format_time(each.exposed_communication_ns),
                    f"{each.iterations:,}",
                    format_time(each.epoch_ns),
                    *(_against(training, each) if compared else ()),
                )
            )
            styles.append("bold" if each is training and baselines else "")
    print_columns(console, left, names, rows, title, styles)
    if compared:
        own, row = first.algorithm, "algorithm"
        if len(endpoints) > 1:
            own, row = f"{own} with endpoint {first.system.endpoint}", "algorithm and endpoint"
        console.print(f"Speedup and gain per epoch: of {own} over the {row} of the row.")
    everything = [each for training, baselines in results for each in [training, *baselines]]
    labels = [f"{each.model}, {each.algorithm} on {each.fabric}" for each in everything]
    if len(endpoints) > 1:
        labels = [f"{label}, {each.system.endpoint}" for label, each in zip(labels, everything, strict=True)]
    energies = [(label, each.energy) for label, each in zip(labels, everything, strict=True)]
    print_energies(console, energies, "Energy of the exchanges of an iteration, and static power")


def _gradients(training: antiphon.Training) -> str:
    return f"{training.gradient_bytes / 1e6:,.3f} MB"


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
        ("System", f"{platform(training.system)} ({training.fidelity})"),
        ("Compute model", training.compute),
        ("Batch", f"{training.global_batch:,}: {training.batch:,} on {where}{left_out}"),
        ("Gradients", _gradients(training)),
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
        *(energy_rows(training.energy) if training.energy else ()),
    ):
        table.add_row(label, value)
    console.print(table)
    print_unknown(console, training.energy)


def _signed_time(ns: float) -> str:
    return ("-" if ns < 0 else "+") + format_time(abs(ns))
