"""Flit-level and multi-dimensional networks on a terminal, and advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.table import Table

import antiphon
from antiphon.view.terminal.console import open_console, print_columns, right_aligned
from antiphon.view.terminal.energy import print_energies
from antiphon.view.text import digits, format_time


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
    print_energies(console, [(f"rate {run.rate:.4g}", run.energy) for run in runs], "Energy of the whole run")
    if not stable:
        console.print("saturated: beyond what the network carries; latencies are only those of packets delivered")


def print_rails(runs: Sequence[antiphon.RailsRun]) -> None:
    """A row for each scheduler: time, utilization, and that of every dimension."""
    console = open_console()
    first = runs[0]
    title = f"{first.collective} of {antiphon.format_bytes(first.bytes)} on {first.topology}"
    endpoint = "" if first.endpoint == "system" else f", endpoint {first.endpoint}"
    title += f" ({first.npus:,} NPUs, {first.chunks} chunks{endpoint})"
    jitter = any(run.jittered_time_ns is not None for run in runs)
    names = ["Time", *(["With jitter"] if jitter else []), "Speedup", "Utilization", *first.dimensions["name"].tolist()]
    rows = [
        (
            run.scheduler,
            run.intra,
            format_time(run.time_ns),
            *([format_time(run.jittered_time_ns or 0)] if jitter else []),
            f"{first.time_ns / run.time_ns:.2f}x",
            f"{run.utilization:.1%}",
            *(f"{share:.1%}" for share in run.dimensions["utilization"]),
        )
        for run in runs
    ]
    print_columns(console, ["Scheduler", "Queue"], names, rows, title)
    print_energies(console, [(run.scheduler, run.energy) for run in runs], "Energy")
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


ENGINE_PARTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "memory_gb_per_s": ("Memory bandwidth", "{:,.0f} GB/s".format),
    "bus_gb_per_s": ("Bus", "{:,.0f} GB/s".format),
    "alus": ("Adders", "{:,.0f}".format),
    "fsms": ("State machines", "{:,.0f}".format),
    "sram_bytes": ("SRAM", lambda count: antiphon.format_bytes(int(count))),
}
"""Names of an engine's parts, and how much of one is shown."""


def print_engine_advice(advice: antiphon.EngineAdvice) -> None:
    """What an engine needs, alone and together, and what it costs."""
    console = open_console()
    title = f"{advice.collective} of {antiphon.format_bytes(advice.bytes)} on {advice.topology}"
    table = Table("Engine", *map(right_aligned, ("With plenty of the others", "Together")), title=title)
    for part, least in zip(*(advice.alone[column].tolist() for column in ("part", "least")), strict=True):
        title, shown = ENGINE_PARTS[part]
        table.add_row(title, shown(least), shown(getattr(advice, part)))
    console.print(table)
    console.print(f"Reaches {advice.reached:.1%} of an ideal endpoint ({format_time(advice.ideal_ns)}).")
    paper = f"The paper's engine reaches {advice.paper_reached:.1%}"
    limit = "" if advice.limit is None else f"; the limit is its {ENGINE_PARTS[advice.limit][0].lower()}"
    console.print(f"{paper}{limit}.")
    cost = f"Area {advice.area_um2 / 1e6:,.3f} mm2, power {advice.power_mw / 1e3:,.3f} W in 28 nm"
    console.print(f"{cost} (ACE, ISCA 2021, Table IV, scaled).")
    console.print(f"Use it: --endpoint {advice.endpoint}", soft_wrap=True)


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


def _size(count: int) -> str:
    """A number of bytes in the largest decimal unit below it."""
    power = min((len(str(count)) - 1) // 3, 5)
    return f"{digits(count / 1000**power)} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"
