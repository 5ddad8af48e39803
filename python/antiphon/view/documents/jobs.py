"""Trainings, replayed traces, and collectives in flight together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import antiphon
from antiphon.results import rows_of
from antiphon.training.train import CHAINED
from antiphon.view.document import Document, Note, Part, Table, facts, left_out, more, table_of
from antiphon.view.documents.energy import energies, energy_facts, unknown
from antiphon.view.text import digits, format_time, platform

MOST_EXCHANGES = 40
MOST_RANKS = 16
MOST_FLIGHTS = 100
"""Rows of the tables."""


def training_document(
    results: Sequence[tuple[antiphon.Training, Sequence[antiphon.Training]]], refused: Sequence[dict[str, str]]
) -> Document:
    """One training in detail, or a row for each; every one with those it is set against; what could not be done."""
    one = len(results) == 1 and not results[0][1]
    why = ["{model}, {algorithm} on {fabric}: {reason}".format(**row) for row in refused]
    return Document([*(_one_training(results[0][0]) if one else _trainings(results)), *left_out(why)])


def _trainings(results: Sequence[tuple[antiphon.Training, Sequence[antiphon.Training]]]) -> list[Part]:
    first = results[0][0]
    pairs = [(each, training) for training, baselines in results for each in [training, *baselines]]
    several_fabrics = len({training.fabric for training, _ in results}) > 1
    several_endpoints = len({each.system.endpoint for each, _ in pairs}) > 1
    compared = any(baselines for _, baselines in results)
    where = first.system.name if several_endpoints else platform(first.system)
    title = "Training" if several_fabrics else f"Training on {first.fabric}"
    title += f", system {where}, overlap {first.overlap}, {first.dataset:,} samples an epoch"
    of = {id(each): training for each, training in pairs}
    columns: dict[str, Callable[[antiphon.Training], str]] = {
        "Model": lambda each: each.model,
        "Fabric": lambda each: each.fabric,
        "Algorithm": lambda each: each.algorithm,
        "Endpoint": lambda each: each.system.endpoint,
        "Batch:": lambda each: f"{each.global_batch:,}",
        "Gradients:": _gradients,
        "Iteration:": lambda each: format_time(each.iteration_ns),
        "Compute:": lambda each: format_time(each.compute_ns),
        "Exchanges:": lambda each: format_time(each.communication_ns),
        "Exposed:": lambda each: format_time(each.exposed_communication_ns),
        "Iterations:": lambda each: f"{each.iterations:,}",
        "Epoch:": lambda each: format_time(each.epoch_ns),
        "Speedup:": lambda each: _against(of[id(each)], each)[0],
        "Gain:": lambda each: _against(of[id(each)], each)[1],
    }
    shown = {"Fabric": several_fabrics, "Endpoint": several_endpoints, "Speedup:": compared, "Gain:": compared}
    best = [id(training) for training, baselines in results if baselines]
    everything = [each for each, _ in pairs]
    table = table_of(
        everything,
        columns,
        title,
        lambda each: "bold" if id(each) in best else "",
        [name for name, wanted in shown.items() if not wanted],
    )
    parts: list[Part] = [table]
    if compared:
        own, row = first.algorithm, "algorithm"
        if several_endpoints:
            own, row = f"{own} with endpoint {first.system.endpoint}", "algorithm and endpoint"
        parts.append(Note(f"Speedup and gain per epoch: of {own} over the {row} of the row."))
    labels = [f"{each.model}, {each.algorithm} on {each.fabric}" for each in everything]
    if several_endpoints:
        labels = [f"{label}, {each.system.endpoint}" for label, each in zip(labels, everything, strict=True)]
    spent = [(label, each.energy) for label, each in zip(labels, everything, strict=True)]
    return parts + energies(spent, "Energy of the exchanges of an iteration, and static power")


def _gradients(training: antiphon.Training) -> str:
    return f"{training.gradient_bytes / 1e6:,.3f} MB"


def _against(training: antiphon.Training, other: antiphon.Training) -> tuple[str, str]:
    """Speedup and gain over another training; empty for itself."""
    if other is training:
        return "", ""
    speedup, gain = training.speedup(other), training.gain_ns(other)
    return "" if speedup is None else f"{speedup:.3f}x", ("-" if gain < 0 else "+") + format_time(abs(gain))


def _one_training(training: antiphon.Training) -> list[Part]:
    iteration = training.iteration
    share = training.exposed_communication_ns / max(training.iteration_ns, 1e-3)
    without = f", without rank {', '.join(map(str, training.excluded_ranks))}" if training.excluded_ranks else ""
    shared = training.model_parallel
    where = "each rank" if shared == 1 else f"each {shared:,} ranks that share a model"
    if training.compute == "measured":
        where += " (not checked: the table's times are of its own batch)"
    passes = (iteration.forward_ns, iteration.backward_ns, iteration.aggregation_ns)
    waits = (iteration.turnaround_ns, iteration.bubbles_ns)
    chained = [("      turnaround, bubbles", ", ".join(map(format_time, waits)))] if training.overlap in CHAINED else []
    epoch = f"{format_time(training.epoch_ns)}: {training.iterations:,} iterations for {training.dataset:,} samples"
    rows = [
        ("System", f"{platform(training.system)} ({training.fidelity})"),
        ("Compute model", training.compute),
        ("Batch", f"{training.global_batch:,}: {training.batch:,} on {where}{without}"),
        ("Gradients", _gradients(training)),
        ("Exchanges", f"{len(iteration.exchanges['bytes']):,} (overlap {training.overlap})"),
        ("Iteration", format_time(training.iteration_ns)),
        ("  computing", format_time(training.compute_ns)),
        ("    forward, backward, local sums", ", ".join(map(format_time, passes))),
        ("  exchanging", format_time(training.communication_ns)),
        ("    exposed", f"{format_time(training.exposed_communication_ns)} ({share:.1%} of the iteration)"),
        *chained,
        ("    behind computation", format_time(training.overlapped_communication_ns)),
        ("Epoch", epoch),
        ("Throughput", f"{digits(training.samples_per_s or 0)} samples/s"),
        *energy_facts(training.energy),
    ]
    title = f"{training.model} on {training.fabric} with {training.algorithm}"
    return [facts(rows, title), *unknown(training.energy)]


def replay_document(run: antiphon.Replay) -> Document:
    """Where the time of the ranks went, and when exchanges were under way."""
    how = platform(run.system, run.fidelity, f"order {run.order}")

    def kind(row: dict[str, Any]) -> str:
        return f"{row['kind']} of {antiphon.format_bytes(row['bytes'])}" if row["bytes"] else row["kind"]

    exchanges = table_of(
        rows_of({name: column[:MOST_EXCHANGES] for name, column in run.exchanges.items()}),
        {
            "Exchange": lambda row: row["name"],
            "Group": lambda row: f"{row['group']} ({row['ranks']})",
            "Kind": kind,
            "Start:": lambda row: format_time(row["start_ns"]),
            "Finish:": lambda row: format_time(row["finish_ns"]),
            "Time:": lambda row: format_time(row["finish_ns"] - row["start_ns"]),
        },
        f"{run.trace} on {run.fabric} with {run.algorithm} (system {how})",
    )
    names = ("compute_ns", "exposed_communication_ns", "other_ns", "idle_ns", "finish_ns")
    columns = (run.ranks[name][:MOST_RANKS].tolist() for name in names)
    rows = [[str(rank), *map(format_time, times)] for rank, times in enumerate(zip(*columns, strict=True))]
    most = format_time(float(run.ranks["exposed_communication_ns"].max()))
    done = f"All done after {format_time(run.time_ns)}; a rank computes {format_time(run.compute_ns)} and is exposed to"
    notes = [Note(f"{done} communication for {format_time(run.exposed_communication_ns)} (mean; at most {most})")]
    if run.untimed_nodes:
        notes.append(Note(f"{run.untimed_nodes:,} of {run.nodes:,} nodes have no time in the trace and take none"))
    return Document(
        [
            exchanges,
            *more(run.exchanges.height, MOST_EXCHANGES),
            Table(("Rank:", "Compute:", "Exposed:", "Host, memory:", "Idle:", "Finish:"), rows),
            *more(run.ranks.height, MOST_RANKS),
            *notes,
        ]
    )


def flights_document(run: antiphon.FlightsRun) -> Document:
    """When each flight started and ended."""
    flights = table_of(
        [{"number": number, **row} for number, row in enumerate(run.to_dict()["flights"][:MOST_FLIGHTS])],
        {
            "Flight:": lambda row: row["name"] or str(row["number"]),
            "Group": lambda row: "all" if row["group"] is None else _listed(row["group"]),
            "Collective": lambda row: (
                f"{row['algorithm']}, {row['collective']} of {antiphon.format_bytes(row['bytes'])}"
            ),
            "Start:": lambda row: format_time(row["start_ns"]),
            "Finish:": lambda row: format_time(row["finish_ns"]),
            "Time:": lambda row: format_time(row["time_ns"]),
            "Bound:": lambda row: format_time(row["lower_bound_ns"]),
        },
        f"{len(run.flights):,} flights on {run.fabric} (system {platform(run.system, run.result.fidelity)})",
    )
    energy, busy = run.result.energy, run.result.link_utilization_mean
    spent: list[Part] = [] if energy is None else [facts(energy_facts(energy)), *unknown(energy)]
    done = Note(f"All done after {format_time(run.time_ns)}; links busy {busy:.1%}, order {run.order}")
    return Document([flights, *more(len(run.flights), MOST_FLIGHTS), *spent, done])


def _listed(ranks: Sequence[int]) -> str:
    """Ranks, the first few of many."""
    text = ", ".join(map(str, ranks[:8]))
    return text if len(ranks) <= 8 else f"{text}, … ({len(ranks):,})"
