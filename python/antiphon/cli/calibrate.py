"""The command that measures this machine."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import click

import antiphon
from antiphon.calibration.device import DEVICES
from antiphon.cli.group import main
from antiphon.cli.options import FILE
from antiphon.cli.output import note, output_option, tell
from antiphon.files import written_whole
from antiphon.view.documents.measured import calibration_document
from antiphon.view.terminal.console import json_text, progress_bar


@main.command()
@click.option("--device", type=click.Choice(DEVICES), default="cpu", show_default=True, help="What is measured.")
@click.option("--seconds", type=float, default=20.0, show_default=True, help="About how long all of it takes.")
@click.option("--size", help="Of each of two buffers.  [default: four times the last-level caches]")
@click.option("--gemm", type=int, default=1000, show_default=True, help="Dimension of the matrices multiplied.")
@click.option("--out", metavar="OUT.json", help="Also write the endpoint file.", shell_complete=FILE)
@output_option
def calibrate(device: str, seconds: float, size: str | None, gemm: int, out: str | None, output: str) -> None:
    """Measure this machine: what computation and communication do to each other (docs/calibrate.md).

    Memory is read, written, copied and reduced, alone and beside a GEMM and a
    lookup in a table; the endpoint npu of simulations follows from that.

    Examples:
        antiphon calibrate --out machine.json
        antiphon calibrate --seconds 60 --size 1GiB --gemm 4096
        antiphon calibrate --device cuda --json
    """
    with ExitStack() as written:
        file = None if out is None else written.enter_context(written_whole(out, ".json"))
        with progress_bar() as progress:
            calibration = antiphon.calibrate(device, seconds=seconds, size=size, gemm=gemm, progress=progress)
        document = calibration.to_dict()
        if file is not None:
            file.write(json_text("calibrate", document) + "\n")
            written.close()  # in its place before anything is printed: the reader may go
    tell("calibrate", document, output, partial(calibration_document, calibration), "measured")
    if out is not None:
        note(output, f"Endpoint file: {out}")
