"""Collectives that ran, in the columns of the NCCL tests, and what a machine does to them beside computation."""

from __future__ import annotations

from typing import Any

import antiphon
from antiphon.calibration.result import PUBLISHED
from antiphon.view.document import Document, Table, dim, document, table_of
from antiphon.view.text import digits, format_bit_rate


def measurement_document(found: antiphon.Measurement) -> Document:
    """A row for each size: out of place, then in place."""
    where = "MPI ranks" if found.transport == "mpi" else "ranks in threads"
    rows = []
    for run in found.to_dict()["runs"]:
        size = {"size": antiphon.format_bytes(run["bytes"]), "count": f"{run['elements']:,}"}
        inside = {**run["in_place"], "predicted_ns": run["predicted_ns"], "size": "", "count": "", "place": "yes"}
        rows += [{**run, **size, "place": "no"}, inside]
    without = ["Predicted:"] if all(row["predicted_ns"] is None for row in rows) else []
    title = f"{found.algorithm}, {found.collective} of {found.element}, {found.ranks} {where}"
    line = f"Mean of {found.iterations:,} runs on the slowest rank"
    table = table_of(
        rows,
        "Size: {size} | Count: {count} | In place: {place} | Time: {time_ns} | algbw: {algorithm_bandwidth_gb_per_s}"
        " | busbw: {bus_bandwidth_gb_per_s} | Wrong: {wrong} | Predicted: {predicted_ns}",
        title,
        lambda row: "bold red" if row["wrong"] else "",
        without,
    )
    return document(table, dim(f"{line}; every element was compared with the definition"))


def emulated_document(found: antiphon.Emulated) -> Document:
    """A row for each algorithm, the fastest first."""
    rows = sorted(found.runs.rows(), key=lambda row: row["measured_ns"])
    table = table_of(
        rows,
        "Algorithm {algorithm}, {bytes} | Measured: {measured_ns} | Predicted: {predicted_ns} | Ratio: {ratio:.3f}"
        " | Least: {least_ns} | Most: {most_ns} | Correct: {right}",
        f"{found.collective} on an emulated {found.fabric}, links of {format_bit_rate(found.link_rate_bit_per_s)}",
        lambda row: "bold red" if not row["correct"] else "bold green" if row is rows[0] else "",
        ratio=lambda row: row["measured_ns"] / row["predicted_ns"],
        right=lambda row: "yes" if row["correct"] else "NO",
    )
    carried = f"links carried {found.slowest_link:.1%} to {found.fastest_link:.1%} of their rate"
    lines = [f"Median of {found.repeat:,} runs; under full load, before, {carried}"]
    if found.hop_ns is not None:
        lines.append(f"In {found.device}; predicted with the {found.hop_ns:,.0f} ns that a hop took")
    return document(table, dim(*lines))


def chain_document(found: antiphon.ChainMeasurement) -> Document:
    """A row for each variant."""
    rows = found.to_dict()["runs"]
    without = ["Predicted:", "Ratio:"] if all(row["predicted_us"] is None for row in rows) else []
    table = table_of(
        rows,
        "Variant {variant} | Algorithm {algorithm} | Iteration: {iteration_us:,.0f} us"
        " | Predicted: {predicted_us:,.0f} us | Ratio: {ratio:.3f} | Least: {least_us:,.0f} us"
        " | Most: {most_us:,.0f} us | Of ideal: {share:.0%} | Weights: {weights}",
        f"{found.model} on {found.fabric}, {found.ranks} ranks by {found.transport}",
        lambda row: "" if row["equal"] else "bold red",
        without,
        ratio=lambda row: row["iteration_us"] / row["predicted_us"] if row["predicted_us"] else None,
        share=lambda row: found.compute_us / row["iteration_us"],
        weights=lambda row: "equal" if row["equal"] else "DIFFERENT",
    )
    size = antiphon.format_bytes(found.gradient_bytes)
    what = f"{found.layers} layers, {size} of gradients, {found.compute_us:,.0f} us of computation"
    return document(table, dim(f"{what} (ideal); median of {found.iterations:,} iterations"))


def calibration_document(calibration: antiphon.Calibration) -> Document:
    """The rates and slowdowns, what the ACE paper measured, and the endpoint."""
    machine = calibration.machine
    parts = ("SM" if machine.device == "cuda" else "core") + ("" if machine.cores == 1 else "s")
    title = f"{machine.name}, {machine.cores:,} {parts} ({calibration.rounds} rounds): two buffers of"
    title += f" {antiphon.format_bytes(calibration.bytes)}, GEMM of dimension {calibration.gemm:,}"
    published = [f"  {work} beside {beside}: {slowdown}x ({where})" for where, work, beside, slowdown in PUBLISHED]
    rows = []
    for row in calibration.measured.rows():
        one = " by one core" if row["cores"] == 1 < machine.cores else ""
        figures = _span(row, "rate", f" {row['unit']}") + (_span(row, "slowdown", "x") if row["beside"] else ("", ""))
        noise = f"noisy: quartiles differ by {row['spread']:.0%}" if row["noisy"] else ""
        rows.append((row["work"] + one, row["beside"] or "alone", *figures, noise))
    columns = ("Work", "Beside", "Rate:", "quartiles:", "Slowdown:", "quartiles:", "Note")
    return document(
        Table(columns, rows, title),
        "Slowdown: the rate alone over the rate beside. Bytes count as often as they are read or written.",
        dim("The ACE paper (ISCA 2021) has of eight V100 GPUs, which is no verdict on this machine:", *published),
        [f"Note: {note}" for note in calibration.notes],
        f"Endpoint: {calibration.endpoint}",
    )


def _span(row: dict[str, Any], key: str, unit: str) -> tuple[str, str]:
    """A figure, and its quartiles."""
    return digits(row[key]) + unit, f"{digits(row[f'{key}_q1'])} to {digits(row[f'{key}_q3'])}"
