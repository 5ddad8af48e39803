"""Flit-level and multi-dimensional networks, and advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import antiphon
from antiphon.network.saturation import Saturation
from antiphon.results import rows_of
from antiphon.view.document import Document, Table, document, table_of
from antiphon.view.documents.energy import energies
from antiphon.view.text import digits, format_time, shown


def noc_document(runs: Sequence[antiphon.NocResult]) -> Document:
    """A table of rates and latencies."""
    first = runs[0]
    router = first.router
    stable = all(run.stable for run in runs)
    title = (
        f"{first.traffic} traffic on {first.fabric}: {first.packet_flits}-flit packets, routing"
        f" {first.routing}, {router.vcs} x {router.vc_depth}-flit buffers\n"
        "(rates in flits per rank and cycle, latencies in cycles)"
    )
    table = table_of(
        runs,
        "Rate: {rate:.4g} | Accepted: {accepted_flits_per_node_cycle:.4g} | Latency: {packet_latency_cycles.mean:,.2f}"
        " | ±: {half_width} | p50: {packet_latency_cycles.p50} | p99: {packet_latency_cycles.p99}"
        " | In network: {network_latency_mean_cycles:,.2f} | Routers: {hops_mean:.2f} | Packets: {packets}"
        " | {saturated}",
        title,
        lambda run: "" if run.stable else "red",
        [""] if stable else [],
        half_width=lambda run: shown("", run.packet_latency_cycles.half_width, ",.2f").strip("-"),
        saturated=lambda run: "" if run.stable else "saturated",
    )
    return document(
        table,
        energies([(f"rate {run.rate:.4g}", run.energy) for run in runs], "Energy of the whole run"),
        not stable and "saturated: beyond what the network carries; latencies are only those of packets delivered",
    )


def saturation_document(found: Saturation) -> Document:
    """The run at the largest stable rate, and that rate."""
    least = found.unstable_rate
    above = "every rate is stable" if least is None else f"unstable from {least:.4g} on"
    rate = f"Largest stable rate: {found.stable.rate:.4g} flits per rank and cycle ({above})"
    return noc_document([found.stable]).with_(rate)


def rails_document(runs: Sequence[antiphon.RailsRun]) -> Document:
    """A row for each scheduler: time, utilization, and that of every dimension."""
    first = runs[0]
    title = f"{first.collective} of {antiphon.format_bytes(first.bytes)} on {first.topology}"
    endpoint = "" if first.endpoint == "system" else f", endpoint {first.endpoint}"
    title += f" ({first.npus:,} NPUs, {first.chunks} chunks{endpoint})"
    without = ["With jitter:"] if all(run.jittered_time_ns is None for run in runs) else []
    most = first.utilization_bound
    table = table_of(
        runs,
        "Scheduler {scheduler} | Queue {intra} | Time: {time_ns} | With jitter: {jittered_time_ns}"
        " | Speedup: {speedup:.2f}x | Utilization: {utilization:.1%}"
        + "".join(
            f" | {name}: {{dimensions.utilization.{place}:.1%}}" for place, name in enumerate(first.dimensions["name"])
        ),
        title,
        without=without,
        speedup=lambda run: first.time_ns / run.time_ns,
    )
    return document(
        table,
        energies([(run.scheduler, run.energy) for run in runs], "Energy"),
        most is not None and f"No scheduler uses more than {most:.1%} of the rates together.",
    )


MOST_FLIGHTS = 100
"""Rows of a table."""


def rails_flights_document(runs: Sequence[antiphon.RailsFlights]) -> Document:
    """A row for each scheduler, and one for each flight of the first."""
    first = runs[0]
    title = f"{first.flights.height:,} collectives in flight on {first.topology} ({first.npus:,} NPUs)"
    schedulers = table_of(
        runs,
        "Scheduler {scheduler} | Queue {intra} | Time: {time_ns} | Speedup: {speedup:.2f}x"
        " | Utilization: {utilization:.1%}",
        title,
        speedup=lambda run: first.time_ns / run.time_ns,
    )
    rows = rows_of(first.flights)
    flights = table_of(
        rows[:MOST_FLIGHTS],
        "Flight {name} | {collective} | Bytes: {bytes} | Chunks: {chunks} | Start: {start_ns} | End: {finish_ns}",
        f"Flights with {first.scheduler}",
    )
    left = len(rows) - MOST_FLIGHTS
    return document(schedulers, flights, left > 0 and f"and {left:,} more flights")


def rails_advice_document(advice: antiphon.RailsAdvice) -> Document:
    """The dimensions, their rates and how these go together."""
    held = not advice.dimensions["binding"].all()
    dimensions = table_of(
        rows_of(advice.dimensions),
        "Dimension {name} | Rate: {gbit_per_s:,.0f} Gb/s | Balanced: {balanced_gbit_per_s:,.0f} Gb/s | Note {note}",
        f"{advice.topology} ({advice.npus:,} NPUs)",
        note=lambda row: "holds all others back" if held and row["binding"] else "",
    )
    pairs = [
        f"dim{far} is {provision} beside dim{near}: {ratio:.2f} times what the fixed order needs"
        for near, far, ratio, provision in zip(*advice.pairs.values(), strict=True)
    ]
    return document(
        dimensions,
        pairs,
        f"The fixed order uses {advice.baseline_utilization:.1%} of the rates together.",
        f"No scheduler uses more than {advice.utilization_bound:.1%}, latency apart.",
        "Balanced: the same rates together, divided so that the fixed order keeps all dimensions busy.",
    )


ENGINE_PARTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "memory_gb_per_s": ("Memory bandwidth", "{:,.0f} GB/s".format),
    "bus_gb_per_s": ("Bus", "{:,.0f} GB/s".format),
    "alus": ("Adders", "{:,.0f}".format),
    "fsms": ("State machines", "{:,.0f}".format),
    "sram_bytes": ("SRAM", lambda count: antiphon.format_bytes(int(count))),
}
"""Names of an engine's parts, and how much of one is shown."""


