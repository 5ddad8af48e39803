"""Trainings, replayed traces, and collectives in flight together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import antiphon
from antiphon.results import rows_of
from antiphon.training.train import CHAINED
from antiphon.view.document import Document, Loose, document, facts, left_out, more, table_of
from antiphon.view.documents.energy import energies, energy_facts, unknown
from antiphon.view.documents.network import endpoint_use
from antiphon.view.text import digits, filled, format_time, platform, without_ranks

MOST_EXCHANGES = 40
MOST_RANKS = 16
MOST_FLIGHTS = 100
"""Rows of the tables."""
MOST_NAMED = 4
"""Flights of a link that are named."""


def training_document(
    results: Sequence[tuple[antiphon.Training, Sequence[antiphon.Training]]], refused: Sequence[dict[str, str]]
) -> Document:
    """One training in detail, or a row for each; every one with those it is set against; what could not be done."""
    one = len(results) == 1 and not results[0][1]
    why = ["{model}, {algorithm} on {fabric}: {reason}".format(**row) for row in refused]
    return document(_one_training(results[0][0]) if one else _trainings(results), left_out(why))


def _trainings(results: Sequence[tuple[antiphon.Training, Sequence[antiphon.Training]]]) -> list[Loose]:
    first = results[0][0]
    pairs = [(each, training) for training, baselines in results for each in [training, *baselines]]
    several_fabrics = len({training.fabric for training, _ in results}) > 1
    several_endpoints = len({each.system.endpoint for each, _ in pairs}) > 1
    compared = any(baselines for _, baselines in results)
    where = first.system.name if several_endpoints else platform(first.system)
    title = "Training" if several_fabrics else f"Training on {first.fabric}"
    title += f", system {where}, overlap {first.overlap}, {first.dataset:,} samples an epoch"
    set_against = [id(training) for training, baselines in results if baselines]
    shown = {"Fabric": several_fabrics, "Endpoint": several_endpoints, "Speedup:": compared, "Gain:": compared}
    table = table_of(
        pairs,
        "Model {0.model} | Fabric {0.fabric} | Algorithm {0.algorithm} | Endpoint {0.system.endpoint}"
        " | Batch: {0.global_batch} | Gradients: {gradients} | Iteration: {0.iteration_ns} | Compute: {0.compute_ns}"
        " | Exchanges: {0.communication_ns} | Exposed: {0.exposed_communication_ns} | Iterations: {0.iterations}"
        " | Epoch: {0.epoch_ns} | Speedup: {speedup} | Gain: {gain}",
        title,
        lambda pair: "bold" if pair[0] is pair[1] and id(pair[0]) in set_against else "",
        [name for name, wanted in shown.items() if not wanted],
        gradients=lambda pair: _gradients(pair[0]),
        speedup=lambda pair: _against(*pair)[0],
        gain=lambda pair: _against(*pair)[1],
    )
    own, row = first.algorithm, "algorithm"
    if several_endpoints:
        own, row = f"{own} with endpoint {first.system.endpoint}", "algorithm and endpoint"
    label = "{model}, {algorithm} on {fabric}" + ", {system.endpoint}" * several_endpoints
    spent = [(filled(label, each), each.energy) for each, _ in pairs]
    return [
        table,
        compared and f"Speedup and gain per epoch: of {own} over the {row} of the row.",
        energies(spent, "Energy of the exchanges of an iteration, and static power"),
    ]


def _gradients(training: antiphon.Training) -> str:
    return f"{training.gradient_bytes / 1e6:,.3f} MB"


def _against(other: antiphon.Training, training: antiphon.Training) -> tuple[str, str]:
    """Speedup and gain of a training over another; empty for itself."""
    if other is training:
        return "", ""
    speedup, gain = training.speedup(other), training.gain_ns(other)
    return "" if speedup is None else f"{speedup:.3f}x", ("-" if gain < 0 else "+") + format_time(abs(gain))


def _one_training(training: antiphon.Training) -> list[Loose]:
    iteration = training.iteration
    shared = training.model_parallel
    where = "each rank" if shared == 1 else f"each {shared:,} ranks that share a model"
    if training.compute == "measured":
        where += " (not checked: the table's times are of its own batch)"
    table = table_of(
        [training],
        "System {system} ({fidelity}) | Compute model {compute} | Batch {global_batch}: {batch} on {where}"
        " | Gradients {gradients} | Exchanges {exchanges} (overlap {overlap}) | Iteration {iteration_ns}"
        " |   computing {compute_ns}"
        " |     forward, backward, local sums"
        " {iteration.forward_ns}, {iteration.backward_ns}, {iteration.aggregation_ns}"
        " |   exchanging {communication_ns}"
        " |     exposed {exposed_communication_ns} ({share:.1%} of the iteration)"
        " |       turnaround, bubbles {iteration.turnaround_ns}, {iteration.bubbles_ns}"
        " |     behind computation {overlapped_communication_ns}"
        " | Memory of a rank {memory}"
        " | Epoch {epoch_ns}: {iterations} iterations for {dataset} samples | Throughput {rate} samples/s",
        without=[] if training.overlap in CHAINED else ["      turnaround, bubbles"],
        system=lambda _: platform(training.system),
        where=lambda _: where + without_ranks(training.excluded_ranks, ", {}"),
        gradients=_gradients,
        exchanges=lambda _: len(iteration.exchanges["bytes"]),
        share=lambda _: training.exposed_communication_ns / max(training.iteration_ns, 1e-3),
        rate=lambda _: digits(training.samples_per_s or 0),
    )
    title = f"{training.model} on {training.fabric} with {training.algorithm}"
    told: list[Loose] = [facts(table, title, energy_facts(training.energy)), *unknown(training.energy)]
    told.append(endpoint_use(iteration.endpoint_use, "Endpoint"))
    if training.relays:
        words = (
            "Slower rank: {rank} | Streams passed on: {streams} | Computes beside an exchange: {slowdown:.3f}x as long"
        )
        told.append(table_of(training.relays.rows(), words))
    return told


def replay_document(run: antiphon.Replay) -> Document:
    """Where the time of the ranks went, and when exchanges were under way."""
    how = platform(run.system, run.fidelity, f"order {run.order}")
    exchanges = table_of(
        rows_of({name: column[:MOST_EXCHANGES] for name, column in run.exchanges.items()}),
        "Exchange {name} | Group {group} ({ranks}) | Kind {what} | Start: {start_ns} | Finish: {finish_ns}"
        " | Time: {time_ns}",
        f"{run.trace} on {run.fabric} with {run.algorithm} (system {how})",
        what=lambda row: filled("{kind} of {bytes}" if row["bytes"] else "{kind}", row),
        time_ns=lambda row: row["finish_ns"] - row["start_ns"],
    )
    rows = rows_of({name: column[:MOST_RANKS] for name, column in run.ranks.items()})
    ranks = table_of(
        [{"rank": rank, **row} for rank, row in enumerate(rows)],
        "Rank: {rank} | Compute: {compute_ns} | Exposed: {exposed_communication_ns} | Host, memory: {other_ns}"
        " | Idle: {idle_ns} | Finish: {finish_ns}",
    )
    most = format_time(float(run.ranks["exposed_communication_ns"].max()))
    done = f"All done after {format_time(run.time_ns)}; a rank computes {format_time(run.compute_ns)} and is exposed to"
    return document(
        exchanges,
        more(run.exchanges.height, MOST_EXCHANGES),
        ranks,
        more(run.ranks.height, MOST_RANKS),
        f"{done} communication for {format_time(run.exposed_communication_ns)} (mean; at most {most})",
        run.untimed_nodes > 0
        and f"{run.untimed_nodes:,} of {run.nodes:,} nodes have no time in the trace and take none",
    )


def flights_document(run: antiphon.FlightsRun, most_contended: int = 10) -> Document:
    """When each flight started and ended, and so many links that they contended for."""
    flights = table_of(
        [{"number": number, **row} for number, row in enumerate(run.to_dict()["flights"][:MOST_FLIGHTS])],
        "Flight: {flight} | Group {ranks} | Collective {algorithm}, {collective} of {bytes} | Start: {start_ns}"
        " | Finish: {finish_ns} | Time: {time_ns} | Bound: {lower_bound_ns}",
        f"{len(run.flights):,} flights on {run.fabric} (system {platform(run.system, run.result.fidelity)})",
        flight=lambda row: row["name"] or str(row["number"]),
        ranks=lambda row: "all" if row["group"] is None else _listed(row["group"]),
    )
    energy, busy = run.result.energy, run.result.link_utilization_mean
    links = table_of(
        run.most_contended(most_contended),
        "Link {from} > {to} | Busy: {busy_ns} | Longest wait: {wait_ns} | Flights {flights}",
        "Links most contended",
        flights=lambda row: _shares(run, row["flights"]),
    )
    return document(
        flights,
        more(len(run.flights), MOST_FLIGHTS),
        len(links.rows) > 0 and links,
        energy is not None and facts(None, "", energy_facts(energy)),
        unknown(energy),
        f"All done after {format_time(run.time_ns)}; links busy {busy:.1%}, order {run.order}",
        filled("Bound of all together {lower_bound_ns}, {efficiency:.1%} reached; by {lower_bound_by}", run),
    )


def _shares(run: antiphon.FlightsRun, flights: Sequence[dict[str, Any]]) -> str:
    """Who has what of a link, by name; the most first."""
    shares: dict[str, float] = {}
    for each in flights:
        name = run.flights[each["flight"]].name or str(each["flight"])
        shares[name] = shares.get(name, 0) + each["share"]
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    text = ", ".join(f"{name} {share:.1%}" for name, share in ranked[:MOST_NAMED])
    return text if len(ranked) <= MOST_NAMED else f"{text}, … ({len(ranked):,})"


def _listed(ranks: Sequence[int]) -> str:
    """Ranks, the first few of many."""
    text = ", ".join(map(str, ranks[:8]))
    return text if len(ranks) <= 8 else f"{text}, … ({len(ranks):,})"
