"""Commands for one collective: compare, simulate, verify, bound, show."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from typing import Any

import click
from rich.table import Table

import antiphon
from antiphon.cli.group import main
from antiphon.cli.options import ALGORITHM, FABRIC, JSON, completing, fidelity_option, problem, read_fabric
from antiphon.comparison import bound_dict, known_names, split_specs
from antiphon.errors import AntiphonError
from antiphon.files import read_text, written_whole
from antiphon.results import Proof, rows_of
from antiphon.terminal import (
    open_console,
    print_comparison,
    print_json,
    print_run,
    progress_bar,
    right_aligned,
)
from antiphon.text import format_time

LARGEST_SCHEDULE = 1 << 30
"""Schedule files are read whole; larger ones are refused."""


@main.command()
@FABRIC
@problem
@click.option("--algorithms", multiple=True, metavar="A,B,...", help="Default: all that are known. Repeatable.")
@fidelity_option("alpha-beta, packet or flit, or several with commas, side by side.")
@click.option("--report", metavar="OUT.html", help="Also write a self-contained HTML report.")
@JSON
def compare(
    fabric: str,
    collective: str,
    root: int,
    size: str,
    system: str,
    algorithms: tuple[str, ...],
    fidelity: str,
    report: str | None,
    as_json: bool,
) -> None:
    """Compare algorithms: each proven, timed, and set against the lower bound.

    An algorithm is NAME[:KEY=VALUE,...], for example tto:chunk=96KiB.
    """
    specs = split_specs(algorithms) if algorithms else None
    with written_whole(report, ".html") if report is not None else nullcontext() as report_file:
        network = read_fabric(fabric)
        with progress_bar() as progress:
            comparison = antiphon.compare(
                network, collective, size, specs, system, fidelity, root=root, progress=progress
            )
        if as_json:
            print_json("compare", comparison.to_dict())
        else:
            print_comparison(comparison)
        if not comparison.runs:
            raise AntiphonError(f"no algorithm could do {collective} on {comparison.fabric}", "not-applicable")
        if report_file is not None:
            from antiphon.reports.comparison import render

            report_file.write(render(network, comparison))
    if report is not None and not as_json:
        open_console().print(f"Report: {report}", style="dim")


@main.command()
@FABRIC
@ALGORITHM
@problem
@fidelity_option("alpha-beta, packet or flit.")
@JSON
def simulate(
    fabric: str,
    algorithm: str,
    collective: str,
    root: int,
    size: str,
    system: str,
    fidelity: str,
    as_json: bool,
) -> None:
    """Prove and time one algorithm."""
    network = read_fabric(fabric)
    schedule = _built(network, algorithm, collective, size, system, root)
    with progress_bar() as progress:
        run = antiphon.run(network, schedule, system, fidelity, progress=partial(progress, algorithm))
    if as_json:
        tables = {name: rows_of(getattr(run.result, name)) for name in ("links", "ranks", "timeline")}
        print_json("simulate", run.to_dict() | {"tables": tables})
    else:
        print_run(run)


@main.command()
@FABRIC
@click.argument("algorithm", required=False, shell_complete=completing(known_names))
@problem
@click.option("--schedule", "path", metavar="FILE", help="Verify a schedule from a JSON file instead.")
@JSON
def verify(
    fabric: str,
    algorithm: str | None,
    collective: str,
    root: int,
    size: str,
    system: str,
    path: str | None,
    as_json: bool,
) -> None:
    """Prove that a schedule is correct, or print the first counter-example."""
    if (algorithm is None) == (path is None):
        raise click.UsageError("give either an ALGORITHM or --schedule FILE")
    network = read_fabric(fabric)
    if path is not None:
        try:
            schedule = antiphon.Schedule.from_json(read_text(path, LARGEST_SCHEDULE), network)
        except AntiphonError as error:
            message = error.message if error.message.startswith(f"{path}: ") else f"{path}: {error.message}"
            raise AntiphonError(message, error.code) from None
    else:
        schedule = _built(network, algorithm or "", collective, size, system, root)
    document = _schedule_dict(network, schedule)
    try:
        proof = _proven(network, schedule)
    except AntiphonError as error:
        if as_json and error.code == "not-proven":
            print_json("verify", document | {"verified": False, "counter_example": error.message})
        raise
    document |= {
        "verified": proof.complete,
        "counter_example": None,
        "known_gaps": proof.gaps,
        "conflict_free": proof.conflict_free,
        "lanes": proof.lanes,
        "transfers": proof.transfers,
    }
    if as_json:
        print_json("verify", document)
    elif proof.complete:
        conflicts = ", and no two messages of a step share a link" if proof.conflict_free else ""
        open_console().print(
            f"✓ {schedule.algorithm} on {network.name}: proven; every rank ends with the right bytes{conflicts}"
            f" ({proof.lanes:,} lanes, {proof.transfers:,} transfers)"
        )
    if not proof.complete:
        raise AntiphonError(f"{schedule.algorithm} on {network.name} is incomplete: {proof.gaps}", "not-proven")


@main.command()
@FABRIC
@problem
@JSON
def bound(fabric: str, collective: str, root: int, size: str, system: str, as_json: bool) -> None:
    """Print how fast any schedule could be."""
    network = read_fabric(fabric)
    lower = antiphon.lower_bound(network, collective, size, system, root)
    total = antiphon.parse_bytes(size)
    if as_json:
        document = {"fabric": network.name, "collective": collective, "bytes": total, "system": system}
        print_json("bound", document | {"lower_bound_ns": lower.time_ns, "bound": bound_dict(lower)})
        return
    table = Table(
        "Bound",
        right_aligned("Time"),
    )
    for name in ("volume", "cut", "latency", "strength"):
        value = getattr(lower, f"{name}_ns")
        binding = name == lower.binding
        text = "not applicable" if value is None else format_time(value)
        table.add_row(name, text + (" (binding)" if binding else ""), style="bold" if binding else "")
    console = open_console()
    console.print(f"{collective} of {antiphon.format_bytes(total)} on {network.name}, system {system}")
    console.print(table)


@main.command()
@FABRIC
@ALGORITHM
@problem
@click.option("--schedule-json", "path", metavar="OUT.json", help="Also write the schedule.")
@JSON
def show(
    fabric: str,
    algorithm: str,
    collective: str,
    root: int,
    size: str,
    system: str,
    path: str | None,
    as_json: bool,
) -> None:
    """Print the figures of a schedule that need no simulation."""
    with written_whole(path, ".json") if path is not None else nullcontext() as file:
        network = read_fabric(fabric)
        schedule = _built(network, algorithm, collective, size, system, root)
        proof = _proven(network, schedule)
        stats = schedule.stats(network)
        if file is not None:
            file.write(schedule.to_json())
    link_bytes = stats.links["bytes"]
    document = _schedule_dict(network, schedule) | {
        "verified": proof.complete,
        "known_gaps": proof.gaps,
        "lanes": proof.lanes,
        "transfers": stats.transfers,
        "messages": stats.messages,
        "steps": stats.steps,
        "phases": [{"name": name, "steps": steps} for name, steps in stats.phases],
        "used_links_percent": stats.used_links_percent,
        "reduce_height_max": int(stats.lanes["reduce_height"].max(initial=0)),
        "copy_height_max": int(stats.lanes["copy_height"].max(initial=0)),
        "link_bytes_max": int(link_bytes.max(initial=0)),
        "link_bytes_mean": float(link_bytes.mean()),
        "links_idle": int((link_bytes == 0).sum()),
        "dimensions": _dimensions(network, antiphon.System(system)),
    }
    if as_json:
        links = {"from": network.links["from"], "to": network.links["to"], "bytes": link_bytes}
        print_json("show", document | {"lane_heights": rows_of(stats.lanes), "links": rows_of(links)})
        return
    table = Table(show_header=False, title=f"{schedule.algorithm} on {network.name}")
    for label, value in (
        ("Collective", f"{schedule.collective} of {antiphon.format_bytes(schedule.bytes)}"),
        ("Dimensions", "\n".join(map(_dimension, document["dimensions"])) or "none"),
        ("Proof", "✓ complete" if proof.complete else f"incomplete: {proof.gaps}"),
        ("Excluded ranks", ", ".join(map(str, schedule.excluded)) or "none"),
        ("Steps", f"{stats.steps:,} ({', '.join(f'{name} {steps:,}' for name, steps in stats.phases)})"),
        ("Links in use, steady state", f"{stats.used_links_percent:.1f} %"),
        ("Links without traffic", f"{document['links_idle']:,} of {len(link_bytes):,}"),
        ("Height of reduction / broadcast", f"{document['reduce_height_max']} / {document['copy_height_max']}"),
        ("Lanes, transfers, messages", f"{proof.lanes:,}, {stats.transfers:,}, {stats.messages:,}"),
        ("Bytes per link, mean / max", f"{document['link_bytes_mean']:,.0f} / {document['link_bytes_max']:,}"),
    ):
        table.add_row(label, value)
    open_console().print(table)


def _dimensions(fabric: antiphon.Fabric, system: antiphon.System) -> list[dict[str, Any]]:
    """The dimensions of a product, with the system's rate and latency where its links have none."""
    rows = rows_of(fabric.dimensions)
    for row in rows:
        hops = 2 if row["shape"] == "switch" else 1
        if math.isnan(row["rate_gb_per_s"]):
            row["rate_gb_per_s"] = system.link_rate_gb_per_s
        if math.isnan(row["latency_ns"]):
            row["latency_ns"] = hops * system.link_latency_ns
    return rows


def _dimension(row: dict[str, Any]) -> str:
    return f"{row['shape']} of {row['size']}, {row['rate_gb_per_s']:g} GB/s, {row['latency_ns']:g} ns"


def _built(
    fabric: antiphon.Fabric, algorithm: str, collective: str, size: str, system: str, root: int
) -> antiphon.Schedule:
    with progress_bar() as progress:
        building = partial(progress, f"{algorithm} (building)")
        return antiphon.build(fabric, algorithm, collective, size, system, root, building)


def _proven(fabric: antiphon.Fabric, schedule: antiphon.Schedule) -> Proof:
    with progress_bar() as progress:
        return antiphon.verify(fabric, schedule, partial(progress, f"{schedule.algorithm} (proving)"))


def _schedule_dict(fabric: antiphon.Fabric, schedule: antiphon.Schedule) -> dict[str, Any]:
    return {
        "fabric": fabric.name,
        "algorithm": schedule.algorithm,
        "collective": schedule.collective,
        "root": schedule.root,
        "bytes": schedule.bytes,
        "ranks": schedule.ranks,
        "excluded_ranks": schedule.excluded,
    }
