"""The command that measures this machine."""

from __future__ import annotations

from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.output import note, tell, writing
from antiphon.view.documents.measured import calibration_document
from antiphon.view.terminal.console import json_text, progress_bar


@command(of=antiphon.calibrate)
def calibrate(*, out: str | None = None, output: str, **given: Any) -> None:
    """Measure this machine: what computation and communication do to each other (docs/how-to/calibrate.md).

    Memory is read, written, copied and reduced, alone and beside a GEMM and a
    lookup in a table; the endpoint npu of simulations follows from that.

    Examples:
        antiphon calibrate --out machine.json
        antiphon calibrate --seconds 60 --size 1GiB --gemm 4096
        antiphon calibrate --device cuda --json

    Args:
        out: Also write the endpoint file, OUT.json.
    """
    with writing(out, ".json") as write:
        with progress_bar() as progress:
            calibration = antiphon.calibrate(**given, progress=progress)
        document = calibration.to_dict()
        write(lambda: json_text("calibrate", document) + "\n")
    tell("calibrate", document, output, partial(calibration_document, calibration), "measured")
    note(output, out and f"Endpoint file: {out}")
