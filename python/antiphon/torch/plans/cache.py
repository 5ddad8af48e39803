"""Plans on disk, by wiring."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from pathlib import Path

from antiphon._core import Fabric, System, __version__
from antiphon.torch.plans.building import Key

RATE_STEP = 1.25
"""Rates are rounded to powers of this: two probes of the same cables differ by a few per cent."""
LATENCY_STEP = 4.0
"""Latencies are rounded to powers of this."""


def _rounded(value: float, step: float) -> int | None:
    return round(math.log(value, step)) if value > 0 and math.isfinite(value) else None


def name_of(fabric: Fabric, key: Key, system: System) -> str:
    """Name of the file of a plan. Probes that round differently only miss what is there."""
    links = fabric.links
    rates = [_rounded(float(rate), RATE_STEP) for rate in links["rate_gb_per_s"]]
    latencies = [_rounded(float(latency), LATENCY_STEP) for latency in links["latency_ns"]]
    ends = [[int(node) for node in links[end]] for end in ("from", "to")]
    known = [__version__, system.to_json(), fabric.ranks, fabric.members, ends, rates, latencies, key]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:40] + ".plan"


def read(folder: Path, name: str) -> bytes | None:
    """What the file has; None where there is none.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError:
        return None


def write(folder: Path, name: str, data: bytes) -> None:
    """Writes a file whole or not at all, whoever else writes it.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(dir=folder, prefix=name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(path, folder / name)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