def engine_advice_document(advice: antiphon.EngineAdvice) -> Document:
    """What an engine needs, alone and together, and what it costs."""
    title = f"{advice.collective} of {antiphon.format_bytes(advice.bytes)} on {advice.topology}"
    rows = []
    for row in rows_of(advice.alone):
        name, make = ENGINE_PARTS[row["part"]]
        rows.append((name, make(row["least"]), make(getattr(advice, row["part"]))))
    table = Table(("Engine", "With plenty of the others:", "Together:"), rows, title)
    limit = "" if advice.limit is None else f"; the limit is its {ENGINE_PARTS[advice.limit][0].lower()}"
    cost = f"Area {advice.area_um2 / 1e6:,.3f} mm2, power {advice.power_mw / 1e3:,.3f} W in 28 nm"
    return document(
        table,
        f"Reaches {advice.reached:.1%} of an ideal endpoint ({format_time(advice.ideal_ns)}).",
        f"The paper's engine reaches {advice.paper_reached:.1%}{limit}.",
        f"{cost} (ACE, ISCA 2021, Table IV, scaled).",
        f"Use it: --endpoint {advice.endpoint}",
    )


def trees_advice_document(advice: antiphon.TreesAdvice) -> Document:
    """Steps and times of ring and trees, and where the ring is faster."""
    title = f"AllReduce of {antiphon.format_bytes(advice.bytes)} on {advice.ranks:,} ranks: "
    title += f"{format_time(advice.latency_ns)} a step, {advice.bandwidth_gb_per_s:,.6g} GB/s, height {advice.height}"
    ways = advice.to_dict()["ways"]

    def ring_is_faster(way: dict[str, int]) -> str:
        first, last = way["ring_faster_from_bytes"], way["ring_faster_to_bytes"]
        upper = "" if last >= 1 << 50 else f" to {_size(last)}"
        return f"from {_size(first)}{upper}" if last else ""

    table = table_of(
        ways,
        "{name} | Trees: {trees} | Chunks: {chunks} | Steps: {steps} | Time: {time_ns} | By equation: {formula_ns}"
        " | First chunk: {first_chunk_ns} | Ring / this: {ratio:.2f}x | Ring is faster {ring_is_faster}",
        title,
        trees=lambda way: str(way["trees"] or ""),
        ratio=lambda way: ways[0]["time_ns"] / way["time_ns"],
        ring_is_faster=ring_is_faster,
    )
    return document(table)


def _size(count: int) -> str:
    """A number of bytes in the largest decimal unit below it."""
    power = min((len(str(count)) - 1) // 3, 5)
    return f"{digits(count / 1000**power)} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"
